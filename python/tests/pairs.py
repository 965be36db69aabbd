"""Forwards with their backwards, small: what is paired, and the plain formula in jax.

Graphs of testdata are taken at other sizes or dtypes, by edits of their text; what testdata lacks
is built here.
"""

import dataclasses
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
from builder import Doc, G, dt, f32, sl, sym, t

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"


@dataclasses.dataclass(frozen=True)
class Pair:
    """A forward, its backwards, and what says the same in jax.

    Attributes:
      forward: a document.
      backwards: documents.
      formula: of the inputs, in float32.
      wishes: arguments of `pallasc.vjp`.
      bounds: {input: the greatest int}, of those that are ints.
    """

    forward: dict
    backwards: list
    formula: object
    wishes: dict = dataclasses.field(default_factory=dict)
    bounds: dict = dataclasses.field(default_factory=dict)


def edited(name, *edits):
    """A graph of testdata with texts replaced, one after the other."""
    folder = next(
        f for f in ("graphs", "coverage/graphs") if (TESTDATA / f / f"{name}.json").exists()
    )
    text = (TESTDATA / folder / f"{name}.json").read_text()
    for old, new in edits:
        assert old in text, (name, old)
        text = text.replace(old, new)
    return json.loads(text)


F32 = ("bfloat16", "float32")
# Two tiles of rows, one of them ragged, in place of seven.
ROWS = ("421", "72"), ("420", "71")


# ---- attention


def _attend(q, k, v, causal):
    scores = jnp.einsum("bhmd,bhnd->bhmn", q, k, precision="highest") / math.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhmn,bhnd->bhmd", jax.nn.softmax(scores), v, precision="highest")


def attention(dtype, causal=False, kernels=("dq", "dkdv")):
    """Attention; its log-sum-exp is a residual, delta the first backward's."""
    prefix = "causal_" if causal else ""
    if dtype == "float32":
        heads = ("[1, 2, 421", "[1, 3, 421"), ("[2, 421", "[3, 421"), ("[2, 64", "[3, 64")
        heads += (('"extent": 2}', '"extent": 3}'),)
        size = *(heads if causal else ()), ("421", "140"), F32
        forward = edited(f"{prefix}attention_b1_h{2 if causal else 3}_s421_d64", *size)
        parts = ["attention_delta_odd", *(f"{prefix}attention_{k}_odd" for k in kernels)]
    else:
        size = ("[2, 2, 512", "[1, 2, 512"), ("[4, 512", "[2, 512"), ("[4, 128", "[2, 128")
        size += ('"extent": 4}', '"extent": 2}'), ("512", "256")
        forward = edited(f"{prefix}attention", *size)
        parts = ["attention_delta", *(f"{prefix}attention_{k}" for k in kernels)]
    size = (("300", "140"),) if dtype == "float32" else ()
    return Pair(
        forward,
        [edited(part, *size) for part in parts],
        lambda q, k, v: _attend(q, k, v, causal),
        {"returns": ["out"]},
    )


# ---- norms


class Rows(G):
    """A root over tiles of rows, `u0` of them, with what its values need."""

    def __init__(self, doc, width, grid=(0,)):
        super().__init__(0, grid=list(grid))
        self.doc, self.width = doc, width
        self.dtypes = {entry["name"]: entry["dtype"] for entry in doc.raw["tensors"]}

    def op(self, target, *args, shape=None, dtype="float32"):
        return self.call(target, *args, meta=t(dtype, *(shape or ("u0", self.width))))

    def tile(self, name, index=None, shape=None):
        """A tensor's tile, as float32."""
        shape = shape or ("u0", self.width)
        loaded = self.load(name, index or [sym("u0"), sl()], t(self.dtypes[name], *shape))
        if self.dtypes[name] == "float32":
            return loaded
        return self.op("prims.convert_element_type.default", loaded, dt("float32"), shape=shape)

    def put(self, name, index, value, shape=None):
        dtype = self.dtypes[name]
        if dtype != "float32":
            shape = shape or ("u0", self.width)
            target = "prims.convert_element_type.default"
            value = self.op(target, value, dt(dtype), shape=shape, dtype=dtype)
        self.store(name, index, value)

    def row(self, name):
        """A vector along the rows, [1, width]."""
        loaded = self.tile(name, [sl()], (self.width,))
        return self.op("tile.subscript", loaded, [None, sl()], shape=(1, self.width))

    def column(self, name):
        """A number of each row, [u0, 1]."""
        loaded = self.tile(name, [sym("u0")], ("u0",))
        return self.op("tile.subscript", loaded, [sl(), None], shape=("u0", 1))

    def mean(self, value):
        masked = self.op("tile.mask_to", value, 0)
        return self.op("aten.mean.dim", masked, [1], True, shape=("u0", 1))


