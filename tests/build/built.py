"""Kernels written with `pallasc.build`: each function gives (graph, inputs, expected in float64).

`KERNELS` has them by name. Inputs are arrays in the order of the function's parameters.
"""

import ml_dtypes
import numpy as np
from pallasc.build import Graph, associative_scan, axis, cdiv, ds, ops, reduce

KERNELS = {}


def kernel(function):
    KERNELS[function.__name__] = function
    return function


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def below(limit, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, limit, shape).astype(np.int32)


def exact(array):
    return array.astype(np.float64)


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def sum_of_exp():
    """The example of docs/graph-format.md."""
    g = Graph("sum_of_exp")
    x = g.input("x", [1000, 500], "float32")
    out = g.output("out", [1000], "float32")
    with g.grid(tile_m=1000) as (m,):
        acc = g.var(ops.full([m], 0.0, "float32"))
        with g.loop("tile_n", 500) as n:
            tile = x[m, n]
            weight = ops.exp(tile)
            inside = ops.mask_to(weight, 0.0)
            part = ops.sum(inside, [-1])
            total = acc + part
            acc.set(total)
        out[m] = acc
    g.config(block_sizes=[128, 128])
    values = normal(1000, 500)
    return g, [values], np.exp(exact(values)).sum(1)


KERNELS["sum_of_exp"] = sum_of_exp


@kernel
def attention():
    heads, dim = 2, 64
    g = Graph("attention")
    (rows,) = g.sizes(S=300)
    q, k, v = (g.input(name, [heads, rows, dim], "bfloat16") for name in "qkv")
    out = g.output("out", [heads, rows, dim], "bfloat16")
    with g.grid(b=axis(heads, size=1), m=rows) as (b, m):
        top = g.var(ops.full([b, m], float("-inf"), "float32"))
        total = g.var(ops.zeros([b, m], dtype="float32"))
        acc = g.var(ops.zeros([b, m, dim], dtype="float32"))
        queries = q[b, m, :]
        with g.loop("n", rows) as n:
            scores = ops.bmm_dtype(queries, k[b, n, :].T, "float32") * dim**-0.5
            scores = ops.mask_to(scores, float("-inf"))
            new_top = ops.maximum(top, ops.amax(scores, -1))
            weights = ops.exp(scores - new_top[:, :, None])
            scale = ops.exp(top - new_top)
            total.set(total * scale + ops.sum(weights, -1))
            part = ops.bmm_dtype(weights.to("bfloat16"), v[b, n, :], "float32")
            acc.set(acc * scale[:, :, None] + part)
            top.set(new_top)
        out[b, m, :] = acc / total[:, :, None]
    g.config(block_sizes={"m": 128, "n": 128})
    inputs = [normal(heads, 300, dim, seed=i, dtype=ml_dtypes.bfloat16) for i in range(3)]
    q64, k64, v64 = map(exact, inputs)
    scores = q64 @ k64.transpose(0, 2, 1) * dim**-0.5
    return g, inputs, softmax(scores) @ v64


@kernel
def key_bias():
    """Attention with a bias of each key, the same for all rows."""
    heads, rows, keys, dim = 2, 256, 200, 64
    g = Graph("key_bias")
    q = g.input("q", [heads, rows, dim], "float32")
    k, v = (g.input(name, [heads, keys, dim], "float32") for name in "kv")
    bias = g.input("bias", [heads, keys], "float32")
    out = g.output("out", [heads, rows, dim], "float32")
    with g.grid(b=axis(heads, size=1), m=rows) as (b, m):
        top = g.var(ops.full([b, m], float("-inf"), "float32"))
        total = g.var(ops.zeros([b, m], dtype="float32"))
        acc = g.var(ops.zeros([b, m, dim], dtype="float32"))
        queries = q[b, m, :]
        with g.loop("n", keys) as n:
            scores = ops.bmm_dtype(queries, k[b, n, :].T, "float32") * dim**-0.5
            scores = ops.mask_to(scores + bias[b, n][:, None, :], float("-inf"))
            new_top = ops.maximum(top, ops.amax(scores, -1))
            weights = ops.exp(scores - new_top[:, :, None])
            scale = ops.exp(top - new_top)
            total.set(total * scale + ops.sum(weights, -1))
            part = ops.bmm_dtype(weights, v[b, n, :], "float32")
            acc.set(acc * scale[:, :, None] + part)
            top.set(new_top)
        out[b, m, :] = acc / total[:, :, None]
    g.config(block_sizes={"m": 256, "n": 128}, pallas_transposed_scores="on")
    shapes = [heads, rows, dim], [heads, keys, dim], [heads, keys, dim], [heads, keys]
    inputs = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    q64, k64, v64, bias64 = map(exact, inputs)
    scores = q64 @ k64.transpose(0, 2, 1) * dim**-0.5 + bias64[:, None, :]
    return g, inputs, softmax(scores) @ v64


