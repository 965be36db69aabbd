"""docs/transformer_block.md: a whole transformer block of pallasc's kernels, beside XLA's own.

    PYTHONPATH=python .venv/bin/python bench/transformer_block.py      # the table of the page

RMS norm, the projections of queries, keys and values, rotary embedding, causal attention of
grouped heads, the projection of its output, residual, RMS norm, SwiGLU and residual, in one
jax.jit, in bfloat16. `profile` executes the compiler's schedule of all of it (docs/profile.md):
nothing is measured on chips. Schedules are kept in .cache/profile.
"""

import dataclasses
import math
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("bench", "python")]

import pallasc  # noqa: E402
from page_part import write_part  # noqa: E402
from pallasc.build import Graph, axis, ds, ops  # noqa: E402
from pallasc.profile.chips import CHIPS  # noqa: E402
from pallasc.profile.run import profile  # noqa: E402

PAGE = ROOT / "docs" / "transformer_block.md"
HEAD = 128  # lanes of a head
EPSILON = 1e-5
LOG2_E = math.log2(math.e)
TIMEOUT_S = 1800


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of a block; heads are of HEAD lanes."""

    batch: int = 2
    seq: int = 4096
    model: int = 4096
    heads: int = 32
    kv_heads: int = 8
    mlp: int = 14336

    @property
    def all_heads(self):
        """Of queries, keys and values, in this order."""
        return self.heads + 2 * self.kv_heads

    @property
    def rows(self):
        """Tokens."""
        return self.batch * self.seq


# ---- our kernels


def normed(x, gain):
    """Rows of a tile over their root mean square, times `gain`, in bfloat16."""
    wide = x.to("float32")
    scale = ops.rsqrt(ops.mean(wide * wide, -1) + EPSILON)
    return (wide * scale[:, None]).to("bfloat16") * gain


def qkv_graph(s, heads=8):
    """Queries, keys and values, the first two turned; `heads` of them in a grid point.

    x [batch, seq, model] and w [model, all_heads * HEAD] give [batch, all_heads, seq, HEAD]. The
    second half of the lanes of `sin` has its sign, the first one the other.
    """
    g = Graph("qkv")
    x = g.input("x", [s.batch, s.seq, s.model], "bfloat16")
    gain = g.input("gain", [s.model], "bfloat16")
    w = g.input("w", [s.model, s.all_heads * HEAD], "bfloat16")
    cos, sin = (g.input(name, [s.seq, HEAD], "float32") for name in ("cos", "sin"))
    out = g.output("out", [s.batch, s.all_heads, s.seq, HEAD], "bfloat16")
    grid = {"b": axis(s.batch, size=1), "m": s.seq, "h": axis(s.all_heads, size=heads)}
    with g.grid(**grid) as (b, m, h):
        rows = normed(x[b.begin, m, :], gain[:])
        weights = w[:, ds(h.begin * HEAD, heads * HEAD)]
        columns = ops.dot(rows, weights, out_dtype="float32")
        found = []
        for i in range(heads):
            head = columns[:, i * HEAD : (i + 1) * HEAD]
            turned = head * cos[m, :] + ops.roll(head, HEAD // 2, -1) * sin[m, :]
            turns = h.begin + i < s.heads + s.kv_heads
            found.append(ops.where(turns, turned, head).to("bfloat16"))
        out[b.begin, h, m, :] = ops.stack(found, 0)
    return g


def attention_graph(s):
    """Causal attention of what `qkv_graph` gives: [batch, seq, heads * HEAD]."""
    g = Graph("attention")
    qkv = g.input("qkv", [s.batch, s.all_heads, s.seq, HEAD], "bfloat16")
    out = g.output("out", [s.batch, s.seq, s.heads * HEAD], "bfloat16")
    grid = {"b": axis(s.batch, size=1), "h": axis(s.heads * HEAD, size=HEAD), "m": s.seq}
    with g.grid(**grid) as (b, h, m):
        q = qkv[b.begin, h.id, m, :]
        most = g.var(ops.full([m], float("-inf"), dtype="float32"))
        total = g.var(ops.zeros([m], dtype="float32"))
        acc = g.var(ops.zeros([m, HEAD], dtype="float32"))

        def step(n, masked):
            key = h.id // (s.heads // s.kv_heads) + s.heads
            k, v = (qkv[b.begin, at, n, :] for at in (key, key + s.kv_heads))
            scores = ops.dot(q, k.T, out_dtype="float32") * (LOG2_E / math.sqrt(HEAD))
            if masked:
                seen = m.index[:, None] >= n.index[None, :]
                scores = ops.where(seen, scores, float("-inf"))
            now = ops.maximum(most, ops.amax(scores, -1))
            p = ops.exp2(scores - now[:, None])
            alpha = ops.exp2(most - now)
            total.set(total * alpha + ops.sum(p, -1))
            acc.set(ops.dot(p.to("bfloat16"), v, acc * alpha[:, None]))
            most.set(now)

        with g.loop("below", m.begin) as n:
            step(n, masked=False)
        with g.loop("diagonal", m.end, begin=m.begin) as n:
            step(n, masked=True)
        out[b.begin, m, h] = (acc / total[:, None]).to("bfloat16")
    return g


def add_product_graph(s, name, depth, looped):
    """out + x @ w, added up in float32 and rounded once: x [rows, depth], w [depth, model].

    `looped`: all of the depth in one grid point, else it is the grid's innermost dim.
    """
    g = Graph(name)
    x = g.input("x", [s.rows, depth], "bfloat16")
    w = g.input("w", [depth, s.model], "bfloat16")
    out = g.inout("out", [s.rows, s.model], "bfloat16")
    if not looped:
        with g.grid(m=s.rows, n=s.model, k=depth) as (m, n, k):
            ops.atomic_add(out, [m, n], ops.dot(x[m, k], w[k, n], out_dtype="float32"))
        return g
    with g.grid(m=s.rows, n=s.model) as (m, n):
        acc = g.var(ops.zeros([m, n], dtype="float32"))
        with g.loop("k", depth) as k:
            acc.set(ops.dot(x[m, k], w[k, n], acc))
        out[m, n] = (acc + out[m, n]).to("bfloat16")
    return g


def gated_graph(s):
    """silu(norm(x) @ gate) * (norm(x) @ up): x [rows, model] gives [rows, mlp]."""
    g = Graph("gated")
    x = g.input("x", [s.rows, s.model], "bfloat16")
    gain = g.input("gain", [s.model], "bfloat16")
    gate, up = (g.input(name, [s.model, s.mlp], "bfloat16") for name in ("gate", "up"))
    out = g.output("out", [s.rows, s.mlp], "bfloat16")
    with g.grid(m=s.rows, n=s.mlp) as (m, n):
        rows = normed(x[m, :], gain[:])
        opened = ops.silu(ops.dot(rows, gate[:, n], out_dtype="float32"))
        out[m, n] = (opened * ops.dot(rows, up[:, n], out_dtype="float32")).to("bfloat16")
    return g


# What was best of a few, by chip and kernel.
ATTENTION = {
    "block_sizes": {"m": 1024, "below": 1024, "diagonal": 1024},
    "pallas_loop_type": "fori_loop",
}
CUBE = {"block_sizes": {"m": 1024, "n": 1024, "k": 1024}}
CONFIGS = {
    "v6e": {
        "qkv": {"block_sizes": {"m": 1024}},
        "attention": ATTENTION,
        "project": CUBE,
        "gated": {"block_sizes": {"m": 1024, "n": 512}},
        "down": {"block_sizes": {"m": 2048, "n": 2048, "k": 1024}},
    },
    "v7x": {
        "qkv": {"block_sizes": {"m": 512}},
        "attention": ATTENTION,
        "project": CUBE,
        "gated": {"block_sizes": {"m": 512, "n": 1024}},
        "down": {"block_sizes": {"m": 1024, "n": 1024, "k": 3584}},
    },
}


def kernels(s, chip, configs):
    """The block's modules for a chip, by name."""
    graphs = [
        qkv_graph(s),
        attention_graph(s),
        add_product_graph(s, "project", s.heads * HEAD, looped=True),
        gated_graph(s),
        add_product_graph(s, "down", s.mlp, looped=False),
    ]
    found = {}
    for graph in graphs:
        name = graph.document()["name"]
        graph.config(**configs[name])
        found[name] = pallasc.compile(graph, target=chip)
    return found