def layer_norm_forward(dtype, rows=72, width=300, eps=1e-5):
    """Layer norm that also gives the mean and the reciprocal deviation of each row."""
    doc = Doc(config={"block_sizes": [128]}, name="layer_norm").block(rows)
    doc.block(width, reduction=True)
    doc.tensor("x", "input", dtype, [rows, width])
    doc.tensor("weight", "input", dtype, [width]).tensor("bias", "input", dtype, [width])
    doc.tensor("out", "output", dtype, [rows, width])
    doc.tensor("mean", "output", "float32", [rows]).tensor("rstd", "output", "float32", [rows])
    g = Rows(doc, width)
    x = g.tile("x")
    mean = g.mean(x)
    centered = g.op("aten.sub.Tensor", x, mean)
    variance = g.mean(g.op("aten.mul.Tensor", centered, centered))
    raised = g.op("aten.add.Tensor", variance, eps, shape=("u0", 1))
    rstd = g.op("aten.rsqrt.default", raised, shape=("u0", 1))
    scaled = g.op("aten.mul.Tensor", g.op("aten.mul.Tensor", centered, rstd), g.row("weight"))
    g.put("out", [sym("u0"), sl()], g.op("aten.add.Tensor", scaled, g.row("bias")))
    for name, value in (("mean", mean), ("rstd", rstd)):
        g.put(name, [sym("u0")], g.op("aten.squeeze.dim", value, -1, shape=("u0",)))
    return doc.add(g.out())


def layer_norm(dtype):
    """Layer norm; the gradients of weight and bias are added up by the wrapper."""

    def formula(x, weight, bias):
        centered = x - x.mean(-1, keepdims=True)
        variance = (centered * centered).mean(-1, keepdims=True)
        return centered * jax.lax.rsqrt(variance + 1e-5) * weight + bias

    backward = edited("layer_norm_bwd_odd", *ROWS, ("bfloat16", dtype))
    return Pair(layer_norm_forward(dtype), [backward], formula, {"returns": ["out"]})


def rms_norm(dtype):
    """RMS norm."""

    def formula(x, weight):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight

    forward = edited("rms_norm_odd", ROWS[0], ("bfloat16", dtype))
    backward = edited("rms_norm_bwd_odd", *ROWS, ("bfloat16", dtype))
    return Pair(forward, [backward], formula, {"returns": ["out"]})


# ---- softmax and losses


def softmax(dtype):
    """Softmax; its backward's names say nothing of the forward's."""
    forward = edited("softmax_odd", ROWS[0], ("bfloat16", dtype))
    backward = edited("softmax_bwd_odd", ROWS[0], ("bfloat16", dtype))
    wishes = {"residuals": {"y": "out"}, "gradients": {"out": "x"}}
    return Pair(forward, [backward], jax.nn.softmax, wishes)


