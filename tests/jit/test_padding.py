"""Which sizes may be padded: the proof, and what the reference says of it."""

import kit
import numpy as np
import pytest
from builder import Doc, G, f32, sym
from hypothesis import given, settings
from hypothesis import strategies as st
from named import numbered, rows_doc, sized, sums_doc
from pallasc import reference
from pallasc.padding import padding_unproven


def test_rows_of_their_own():
    assert padding_unproven(rows_doc(), "S") is None
    for name, sizes in {
        "softmax": {"S": kit.document("softmax")["tensors"][0]["shape"][0]},
        "layer_norm": {"S": kit.document("layer_norm")["tensors"][0]["shape"][0]},
    }.items():
        assert padding_unproven(sized(kit.document(name), **sizes), "S") is None, name


def test_rows_of_a_batch():
    """Those of a batch that is joined with the heads stand at the end, as the batch does."""
    document = attention_of_batches()
    assert padding_unproven(document, "B") is None
    for tensor in document["tensors"][3:5]:
        tensor["shape"] = [512, "B * 2", 128]
    assert "in other dims" in padding_unproven(document, "B")


def attention_of_batches():
    document = sized(kit.document("attention"), **{"B * 2": 4})
    for entry in [*document["tensors"][:3], document["returns"][0]]:
        entry["shape"] = ["B", *entry["shape"][1:]]
    return document | {"sizes": {"B": 2}}


def test_what_a_matmul_may_pad():
    document = matmul(32, 64, 128)
    assert padding_unproven(document, "M") is None
    assert padding_unproven(document, "N") is None
    assert "carries values" in padding_unproven(document, "K")


def matmul(m, k, n):
    """x [M, K] @ y [K, N] in tiles, accumulated over K."""
    doc = Doc(config={"block_sizes": [8, 128, 8]}, sizes={"M": m, "N": n, "K": k}, name="product")
    doc.tensor("x", "input", "float32", ["M", "K"]).tensor("y", "input", "float32", ["K", "N"])
    doc.tensor("out", "output", "float32", ["M", "N"]).block("M").block("N").block("K")
    body = G(1, "for_loop", block_ids=[2], carried=[[0, 0]])
    acc = body.arg(f32("u0", "u1"))
    x = body.load("x", [sym("u0"), sym("u2")], f32("u0", "u2"))
    y = body.load("y", [sym("u2"), sym("u1")], f32("u2", "u1"))
    body.out(body.call("aten.addmm.default", acc, x, y, meta=f32("u0", "u1")))
    g = G(0, grid=[0, 1])
    shape = [sym("u0"), sym("u1")]
    zero = g.call("tile.full", shape, 0.0, {"dtype": "float32"}, meta=f32("u0", "u1"))
    loop = g.call("tile.for_loop", 1, [0], [sym("K")], [zero], meta={"tuple": [f32("u0", "u1")]})
    g.store("out", shape, g.call("getitem", loop, 0, meta=f32("u0", "u1")))
    return doc.add(body, g.out())


def test_sums_are_refused():
    assert "its loop over b1 carries values" in padding_unproven(sums_doc(), "S")
    attention = sized(kit.document("attention"), S=512)
    reason = padding_unproven(attention, "S")
    assert "its loop over tile_n carries values" in reason and "attention.py:" in reason


def stored(change):
    """The reason of rows_doc after `change(document, nodes)`."""
    document = rows_doc()
    change(document, {node["name"]: node for node in document["graphs"][0]["nodes"]})
    return padding_unproven(document, "S")


def added(target, *args, meta, at=-2):
    """A change: one node more, before the store."""

    def change(document, nodes):
        node = {"name": "more", "target": target, "args": list(args), "meta": meta}
        document["graphs"][0]["nodes"].insert(at, node)
        store = document["graphs"][0]["nodes"][-2]
        store["args"][2] = {"ref": "more"}

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (added("tile.end", sym("u0"), meta=sym(None)), "asks where a tile is"),
        (added("aten.flip.default", {"ref": "n2"}, [0], meta=f32("u0", "u1")), "lanes together"),
        (added("aten.sum.dim_IntList", {"ref": "n2"}, [0], meta=f32("u1")), "reduces over it"),
        (added("aten.softmax.int", {"ref": "n2"}, 0, meta=f32("u0", "u1")), "lanes together"),
        (added("aten.mul.Tensor", {"ref": "n2"}, sym("S"), meta=f32("u0", "u1")), "computes with"),
        (added("aten.mul.Tensor", {"ref": "n2"}, sym("u0"), meta=f32("u0", "u1")), "computes with"),
        (added("aten.cumsum.default", {"ref": "n2"}, 0, meta=f32("u0", "u1")), "lanes together"),
    ],
)
def test_reasons(change, reason):
    assert reason in stored(change)


def test_tensors_that_move_places():
    def view(**fields):
        document = rows_doc()
        document["tensors"].insert(1, {"name": "v", "role": "view", "dtype": "float32", "of": "x"})
        document["tensors"][1] |= fields
        return padding_unproven(document, "S")

    assert view(shape=[1, "S", 128]) is None
    assert view(shape=["S", 2, 64]) is None
    assert view(shape=[128, "S"], permute=[1, 0]) is None
    assert view(shape=["S", 5], slice=[[0, "S", 1], [0, 5, 1]]) is None
    assert "in other dims" in view(shape=[128, "S"])
    assert view(shape=["S * 128"]) is None
    assert "computed from it" in view(shape=["S + 1"])
    assert "parts of x" in view(shape=[8, 128], slice=[[0, 8, 1], [0, 128, 1]])
    assert "a part of x" in view(shape=["S", 128], slice=[[0, "S", 2], [0, 128, 1]])


def test_a_loop_written_to_one_place():
    document = rows_doc()
    store = document["graphs"][0]["nodes"][-2]
    store["args"][1] = [0, sym("u1")]
    assert "does not read 'out' tile by tile" in padding_unproven(document, "S")
    document["tensors"][2]["shape"] = [16, 128]
    assert "writes one place for all tiles of b0" in padding_unproven(document, "S")


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 20), st.integers(0, 13), st.integers(0, 99))
def test_the_reference_agrees(size, more, seed):
    """Whatever stands after the first places: results of those are what they are without."""
    for document, names in ((rows_doc(), "S"), (matmul(9, 16, 128), "MN")):
        for name in names:
            assert padding_unproven(document, name) is None
            rng = np.random.default_rng(seed)
            small, large = ({**document["sizes"], name: n} for n in (size, size + more))
            arrays = inputs(document, small, rng)
            padded = [pad(array, like, rng) for array, like in zip(
                arrays, inputs(document, large, rng), strict=True)]  # fmt: skip
            cut = run(document, large, padded)[0]
            whole = run(document, small, arrays)[0]
            assert np.array_equal(cut[tuple(map(slice, whole.shape))], whole)


def inputs(document, sizes, rng):
    shapes = [t["shape"] for t in document["tensors"] if t["role"] == "input"]
    return [
        rng.standard_normal([sizes.get(dim, dim) for dim in shape]).astype(np.float32)
        for shape in shapes
    ]


def pad(array, like, rng):
    """`array` in the corner of noise."""
    like = np.where(rng.random(like.shape) < 0.1, np.float32("nan"), like)
    like[tuple(map(slice, array.shape))] = array
    return like


def run(document, sizes, arrays):
    return reference.run(numbered(document, sizes), arrays)