@kernel
def matmul_bias():
    g = Graph("matmul_bias")
    rows, columns, depth = g.sizes(M=200, N=256, K=300)
    x = g.input("x", [rows, depth], "float32")
    w = g.input("w", [depth, columns], "float32")
    bias = g.input("bias", [columns], "float32")
    out = g.output("out", [rows, columns], "float32")
    with g.grid(m=rows, n=columns) as (m, n):
        acc = g.var(ops.zeros([m, n], dtype="float32"))
        with g.loop("k", depth) as k:
            acc.set(ops.dot(x[m, k], w[k, n], acc))
        out[m, n] = ops.relu(acc + bias[n])
    g.config(block_sizes={"m": 128, "n": 128, "k": 128})
    inputs = [normal(200, 300), normal(300, 256, seed=1), normal(256, seed=2)]
    x64, w64, bias64 = map(exact, inputs)
    return g, inputs, np.maximum(x64 @ w64 + bias64, 0)


@kernel
def layer_norm():
    g = Graph("layer_norm")
    x = g.input("x", [100, 500], "float32")
    weight, bias = (g.input(name, [500], "float32") for name in ("weight", "bias"))
    eps = g.scalar("eps", "float32")
    out = g.output("out", [100, 500], "float32")
    n = g.whole("n", 500)
    with g.grid(m=100) as (m,):
        row = x[m, n]
        mean = ops.sum(row, -1, keepdim=True) / 500
        centred = ops.mask_to(row - mean, 0.0)
        variance = ops.sum(centred * centred, -1, keepdim=True) / 500
        out[m, n] = centred * ops.rsqrt(variance + eps) * weight[n] + bias[n]
    inputs = [normal(100, 500), normal(500, seed=1), normal(500, seed=2), np.float32(1e-5)]
    x64, weight64, bias64 = map(exact, inputs[:3])
    centred = x64 - x64.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return g, inputs, centred * scale * weight64 + bias64


@kernel
def softmax_two_pass():
    g = Graph("softmax_two_pass")
    x = g.input("x", [100, 1000], "float32")
    out = g.output("out", [100, 1000], "float32")
    with g.grid(m=100) as (m,):
        top = g.var(ops.full([m], float("-inf"), "float32"))
        total = g.var(ops.zeros([m], dtype="float32"))
        with g.loop("n", 1000) as n:
            values = ops.mask_to(x[m, n], float("-inf"))
            new_top = ops.maximum(top, ops.amax(values, -1))
            part = ops.sum(ops.exp(values - new_top[:, None]), -1)
            total.set(total * ops.exp(top - new_top) + part)
            top.set(new_top)
        with g.loop("n", 1000) as n:
            out[m, n] = ops.exp(x[m, n] - top[:, None]) / total[:, None]
    g.config(block_sizes={"m": 64, "n": 256, "n_1": 256})
    values = normal(100, 1000)
    return g, [values], softmax(exact(values))


@kernel
def gather_rows():
    g = Graph("gather_rows")
    table = g.input("table", [512, 128], "float32")
    ids = g.input("ids", [200], "int32")
    out = g.output("out", [200, 128], "float32")
    with g.grid(m=200) as (m,):
        out[m, :] = table[ids[m], :] * 2.0
    inputs = [normal(512, 128), below(512, 200)]
    return g, inputs, exact(inputs[0])[inputs[1]] * 2


@kernel
def scatter_add():
    g = Graph("scatter_add")
    x = g.input("x", [200, 128], "float32")
    ids = g.input("ids", [200], "int32")
    sums = g.inout("sums", [64, 128], "float32")
    with g.grid(m=200) as (m,):
        ops.atomic_add(sums, [ids[m], slice(None)], x[m, :])
    inputs = [normal(200, 128), below(64, 200), normal(64, 128, seed=2)]
    expected = exact(inputs[2])
    np.add.at(expected, inputs[1], exact(inputs[0]))
    return g, inputs, expected


@kernel
def ragged_sums():
    """Rows of their own lengths: a jagged loop."""
    g = Graph("ragged_sums")
    x = g.input("x", [77, 421], "float32")
    lengths = g.input("lengths", [77], "int32")
    out = g.output("out", [77], "float32")
    with g.grid(m=77) as (m,):
        total = g.var(ops.zeros([m], dtype="float32"))
        with g.loop("n", lengths=lengths[m]) as n:
            total += ops.sum(x[m, n], -1)
        out[m] = total
    inputs = [normal(77, 421), below(422, 77)]
    rows = zip(exact(inputs[0]), inputs[1], strict=True)
    return g, inputs, np.array([row[:length].sum() for row, length in rows])


