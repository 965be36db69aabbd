"""Loops of which each device runs a part of the steps: what they carry is merged."""

import math

import kit
import numpy as np
import pallasc
import pytest
from on_devices import arrays, devices, small, wide, wrong

COUNTS = pytest.mark.parametrize("count", [2, 4, 8])


def attention():
    """[2, 2, 64, 128] queries and 512 keys."""
    few, flat = [2, 2, 64, 128], [4, 64, 128]
    many, many_flat = [2, 2, 512, 128], [4, 512, 128]
    shapes = {"q_in": few, "k_in": many, "v_in": many, "q_view": flat, "out": flat}
    shapes |= {"k_in_reshape": many_flat, "k_view": [4, 128, 512], "v_view": many_flat}
    shapes |= {"lse": [4, 64]}
    config = {"block_sizes": [1, 32, 64], "pallas_loop_type": "fori_loop"}
    document = small("attention", shapes, [4, 64, 512], config)
    document["returns"][0]["shape"] = few
    return document


def attended(q, k, v):
    """Out and lse of attention in float64."""
    scores = np.asarray(q, np.float64) @ k.swapaxes(-1, -2)
    weights = np.exp2(scores * kit.document("attention")["scalars"][0]["value"])
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v, np.log2(total).reshape(-1, q.shape[-2])


def heads():
    """Queries, keys and values, the greatest scores among a few keys."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((2, 2, n, 128), np.float32) for n in (64, 512, 512))
    k[:, :, 100:110] *= 20
    return {"q": q, "k": k, "v": v}


def test_what_is_merged_is_said():
    ran = kit.run(
        kit.path("attention"), "--mesh", "a=2", "--shard", "tile_n=a", "--explain", "--emit=none"
    )
    scaled = "parts are scaled by exp2(their m_i - the greatest) and added up"
    assert "m_i is merged along a behind kernel 0: the greatest of parts is taken" in ran.err
    assert f"acc is merged along a behind kernel 0: {scaled}" in ran.err
    assert "a device sends and gets 1064960 bytes" in ran.err


@COUNTS
def test_keys_of_attention(count, tmp_path):
    module = pallasc.shard(attention(), {"keys": count}, {"tile_n": "keys"})
    assert module.info["sharding"]["inputs"] == [[], [None, None, "keys"], [None, None, "keys"]]
    assert module.info["sharding"]["outputs"] == [[], []]
    given = heads()
    assert wrong(module, given, attended(**given), tmp_path) == []


def test_keys_and_rows_of_attention(tmp_path):
    mesh, blocks = {"heads": 2, "rows": 2, "keys": 2}, {"tile_m": "rows", "tile_n": "keys"}
    module = pallasc.shard(attention(), mesh, blocks | {"tile_b": "heads"})
    assert module.info["sharding"]["inputs"][:2] == [
        ["heads", None, "rows"],
        ["heads", None, "keys"],
    ]
    given = heads()
    assert wrong(module, given, attended(**given), tmp_path) == []


@COUNTS
def test_keys_of_other_segments(count, tmp_path):
    """Each device has keys of few segments: most rows have none of theirs there, some nowhere."""
    document = wide("segment_attention")
    given, random = arrays(document), np.random.default_rng(1)
    for name, most in (("q_ids", 9), ("kv_ids", 8)):
        given[name] = np.sort(random.integers(0, most, (2, 256)).astype(np.int32))
    module = pallasc.shard(document, {"a": count}, {"tile_n": "a"})
    q, k, v, q_ids, kv_ids = given.values()
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * document["scalars"][0]["value"]
    weights = np.exp2(scores) * (q_ids[:, None, :, None] == kv_ids[:, None, None, :])
    total = weights.sum(-1, keepdims=True)
    assert (total == 0).any()
    expected = weights / np.where(total == 0, 1, total) @ v
    assert wrong(module, given, [expected], tmp_path) == []


@COUNTS
def test_softmax_of_split_columns(count, tmp_path):
    """Its second loop reads what was merged of the first."""
    document = kit.document("softmax_two_pass")
    module = pallasc.shard(document, {"n": count}, {"block_n": "n"})
    cut = [[None, "n"]]
    assert module.info["sharding"] == {"mesh": {"n": count}, "inputs": cut, "outputs": cut}
    given = arrays(document, 5)
    weights = np.exp(given["x"].astype(np.float64))
    expected = weights / weights.sum(1, keepdims=True)
    assert wrong(module, given, [expected], tmp_path, atol=1e-7) == []


@COUNTS
def test_cross_entropy_of_a_split_vocabulary(count, tmp_path):
    document = kit.document("cross_entropy_online")
    module = pallasc.shard(document, {"vocabulary": count}, {"tile_v": "vocabulary"})
    given = arrays(document, 4)
    labels = np.random.default_rng(1).integers(0, 1024, (256, 1)).astype(np.int32)
    logits = given["logits"].astype(np.float64)
    expected = np.log(np.exp(logits).sum(1)) - np.take_along_axis(logits, labels, 1)[:, 0]
    assert wrong(module, given | {"labels": labels}, [expected], tmp_path) == []


@COUNTS
def test_greatest_and_least_of_split_columns(count, tmp_path):
    document = kit.document("long_extremes")
    module = pallasc.shard(document, {"n": count}, {"tile_n": "n"})
    given = arrays(document)
    expected = given["x"].max(1), given["x"].min(1)
    assert wrong(module, given, expected, tmp_path, rtol=0, atol=0) == []


@COUNTS
def test_epilogue_of_a_split_sum(count, tmp_path):
    document = wide("matmul_bias_gelu")
    module = pallasc.shard(document, {"k": count}, {"tile_k": "k"})
    given = arrays(document, 0.25)
    x, y, bias = (each.astype(np.float64) for each in given.values())
    biased = x @ y + bias
    expected = biased * (1 + np.vectorize(math.erf)(biased / math.sqrt(2))) / 2
    assert wrong(module, given, [expected], tmp_path) == []


def with_another_root(document):
    """The graph, and a second grid that doubles what it gives."""
    shape, tile = [256, 384], ["u0", "u1"]
    refs = [{"ref": "rows"}, {"ref": "columns"}]

    def node(name, target, args, **meta):
        return {"name": name, "target": target, "args": args, "meta": meta or None}

    twice = {"name": "twice", "role": "output", "dtype": "float32", "shape": shape}
    document["tensors"].append(twice)
    document["returns"].append({"tensor": "twice"})
    nodes = [
        node("rows", "tile.symnode", ["u0"], sym="u0"),
        node("columns", "tile.symnode", ["u1"], sym="u1"),
        node("out", "tile.host_tensor", ["out"], dtype="float32", shape=shape),
        node("load", "tile.load", [{"ref": "out"}, refs], dtype="float32", shape=tile),
        node("add", "aten.add.Tensor", [{"ref": "load"}] * 2, dtype="float32", shape=tile),
        node("twice", "tile.host_tensor", ["twice"], dtype="float32", shape=shape),
        node("store", "tile.store", [{"ref": "twice"}, refs, {"ref": "add"}]),
        {"name": "output", "op": "output", "args": [[]], "meta": None},
    ]
    document["graphs"].append({"id": 2, "kind": "root", "grid": [0, 1], "nodes": nodes})
    return document


def test_roots_behind_a_split_one(tmp_path):
    """They run behind what was split off it."""
    document = with_another_root(wide("matmul_bias_gelu"))
    module = pallasc.shard(document, {"k": 2}, {"tile_k": "k"})
    given = arrays(document, 0.25)
    out, twice = devices(module, given, tmp_path)
    x, y, bias = (each.astype(np.float64) for each in given.values())
    biased = x @ y + bias
    expected = biased * (1 + np.vectorize(math.erf)(biased / math.sqrt(2))) / 2
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(twice, out * 2)


def test_loop_that_goes_on_from_another(tmp_path):
    """Of softmax_of_two the first loop is cut, the second one begins with what it gave."""
    document = kit.document("softmax_of_two")
    module = pallasc.shard(document, {"n": 2}, {"block_n": "n"})
    given = arrays(document)
    rows = np.concatenate([x.astype(np.float64) for x in given.values()], 1)
    others = [None] * (len(module.info["outputs"]) - 1)
    expected = [*others, np.log(np.exp(rows).sum(1))]
    assert wrong(module, given, expected, tmp_path, rtol=1e-5, atol=1e-5) == []


@COUNTS
def test_sum_that_begins_elsewhere(count, tmp_path):
    document = wide("matmul_residual")
    module = pallasc.shard(document, {"k": count}, {"tile_k": "k"})
    given = arrays(document)
    x, y, scale, residual = (each.astype(np.float64) for each in given.values())
    assert wrong(module, given, [x * scale @ y + residual], tmp_path, atol=1e-3) == []


def weight_gradients(given):
    """Of a layer norm's weight and bias, in float64."""
    dy, x, mean, rstd = (given[k].astype(np.float64) for k in ("dy", "x", "mean", "rstd"))
    return (dy * (x - mean[:, None]) * rstd[:, None]).sum(0), dy.sum(0)


