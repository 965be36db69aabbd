"""The reference's table of targets, one by one, against numpy in float64 and by hand."""

import math

import ml_dtypes
import numpy as np
import pytest
from builder import Doc, G, dt, f32, sl, t
from hypothesis import given
from hypothesis import strategies as st
from pallasc.reference import GraphError, expr, run, special
from pallasc.reference.registry import OPS, lookup
from pallasc.reference.values import DTYPES, cast, promote, result_type

BF16 = ml_dtypes.bfloat16
X = np.array([[0.3, -1.5, 2.0, 0.9], [-0.25, 1.0, 7.5, -3.2]], np.float32)
Y = np.array([[1.5, 0.7, -2.0, 3.0], [0.4, -1.0, 2.5, 1.2]], np.float32)
I = np.array([[7, -7, 3, 0], [100, -128, 5, 1]], np.int32)  # noqa: E741
J = np.array([[2, 2, -2, 5], [7, 3, 1, -1]], np.int32)
CUBE = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)


def op(target, *args, **kwargs):
    return lookup(target)(*args, **kwargs)


def near(actual, expected, tol=1e-6):
    expected = np.asarray(expected, np.float64)
    assert actual.shape == expected.shape
    assert np.allclose(actual.astype(np.float64), expected, rtol=tol, atol=tol, equal_nan=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "atan": np.arctan,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "relu": lambda x: np.maximum(x, 0),
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2))),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sign": np.sign,
    "square": np.square,
    "reciprocal": lambda x: 1 / x,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
}
POSITIVE = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "acosh": lambda x: np.arccosh(x),
    "lgamma": np.vectorize(math.lgamma),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    near(op(f"aten.{name}.default", X), UNARY[name](X.astype(np.float64)), 3e-6)


@pytest.mark.parametrize("name", POSITIVE)
def test_unary_of_positives(name):
    x = np.abs(X) + 1
    near(op(f"aten.{name}.default", x), POSITIVE[name](x.astype(np.float64)), 3e-6)


@pytest.mark.parametrize("name", ["asin", "acos", "atanh"])
def test_unary_inside_one(name):
    x = np.tanh(X)
    function = {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}[name]
    near(op(f"aten.{name}.default", x), function(x.astype(np.float64)), 3e-5)


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "remainder": np.mod,
    "copysign": np.copysign,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    near(op(f"aten.{name}.Tensor", X, Y), BINARY[name](X.astype(np.float64), Y), 3e-6)