@kernel
def segment_sums():
    """Bounds of a loop that are loaded."""
    g = Graph("segment_sums")
    x = g.input("x", [1000, 128], "float32")
    starts = g.input("starts", [9], "int32")
    out = g.output("out", [8, 128], "float32")
    with g.grid(i=axis(8, size=1)) as (i,):
        total = g.var(ops.zeros([128], dtype="float32"))
        with g.loop("n", starts[i.begin + 1], starts[i.begin]) as n:
            total += ops.sum(x[n, :], 0)
        out[i.begin, :] = total
    ends = np.sort(below(1000, 7))
    inputs = [normal(1000, 128), np.array([0, *ends, 1000], np.int32)]
    pairs = zip(inputs[1], inputs[1][1:], strict=False)
    return g, inputs, np.array([exact(inputs[0])[a:b].sum(0) for a, b in pairs])


@kernel
def loops_in_loops():
    """Two loops, one in the other; the inner one is over two dims, of one only a part."""
    g = Graph("loops_in_loops")
    x = g.input("x", [40, 3, 8, 256], "float32")
    out = g.output("out", [40], "float32")
    with g.grid(m=40) as (m,):
        largest = g.var(ops.full([m], float("-inf"), "float32"))
        with g.loop("i", 3, size=1) as i:
            total = g.var(ops.zeros([m], dtype="float32"))
            with g.loops(j=axis(8, 2, size=2), n=256) as (j, n):
                total += ops.sum(x[m, i, j, n], [1, 2, 3])
            largest.set(ops.maximum(largest, total))
        out[m] = largest
    values = normal(40, 3, 8, 256)
    return g, [values], exact(values)[:, :, 2:].sum((2, 3)).max(1)


