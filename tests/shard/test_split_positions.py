"""Kernels that ask where in its range a tile of a cut block is."""

import kit
import numpy as np
import pallasc
import pytest
from on_devices import arrays, devices, wide

COUNTS = pytest.mark.parametrize("count", [2, 4, 8])


def causal(name, given, bias=0.0):
    """Out and lse of causal attention in float64; the bias is added to scores."""
    q, k, v = (x.astype(np.float64) for x in given.values())
    scores = q @ k.swapaxes(-1, -2) * kit.document(name)["scalars"][0]["value"] + bias
    rows = np.arange(q.shape[-2])
    weights = np.where(rows[:, None] >= rows, np.exp2(scores), 0)
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
    expected = causal("causal_attention", given)
    for out, wanted in zip(devices(module, given, tmp_path), expected, strict=True):
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
