"""Derived backwards of graphs of testdata, beside finite differences of the graphs in float64."""

import json
import re

import finite
import kit
import numpy as np
import pallasc
import pytest

# Rows in place of those that the file has: two tiles, the last one ragged.
ROWS = {
    "alibi_attention_odd": (300, 70),
    "bias_attention_odd": (300, 70),
    "exclusive_attention_odd": (300, 70),
    "sliding_attention_odd": (421, 210),
    "softcap_attention_odd": (300, 70),
    "others_attention_odd": (300, 70),
    "squeeze_excite_odd": (421, 70),
}
GRAPHS = (
    "activations_odd",
    "add_in_place_odd",
    "alibi_attention_odd",
    "bias_attention_odd",
    "broadcast_3d_odd",
    "causal_conv1d_odd",
    "columns_odd",
    "combine_odd",
    "concatenate_odd",
    "crossed_odd",
    "decode_attention_odd",
    "dropout_odd",
    "embedding_odd",
    "exclusive_attention_odd",
    "exponentials_odd",
    "extremes_odd",
    "flip_rows_odd",
    "fp8_attention_odd",
    "fused_linear_jsd_odd",
    "geglu_erf_odd",
    "geglu_odd",
    "group_norm_odd",
    "grpo_loss_odd",
    "instance_norm_odd",
    "int8_weight_matmul_odd",
    "jsd_odd",
    "kl_div_odd",
    "layer_norm_bwd_atomic_odd",
    "logsumexp_rows_odd",
    "matmul_gelu_tanh_odd",
    "matmul_layer_norm_odd",
    "matmul_residual_odd",
    "matmul_scaled_relu_odd",
    "matmul_split_k_odd",
    "mean_rows_odd",
    "others_attention_odd",
    "pad_odd",
    "pair_sums_odd",
    "plane_norm_odd",
    "powers_odd",
    "ragged_dense_add_odd",
    "rotary_odd",
    "rotary_pairs_odd",
    "rotary_slices_odd",
    "row_differences_odd",
    "segment_attention_odd",
    "segment_norms_odd",
    "sliding_attention_odd",
    "softcap_attention_odd",
    "softmax_op_odd",
    "squeeze_excite_odd",
    "stack_odd",
    "std_rows_odd",
    "swap_pairs_odd",
    "table_rows_odd",
    "trigonometry_odd",
    "var_mean_rows_odd",
)
LIMIT = 4e-6


def document(name):
    """A forward, in tiles that its configuration does not fix."""
    was, rows = ROWS.get(name, (0, 0))
    return json.loads(re.sub(rf"\b{was}\b", str(rows), kit.text(name)))


LARGE = ("matmul_residual_odd", "fused_linear_jsd_odd", "matmul_scaled_relu_odd")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.full] if n in LARGE else []) for n in GRAPHS]
)
def test_gradients_are_those_of_differences(name):
    off = finite.differences(document(name))
    assert off and max(off.values()) < LIMIT, off


def test_moments_of_an_optimizer_are_updated_in_place():
    """adamw: what was read of p, m and v is p_in, ...; v is positive."""
    graph = kit.document("adamw_odd")
    shape = next(t["shape"] for t in graph["tensors"] if t["name"] == "v")
    v = 0.1 + np.abs(np.random.default_rng(0).standard_normal(shape))
    off = finite.differences(graph, values={"v": v})
    assert list(off) == ["p", "m", "v", "g"] and max(off.values()) < LIMIT, off


def test_places_that_are_looked_up_get_all_that_is_theirs():
    graph = kit.document("picked_logits_odd")
    ids = np.random.default_rng(0).integers(0, 200, (50, 12)).astype(np.int32)
    ids[:, 0] = ids[:, 1]
    off = finite.differences(graph, values={"ids": ids})
    assert max(off.values()) < LIMIT, off


def test_a_lookup_outside_gives_its_gradient_to_the_nearest():
    graph = kit.document("embedding_odd")
    ids = np.arange(70, dtype=np.int32) * 3 - 40
    off = finite.differences(graph, values={"ids": ids})
    assert max(off.values()) < LIMIT, off


def test_rows_that_see_nothing_have_a_gradient_of_0():
    """Their maximum is -inf and their sum 0, which the forward guards against."""
    graph, random = kit.document("segment_attention_odd"), np.random.default_rng(5)
    shapes = {t["name"]: t["shape"] for t in graph["tensors"] if t["dtype"] == "int32"}
    ids = {name: random.integers(0, 3, shape).astype(np.int32) for name, shape in shapes.items()}
    ids["q_ids"][:, :7] = 9
    off = finite.differences(graph, values=ids)
    assert max(off.values()) < LIMIT, off


@pytest.mark.parametrize("chip", ["v5e", "v6e", "v7x"])
@pytest.mark.parametrize(
    "name",
    [
        "alibi_attention_odd",
        "combine_odd",
        "embedding_odd",
        "exclusive_attention_odd",
        "f16_attention",
        "f16_attention_odd",
        "f16_matmul_odd",
        "rotary_odd",
        "rotary_pairs_odd",
        "rotary_slices_odd",
        "sliding_attention_8192",
        "squeeze_excite_odd",
        "table_rows_odd",
    ],
)
def test_the_compiler_takes_it(name, chip):
    backward = {k: v for k, v in pallasc.grad(kit.document(name)).items() if k != "config"}
    assert pallasc.compile(backward, target=chip).info["name"].endswith("_grad")