def test_alpha_and_rounding_modes():
    near(op("aten.add.Tensor", X, Y, alpha=3), X + 3.0 * Y)
    near(op("aten.sub.Tensor", X, Y, alpha=2), X - 2.0 * Y)
    near(op("aten.rsub.Scalar", X, 1), 1.0 - X)
    assert op("aten.div.Tensor_mode", I, J, rounding_mode="floor").tolist() == (I // J).tolist()
    trunc = op("aten.div.Tensor_mode", I, J, rounding_mode="trunc")
    assert trunc.tolist() == [[3, -3, -1, 0], [14, -42, 5, -1]] and trunc.dtype == np.int32
    assert op("aten.remainder.Tensor", I, J).tolist() == np.mod(I, J).tolist()
    assert op("aten.fmod.Tensor", I, J).tolist() == [[1, -1, 1, 0], [2, -2, 0, 0]]


def test_nan_and_inf():
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert op("aten.isnan.default", x).tolist() == [True, False, False, False]
    assert op("aten.isinf.default", x).tolist() == [False, True, True, False]
    assert np.isnan(op("aten.maximum.default", x, np.zeros(4, np.float32))[0])
    assert np.isnan(op("aten.clamp.default", x, -1, 1)[0])
    assert np.isnan(op("aten.amax.default", x, [0]))
    assert op("aten.argmax.default", x) == 0
    assert op("aten.sigmoid.default", x)[1:3].tolist() == [1.0, 0.0]


def test_comparison_logic_and_bits():
    assert op("aten.lt.Tensor", I, J).tolist() == (I < J).tolist()
    assert op("aten.ge.Scalar", I, 3).dtype == bool
    assert op("aten.logical_and.default", I, J).tolist() == ((I != 0) & (J != 0)).tolist()
    assert op("aten.logical_not.default", X).tolist() == (X == 0).tolist()
    for name, function in [("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)]:
        assert np.array_equal(op(f"aten.bitwise_{name}.Tensor", I, J), function(I, J))
    assert np.array_equal(op("aten.bitwise_not.default", I), ~I)
    assert op("aten.bitwise_right_shift.Tensor_Scalar", I, 2).tolist() == (I >> 2).tolist()


def test_where_masked_fill_and_clamp():
    near(op("aten.where.self", X > 0, X, Y), np.where(X > 0, X, Y))
    near(op("aten.where.ScalarOther", X > 0, X, -1.0), np.where(X > 0, X, -1))
    near(op("aten.masked_fill.Scalar", X, X > 0, -9), np.where(X > 0, -9, X))
    near(op("aten.clamp.default", X, None, 0.5), np.minimum(X, np.float32(0.5)))


def test_pow():
    near(op("aten.pow.Tensor_Scalar", X, 2), X.astype(np.float64) ** 2)
    near(op("aten.pow.Scalar", 2.0, X), 2.0 ** X.astype(np.float64))
    assert op("aten.pow.Tensor_Scalar", I, 3).tolist() == ((I.astype(int)) ** 3).tolist()


def test_promotion():
    i32, i8, u8 = DTYPES["int32"], DTYPES["int8"], DTYPES["uint8"]
    bf16, f16, fp8 = DTYPES["bfloat16"], DTYPES["float16"], DTYPES["float8_e4m3fn"]
    f = DTYPES["float32"]
    for a, b, expected in [
        (bf16, f, f), (bf16, f16, f), (i32, bf16, bf16), (i8, u8, DTYPES["int16"]),
        (i8, i32, i32), (DTYPES["bool"], i8, i8), (fp8, bf16, bf16), (DTYPES["int4"], i8, i8),
    ]:  # fmt: skip
        assert promote(a, b) == promote(b, a) == expected
    wide, zero = np.zeros(3, BF16), np.zeros((), np.float32)
    assert result_type([wide, zero]) == bf16
    assert result_type([np.zeros(3, np.int8), 5]) == i8
    assert result_type([np.zeros(3, np.int8), 0.5]) == f
    assert result_type([np.zeros((), np.int8), 0.5, np.zeros(2, bool)]) == f
    assert result_type([1, 2]) == np.int64
    assert promote(np.dtype(np.int64), i32) == promote(u8, np.dtype(np.int64)) == np.int64


def test_int_arithmetic_wraps_around():
    big = np.array([2**31 - 1], np.int32)
    assert op("aten.add.Tensor", big, 1).tolist() == [-(2**31)]
    assert op("aten.sum.default", np.array([2**31 - 1, 2], np.int32)) == 2**31 + 1
    assert op("aten.mul.Tensor", np.array([100], np.int8), 3).tolist() == [44]


def test_int_division_is_float():
    value = op("aten.div.Tensor", I, J)
    assert value.dtype == np.float32
    near(value, I / J)


def test_bfloat16_computes_in_float32_and_rounds_once():
    x, y = X.astype(BF16), Y.astype(BF16)
    expected = (x.astype(np.float32) * y.astype(np.float32)).astype(BF16)
    assert np.array_equal(op("aten.mul.Tensor", x, y), expected)
    assert op("aten.sum.dim_IntList", np.full(1000, 1.0, BF16), [0]) == 1000


def test_casts():
    f = np.array([1.9, -1.9, np.nan, 1e20, -np.inf], np.float32)
    assert cast(f, DTYPES["int32"]).tolist() == [1, -1, 0, 2**31 - 1, -(2**31)]
    assert cast(f, DTYPES["int4"]).astype(int).tolist() == [1, -1, 0, 7, -8]
    assert cast(np.array([300, -1], np.int32), DTYPES["uint8"]).tolist() == [44, 255]
    assert cast(np.array([9, -9], np.int32), DTYPES["int4"]).astype(int).tolist() == [-7, 7]
    assert cast(np.array([0.0, np.nan, 0.5], np.float32), DTYPES["bool"]).tolist() == [0, 1, 1]
    fp8 = cast(np.array([17.0, 500.0, 2.0**-9], np.float32), DTYPES["float8_e4m3fn"])
    assert fp8.astype(float)[[0, 2]].tolist() == [16.0, 2.0**-9] and np.isnan(fp8.astype(float)[1])
    tie = np.array([1.00390625, 1.01171875], np.float32)
    assert cast(tie, DTYPES["bfloat16"]).astype(float).tolist() == [1.0, 1.015625]


@pytest.mark.parametrize("dim, keepdim", [([1], False), ([-1], True), ([0, 2], False), ([], False)])
def test_reductions(dim, keepdim):
    axis, wide = tuple(dim) or None, CUBE.astype(np.float64)
    for name, function in [("sum.dim_IntList", np.sum), ("mean.dim", np.mean)]:
        near(op(f"aten.{name}", CUBE, dim, keepdim), function(wide, axis=axis, keepdims=keepdim))
    for name, function in [("amax", np.max), ("amin", np.min)]:
        value = op(f"aten.{name}.default", CUBE, dim, keepdim)
        assert np.array_equal(value, function(CUBE, axis=axis, keepdims=keepdim))


def test_more_reductions():
    wide = CUBE.astype(np.float64)
    near(op("aten.var.correction", CUBE, [1], correction=0), wide.var(1))
    near(op("aten.std.correction", CUBE, [1, 2]), wide.std((1, 2), ddof=1))
    variance, mean = op("aten.var_mean.correction", CUBE, [2], correction=0, keepdim=True)
    near(variance, wide.var(2, keepdims=True))
    near(mean, wide.mean(2, keepdims=True))
    near(op("aten.logsumexp.default", CUBE, [1]), np.log(np.exp(wide).sum(1)))
    weight = np.exp(wide) / np.exp(wide).sum(1, keepdims=True)
    near(op("aten.softmax.int", CUBE, 1), weight)
    near(op("aten._log_softmax.default", CUBE, 1, False), np.log(weight))
    near(op("aten.cumsum.default", CUBE, 2), np.cumsum(wide, 2))
    near(op("aten.prod.dim_int", CUBE, 0), wide.prod(0))
    values, order = op("aten.max.dim", CUBE, 1)
    assert np.array_equal(values, CUBE.max(1)) and np.array_equal(order, CUBE.argmax(1))
    assert order.dtype == np.int64
    assert np.array_equal(op("aten.argmin.default", CUBE, 2, True), CUBE.argmin(2)[..., None])
    assert op("aten.any.dim", CUBE > 2, 1).tolist() == (CUBE > 2).any(1).tolist()
    assert op("aten.all.default", CUBE > -9) == True  # noqa: E712
    values, order = op("aten.topk.default", CUBE, 2, -1)
    assert np.array_equal(values, -np.sort(-CUBE, -1)[..., :2])
    assert np.array_equal(np.take_along_axis(CUBE, order, -1), values)


def test_int_sum_is_int64():
    assert op("aten.sum.dim_IntList", I, [1]).dtype == np.int64
    assert op("aten.sum.default", I > 0).tolist() == 5


PAD = ((0, 0), (0, 0), (1, 2))
VIEWS = [
    (("permute.default", [2, 0, 1]), lambda x: x.transpose(2, 0, 1)),
    (("transpose.int", 0, -1), lambda x: x.swapaxes(0, 2)),
    (("view.default", [12, 5]), lambda x: x.reshape(12, 5)),
    (("reshape.default", [-1, 10]), lambda x: x.reshape(6, 10)),
    (("unsqueeze.default", -1), lambda x: x[..., None]),
    (("expand.default", [2, -1, 4, 5]), lambda x: np.broadcast_to(x, (2, 3, 4, 5))),
    (("flip.default", [0, 2]), lambda x: x[::-1, :, ::-1]),
    (("slice.Tensor", 1, 1, 3), lambda x: x[:, 1:3]),
    (("slice.Tensor", 2, -3, 2**63 - 1, 2), lambda x: x[:, :, -3::2]),
    (("select.int", 1, -1), lambda x: x[:, -1]),
    (("roll.default", [1], [1]), lambda x: np.roll(x, 1, 1)),
    (("constant_pad_nd.default", [1, 2], 7.0), lambda x: np.pad(x, PAD, constant_values=7)),
    (("tril.default",), np.tril),
    (("repeat.default", [1, 2, 1]), lambda x: np.tile(x, (1, 2, 1))),
]  # fmt: skip


@pytest.mark.parametrize("call, expected", VIEWS, ids=[c[0] for c, _ in VIEWS])
def test_views(call, expected):
    assert np.array_equal(op(f"aten.{call[0]}", CUBE, *call[1:]), expected(CUBE))


def test_cat_stack_split_and_squeeze():
    assert np.array_equal(op("aten.cat.default", [X, Y], -1), np.concatenate([X, Y], 1))
    assert op("aten.cat.default", [X, Y.astype(BF16)], 0).dtype == np.float32
    assert np.array_equal(op("aten.stack.default", [X, Y], 1), np.stack([X, Y], 1))
    parts = op("aten.split.Tensor", CUBE, 3, 2)
    assert [p.shape for p in parts] == [(3, 4, 3), (3, 4, 2)]
    parts = op("aten.split_with_sizes.default", CUBE, [1, 3], 1)
    assert np.array_equal(parts[1], CUBE[:, 1:])
    assert op("aten.squeeze.dim", CUBE[:1], 0).shape == (4, 5)
    assert op("aten.squeeze.dim", CUBE, 0).shape == (3, 4, 5)
    assert op("aten.squeeze.default", CUBE[:1, :1]).shape == (5,)


def test_tile_split_join_and_pre_broadcast():
    joined = op("tile.join", X, Y)
    assert joined.shape == (2, 4, 2)
    low, high = op("tile.split", joined)
    assert np.array_equal(low, X) and np.array_equal(high, Y)
    lanes = np.repeat(X[:, :1], 128, 1)
    assert np.array_equal(op("tile.pre_broadcast_tile", lanes, 512), np.repeat(X[:, :1], 512, 1))
    with pytest.raises(GraphError):
        op("tile.split", X)


def test_gather_clamps():
    index = np.array([[[0, 3, 9, -1, 2]]], np.int32)
    expected = CUBE[:1, [0, 3, 3, 0, 2], np.arange(5)][:, None]
    assert np.array_equal(op("aten.gather.default", CUBE, 1, index), expected)
    rows = np.array([4, 0], np.int32)
    assert np.array_equal(op("aten.index_select.default", CUBE, 2, rows), CUBE[:, :, [4, 0]])


def test_creation():
    assert op("aten.full.default", [2, 3], 1).dtype == np.int64
    assert op("tile.full", [2], {"inf": np.inf}["inf"], BF16).dtype == BF16
    assert op("prims.iota.default", 4, start=2, step=3, dtype=np.dtype(np.int32)).tolist() == [
        2,
        5,
        8,
        11,
    ]
    assert op("aten.arange.start_step", 1, 9, 3).tolist() == [1, 4, 7]
    assert op("aten.zeros_like.default", I).dtype == np.int32
    assert op("aten.scalar_tensor.default", 2, dtype=BF16).shape == ()


def test_matmuls():
    a, b = CUBE.astype(np.float64), CUBE.transpose(0, 2, 1).astype(np.float64)
    bias = np.ones((3, 4, 4), np.float32)
    other = CUBE.transpose(0, 2, 1)
    near(op("aten.bmm.default", CUBE, other), a @ b)
    near(op("aten.mm.default", CUBE[0], other[0]), (a @ b)[0])
    near(op("aten.baddbmm.default", bias, CUBE, other, beta=0.5, alpha=2), 0.5 + 2 * (a @ b))
    near(op("aten.addmm.default", bias[0, 0], CUBE[0], other[0]), 1 + (a @ b)[0])
    near(op("tile.dot", CUBE, other, bias), 1 + a @ b)
    half = CUBE.astype(BF16)
    wide = op("aten.bmm.dtype", half, half.transpose(0, 2, 1), DTYPES["float32"])
    near(wide, half.astype(np.float64) @ half.transpose(0, 2, 1).astype(np.float64))
    assert op("aten.bmm.default", half, half.transpose(0, 2, 1)).dtype == BF16
    with pytest.raises(GraphError):
        op("aten.mm.default", CUBE[0], CUBE[0])


def test_int_matmuls_accumulate_in_int32():
    a, b = np.full((2, 300), 127, np.int8), np.full((300, 2), -128, np.int8)
    value = op("tile.dot", a, b)
    assert value.dtype == np.int32 and np.all(value == 300 * 127 * -128)
    big = np.full((1, 4), 2**30, np.int32)
    assert op("aten.mm.default", big, np.full((4, 1), 3, np.int32)).tolist() == [[-(2**32) + 2**32]]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4", "float16", "uint8"])
def test_narrow_dtypes_through_a_kernel(dtype):
    doc = Doc().tensor("x", "input", dtype, [5]).tensor("out", "output", dtype, [5])
    g = G(0, grid=[])
    x = g.load("x", [sl()], t(dtype, 5))
    wide = g.call("prims.convert_element_type.default", x, dt("float32"), meta=f32(5))
    wide = g.call("aten.mul.Tensor", wide, 2, meta=f32(5))
    g.store("out", [sl()], wide)
    x = np.array([0, 1, 2, 3, 3], np.float32).astype(DTYPES[dtype])
    (out,) = run(doc.add(g.out()), [x])
    assert out.dtype == DTYPES[dtype] and out.astype(float).tolist() == [0, 2, 4, 6, 6]


def test_signs_of_zero_quotients_and_ends_of_lerp_are_torchs():
    x, y = np.array([-0.0, -4.0], np.float32), np.array([3.0, 2.0], np.float32)
    assert np.signbit(op("aten.remainder.Tensor", x, y)).all()
    x, y = np.array([2.0**24], np.float32), np.array([1.5], np.float32)
    assert op("aten.div.Tensor_mode", x, y, rounding_mode="trunc") == np.trunc(x / y)
    far = np.array([1e10], np.float32)
    assert op("aten.lerp.Scalar", far, np.float32([0.1]), 1.0) == np.float32(0.1)


def test_int64_is_64_bits_and_int32_meta_wraps_around():
    def total(dtype):
        doc = Doc().tensor("x", "input", "int32", [3]).tensor("out", "output", "float32", [])
        g = G(0, grid=[])
        s = g.call("aten.sum.default", g.load("x", [sl()], t("int32", 3)), meta=t(dtype))
        g.store("out", [], s)
        return run(doc.add(g.out()), [np.array([2**31 - 1, 1, 0], np.int32)])[0]

    assert total("int64") == 2.0**31 and total("int32") == -(2.0**31)


def test_rand_is_a_function_of_seed_and_place():
    def document(blocks):
        doc = Doc(config={"block_sizes": blocks}).tensor("out", "output", "float32", [6, 10])
        doc.block(6).block(10)
        g = G(0, grid=[0, 1])
        shape = [{"sym": "u0"}, {"sym": "u1"}]
        g.store("out", shape, g.call("tile.rand", shape, 42, meta=f32("u0", "u1")))
        return doc.add(g.out())

    first, second = run(document([4, 4]), [])[0], run(document([8, 3]), [])[0]
    assert np.array_equal(first, second)
    assert first.min() >= 0 and first.max() < 1 and 0.3 < first.mean() < 0.7
    assert len(np.unique(first)) == 60


def test_randint_stays_in_its_range():
    doc = Doc().tensor("out", "output", "int32", [500])
    g = G(0, grid=[])
    g.store("out", [sl()], g.call("tile.randint", [500], -3, 4, 7, meta=t("int32", 500)))
    assert sorted(set(run(doc.add(g.out()), [])[0].tolist())) == list(range(-3, 4))


def test_special_functions():
    x = np.linspace(-7, 25, 2001)
    assert np.max(np.abs(special.erf(x) - [math.erf(v) for v in x])) < 1e-15
    assert np.max(np.abs(special.erfc(x) / [math.erfc(v) for v in x] - 1)) < 1e-13


def test_every_row_has_a_known_prefix():
    assert len(OPS) > 200
    assert all(name.split(".")[0] in ("aten", "prims", "tile") for name in OPS)


# --- expressions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, value",
    [
        ("next_pow2(cdiv(32768, split_k))", 8192),
        ("u0 * 2 + 3 % 2 - -1", 14),
        ("(7 + 3) // 4", 2),
        ("-7 // 2", -4),
        ("min(u0, 3, 9) * max(1, 2)", 6),
        ("next_pow2(5)", 8),
        ("2 - 3 - 4", -5),
    ],
)
def test_expression(text, value):
    assert expr.evaluate(text, {"split_k": 4, "u0": 6}.__getitem__) == value


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "(1", "1)", "f(1)", "a.b", "1 2", "__import__('os')", "cdiv(1)", "1 // 0", "1.5"],
)
def test_bad_expression(text):
    with pytest.raises(GraphError):
        expr.evaluate(text, lambda name: 1)


