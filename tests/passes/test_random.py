"""tile.rand and tile.randint: Philox-4x32-10 of seed and place, to the bit."""

import json

import kit
import numpy as np
import pytest
import tiles
from pallasc import reference
from pallasc.simulate import simulate

MASK = np.uint64(0xFFFFFFFF)
# Known answers of Random123 (Salmon et al.) for philox4x32-10: counter, key, block.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def philox(counter, key):
    """The block of four words of a counter of four and a key of two."""
    c, k = [np.asarray(x, np.uint64) for x in counter], [int(x) for x in key]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        high = np.uint64(32)
        left, right = (np.uint64(x) for x in k)
        c = [(b >> high) ^ c[1] ^ left, b & MASK, (a >> high) ^ c[3] ^ right, a & MASK]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def words(seed, places):
    """int32: the first word of each place's block."""
    places = np.asarray(places, np.int64).astype(np.uint64)
    zero = np.zeros_like(places)
    counter = [places & MASK, places >> np.uint64(32), zero, zero]
    return (
        philox(counter, [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF])[0]
        .astype(np.uint32)
        .view(np.int32)
    )


def uniform(seed, places):
    word = words(seed, places).astype(np.int64)
    return np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)


def integers(low, high, seed, places):
    return (low + np.abs(words(seed, places).astype(np.int64)) % (high - low)).astype(np.int32)


def drawn(size, blocks, target, *args, offsets=None):
    """A kernel that gives what the op draws for each element."""
    dtype = "float32" if target == "tile.rand" else "int32"
    k = tiles.Kernel("drawn", list(size), {"block_sizes": list(blocks)})
    symbols = [f"u{i}" for i in range(len(size))]
    k.tensor("out", "output", dtype, list(size))
    args = [[{"sym": s} for s in symbols], *args]
    if offsets:
        k.tensor("at", "input", offsets, list(size))
        args.append(k.load("at", *symbols))
    k.store("out", k.node(target, args, {"dtype": dtype, "shape": symbols}), *symbols)
    return k.json()


def given(document, *arrays):
    """What the simulated kernel gives: to the bit what the reference does."""
    (found,) = simulate(kit.compiled(document).load(), list(arrays), 1).outputs
    (expected,) = reference.run(json.loads(document), list(arrays))
    np.testing.assert_array_equal(found, expected)
    return found


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
def test_the_formula_gives_the_known_answers(counter, key, block):
    assert [int(x) for x in philox(counter, key)] == block


def test_the_first_known_answer_is_what_a_kernel_draws():
    first = given(drawn((8, 128), (8, 128), "tile.rand", 0))[0, 0]
    assert first == np.float32(KNOWN[0][2][0]) * np.float32(4.6566127342e-10)


@pytest.mark.parametrize("seed", [42, 0, -1, 2**40 + 7, -(2**63), 2**63 - 1])
def test_numbers_are_a_function_of_seed_and_place(seed):
    places = np.arange(50 * 300).reshape(50, 300)
    for blocks in ((16, 128), (50, 300)):
        found = given(drawn((50, 300), blocks, "tile.rand", seed))
        np.testing.assert_array_equal(found, uniform(seed, places))


@pytest.mark.parametrize("ends", [(-3, 4), (0, 2), (-(2**31), 2**31 - 1), (0, 1), (5, 2**31 - 1)])
def test_ints_are_drawn_between_their_ends(ends):
    found = given(drawn((40, 200), (8, 128), "tile.randint", *ends, 7))
    np.testing.assert_array_equal(found, integers(*ends, 7, np.arange(8000).reshape(40, 200)))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_offsets_are_numbers_of_64_bits(dtype):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    at = rng.integers(info.min, info.max, (16, 128), dtype, endpoint=True)
    at[0, :4] = info.min, info.max, 0, 1
    found = given(drawn((16, 128), (8, 128), "tile.rand", 5, offsets=dtype), at)
    np.testing.assert_array_equal(found, uniform(5, at))


def test_a_seed_is_read_from_a_tensor():
    k = tiles.Kernel("drawn", [16], {"block_sizes": [8]})
    k.tensor("seed", "input", "int32", [3])
    k.tensor("out", "output", "float32", [16, 128])
    seed = k.load("seed", 1)
    shape = {"dtype": "float32", "shape": ["u0", 128]}
    k.store("out", k.node("tile.rand", [[{"sym": "u0"}, 128], seed], shape), "u0", ":")
    document = k.json()
    for number in (7, -7):
        found = given(document, np.array([1, number, 2], np.int32))
        np.testing.assert_array_equal(found, uniform(number, np.arange(2048).reshape(16, 128)))


def test_ends_that_no_number_gives_are_refused():
    document = json.loads(drawn((8, 128), (8, 128), "tile.randint", 4, 4, 7))
    (diagnostic,) = kit.refusal(document)
    assert diagnostic["code"] == "unsupported-op"
    assert "Philox" in diagnostic["hint"]


def in_a_loop_to_the_tile(*dims):
    """Numbers in a loop over u1 that ends where the grid's tile of u0 does."""
    sizes, i32, shape = {"u0": 16, "u1": 16}, {"dtype": "int32"}, list(dims)
    node = {"name": "x", "target": "tile.rand", "args": [[{"sym": d} for d in dims], 7]}
    node["meta"] = {"dtype": "float32", "shape": shape}
    out = {"name": "out", "role": "output", "dtype": "float32", "shape": [16, 16], "init": 0}
    tensor = {"name": "t", "target": "tile.host_tensor", "args": ["out"]}
    tensor["meta"] = {"dtype": "float32", "shape": [16, 16]}
    store = {"name": "s", "target": "tile.store"}
    store["args"] = [{"ref": "t"}, [{"sym": d} for d in dims], {"ref": "x"}]
    done = {"name": "output", "op": "output", "args": [[]]}
    end = {"name": "end", "target": "tile.end", "args": ["u0"], "meta": {"sym": None, **i32}}
    loop = {"name": "loop", "target": "tile.for_loop", "args": [0, [0], [{"ref": "end"}], []]}
    loop["meta"] = {"tuple": []}
    blocks = [{"id": i, "symbol": s, "extent": n} for i, (s, n) in enumerate(sizes.items())]
    graphs = [
        {"id": 0, "kind": "for_loop", "block_ids": [1], "carried": []},
        {"id": 1, "kind": "root", "grid": [0]},
    ]
    graphs[0]["nodes"], graphs[1]["nodes"] = [node, tensor, store, done], [end, loop, done]
    head = {"format": "fxtile", "version": 1, "name": "drawn", "scalars": [], "tensors": [out]}
    config = {"block_sizes": [8, 8]}
    return json.dumps(head | {"block_sizes": blocks, "graphs": graphs, "config": config})


def test_rows_of_a_loop_whose_end_is_computed_are_counted_by_none():
    (diagnostic,) = kit.refusal(json.loads(in_a_loop_to_the_tile("u0", "u1")))
    assert diagnostic["code"] == "unsupported-op"
    assert "tiles of a range that is known" in diagnostic["hint"]


def test_of_a_first_dim_the_numbers_need_no_range():
    found = given(in_a_loop_to_the_tile("u1", "u0"))
    expected = uniform(7, np.arange(256).reshape(16, 16))
    visited = np.arange(16)[:, None] // 8 <= np.arange(16) // 8
    np.testing.assert_array_equal(found, np.where(visited, expected, 0))
