"""int64 values: computed in 32 bits that provably hold them, as 64 bits would, or refused."""

import json
import random

import kit
import numpy as np
import tiles
from pallasc import reference
from pallasc.errors import CompileError
from pallasc.simulate import simulate

SHAPE = ["u0", "u1"]
INPUTS = ("int32", "uint8", "int16", "uint32")
MASK = 2**32 - 1


class Wide(tiles.Kernel):
    """A kernel over a tile of each input dtype, whose values are int64."""

    def __init__(self, size=(8, 128)):
        super().__init__("wide", size, {"block_sizes": list(size)})
        self.size, self.outputs = size, 0
        for name in INPUTS:
            self.tensor(name, "input", name, size)

    def input(self, name):
        tile = self.load(name, *SHAPE)
        return self.wide("prims.convert_element_type.default", tile, {"dtype": "int64"})

    def wide(self, target, *args, dtype="int64"):
        return self.node(target, list(args), {"dtype": dtype, "shape": SHAPE})

    def mask(self, x, mask=MASK):
        return self.wide("aten.bitwise_and.Scalar", x, mask)

    def give(self, x, dtype="int32"):
        name = f"out{self.outputs}"
        self.outputs += 1
        self.tensor(name, "output", dtype, self.size)
        host = {"ref": f"{name}_host"}
        self.node("tile.store", [host, [{"sym": s} for s in SHAPE], x])

    def whole(self):
        return json.loads(self.json())


