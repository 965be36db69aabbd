"""A whole transformer block in one jax.jit, of pallasc's kernels and of XLA's own."""

import dataclasses
import math
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python")]

import pallasc  # noqa: E402
from pallasc.build import Graph, axis, ds, ops  # noqa: E402

HEAD = 128  # lanes of a head
EPSILON = 1e-5
LOG2_E = math.log2(math.e)


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
    def columns(self):
        """Of queries, keys and values together."""
        return (self.heads + 2 * self.kv_heads) * HEAD


def normed(g, rows, gain, m, k):
    pass


def qkv_graph(s, heads=8):
    """Queries, keys and values of all heads, turned: [batch, heads + 2 kv_heads, seq, HEAD]."""
    g = Graph("qkv")
    x = g.input("x", [s.batch, s.seq, s.model], "bfloat16")
    gain = g.input("gain", [s.model], "bfloat16")
    w = g.input("w", [s.model, s.columns], "bfloat16")
    cos = g.input("cos", [s.seq, HEAD], "float32")
    sin = g.input("sin", [s.seq, HEAD], "float32")
    count = s.heads + 2 * s.kv_heads
    out = g.output("qkv", [s.batch, count, s.seq, HEAD], "bfloat16")
    with g.grid(b=axis(s.batch, size=1), m=s.seq, h=axis(count, size=heads)) as (b, m, h):
        rows = x[b.begin, m, :]
        wide = rows.to("float32")
        scale = ops.rsqrt(ops.mean(wide * wide, -1) + EPSILON)
        scaled = (wide * scale[:, None]).to("bfloat16") * gain[:]
        acc = ops.dot(scaled, w[:, ds(h.begin * HEAD, heads * HEAD)], out_dtype="float32")
        c, sn = cos[m, :], sin[m, :]
        turned = []
        for i in range(heads):
            head = acc[:, i * HEAD : (i + 1) * HEAD]
            turns = h.begin + i < s.heads + s.kv_heads
            half = ops.roll(head, HEAD // 2, -1)
            turned.append(ops.where(turns, head * c + half * sn, head).to("bfloat16"))
        out[b.begin, h, m, :] = ops.stack(turned, 0)
    return g


def attention_graph(s):
    """Causal attention: [batch, seq, heads * HEAD]."""
    g = Graph("attention")
    count = s.heads + 2 * s.kv_heads
    group = s.heads // s.kv_heads
    qkv = g.input("qkv", [s.batch, count, s.seq, HEAD], "bfloat16")
    out = g.output("out", [s.batch, s.seq, s.heads * HEAD], "bfloat16")
    scale = LOG2_E / math.sqrt(HEAD)
    with g.grid(b=axis(s.batch, size=1), h=axis(s.heads * HEAD, size=HEAD), m=s.seq) as (b, h, m):
        q = qkv[b.begin, h.id, m, :]
        most = g.var(ops.full([m], float("-inf"), dtype="float32"))
        total = g.var(ops.zeros([m], dtype="float32"))
        acc = g.var(ops.zeros([m, HEAD], dtype="float32"))
        with g.loop("n", m.end) as n:
            k = qkv[b.begin, h.id // group + s.heads, n, :]
            scores = ops.dot(q, k.T, out_dtype="float32") * scale
            visible = m.index[:, None] >= n.index[None, :]
            scores = ops.where(visible, scores, float("-inf"))
            now = ops.maximum(most, ops.amax(scores, -1))
            p = ops.exp2(scores - now[:, None])
            alpha = ops.exp2(most - now)
            total.set(total * alpha + ops.sum(p, -1))
            v = qkv[b.begin, h.id // group + s.heads + s.kv_heads, n, :]
            acc.set(ops.dot(p.to("bfloat16"), v, acc * alpha[:, None]))
            most.set(now)
        out[b.begin, m, h] = (acc / total[:, None]).to("bfloat16")
    return g


def project_graph(s, name, depth):
    """out + x @ w."""
    g = Graph(name)
    rows = s.batch * s.seq
    x = g.input("x", [rows, depth], "bfloat16")
    w = g.input("w", [depth, s.model], "bfloat16")
    out = g.inout("out", [rows, s.model], "bfloat16")
    with g.grid(m=rows, n=s.model, k=depth) as (m, n, k):
        ops.atomic_add(out, [m, n], ops.dot(x[m, k], w[k, n], out_dtype="float32"))
    return g


def gated_graph(s):
    """silu(norm(x) @ gate) * (norm(x) @ up)."""
    g = Graph("gated")
    rows = s.batch * s.seq
    x = g.input("x", [rows, s.model], "bfloat16")
    gain = g.input("gain", [s.model], "bfloat16")
    gate = g.input("gate", [s.model, s.mlp], "bfloat16")
    up = g.input("up", [s.model, s.mlp], "bfloat16")
    out = g.output("out", [rows, s.mlp], "bfloat16")
    with g.grid(m=rows, n=s.mlp) as (m, n):
        wide = x[m, :].to("float32")
        scale = ops.rsqrt(ops.mean(wide * wide, -1) + EPSILON)
        scaled = (wide * scale[:, None]).to("bfloat16") * gain[:]
        a = ops.dot(scaled, gate[:, n], out_dtype="float32")
        b = ops.dot(scaled, up[:, n], out_dtype="float32")
        out[m, n] = (ops.silu(a) * b).to("bfloat16")
    return g


def arguments(s):
    """The block's arguments: x and the weights."""
    import jax

    def array(*shape, dtype="bfloat16"):
        return jax.ShapeDtypeStruct(shape, dtype)

    return {
        "x": array(s.batch, s.seq, s.model),
        "norm_1": array(s.model),
        "qkv": array(s.model, s.columns),
        "cos": array(s.seq, HEAD, dtype="float32"),
        "sin": array(s.seq, HEAD, dtype="float32"),
        "out": array(s.heads * HEAD, s.model),
        "norm_2": array(s.model),
        "gate": array(s.model, s.mlp),
        "up": array(s.model, s.mlp),
        "down": array(s.mlp, s.model),
    }


def xla_attention(q, k, v):
    """Causal attention in plain jax.numpy; [batch, seq, heads, HEAD]."""
    import jax
    from jax import numpy as jnp

    batch, seq, heads, _ = q.shape
    kv_heads = k.shape[2]
    q = q.reshape(batch, seq, kv_heads, heads // kv_heads, HEAD)
    scores = jnp.einsum("bmhgd,bnhd->bhgmn", q, k, preferred_element_type=jnp.float32)
    visible = jnp.tril(jnp.ones((seq, seq), bool))
    scores = jnp.where(visible, scores / math.sqrt(HEAD), -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    return jnp.einsum("bhgmn,bnhd->bmhgd", weights, v).reshape(batch, seq, heads, HEAD)


def xla_block(s, library=False):
    import jax
    from jax import numpy as jnp

    def norm(x, gain):
        wide = x.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + EPSILON)
        return (wide * scale).astype(x.dtype) * gain

    def turn(x, cos, sin):
        wide = x.astype(jnp.float32)
        half = jnp.roll(wide, HEAD // 2, -1)
        return (wide * cos[:, None] + half * sin[:, None]).astype(x.dtype)

    def block(p):
        x = p["x"]
        qkv = norm(x, p["norm_1"]) @ p["qkv"]
        qkv = qkv.reshape(s.batch, s.seq, -1, HEAD)
        q, k, v = jnp.split(qkv, [s.heads, s.heads + s.kv_heads], axis=2)
        q, k = turn(q, p["cos"], p["sin"]), turn(k, p["cos"], p["sin"])
        if library:
            attended = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        else:
            attended = xla_attention(q, k, v)
        x = x + attended.reshape(s.batch, s.seq, -1) @ p["out"]
        rows = norm(x, p["norm_2"])
        return x + (jax.nn.silu(rows @ p["gate"]) * (rows @ p["up"])) @ p["down"]

    return block


def xla(library=False, **sizes):
    import jax

    s = Sizes(**sizes)
    return jax.jit(xla_block(s, library)), [arguments(s)]


def compiled(s, chip, configs):
    """The block's kernels for a chip, by name; `configs` of some of them."""
    graphs = [
        qkv_graph(s),
        attention_graph(s),
        project_graph(s, "project", s.heads * HEAD),
        gated_graph(s),
        project_graph(s, "down", s.mlp),
    ]
    kernels = {}
    for graph in graphs:
        name = graph.document()["name"]
        if name in configs:
            graph.config(**configs[name])
        kernels[name] = pallasc.compile(graph, target=chip)
    return kernels


def our_block(s, kernels, interpret=False):
    """The function of the block."""
    run = {name: getattr(kernel.load(), name) for name, kernel in kernels.items()}

    def call(name, *arrays):
        return run[name](*arrays, interpret=interpret)

    def block(p):
        rows = (s.batch * s.seq, -1)
        qkv = call("qkv", p["x"], p["norm_1"], p["qkv"], p["cos"], p["sin"])
        attended = call("attention", qkv).reshape(rows)
        x = call("project", attended, p["out"], p["x"].reshape(rows))
        gated = call("gated", x, p["norm_2"], p["gate"], p["up"])
        return call("down", gated, p["down"], x).reshape(p["x"].shape)

    return block


LARGE = {"m": 2048, "n": 1024, "k": 1024}
CONFIGS = {
    "qkv": {"block_sizes": {"m": 512}},
    "attention": {"block_sizes": {"m": 1024, "n": 1024}, "pallas_loop_type": "fori_loop"},
    "project": {"block_sizes": LARGE},
    "down": {"block_sizes": LARGE},
    "gated": {"block_sizes": {"m": 512, "n": 512}},
}
CONFIGS_OF = {
    "v7x": CONFIGS,
    "v6e": CONFIGS
    | {"qkv": {"block_sizes": {"m": 1024}}, "gated": {"block_sizes": {"m": 1024, "n": 512}}},
}


def ours(chip):
    """(function, arguments) of our block."""
    import jax

    s = Sizes()
    kernels = compiled(s, chip, CONFIGS_OF[chip])
    return jax.jit(our_block(s, kernels)), [arguments(s)]
