"""pallas_id_masks: attention in which a matmul tells which ids are equal gives what masks give."""

import copy
import json

import kit
import numpy as np
import proof
import pytest
from pallasc import compare, execute, reference
from pallasc.inputs import numpy_dtype
from pallasc.simulate import interpret_params, simulate

EACH = {"slice": [None, None, None]}
HEADS = "attention_b1_h2_s421_d128"
BEHIND = "behind"  # a key is seen by what stands at or behind it, too
ROWS = {"sym": "u1"}
COLUMNS = {"sym": "u2"}


def node(name, target, args, dtype="int32", shape=()):
    """A node of a document."""
    return {
        "name": name,
        "target": target,
        "args": args,
        "meta": {"dtype": dtype, "shape": list(shape)},
    }


def ref(name):
    """A reference to a node."""
    return {"ref": name}


def index(name, at):
    """A position along dim `at` of scores, [m, 1] or [1, n]."""
    symbol = ("u1", "u2")[at]
    view = [EACH, None] if at == 0 else [None, EACH]
    shape = [symbol, 1] if at == 0 else [1, symbol]
    return [
        node(name, "tile.index", [{"sym": symbol}], shape=[symbol]),
        node(f"{name}_2d", "tile.subscript", [ref(name), view], shape=shape),
    ]


def batch(which):
    """Attention of two heads in a batch that share their ids; of 421 rows, K read swapped."""
    found = copy.deepcopy(kit.document(HEADS))
    for name in ("q_ids", "kv_ids"):
        found["tensors"].append({"name": name, "role": "input", "dtype": "int32", "shape": [421]})
    loop, root = found["graphs"]
    call = next(n for n in root["nodes"] if n["name"] == "_for_loop")
    at = root["nodes"].index(call)
    root["nodes"][at:at] = [
        node("q_ids", "tile.host_tensor", ["q_ids"], shape=[421]),
        node("rows", "tile.load", [ref("q_ids"), [ROWS]], shape=["u1"]),
    ]
    call["args"][3].append(ref("rows"))
    placeholder = {"name": "rows", "op": "placeholder"}
    loop["nodes"].insert(4, placeholder | {"meta": {"dtype": "int32", "shape": ["u1"]}})
    scores = [
        node("kv_ids", "tile.host_tensor", ["kv_ids"], shape=[421]),
        node("columns", "tile.load", [ref("kv_ids"), [COLUMNS]], shape=["u2"]),
        node("rows_2d", "tile.subscript", [ref("rows"), [EACH, None]], shape=["u1", 1]),
        node("columns_2d", "tile.subscript", [ref("columns"), [None, EACH]], shape=[1, "u2"]),
        node("same", "aten.eq.Tensor", [ref("columns_2d"), ref("rows_2d")], "bool", ["u1", "u2"]),
    ]
    mask = "same"
    if which == BEHIND:
        args = [ref("at_2d"), ref("of_2d")]
        scores += index("at", 0) + index("of", 1)
        scores.append(node("seen", "aten.ge.Tensor", args, "bool", ["u1", "u2"]))
        both = [ref("seen"), ref("same")]
        scores.append(node("both", "aten.bitwise_and.Tensor", both, "bool", ["u1", "u2"]))
        mask = "both"
    shape = ["u0", "u1", "u2"]
    view = [ref(mask), [None, EACH, EACH]]
    scores.append(node("mask", "tile.subscript", view, "bool", [1, "u1", "u2"]))
    args = [ref("mask"), ref("scores"), {"float": "-inf"}]
    scores.append(node("told", "aten.where.self", args, "float32", shape))
    at = 1 + next(i for i, n in enumerate(loop["nodes"]) if n["name"] == "scores")
    for user in loop["nodes"][at:]:
        if user["name"] in ("_mask_to_2", "sub"):
            user["args"][0] = ref("told")
    loop["nodes"][at:at] = scores
    return found


DOCUMENTS = {
    "segments": lambda: proof.document("segment_attention"),
    "batch": lambda: batch(None),
    BEHIND: lambda: batch(BEHIND),
}
IDS = {
    "few": lambda rng, shape: rng.integers(0, 3, shape),
    "far apart": lambda rng, shape: rng.choice([-(2**31), 2**31 - 1, -1, 0, 1 << 30, 15], shape),
    "one digit": lambda rng, shape: 1 << rng.integers(0, 32, shape),
    "all alike": lambda rng, shape: np.full(shape, -7),
    "sorted": lambda rng, shape: np.sort(rng.integers(-2, 3, shape), -1),
}


def arguments(document, ids):
    """Inputs with such ids; one row of Q has an id that no column has."""
    rng = np.random.default_rng(11)
    found = []
    for tensor in document["tensors"]:
        if tensor["role"] != "input":
            continue
        if tensor["dtype"] == "int32":
            some = IDS[ids](rng, tensor["shape"]).astype(np.uint32).view(np.int32)
            some[..., 5] = 77 if tensor["name"] == "q_ids" else some[..., 4]
            found.append(some)
        else:
            random = rng.standard_normal(tensor["shape"], np.float32)
            found.append(random.astype(numpy_dtype(tensor["dtype"])))
    return found


def assert_right(document, outputs, expected):
    """NaN where the graph has it, which a row that sees nothing is; else within its tolerance."""
    for i, (a, b) in enumerate(zip(outputs, expected, strict=True)):
        missing = np.isnan(b.astype(np.float32))
        assert np.array_equal(np.isnan(a.astype(np.float32)), missing)
        tolerance = compare.tolerance_for(document, i)
        verdict = compare.compare(a[~missing], b[~missing], tolerance)
        assert verdict.ok, verdict


def text(document, **config):
    """Its kernel text for v6e."""
    options = [f"--set={key}={json.dumps(value)}" for key, value in config.items()]
    return kit.accepted("-", "--emit=kernel", *options, text=json.dumps(document)).out


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_values(name, ids):
    document = DOCUMENTS[name]()
    inputs = arguments(document, ids)
    expected = reference.run(document, inputs)
    told, masked = (text(document, pallas_id_masks=each) for each in ("on", "off"))
    assert ("and_ids = concatenate" in told, "and_ids" in masked) == (True, False)
    assert_right(document, execute.run(told, *inputs), expected)


@pytest.mark.parametrize("loop", ["unroll", "fori_loop", "emit_pipeline"])
@pytest.mark.parametrize("name", ["segments", BEHIND])
def test_simulated(name, loop):
    document = DOCUMENTS[name]()
    if name == BEHIND and loop == "unroll":
        document["config"]["block_sizes"] = [2, 128, 128]
    inputs = arguments(document, "few")
    config = {"pallas_loop_type": loop, "pallas_id_masks": "on"}
    module = kit.compiled(document, "v7x", **config)
    found = simulate(module.load(), inputs, interpret_params())
    assert not found.races
    assert_right(document, found.outputs, reference.run(document, inputs))


def test_rows_that_pay():
    """512 rows pay for the digits of columns, 256 do not; a unit of 128 has no room."""
    wide = proof.document("segment_attention_4096")
    for rows, target, told in ((512, "v6e", True), (256, "v7x", False), (2048, "v5p", False)):
        options = [f"--target={target}", f"--set=block_sizes=[{rows},512]"]
        options += ["--set=pallas_wide_blocks=off", "--emit=kernel"]
        found = kit.accepted("-", *options, text=json.dumps(wide)).out
        assert ("and_ids" in found) == told, (rows, target)
    assert "and_ids" not in text(proof.document("segment_attention_odd"), pallas_id_masks="on")
