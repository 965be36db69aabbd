"""bench/transformer_block.py computes what it says, on both sides: a small block beside float64."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import numpy as jnp

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import transformer_block as bench

SIZES = bench.Sizes(batch=2, seq=256, model=256, heads=4, kv_heads=2, mlp=384)
BLOCKS = {
    "qkv": {"m": 128},
    "attention": {"m": 128, "below": 128, "diagonal": 128},
    "project": {"m": 256, "n": 128, "k": 128},
    "gated": {"m": 128, "n": 128},
    "down": {"m": 256, "n": 128, "k": 128},
}
CONFIGS = {name: {"block_sizes": blocks} for name, blocks in BLOCKS.items()}
CONFIGS["attention"]["pallas_loop_type"] = "fori_loop"
KEPT = {"pallas_grid_invariants": "on"}
# The greatest element is 6, where bfloat16 has steps of 1/32; each side rounds eight times.
TOLERANCE = 0.15


def inputs():
    """Weights of matrices keep the variance of what they multiply; rotary angles as usual."""
    draw = np.random.default_rng(0)
    found = {}
    for name, like in bench.arguments(SIZES).items():
        array = draw.standard_normal(like.shape)
        scale = np.sqrt(like.shape[0]) if name in ("qkv", "out", "gate", "up", "down") else 1
        found[name] = jnp.asarray(array / scale, like.dtype)
    half = bench.HEAD // 2
    angles = np.arange(SIZES.seq)[:, None] * 1e4 ** -(np.arange(half) / half)
    found["cos"] = jnp.asarray(np.tile(np.cos(angles), 2), jnp.float32)
    sin = np.sin(angles)
    found["sin"] = jnp.asarray(np.concatenate([-sin, sin], -1), jnp.float32)
    return found


def exact(p):
    """The block in float64, nothing rounded."""
    p = {name: np.asarray(array).astype(np.float64) for name, array in p.items()}
    s, half = SIZES, bench.HEAD // 2

    def norm(x, gain):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + bench.EPSILON) * gain

    def turn(x):  # [batch, seq, heads, HEAD]
        a, b = x[..., :half], x[..., half:]
        cos, sin = p["cos"][:, None, :half], p["sin"][:, None, half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    qkv = (norm(p["x"], p["norm_1"]) @ p["qkv"]).reshape(s.batch, s.seq, -1, bench.HEAD)
    q, k, v = np.split(qkv, [s.heads, s.heads + s.kv_heads], axis=2)
    k, v = (np.repeat(x, s.heads // s.kv_heads, axis=2) for x in (turn(k), v))
    scores = np.einsum("bmhd,bnhd->bhmn", turn(q), k) / np.sqrt(bench.HEAD)
    weights = np.exp(np.where(np.tril(np.ones((s.seq, s.seq), bool)), scores, -np.inf))
    weights /= weights.sum(-1, keepdims=True)
    found = np.einsum("bhmn,bnhd->bmhd", weights, v).reshape(s.batch, s.seq, -1)
    x = p["x"] + found @ p["out"]
    rows = norm(x, p["norm_2"])
    gate = rows @ p["gate"]
    return x + (gate / (1 + np.exp(-gate)) * (rows @ p["up"])) @ p["down"]


def difference(found, p):
    wanted = exact(p)
    assert found.shape == wanted.shape
    assert 5 < np.abs(wanted).max() < 8
    return np.abs(np.asarray(found).astype(np.float64) - wanted).max()


@pytest.mark.parametrize("chip", ["v6e", "v7x"])
def test_ours(chip):
    """Simulated, norms kept for all tiles of columns."""
    configs = {name: config | KEPT for name, config in CONFIGS.items()}
    modules, p = bench.kernels(SIZES, chip, configs), inputs()
    assert "def first_step():" in modules["gated"].source
    assert difference(bench.our_block(SIZES, modules, interpret=True)(p), p) <= TOLERANCE


@pytest.mark.parametrize("attention", ["plain", "library"])
def test_xla(attention):
    """On a CPU, in the same precision."""
    p = inputs()
    assert difference(jax.jit(bench.xla_block(SIZES, attention))(p), p) <= TOLERANCE


@pytest.mark.parametrize("chip", list(bench.CONFIGS))
def test_norms_are_computed_once(chip):
    """At the size of the page: rows of 4096 bfloat16 are kept for all tiles of columns."""
    modules = bench.kernels(bench.Sizes(), chip, bench.CONFIGS[chip])
    for name in ("qkv", "gated"):
        blocks = bench.CONFIGS[chip][name]["block_sizes"]
        assert modules[name].plan["vmem"]["scratch"] == blocks["m"] * 4096 * 2


def test_the_floor():
    """3.6 TFLOP of matrices and half of attention's square, at 2 * 2 * 256^2 * 2 FLOP a cycle."""
    assert bench.floor_cycles(bench.Sizes(), "v7x") == bench.floor_cycles(bench.Sizes(), "v6e")
    assert round(bench.floor_cycles(bench.Sizes(), "v7x") / 1e3) == 7340
