"""Kernels that ask where in its range a tile of a cut block is."""

import kit
import numpy as np
import pallasc
import pytest
from on_devices import arrays, wide, wrong

COUNTS = pytest.mark.parametrize("count", [2, 4, 8])


def causal(q, k, v, slopes=None, window=None):
    """Out and lse of causal attention in float64, the scale that of the graphs."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * kit.document("causal_attention")["scalars"][0]["value"]
    behind = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])
    if slopes is not None:
        scores = scores - slopes[:, None, None] * behind * np.log2(np.e)
    visible = behind >= 0 if window is None else (behind >= 0) & (behind < window)
    weights = np.where(visible, np.exp2(scores), 0)
    total = weights.sum(-1, keepdims=True)
    return weights / total @ v, np.log2(total).reshape(-1, q.shape[-2])


@COUNTS
def test_rows_of_causal_attention(count, tmp_path):
    """A device's rows see all keys before them, those of other devices' too."""
    document = wide("causal_attention")
    document["config"] = {"block_sizes": [1, 64, 128]}
    module = pallasc.shard(document, {"rows": count}, {"tile_m": "rows"})
    assert module.info["sharding"]["inputs"] == [[None, None, "rows"], [], []]
    given = arrays(document)
    assert wrong(module, given, causal(*given.values()), tmp_path) == []


@COUNTS
def test_keys_of_causal_attention(count, tmp_path):
    """A device has the keys before a row that are its own: of late ones the first rows see none."""
    document = wide("causal_attention")
    document["config"] = {"block_sizes": [1, 128, 64]}
    module = pallasc.shard(document, {"keys": count}, {"tile_n": "keys"})
    assert module.info["sharding"]["inputs"] == [[], *[[None, None, "keys"]] * 2]
    given = arrays(document)
    assert wrong(module, given, causal(*given.values()), tmp_path) == []


def test_rows_and_keys_of_causal_attention(tmp_path):
    document = wide("causal_attention")
    document["config"] = {"block_sizes": [1, 64, 64]}
    blocks = {"tile_m": "rows", "tile_n": "keys"}
    module = pallasc.shard(document, {"rows": 2, "keys": 4}, blocks)
    given = arrays(document)
    assert wrong(module, given, causal(*given.values()), tmp_path) == []


@pytest.mark.parametrize("block", ["tile_m", "block_n"])
def test_sliding_windows(block, tmp_path):
    """Where a loop begins is computed too."""
    document = wide("sliding_attention")
    given = arrays(document)
    module = pallasc.shard(document, {"a": 4}, {block: "a"})
    expected, _ = causal(*given.values(), window=100)
    assert wrong(module, given, [expected], tmp_path) == []


@pytest.mark.parametrize("block", ["tile_m", "tile_n"])
def test_biases_by_position(block, tmp_path):
    document = wide("alibi_attention")
    document["config"] = {"block_sizes": [1, 32, 32]}
    given = arrays(document)
    module = pallasc.shard(document, {"a": 4}, {block: "a"})
    expected, _ = causal(*given.values())
    assert wrong(module, given, [expected], tmp_path) == []
