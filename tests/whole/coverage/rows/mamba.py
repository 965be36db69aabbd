"""Rows of Mamba-2 by chunks of time: the states of chunks, states passed on, the output."""

import math

import numpy as np

from coverage.floors import Needs, bfloat16, triangle
from coverage.row import family, numbers, parameters

# ---- formulas ------------------------------------------------------------------------------------


def chunk_state(b, x, dt, log_decay):
    """All of time before heads: b [.., T, groups, N], x [.., T, heads, P]."""
    heads, chunks = dt.shape[1:3]
    x, b = (by_chunk(part, heads, chunks) for part in (x, b))
    scale = np.exp(log_decay[..., -1:] - log_decay) * dt
    return (np.einsum("bhct,bcthp,bcthn->bchpn", scale, x, b),)


def by_chunk(x, heads, chunks):
    """x [batch, T, groups or heads, ..] as [batch, chunks, chunk, heads, ..]."""
    x = np.repeat(x, heads // x.shape[2], axis=2)
    return x.reshape(len(x), chunks, -1, *x.shape[2:])


def chunk_state_heads(b, x, dt, log_decay):
    """Heads before time, by groups."""
    scale = np.exp(log_decay[..., -1:] - log_decay) * dt
    return (np.einsum("bghct,bghctp,bgctn->bcghpn", scale, x, b),)


def state_passing(states, log_decay, first):
    """One chunk after the other."""
    before, s = np.zeros_like(states), first
    for c in range(states.shape[1]):
        before[:, c] = s
        s = s * np.exp(log_decay[:, :, c])[..., None] + states[:, c]
    return before, s


def chunk_scan(cb, x, dt, log_decay, c, states, skip):
    """One time step after the other, from the states before each chunk."""
    heads, chunks, chunk = dt.shape[1:]
    cb = np.repeat(cb, heads // cb.shape[2], axis=2)
    rows, c = (by_chunk(part, heads, chunks) for part in (x, c))
    out = rows * skip[:, None]
    decay = np.exp(log_decay).transpose(0, 2, 3, 1)[..., None]
    out += np.einsum("bcthn,bchpn->bcthp", c, states) * decay
    for t in range(chunk):
        apart = np.exp(log_decay[..., t : t + 1] - log_decay[..., : t + 1]) * dt[..., : t + 1]
        seen = cb[:, :, :, t, : t + 1]
        out[:, :, t] += np.einsum("bhcs,bchs,bcshp->bchp", apart, seen, rows[:, :, : t + 1])
    return (out.reshape(x.shape),)


def chunk_scan_heads(cb, x, dt, log_decay, c, states, skip):
    """Heads before time, by groups."""
    apart = log_decay[..., :, None] - log_decay[..., None, :]
    causal = np.tri(dt.shape[-1], dtype=bool)
    weight = np.exp(np.where(causal, apart, -np.inf)) * dt[..., None, :] * cb[:, :, None]
    before = np.einsum("bgctn,bcghpn->bghctp", c, states) * np.exp(log_decay)[..., None]
    return (weight @ x + before + x * skip[:, :, None, None, None],)


# ---- inputs --------------------------------------------------------------------------------------


def with_steps(document, rng):
    """Steps dt, and the logarithms of decays, of chunks or summed up within each."""
    drawn = {x.name: numbers(x.shape, x.dtype, rng) for x in parameters(document)}
    sizes = rng.uniform(0.01, 0.2, drawn["log_decay"].shape)
    logs = np.cumsum(-sizes, axis=-1) if "dt" in drawn else -sizes
    drawn |= {"dt": sizes.astype(np.float32)} if "dt" in drawn else {}
    return list((drawn | {"log_decay": logs.astype(np.float32)}).values())


# ---- what is needed ------------------------------------------------------------------------------


def earlier_steps(shapes, data):
    """Of each chunk the pairs of a time step and one before it; states for all of its steps."""
    *chunks, chunk, _ = shapes["cb"]
    *heads, width, depth = shapes["states"]
    flops = 2 * math.prod(heads) * width * (triangle(chunk) + chunk * depth)
    return Needs({"cb": math.prod(chunks) * triangle(chunk)}, bfloat16(flops))


# ---- rows ----------------------------------------------------------------------------------------

RUN_TIME = {"unroll": "known only at run time"}
NO_WINDOW = {
    (graph, "emit_pipeline"): "nothing to pipeline" for graph in ("chunk_scan", "chunk_scan_odd")
}
TOGETHER = "heads before time, those of a group side by side"

ROWS = [
    family(
        "Mamba-2, chunk state",
        "chunk_state",
        "4096",
        chunk_state,
        {
            "chunk_state": {"block_sizes": [32, 128, 64]},
            "chunk_state_odd": {"block_sizes": [24, 40, 16]},
            "chunk_state_4096": {"block_sizes": [64, 128, 64]},
        },
        inputs=with_steps,
        refused={"emit_pipeline": "nothing to pipeline"},
        note="rows at positions that begin at their chunk",
    ),
    family(
        "Mamba-2, chunk state, heads before time",
        "chunk_state_heads",
        "4096",
        chunk_state_heads,
        [1],
        inputs=with_steps,
        note=TOGETHER,
    ),
    family(
        "Mamba-2, states passed on",
        "state_passing",
        "4096",
        state_passing,
        {
            "state_passing": {"block_sizes": [1, 512]},
            "state_passing_odd": {"block_sizes": [2, 960]},
            "state_passing_4096": {"block_sizes": [16, 2048]},
        },
        inputs=with_steps,
    ),
    family(
        "Mamba-2, chunk scan",
        "chunk_scan",
        "4096",
        chunk_scan,
        {
            "chunk_scan": {"block_sizes": [128, 64, 32]},
            "chunk_scan_odd": {"block_sizes": [50, 16, 16]},
            "chunk_scan_4096": {"block_sizes": [128, 64, 128]},
        },
        inputs=with_steps,
        refused=RUN_TIME | NO_WINDOW,
        needs=earlier_steps,
        note="rows at positions that begin at their chunk",
    ),
    family(
        "Mamba-2, chunk scan, heads before time",
        "chunk_scan_heads",
        "4096",
        chunk_scan_heads,
        {
            "chunk_scan_heads": {"block_sizes": [1, 128, 64]},
            "chunk_scan_heads_odd": {"block_sizes": [1, 16, 32]},
            "chunk_scan_heads_4096": {"block_sizes": [16, 256, 256]},
        },
        inputs=with_steps,
        refused=RUN_TIME,
        needs=earlier_steps,
        note=TOGETHER,
    ),
]