def cross_entropy_bwd(dtype, rows=72, width=1000):
    """(softmax(logits) - onehot(labels)) * d_losses."""
    doc = Doc(config={"block_sizes": [64]}, name="cross_entropy_bwd").block(rows)
    doc.block(width, reduction=True)
    doc.tensor("logits", "input", dtype, [rows, width]).tensor(
        "labels", "input", "int32", [rows, 1]
    )
    doc.tensor("d_losses", "input", "float32", [rows])
    doc.tensor("d_logits", "output", dtype, [rows, width])
    g = Rows(doc, width)
    row = g.tile("logits")
    masked = g.op("tile.mask_to", row, {"float": "-inf"})
    top = g.op("aten.amax.default", masked, [-1], True, shape=("u0", 1))
    weight = g.op("aten.exp.default", g.op("aten.sub.Tensor", row, top))
    total = g.op(
        "aten.sum.dim_IntList", g.op("tile.mask_to", weight, 0), [-1], True, shape=("u0", 1)
    )
    share = g.op("aten.div.Tensor", weight, total)
    column = g.call(
        "prims.iota.default", width, start=0, step=1, dtype=dt("int32"), meta=t("int32", width)
    )
    column = g.op("tile.subscript", column, [None, sl()], shape=(1, width), dtype="int32")
    label = g.load("labels", [sym("u0"), sl()], t("int32", "u0", 1))
    hit = g.op("aten.eq.Tensor", column, label, dtype="bool")
    less = g.op("aten.where.self", hit, g.op("aten.sub.Tensor", share, 1.0), share)
    g.put("d_logits", [sym("u0"), sl()], g.op("aten.mul.Tensor", less, g.column("d_losses")))
    return doc.add(g.out())


def cross_entropy(dtype):
    """Cross-entropy; labels have no gradient."""

    def formula(logits, labels):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels, 1)[:, 0]

    forward = edited("cross_entropy_odd", ROWS[0], ("bfloat16", dtype))
    wishes, bounds = {"nondiff": ["labels"]}, {"labels": 999}
    return Pair(forward, [cross_entropy_bwd(dtype)], formula, wishes, bounds)


# ---- matmuls and gates


def gelu_bwd(dtype, m=72, k=300, n=200):
    """dz = dout * gelu'(x @ y + bias), and its sum over rows: the gradient of bias."""
    doc = Doc(config={"block_sizes": [128, 128, 128]}, name="gelu_bwd").block(m).block(n).block(k)
    doc.tensor("x", "input", dtype, [m, k]).tensor("y", "input", dtype, [k, n])
    doc.tensor("bias", "input", dtype, [n]).tensor("dout", "input", dtype, [m, n])
    doc.tensor("dz", "output", dtype, [m, n])
    doc.tensor("dbias", "output", "float32", [f"(u0 + {m - 1}) // u0", n])
    convert = ["prims.convert_element_type.default", dt(dtype)]
    sums = [["aten.sum.dim_IntList", [0]], *([convert] if dtype != "float32" else [])]
    doc.raw["returns"] = [{"tensor": "dz"}, {"tensor": "dbias", "ops": sums}]
    loop = G(1, "for_loop", block_ids=[2], carried=[[0, 0]])
    acc = loop.arg(f32("u0", "u1"))
    x = loop.load("x", [sym("u0"), sym("u2")], t(dtype, "u0", "u2"))
    y = loop.load("y", [sym("u2"), sym("u1")], t(dtype, "u2", "u1"))
    dot = loop.call("aten.mm.dtype", x, y, dt("float32"), meta=f32("u0", "u1"))
    loop.out(loop.call("aten.add.Tensor", acc, dot, meta=f32("u0", "u1")))
    g = Rows(doc, "u1", grid=(0, 1))
    zero = g.call("tile.full", [sym("u0"), sym("u1")], 0.0, dt("float32"), meta=f32("u0", "u1"))
    called = g.call("tile.for_loop", 1, [0], [k], [zero], meta={"tuple": [f32("u0", "u1")]})
    bias = g.tile("bias", [sym("u1")], ("u1",))
    bias = g.op("tile.subscript", bias, [None, sl()], shape=(1, "u1"))
    z = g.op("aten.add.Tensor", g.op("getitem", called, 0), bias)
    erf = g.op("aten.erf.default", g.op("aten.mul.Tensor", z, math.sqrt(0.5)))
    below = g.op("aten.mul.Tensor", g.op("aten.add.Tensor", erf, 1.0), 0.5)
    bell = g.op("aten.exp.default", g.op("aten.mul.Tensor", g.op("aten.mul.Tensor", z, z), -0.5))
    slope = g.op("aten.mul.Tensor", g.op("aten.mul.Tensor", z, bell), 1 / math.sqrt(2 * math.pi))
    slope = g.op("aten.add.Tensor", below, slope)
    dz = g.op("aten.mul.Tensor", g.tile("dout", [sym("u0"), sym("u1")]), slope)
    g.put("dz", [sym("u0"), sym("u1")], dz)
    total = g.op("aten.sum.dim_IntList", g.op("tile.mask_to", dz, 0), [0], shape=("u1",))
    here = g.call("tile.id", sym("u0"), meta=sym(None))
    g.store("dbias", [here, sym("u1")], total)
    return doc.add(loop, g.out())