def our_block(s, modules, **options):
    """The function of the block, of its modules; `options` are those of their functions."""
    run = {name: getattr(module.load(), name) for name, module in modules.items()}

    def block(p):
        rows = (s.rows, -1)
        qkv = run["qkv"](p["x"], p["norm_1"], p["qkv"], p["cos"], p["sin"], **options)
        found = run["attention"](qkv, **options).reshape(rows)
        x = run["project"](found, p["out"], p["x"].reshape(rows), **options)
        found = run["gated"](x, p["norm_2"], p["gate"], p["up"], **options)
        return run["down"](found, p["down"], x, **options).reshape(p["x"].shape)

    return block


# ---- XLA's


def plain_attention(q, k, v):
    """Causal attention in jax.numpy: [batch, seq, heads, HEAD], keys of fewer heads."""
    import jax
    from jax import numpy as jnp

    batch, seq, heads, _ = q.shape
    q = q.reshape(batch, seq, k.shape[2], -1, HEAD)
    scores = jnp.einsum("bmhgd,bnhd->bhgmn", q, k, preferred_element_type=jnp.float32)
    visible = jnp.tril(jnp.ones((seq, seq), bool))
    scores = jnp.where(visible, scores / math.sqrt(HEAD), -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bhgmn,bnhd->bmhgd", weights, v).reshape(batch, seq, heads, HEAD)


def library_attention(q, k, v):
    """jax.nn.dot_product_attention."""
    import jax

    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def splash_attention(q, k, v):
    """jax's Pallas kernel, splash attention."""
    import jax
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as found,
    )
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    _, seq, heads, _ = q.shape
    mask = masks.MultiHeadMask([masks.CausalMask((seq, seq))] * heads)
    rows = min(seq, 1024)
    sizes = found.BlockSizes(block_q=rows, block_kv=rows, block_kv_compute=rows // 2)
    kernel = jax.vmap(found.make_splash_mha_single_device(mask=mask, block_sizes=sizes))
    q, k, v = (x.swapaxes(1, 2) for x in (q / math.sqrt(HEAD), k, v))
    return kernel(q.astype(k.dtype), k, v).swapaxes(1, 2)


ATTENTIONS = {"plain": plain_attention, "library": library_attention, "splash": splash_attention}


def xla_block(s, attention):
    """The same function in jax.numpy."""
    import jax
    from jax import numpy as jnp

    def norm(x, gain):
        wide = x.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + EPSILON)
        return (wide * scale).astype(x.dtype) * gain

    def turn(x, p):
        wide = x.astype(jnp.float32)
        half = jnp.roll(wide, HEAD // 2, -1)
        return (wide * p["cos"][:, None] + half * p["sin"][:, None]).astype(x.dtype)

    def block(p):
        x = p["x"]
        qkv = (norm(x, p["norm_1"]) @ p["qkv"]).reshape(s.batch, s.seq, -1, HEAD)
        q, k, v = jnp.split(qkv, [s.heads, s.heads + s.kv_heads], axis=2)
        found = ATTENTIONS[attention](turn(q, p), turn(k, p), v)
        x = x + found.reshape(s.batch, s.seq, -1) @ p["out"]
        rows = norm(x, p["norm_2"])
        return x + (jax.nn.silu(rows @ p["gate"]) * (rows @ p["up"])) @ p["down"]

    return block


# ---- what is profiled


def arguments(s):
    """What a block is given: its input and its weights."""
    import jax

    shapes = {
        "x": (s.batch, s.seq, s.model),
        "norm_1": (s.model,),
        "qkv": (s.model, s.all_heads * HEAD),
        "cos": (s.seq, HEAD),
        "sin": (s.seq, HEAD),
        "out": (s.heads * HEAD, s.model),
        "norm_2": (s.model,),
        "gate": (s.model, s.mlp),
        "up": (s.model, s.mlp),
        "down": (s.mlp, s.model),
    }
    dtypes = {"cos": "float32", "sin": "float32"}
    return {
        name: jax.ShapeDtypeStruct(shape, dtypes.get(name, "bfloat16"))
        for name, shape in shapes.items()
    }


def ours(chip):
    """(function, arguments) of our block."""
    import jax

    s = Sizes()
    return jax.jit(our_block(s, kernels(s, chip, CONFIGS[chip]))), [arguments(s)]


def xla(attention):
    """(function, arguments) of XLA's."""
    import jax

    s = Sizes()
    return jax.jit(xla_block(s, attention)), [arguments(s)]


SIDES = {
    "pallasc": "ours('{chip}')",
    "XLA": "xla('plain')",
    "XLA, jax.nn.dot_product_attention": "xla('library')",
    "XLA, jax's splash attention": "xla('splash')",
}


def floor_cycles(s, chip):
    """Cycles that the matmuls take at the matrix unit's peak, half of attention's left out."""
    weights = s.all_heads * HEAD + s.heads * HEAD + 3 * s.mlp
    flops = 2 * s.rows * s.model * weights + 2 * s.rows * s.seq * s.heads * HEAD
    return flops / CHIPS[chip].flops_per_cycle


def side_row(name, chip, floor):
    """A line of the table, and the kernels of the side."""
    facts = profile(f"{Path(__file__)}:{SIDES[name].format(chip=chip)}", chip, timeout=TIMEOUT_S)
    mark = "" if facts["trusted"] else "~"
    ms = facts["cycles"] / facts["clock_hz"] * 1e3
    busy = sum(kernel["matmul_busy_cycles"] for kernel in facts["kernels"].values())
    cells = [
        f"{mark}{facts['cycles'] / 1e3:,.0f}",
        f"{mark}{ms:.2f}",
        f"{busy / facts['cycles']:.0%}",
        f"{facts['hbm_bytes'] / 2**30:.1f}",
        f"{len(facts['kernels'])}",
        f"{facts['cycles'] / floor:.2f}",
    ]
    return f"| {name} | {chip} | {' | '.join(cells)} |", facts["kernels"]


def kernel_rows(kernels_of, chip):
    """A line for each of our kernels."""
    lines = []
    for name, facts in kernels_of.items():
        if not facts["pallas"]:
            continue
        cells = [
            f"{facts['cycles'] / 1e3:,.0f}",
            f"{facts['matmul_busy_cycles'] / facts['cycles']:.0%}",
            f"{facts['wait_cycles'] / facts['cycles']:.0%}",
            f"{facts['hbm_bytes'] / 2**30:.2f}",
        ]
        lines.append(f"| {name.rpartition('.')[0]} | {chip} | {' | '.join(cells)} |")
    return lines


def main():
    """Writes both tables into the page."""
    whole = ["| | chip | kilocycles | ms | matrix unit busy | HBM, GiB | kernels | of the floor |"]
    whole.append("| --- | --- " + "| ---: " * 6 + "|")
    parts = ["| kernel | chip | kilocycles | matrix unit busy | waits for copies | HBM, GiB |"]
    parts.append("| --- | --- " + "| ---: " * 4 + "|")
    for chip in CONFIGS:
        floor = floor_cycles(Sizes(), chip)
        for name in SIDES:
            line, found = side_row(name, chip, floor)
            print(line, flush=True)
            whole.append(line)
            if name == "pallasc":
                parts += kernel_rows(found, chip)
    for mark, lines in (("whole", whole), ("kernels", parts)):
        begin, end = f"<!-- {mark} -->\n", f"<!-- end {mark} -->\n"
        write_part(PAGE, begin, end, "\n" + "\n".join(lines) + "\n\n")


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