@given(st.integers(-99, 99), st.integers(1, 99), st.sampled_from(["+", "-", "*", "//", "%"]))
def test_expression_agrees_with_python(a, b, operator):
    text = f"{a} {operator} ({b} {operator} {b})"
    inner = {"+": b + b, "-": 0, "*": b * b, "//": 1, "%": 0}[operator]
    if operator == "%":
        text, inner = f"{a} % {b}", b
    expected = {
        "+": lambda: a + inner, "-": lambda: a - inner, "*": lambda: a * inner,
        "//": lambda: a // inner, "%": lambda: a % inner,
    }[operator]()  # fmt: skip
    assert expr.evaluate(text, None) == expected


def test_deep_nesting_is_refused():
    with pytest.raises(GraphError, match="deep"):
        expr.evaluate("(" * 5000 + "1" + ")" * 5000, None)


def test_symbol_alone():
    assert expr.name_of("(u0)") == "u0" and expr.name_of("u0 + 0") is None
    assert expr.name_of(5) is None


def test_erfinv_and_digamma():
    x = np.array([-0.999, -0.5, 0.0, 0.3, 0.9, 0.999999])
    assert np.max(np.abs(special.erf(special.erfinv(x)) - x)) < 1e-14
    assert special.erfinv(np.array([1.0, -1.0])).tolist() == [np.inf, -np.inf]
    euler = 0.57721566490153286
    values = special.digamma(np.array([1.0, 2.0, 0.5, -0.5]))
    half = -euler - 2 * math.log(2)
    assert np.max(np.abs(values - [-euler, 1 - euler, half, half + 2])) < 1e-9


def test_index_embedding_and_norm():
    rows = np.array([2, 0, 9], np.int32)
    assert np.array_equal(op("aten.index.Tensor", CUBE, [None, rows]), CUBE[:, [2, 0, 3]])
    assert np.array_equal(op("aten.embedding.default", X, rows), X[[1, 0, 1]])
    near(
        op("aten.linalg_vector_norm.default", CUBE, 2, [1]),
        np.sqrt((CUBE.astype(float) ** 2).sum(1)),
    )
    near(op("aten.linalg_vector_norm.default", CUBE, np.inf), np.abs(CUBE).max())
    assert np.array_equal(op("aten.max.other", X, Y), np.maximum(X, Y))


def test_keywords_of_the_schemas():
    assert op("aten.full.default", size=[2], fill_value=3).tolist() == [3, 3]
    assert op("aten.view.default", CUBE, size=[60]).shape == (60,)
    assert op("aten.transpose.int", CUBE, dim0=0, dim1=2).shape == (5, 4, 3)
    assert op("aten._softmax.default", CUBE.astype(BF16), 1, half_to_float=True).dtype == np.float32