def edges(size, seed=0):
    """Arrays of the inputs' dtypes: the ends of each dtype's range, small ints, random bits."""
    rng = np.random.default_rng(seed)
    arrays = []
    for name in INPUTS:
        info = np.iinfo(name)
        low, high = int(info.min), int(info.max)
        ends = [low, low + 1, high, high - 1, 0, 1, high // 2, high // 2 + 1, max(low, -1)]
        bits = rng.integers(low, high, size, endpoint=True, dtype=name)
        arrays.append(np.where(rng.random(size) < 0.5, rng.choice(ends, size), bits).astype(name))
    return arrays


def right(document):
    """The simulated kernel gives bit for bit what the reference gives; its outputs."""
    module = kit.compiled(document)
    arrays = edges(tuple(document["tensors"][0]["shape"]))
    found = simulate(module.load(), arrays, 1).outputs
    expected = reference.run(document, arrays)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    return module.source, arrays, found


def refusal(document):
    found = kit.refusal(document)
    assert all(d["hint"] and d["pointer"] for d in found)
    return [(d["code"], d["message"]) for d in found]


def test_the_low_word_of_a_product_is_enough_for_a_store():
    k = Wide()
    product = k.wide("aten.mul.Tensor", k.input("int32"), k.input("uint32"))
    k.give(product)
    k.give(k.wide("aten.bitwise_right_shift.Tensor_Scalar", k.mask(product), 16))
    _, (i, _, _, u), (low, shifted) = right(k.whole())
    exact = i.astype(np.int64) * u.astype(np.int64)
    np.testing.assert_array_equal(low, exact.astype(np.int32))
    np.testing.assert_array_equal(shifted, ((exact & MASK) >> 16).astype(np.int32))


def test_a_value_past_32_bits_is_refused_where_it_is_needed_whole():
    k = Wide()
    total = k.wide("aten.add.Tensor", k.input("int32"), k.input("int32"))
    k.give(k.wide("aten.lt.Scalar", total, 0, dtype="bool"), "bool")
    ((code, message),) = refusal(k.whole())
    assert code == "int64-range"
    assert "-2^32 to 4294967294" in message, message


def test_int64_of_floats_is_refused():
    k = Wide()
    k.tensor("x", "input", "float32", (8, 128))
    k.give(k.wide("prims.convert_element_type.default", k.load("x", *SHAPE), {"dtype": "int64"}))
    assert [code for code, _ in refusal(k.whole())] == ["int64-float"]


def summed(one, other, whole):
    """The sum of two inputs, stored to an int32 tensor that stands for one of int64, if whole."""
    k = Wide()
    k.give(k.wide("aten.add.Tensor", k.input(one), k.input(other)))
    document = k.whole()
    document["tensors"][-1]["whole"] = whole
    return document


def test_a_tensor_that_stands_for_int64_takes_only_what_int32_holds():
    right(summed("int16", "uint8", True))
    for one, other in (("int32", "int32"), ("uint32", "uint8")):
        right(summed(one, other, False))  # it wraps around
        ((code, message),) = refusal(summed(one, other, True))
        assert code == "int64-range" and "tile.store" in message, message


def test_uint32_beside_int32_compares_as_it_would_in_64_bits():
    k = Wide()
    k.give(k.wide("aten.lt.Tensor", k.input("int32"), k.input("uint32"), dtype="bool"), "bool")
    ((code, message),) = refusal(k.whole())
    assert code == "int64-range"
    assert "-2^31 to 2^32 - 1" in message, message


def test_a_float_of_uint32_counts_past_2_to_31():
    k = Wide()
    float32 = {"dtype": "float32"}
    x = k.wide("prims.convert_element_type.default", k.input("uint32"), float32, dtype="float32")
    k.give(x, "float32")
    _, arrays, (found,) = right(k.whole())
    np.testing.assert_array_equal(found, arrays[3].astype(np.float32))


def test_where_looks_at_each_side_of_its_condition():
    """|x| of an int32 is no negative number: a remainder of it is one of uint32."""
    k = Wide()
    x = k.input("int32")
    below = k.wide("aten.lt.Scalar", x, 0, dtype="bool")
    size = k.wide("aten.where.self", below, k.wide("aten.neg.default", x), x)
    k.give(k.wide("aten.remainder.Scalar", size, 1000))
    _, arrays, (found,) = right(k.whole())
    np.testing.assert_array_equal(found, np.abs(arrays[0].astype(np.int64)) % 1000)


def test_a_shift_by_the_high_word_keeps_the_sign():
    k = Wide()
    k.give(k.wide("aten.__rshift__.Scalar", k.input("int32"), 32))
    k.give(k.wide("aten.__rshift__.Scalar", k.input("uint32"), 32))
    k.give(k.wide("aten.__lshift__.Scalar", k.input("int32"), 40))
    _, arrays, (high, zero, low) = right(k.whole())
    np.testing.assert_array_equal(high, arrays[0] >> 31)
    assert not zero.any() and not low.any()


def test_what_nothing_reads_is_not_refused():
    k = Wide()
    total = k.wide("aten.add.Tensor", k.input("int32"), k.input("int32"))
    k.wide("aten.lt.Scalar", total, 0, dtype="bool")
    k.give(total)
    right(k.whole())


MODULAR = ("add.Tensor", "sub.Tensor", "mul.Tensor", "bitwise_xor.Tensor", "bitwise_or.Tensor")
WHOLE = ("maximum.default", "minimum.default")


def drawn(seed):
    """A document of random int64 arithmetic; each value is stored as int32."""
    draw = random.Random(seed)
    k = Wide()
    values = [k.input(name) for name in INPUTS]
    for _ in range(draw.randint(2, 7)):
        x, y = draw.choice(values), draw.choice(values)
        kind = draw.randrange(8)
        if kind < 3:
            v = k.wide(f"aten.{draw.choice(MODULAR)}", x, y)
        elif kind == 3:
            v = k.mask(x, draw.choice([1, 255, 65535, 2**31 - 1, MASK, -2, -1, 2**40 - 1]))
        elif kind == 4:
            v = k.wide("aten.__rshift__.Scalar", x, draw.choice([0, 1, 7, 16, 31, 32, 33]))
        elif kind == 5:
            v = k.wide("aten.__lshift__.Scalar", x, draw.choice([0, 1, 16, 31, 32, 50]))
        elif kind == 6:
            v = k.wide(f"aten.{draw.choice(WHOLE)}", x, y)
        else:
            v = k.wide(f"aten.{draw.choice(['add', 'mul'])}.Tensor", x, draw.choice([3, -1, 2**31]))
        values.append(v)
    for value in values[4:]:
        k.give(value)
    k.give(k.wide("aten.gt.Scalar", values[-1], 77, dtype="bool"), "bool")
    return k.whole()


def test_random_arithmetic_is_exact_or_refused():
    accepted = refused = 0
    for seed in range(60):
        document = drawn(seed)
        try:
            right(document)
            accepted += 1
        except CompileError as error:
            assert {d["code"] for d in error.diagnostics} == {"int64-range"}
            refused += 1
    assert accepted > 8 and refused > 8, (accepted, refused)


def longest(hides="aten.amax.default", rows=20, clamped=True):
    """out[0] = the longest of some rows, of int64 that tile.mask_to hides at the ragged end."""
    k = tiles.Kernel("longest", [rows], {"block_sizes": [8]})
    k.tensor("ends", "input", "int32", [rows])
    k.tensor("out", "output", "int32", [rows])
    ends = k.load("ends", "u0")
    if clamped:
        ends = k.node("aten.clamp.default", [ends, 0, 1000], {"dtype": "int32", "shape": ["u0"]})
    wide = {"dtype": "int64", "shape": ["u0"]}
    length = k.node("prims.convert_element_type.default", [ends, {"dtype": "int64"}], wide)
    length = k.node("aten.sub.Tensor", [length, 7], wide)
    extreme = np.iinfo("int64").min if hides == "aten.amax.default" else np.iinfo("int64").max
    hidden = k.node("tile.mask_to", [length, int(extreme)], wide)
    top = k.node(hides, [hidden], {"dtype": "int64", "shape": []})
    more = k.node("aten.add.Tensor", [length, top], wide)
    k.node("tile.store", [{"ref": "out_host"}, [{"sym": "u0"}], more])
    return json.loads(k.json())


def test_lanes_hidden_from_a_maximum_need_no_64_bits():
    """Each block has a valid lane, which is no less than the lowest that a value may be."""
    ends = np.random.default_rng(0).integers(0, 1000, [20], np.int32)
    for hides, best in (("aten.amax.default", np.max), ("aten.amin.default", np.min)):
        document = longest(hides)
        tops = [best(ends[at : at + 8]) - 7 for at in (0, 8, 16)]
        wanted = ends - 7 + np.repeat(tops, 8)[:20]
        (said,) = reference.run(document, [ends])
        np.testing.assert_array_equal(said, wanted)
        (found,) = simulate(kit.compiled(document).load(), [ends], 1).outputs
        np.testing.assert_array_equal(found, wanted)


def test_a_maximum_of_what_no_word_holds_is_refused():
    found = refusal(longest(clamped=False))
    assert [code for code, _ in found] == ["int64-range"]
    assert "from -2147483655 to" in found[0][1]