@kernel
def collatz():
    """A while loop, and ints."""
    g = Graph("collatz")
    x = g.input("x", [64, 128], "int32")
    out = g.output("out", [64, 128], "int32")
    with g.grid(m=64) as (m,):
        n = g.var(x[m, :])
        steps = g.var(ops.zeros([m, 128], dtype="int32"))
        with g.while_(lambda: ops.amax(n) > 1):
            active = n > 1
            following = ops.where((n & 1) == 1, n * 3 + 1, n >> 1)
            n.set(ops.where(active, following, n))
            steps.set(ops.where(active, steps + 1, steps))
        out[m, :] = steps
    values = below(30, 64, 128) + 1

    def count(n):
        steps = 0
        while n > 1:
            n, steps = (n * 3 + 1 if n % 2 else n // 2), steps + 1
        return steps

    return g, [values], np.vectorize(count)(values)


@kernel
def flagged_sums():
    """A branch with a loop in it, and one that is taken otherwise."""
    g = Graph("flagged_sums")
    x = g.input("x", [421, 300], "float32")
    flags = g.input("flags", [7], "int32")
    out = g.output("out", [421], "float32")
    with g.grid(m=axis(421, size=64)) as (m,):
        acc = g.var(ops.zeros([m], dtype="float32"))
        other = g.var(ops.full([m], 2.0, "float32"))
        with g.if_(flags[m.id] > 0), g.loop("n", 300) as n:
            acc += ops.sum(x[m, n], -1)
        with g.else_():
            acc -= 1.0
            other *= 3.0
        out[m] = acc + other
    inputs = [normal(421, 300), np.array([1, 0, 0, 1, 1, 0, 1], np.int32)]
    taken = np.repeat(inputs[1], 64)[:421] > 0
    return g, inputs, np.where(taken, exact(inputs[0]).sum(1) + 2, 5.0)


@kernel
def doublings():
    """Bodies in bodies, which use values and variables of those around, in conditions too."""
    g = Graph("doublings")
    x = g.input("x", [64, 128], "float32")
    limits = g.input("limits", [8], "float32")
    least = g.scalar("least", "float32")
    out = g.output("out", [64, 128], "float32")
    with g.grid(m=axis(64, size=8)) as (m,):
        rows = x[m, :]
        limit = limits[m.id]
        total = g.var(rows)
        rounds = g.var(0)
        with g.if_(limit > least):
            top = limit * 2.0
            with g.while_(lambda: (ops.amax(total) < top) & (rounds < 5)):
                rounds += 1
                with g.loop("i", 2, size=1) as i:
                    total += rows * limit * i.begin.to("float32")
                with g.if_(rounds == 3):
                    total.set(total + rows)
        out[m, :] = total + rounds
    inputs = [np.abs(normal(64, 128)), np.arange(8).astype(np.float32), np.float32(1.5)]
    expected = []
    for rows, limit in zip(exact(inputs[0]).reshape(8, 8, 128), range(8), strict=True):
        total, rounds = rows, 0
        while limit > 1.5 and total.max() < 2 * limit and rounds < 5:
            rounds += 1
            total = total + rows * limit + (rows if rounds == 3 else 0)
        expected.append(total + rounds)
    return g, inputs, np.concatenate(expected)


@kernel
def recurrence():
    """A scan of two values together."""
    g = Graph("recurrence")
    decay, x = (g.input(name, [64, 256], "float32") for name in ("decay", "x"))
    out = g.output("out", [64, 256], "float32")
    with g.grid(d=256) as (d,):
        _, state = associative_scan(
            lambda decay, here, next_decay, then: (decay * next_decay, next_decay * here + then),
            (decay[:, d], x[:, d]),
            0,
        )
        out[:, d] = state
    inputs = [normal(64, 256) * np.float32(0.5), normal(64, 256, seed=1)]
    state, expected = np.zeros(256), []
    for factor, term in zip(*map(exact, inputs), strict=True):
        state = factor * state + term
        expected.append(state)
    return g, inputs, np.array(expected)


@kernel
def largest():
    """A reduction with a function."""
    g = Graph("largest")
    x = g.input("x", [64, 128], "float32")
    out = g.output("out", [64], "float32")
    with g.grid(m=64) as (m,):
        out[m] = reduce(lambda a, b: ops.maximum(a, b), x[m, :], 1)
    values = normal(64, 128)
    return g, [values], exact(values).max(1)


@kernel
def sorted_rows():
    """An op that gives two values."""
    g = Graph("sorted_rows")
    x = g.input("x", [64, 128], "float32")
    out = g.output("out", [64, 128], "float32")
    with g.grid(m=64) as (m,):
        values, positions = ops.sort(x[m, :], descending=True)
        out[m, :] = values + positions
    values = normal(64, 128)
    order = np.argsort(-values, 1, kind="stable")
    return g, [values], np.take_along_axis(exact(values), order, 1) + order


@kernel
def shifted():
    """Slices with computed bounds, and masks."""
    g = Graph("shifted")
    x = g.input("x", [1040, 128], "float32")
    out = g.output("out", [1024, 128], "float32")
    with g.grid(m=axis(1024, size=128)) as (m,):
        rows = x[ds(m.begin + 8, 128), :]
        even = m.index % 2 == 0
        masked = ops.load(x, [m, slice(None)], extra_mask=even[:, None])
        out[m, :] = rows + masked
    values = normal(1040, 128)
    even = (np.arange(1024) % 2 == 0)[:, None]
    return g, [values], exact(values)[8:1032] + np.where(even, exact(values)[:1024], 0)


@kernel
def views():
    """Tensors by other names, and a result in another shape."""
    g = Graph("views")
    x = g.input("x", [8, 32, 128], "float32")
    y = g.input("y", [1, 128], "float32")
    out = g.output("out", [128, 128], "float32")
    rows = g.view(x, [256, 128])
    half = g.sliced(rows, slice(0, 256, 2), slice(None))
    turned = g.permuted(half, [1, 0])
    repeated = g.expanded(y, [128, 128])
    g.returns(out, ops=[["aten.mul.Tensor", 2.0]], shape=[4, 32, 128])
    with g.grid(m=128) as (m,):
        out[m, :] = turned[:, m].T + repeated[m, :]
    inputs = [normal(8, 32, 128), normal(1, 128, seed=1)]
    x64, y64 = map(exact, inputs)
    return g, inputs, ((x64.reshape(256, 128)[::2] + y64) * 2).reshape(4, 32, 128)


@kernel
def split_k():
    """A tunable, a derived input, and a kernel after another."""
    g = Graph("split_k")
    parts = g.tunable("parts", 2, [1, 2, 4])
    x = g.input("x", [128, 512], "float32")
    w = g.input("w", [512, 128], "float32")
    half = g.derived("half", w, [512, 128], "float32", [["aten.mul.Tensor", 0.5]])
    out = g.output("out", [128, 128], "float32", init=0)
    doubled = g.output("doubled", [128, 128], "float32")
    g.returns(doubled)
    with g.grid(m=128, k=axis(512, size=cdiv(512, parts))) as (m, k):
        ops.atomic_add(out, [m, slice(None)], ops.dot(x[m, k], half[k, :]))
    with g.grid(rows=128) as (rows,):
        doubled[rows, :] = out[rows, :] * 2.0
    inputs = [normal(128, 512), normal(512, 128, seed=1)]
    x64, w64 = map(exact, inputs)
    return g, inputs, x64 @ w64