@COUNTS
def test_atomics_of_split_rows(count, tmp_path):
    """Each device adds to gradients of weights of its own."""
    document = kit.document("layer_norm_bwd_atomic")
    module = pallasc.shard(document, {"rows": count}, {"tile_m": "rows"})
    given = arrays(document)
    assert wrong(module, given, [None, *weight_gradients(given)], tmp_path, atol=1e-3) == []


@pytest.mark.parametrize(
    ("name", "count"),
    [("layer_norm_bwd", 2), ("layer_norm_bwd", 4), ("layer_norm_bwd_two_level", 2)],
)
def test_rows_for_each_tile_that_the_wrapper_adds_up(name, count, tmp_path):
    """Arrays with a row for each tile: each device has those of its own."""
    document = kit.document(name)
    document["config"]["block_sizes"][0] = 64
    module = pallasc.shard(document, {"rows": count}, {"block_m": "rows"})
    assert module.info["sharding"]["outputs"] == [["rows"], [], []]
    given = arrays(document)
    assert wrong(module, given, [None, *weight_gradients(given)], tmp_path, atol=1e-3) == []


def test_second_kernel_is_configured_as_the_first():
    words = ["--mesh", "k=2", "--shard", "tile_k=k", "--set", "loop_orders=[[1,0]]"]
    text = kit.emitted("kernel", "matmul_bias_gelu", *words).out
    grids = [line.split()[1] for line in text.splitlines() if line.startswith("  grid")]
    assert grids == ["tile_n", "tile_m"] * 2