def matmul_bias_gelu(dtype):
    """gelu(x @ y + bias); dz is the first backward's, and the factor of two matmuls."""

    def formula(x, y, bias):
        z = jnp.matmul(x, y, precision="highest") + bias
        return jax.nn.gelu(z, approximate=False)

    dx = ('"matmul_nt"', '"gelu_dx"'), ('"x"', '"dz"'), ('"out"', '"dx"')
    dy = ('"matmul_tn"', '"gelu_dy"'), ('"y"', '"dz"'), ('"out"', '"dy"')
    if dtype == "bfloat16":
        forward = edited("matmul_bias_gelu", ("512", "256"), ("384", "256"))
        first = gelu_bwd(dtype, 256, 256, 256)
        return Pair(forward, [first, edited("matmul_nt", *dx), edited("matmul_tn", *dy)], formula)
    dx = edited("matmul_nt_odd", *dx, ("421", "N"), ("200", "72"), ("N", "200"))
    dy = edited("matmul_tn_odd", *dy, ("421", "72"), ("200", "K"), ("300", "200"), ("K", "300"))
    return Pair(edited("matmul_bias_gelu_odd", ROWS[0]), [gelu_bwd(dtype), dx, dy], formula)


def swiglu_bwd(dtype, m=72, n=300):
    """Gradients of gate * sigmoid(gate) * up."""
    doc = Doc(config={"block_sizes": [64, 128]}, name="swiglu_bwd").block(m).block(n)
    for name in ("gate", "up", "dout"):
        doc.tensor(name, "input", dtype, [m, n])
    doc.tensor("dgate", "output", dtype, [m, n]).tensor("dup", "output", dtype, [m, n])
    g = Rows(doc, "u1", grid=(0, 1))
    here = [sym("u0"), sym("u1")]
    gate, up, dout = (g.tile(name, here) for name in ("gate", "up", "dout"))
    share = g.op("aten.sigmoid.default", gate)
    silu = g.op("aten.mul.Tensor", gate, share)
    slope = g.op(
        "aten.add.Tensor",
        share,
        g.op("aten.mul.Tensor", silu, g.op("aten.rsub.Scalar", share, 1.0)),
    )
    g.put("dgate", here, g.op("aten.mul.Tensor", g.op("aten.mul.Tensor", dout, up), slope))
    g.put("dup", here, g.op("aten.mul.Tensor", dout, silu))
    return doc.add(g.out())


def swiglu(dtype):
    """gate * sigmoid(gate) * up."""
    forward = edited("swiglu_odd", ROWS[0], ("bfloat16", dtype))
    return Pair(forward, [swiglu_bwd(dtype)], lambda gate, up: jax.nn.silu(gate) * up)


PAIRS = {
    "attention": attention,
    "causal_attention": lambda dtype: attention(dtype, causal=True),
    "attention, at once": lambda dtype: attention(dtype, kernels=("backward",)),
    "causal attention, at once": lambda dtype: attention(dtype, True, ("backward",)),
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "softmax": softmax,
    "cross_entropy": cross_entropy,
    "matmul_bias_gelu": matmul_bias_gelu,
    "swiglu": swiglu,
}
