"""Every op in every dtype and tile shape that the probe asks about, as tiny graph documents.

A `Case` is one op with its operands; `document` puts several of one `Variant` into one kernel.
"""

import dataclasses
import functools
import re
from pathlib import Path

import ml_dtypes
import numpy as np
from pallasc.reference.values import DTYPES, FLOAT32, INT64, cast, int_range, is_float, result_type

ROOT = Path(__file__).resolve().parents[3]
FLOATS = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
INTS = ("int32", "int16", "int8", "uint32", "uint16", "uint8")
ALL = (*FLOATS, *INTS, "bool")
NUMBERS = (*FLOATS, *INTS)
ODD_DTYPES = ("float32", "bfloat16", "int8", "bool")  # masks do not know other dtypes apart
WHOLE = {"slice": [None, None, None]}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of include/ops.def: its target, kind, parameters and dtype rule."""

    target: str
    kind: str
    params: tuple
    rule: str
    positional: int  # the first so many parameters; the others are given by name

    def by_name(self, args):
        """(positional arguments, keyword arguments) of arguments in the order of the parameters."""
        names = [name for name, _ in self.params]
        return args[: self.positional], dict(
            zip(names[self.positional :], args[self.positional :], strict=False)
        )


@functools.cache
def op_rows():
    """{target: Row} of include/ops.def."""
    text = (ROOT / "include" / "ops.def").read_text()
    pattern = (
        r'^OP\((\w+),\s*"([^"]*)",\s*KIND_(\w+),\s*"((?:[^"\\]|\\.)*)",\s*(\w+),\s*(\w+),\s*(\w+),'
    )
    rows = {}
    for _, target, kind, params, _, rule, _ in re.findall(pattern, text, re.MULTILINE):
        pairs = tuple(tuple(p.split(":", 1)) for p in params.split() if p != "*")
        words = [*params.split(), "*"]
        rows[target] = Row(target, kind, pairs, rule, words.index("*"))
    return rows


@dataclasses.dataclass(frozen=True)
class Variant:
    """The tensors' shape and the block of its first dim; None: as it is, one grid point."""

    name: str
    shape: tuple
    block: int

    @property
    def tile(self):
        """Shape of a tile: the block symbol, then whole dims."""
        return ["u0", *self.shape[1:]]


VARIANTS = {
    v.name: v
    for v in (
        Variant("2d", (64, 256), 32),
        Variant("sq", (256, 256), 128),
        Variant("odd", (50, 200), 32),
        Variant("1d", (2048,), 1024),
        Variant("1d-odd", (1300,), 1024),
        Variant("3d", (4, 32, 128), 2),
        Variant("one", (32, 256), 32),
        Variant("one-odd", (50, 200), 64),
    )
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One op on operands.

    Attributes:
      target: the op.
      dtype: what the table of results calls the operands' dtype.
      what: the rest of what makes it: "" for the plain form.
      variant: a key of VARIANTS.
      build: build(builder) adds the nodes and the store.
    """

    target: str
    dtype: str
    what: str
    variant: str
    build: object = dataclasses.field(compare=False)

    def __str__(self):
        return " ".join(filter(None, [self.target, self.dtype, self.variant, self.what]))


class Builder:
    """A document in the making."""

    def __init__(self, variant):
        self.variant, self.tensors, self.nodes, self.types, self.inputs = variant, [], [], {}, {}
        self.returns = []

    def node(self, target, args, dtype=None, shape=None, **kwargs):
        """Adds a node; gives the reference to it."""
        name = f"v{len(self.nodes)}"
        args, named = op_rows()[target].by_name(args)
        kwargs = named | kwargs
        node = {"name": name, "target": target, "args": args}
        if kwargs:
            node["kwargs"] = kwargs
        if dtype:
            node["meta"] = {"dtype": dtype, "shape": list(shape)}
            self.types[name] = (dtype, list(shape))
        self.nodes.append(node)
        return {"ref": name}

    def tuple_of(self, target, args, dtype, shapes):
        """Adds a node that gives tensors of these shapes; gives the reference to it."""
        node = self.node(target, args)
        types = [{"dtype": dtype, "shape": list(shape)} for shape in shapes]
        self.nodes[-1]["meta"] = {"tuple": types}
        return node

    def element(self, target, args, dtypes, shape, which):
        """Adds a node that gives a pair of that shape; gives the reference to one of the two."""
        pair = self.node(target, args)
        metas = [{"dtype": dtype, "shape": list(shape)} for dtype in dtypes]
        self.nodes[-1]["meta"] = {"tuple": metas}
        return self.node("getitem", [pair, which], dtypes[which], shape)

    def host(self, name, role, dtype, shape):
        """Adds a tensor of this array shape; gives the reference to its node."""
        sizes = list(shape)
        self.tensors.append({"name": name, "role": role, "dtype": dtype, "shape": sizes})
        return self.node("tile.host_tensor", [name], dtype, sizes)

    def _array_shape(self, tile):
        return [self.variant.shape[0] if size == "u0" else size for size in tile]

    def load(self, dtype, tile=None, values="any"):
        """A tile of an input that holds `values`: a key of VALUES."""
        tile = self.variant.tile if tile is None else tile
        key = (dtype, tuple(tile), values)
        if key not in self.inputs:
            name = f"x{len(self.inputs)}"
            host = self.host(name, "input", dtype, self._array_shape(tile))
            index = [{"sym": "u0"} if size == "u0" else WHOLE for size in tile]
            self.inputs[key] = self.node("tile.load", [host, index], dtype, tile)
        return self.inputs[key]

    def store(self, value, dtype, tile):
        """Stores a value to an output of its own."""
        name = f"out{len(self.returns)}"
        self.returns.append({"tensor": name})
        host = self.host(name, "output", dtype, self._array_shape(tile))
        index = [{"sym": "u0"} if size == "u0" else WHOLE for size in tile]
        self.node("tile.store", [host, index, value])

    def document(self, name):
        """The finished document."""
        nodes = [*self.nodes, {"name": "output", "op": "output", "args": [[]]}]
        block = {"id": 0, "symbol": "u0", "name": "tile_m", "extent": self.variant.shape[0]}
        return {
            "format": "fxtile",
            "version": 1,
            "name": name,
            "tensors": self.tensors,
            "returns": self.returns,
            "block_sizes": [block],
            "graphs": [{"id": 0, "kind": "root", "grid": [0], "nodes": nodes}],
            "config": {"block_sizes": [self.variant.block]},
        }


def document(cases, name="probe"):
    """One graph document with an output for each case, all of one variant."""
    builder = Builder(VARIANTS[cases[0].variant])
    for case in cases:
        case.build(builder)
    if not builder.inputs:  # the compiler finds its chip by a kernel's inputs
        builder.store(builder.load("float32"), "float32", builder.variant.tile)
    return builder.document(name)


def arguments(cases):
    """The input arrays of `document(cases)`, in order."""
    builder = Builder(VARIANTS[cases[0].variant])
    for case in cases:
        case.build(builder)
    if not builder.inputs:
        builder.load("float32")
    arrays = []
    for number, (dtype, tile, values) in enumerate(builder.inputs):
        shape = builder._array_shape(tile)
        arrays.append(VALUES[values](DTYPES[dtype], shape, np.random.default_rng(number)))
    return arrays


# ---- values -------------------------------------------------------------------------------------

_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 20.0, -20.0, 100.0)
_SPECIAL = (float("nan"), float("inf"), float("-inf"))


def _floats(dtype, shape, random, special):
    """Normal numbers; in front of them, pairwise different orders of edge cases."""
    values = random.standard_normal(shape).astype(np.float32) * 3
    edges = np.array([*_EDGES, *(_SPECIAL if special else ())], np.float32)
    flat = values.reshape(-1)
    chosen = random.choice(edges, min(flat.size // 2, 600))
    flat[: chosen.size] = chosen
    return cast(values, dtype)


def _any(dtype, shape, random):
    if dtype.name == "bool":
        return random.random(shape) < 0.5
    if is_float(dtype):
        return _floats(dtype, shape, random, True)
    low, high = int_range(dtype)
    values = random.integers(low, high, shape, endpoint=True)
    small = random.integers(max(low, -9), 9, shape)
    values = np.where(random.random(shape) < 0.5, values, small)
    values.reshape(-1)[:4] = [low, high, 0, 1]
    return values.astype(dtype)


def _finite(dtype, shape, random):
    if is_float(dtype):
        return cast(random.standard_normal(shape).astype(np.float32), dtype)
    return _any(dtype, shape, random)


def _summed(dtype, shape, random):
    """Numbers whose sums neither overflow nor cancel, and a NaN and an inf in a row each."""
    values = _finite(dtype, shape, random)
    if is_float(dtype):
        values = cast(np.abs(values.astype(np.float32)) + 0.25, dtype)
    if is_float(dtype) and values.ndim > 1:
        values[..., 3, 5] = np.nan
        if dtype.name != "float8_e4m3fn":
            values[..., 6, 2] = np.inf
    return values


def _factors(dtype, shape, random):
    """Numbers whose products neither overflow nor vanish: of a size near 1."""
    if not is_float(dtype):
        return _finite(dtype, shape, random)
    sizes = random.uniform(0.8, 1.25, shape) * random.choice((-1, 1), shape)
    return cast(sizes.astype(np.float32), dtype)


def _small(dtype, shape, random):
    if dtype.name == "bool":
        return _any(dtype, shape, random)
    low = 0 if not is_float(dtype) and int_range(dtype)[0] == 0 else -4
    return cast(random.integers(low, 5, shape), dtype)


def _nonzero(dtype, shape, random):
    """Divisors: ints neither 0 nor -1, by which the quotient of the least int is no int."""
    values = _any(dtype, shape, random)
    if is_float(dtype):
        return values
    if dtype.name == "bool":
        return np.ones(shape, bool)
    return np.where(np.isin(values.astype(np.int64), (0, -1)), dtype.type(3), values)


def _shift(dtype, shape, random):
    bits = np.iinfo(dtype).bits if dtype.name != "bool" else 1
    return random.integers(0, bits, shape).astype(dtype)


def _ramp(dtype, shape, random):
    """Numbers whose conversion to the narrowest type is defined: -2 to 2, and NaN nowhere."""
    if dtype.name == "int4":
        return random.integers(-8, 8, shape).astype(np.int8).astype(ml_dtypes.int4)
    return _any(dtype, shape, random)


VALUES = {
    "any": _any,
    "any1": _any,
    "any2": _any,
    "finite": _finite,
    "summed": _summed,
    "factors": _factors,
    "small": _small,
    "nonzero": _nonzero,
    "shift": _shift,
    "ramp": _ramp,
}

# ---- pointwise ----------------------------------------------------------------------------------

_DIVIDES = re.compile(r"aten\.(div|true_divide|floor_divide|fmod|remainder|addcdiv|reciprocal)\b")
_SHIFTS = re.compile(r"aten\.(bitwise_(left|right)_shift|__[lr]shift__)")
_INT_OR_BOOL = re.compile(r"aten\.(bitwise_|__[lr]shift__)")
_NUMBER_SECOND = re.compile(
    r"\.(Scalar|Scalar_mode|Tensor_Scalar|ScalarOther)$"
    r"|clamp(_min|_max)?\.default$|masked_fill.Scalar"
)
_NUMBER_FIRST = re.compile(r"pow\.Scalar$|where\.ScalarSelf$")
_NOT_BOOL = re.compile(r"aten\.(neg|square|sub|rsub|abs|sign|sgn)\b")
_CONDITIONS = {"condition", "mask"}


def _numbers(target, dtype):
    """The Python numbers that stand for an operand."""
    if _SHIFTS.match(target):
        return [3]
    if target.endswith("_mode"):
        return [2.5 if dtype in FLOATS else 3]
    if dtype in FLOATS:
        return [0.3, 2]
    return [True] if dtype == "bool" else [3]


def _ruled(row, operands):
    """The result's dtype name, of [(dtype name or number)]."""
    arrays = [np.zeros(1, DTYPES[x]) if isinstance(x, str) else x for x in operands]
    if row.rule == "BOOL":
        return "bool"
    if row.rule == "SAME":
        return operands[0]
    if row.rule == "PROMOTE_REST":
        arrays = arrays[1:]
    dtype = result_type(arrays)
    if row.rule == "PROMOTE_FLOAT" and not is_float(dtype):
        dtype = FLOAT32
    if dtype == INT64:  # of Python's ints and bools: `meta` may say int32
        return "int32"
    return next(name for name, known in DTYPES.items() if known == dtype)


def _values_of(target, position, dtype):
    if position and _DIVIDES.match(target) and dtype not in FLOATS:
        return "nonzero"
    if position and _SHIFTS.match(target):
        return "shift"
    if "pow" in target and dtype not in FLOATS:
        return "small"
    return "any"


def _pointwise(row, dtype, variant, what="", numbers=None, shapes=None, extra=None):
    """A Case: operands are tiles of `dtype`, but conditions, and those at `numbers`."""
    names = [name for name, letter in row.params if letter[0] in "xt" and "=null" not in letter]
    if row.target.startswith("aten.clamp."):
        names = ["self", "min", "max"]
    numbers, shapes = numbers or {}, shapes or {}

    def build(builder):
        operands, types = [], []
        for i, name in enumerate(names):
            kind = "bool" if name in _CONDITIONS else dtype
            if i in numbers:
                operands.append(numbers[i])
                types.append(numbers[i])
                continue
            tile = shapes.get(i, builder.variant.tile)
            values = _values_of(row.target, i, dtype)
            distinct = f"any{i}" if values == "any" and i else values
            operands.append(builder.load(kind, tile, distinct))
            types.append(kind)
        result = _ruled(row, types)
        if row.rule == "DIV_MODE" and not (extra and "rounding_mode" in extra):
            result = result if result in FLOATS else "float32"
        value = builder.node(row.target, operands, result, builder.variant.tile, **(extra or {}))
        builder.store(value, result, builder.variant.tile)

    return Case(row.target, dtype, what, variant, build)


_EXTRAS = {
    "aten.add.Tensor": [{"alpha": 2}],
    "aten.sub.Tensor": [{"alpha": 2}],
    "aten.rsub.Tensor": [{"alpha": 3}],
    "aten.rsub.Scalar": [{"alpha": 3}],
    "aten.gelu.default": [{"approximate": "tanh"}],
    "aten.round.decimals": [{"decimals": 1}, {"decimals": -1}],
    "aten.div.Tensor_mode": [{"rounding_mode": "floor"}, {"rounding_mode": "trunc"}],
    "aten.div.Scalar_mode": [{"rounding_mode": "floor"}, {"rounding_mode": "trunc"}],
    "aten.addcmul.default": [{"value": 0.5}],
    "aten.addcdiv.default": [{"value": 0.5}],
    "aten.leaky_relu.default": [{"negative_slope": 0.2}],
    "aten.elu.default": [{"alpha": 1.5}, {"alpha": 1.5, "scale": 2.0, "input_scale": 0.5}],
    "aten.softplus.default": [{"beta": 2.0}, {"threshold": 1.0}],
    "aten.hardtanh.default": [{"min_val": -2, "max_val": 0.5}],
}
_NOT_PLAIN = {"aten.round.decimals"}
_CONVERSIONS = {"prims.convert_element_type.default", "aten._to_copy.default"}
_COPIES = {
    "aten.clone.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
}
_SKIPPED = {"tile.mask_to", "aten.tril.default", "aten.triu.default"}


def _dtypes_of(row):
    if _INT_OR_BOOL.match(row.target):
        shifts = _SHIFTS.match(row.target)
        return INTS if shifts else (*INTS, "bool")
    if _NOT_BOOL.match(row.target):
        return NUMBERS
    return ALL


def pointwise_cases():
    """Each pointwise op, in each dtype and shape, with numbers, broadcasts and parameters."""
    for row in op_rows().values():
        if row.kind != "POINTWISE" or row.target in _CONVERSIONS | _SKIPPED:
            continue
        target = row.target
        count = sum(letter[0] in "xt" for _, letter in row.params)
        for dtype in _dtypes_of(row):
            fixed = {}
            if _NUMBER_SECOND.search(target):
                position = 2 if "where" in target or "fill" in target else 1
                fixed = {position: _numbers(target, dtype)[0]}
                if target == "aten.clamp.default":
                    low, high = (0, 1) if dtype == "bool" else (2, 5)
                    fixed = {1: low, 2: 1.5 if dtype in FLOATS else high}
            if _NUMBER_FIRST.search(target):
                fixed = {(1 if "where" in target else 0): _numbers(target, dtype)[0]}
            if target == "aten.where.Scalar":
                fixed = {1: 1.5, 2: 2.0}
            if target == "aten.masked_fill.Tensor":
                fixed = {2: _numbers(target, dtype)[0]}
            if target not in _NOT_PLAIN:
                for variant in ("2d", "odd", "1d", "1d-odd", "3d"):
                    yield _pointwise(row, dtype, variant, numbers=fixed)
            for extra in _EXTRAS.get(target, ()):
                if isinstance(next(iter(extra.values())), float) and dtype not in FLOATS:
                    continue
                what = " ".join(f"{k}={v}" for k, v in extra.items())
                for variant in ("2d", "1d"):
                    yield _pointwise(row, dtype, variant, what, fixed, extra=extra)
            if count >= 2 and not fixed and target not in _NOT_PLAIN:
                last = 1 if "where" not in target else 2
                for number in _numbers(target, dtype):
                    yield _pointwise(row, dtype, "2d", f"number {number}", {last: number})
                yield _pointwise(row, dtype, "2d", "column", shapes={last: ["u0", 1]})
                yield _pointwise(row, dtype, "2d", "row", shapes={last: [1, 256]})


def conversion_cases():
    """Conversions between all pairs of dtypes, as ops and by stores; loads of int4."""
    for source in (*ALL, "int4"):
        for to in ALL:
            if source == to:
                continue
            for variant in ("2d", "odd", "1d"):
                yield _conversion(source, to, variant)
                yield _storing(source, to, variant)
    for source in ALL:
        yield _storing(source, "int4", "2d")


def _conversion(source, to, variant):
    def build(builder):
        x = builder.load(source, values="ramp")
        tile = builder.variant.tile
        y = builder.node("prims.convert_element_type.default", [x, {"dtype": to}], to, tile)
        builder.store(y, to, tile)

    return Case("prims.convert_element_type.default", source, f"to {to}", variant, build)


def _storing(source, to, variant):
    def build(builder):
        x = builder.load(source, values="ramp")
        builder.store(x, to, builder.variant.tile)

    return Case("tile.store", source, f"to {to}", variant, build)


# ---- reductions, views, matmuls, creation -------------------------------------------------------

_REDUCTIONS = ("aten.sum.dim_IntList", "aten.mean.dim", "aten.amax.default", "aten.amin.default")


def _without(tile, dims, keep):
    dims = [d % len(tile) for d in dims]
    return [1 if i in dims else s for i, s in enumerate(tile) if keep or i not in dims]


def _reduction(target, dtype, variant, dims, keep):
    rule = op_rows()[target].rule
    result = dtype
    if rule == "SUM" and dtype not in FLOATS:
        result = "int32"

    def build(builder):
        # XLA's CPU backend loses NaN in max(): the simulator cannot be asked about it.
        x = builder.load(dtype, values="finite" if "aten.am" in target else "summed")
        tile = _without(builder.variant.tile, dims, keep)
        args = [x, dims, True] if keep else [x, dims]
        builder.store(builder.node(target, args, result, tile), result, tile)

    what = f"dims {dims}{' keepdim' if keep else ''}"
    return Case(target, dtype, what, variant, build)


def reduction_cases():
    """Each reduction over each dim, with and without keepdim."""
    for target in _REDUCTIONS:
        for dtype in FLOATS if "mean" in target else ALL:
            for variant in ("one", "one-odd"):
                for dims in ([0], [-1], [0, 1]):
                    for keep in (False, True):
                        if dims == [0, 1] and not keep:
                            continue
                        yield _reduction(target, dtype, variant, dims, keep)
            for dims in ([1], [2], [1, 2]):
                for keep in (False, True):
                    yield _reduction(target, dtype, "3d", dims, keep)
            yield _reduction(target, dtype, "sq", [-1], False)
            yield _reduction(target, dtype, "odd", [-1], True)


def _sum_dtype(dtype):
    return dtype if dtype in FLOATS else "int32"


def _float_dtype(dtype):
    return dtype if dtype in FLOATS else "float32"


def _truth_dtype(dtype):
    return "uint8" if dtype == "uint8" else "bool"


# target: (arguments after the operand, of a dim and keepdim; the result's dtype; dtypes; values)
_DIM_REDUCTIONS = {
    "aten.prod.dim_int": (lambda d, k: [d, k], _sum_dtype, ALL, "factors"),
    "aten.argmax.default": (lambda d, k: [d, k], lambda _: "int32", ALL, "finite"),
    "aten.argmin.default": (lambda d, k: [d, k], lambda _: "int32", ALL, "finite"),
    "aten.any.dim": (lambda d, k: [d, k], _truth_dtype, ALL, "small"),
    "aten.any.dims": (lambda d, k: [[d], k], _truth_dtype, ALL, "small"),
    "aten.all.dim": (lambda d, k: [d, k], _truth_dtype, ALL, "small"),
    "aten.all.dims": (lambda d, k: [[d], k], _truth_dtype, ALL, "small"),
    "aten.var.correction": (lambda d, k: [[d], 1, k], str, FLOATS, "any"),
    "aten.var.dim": (lambda d, k: [[d], False, k], str, FLOATS, "any"),
    "aten.std.correction": (lambda d, k: [[d], 1.5, k], str, FLOATS, "any"),
    "aten.logsumexp.default": (lambda d, k: [[d], k], _float_dtype, ALL, "finite"),
    "aten.linalg_vector_norm.default": (lambda d, k: [2, [d], k], str, FLOATS, "any"),
}
_PAIRS = {
    "aten.max.dim": (lambda d, k: [d, k], lambda dtype: (dtype, "int32"), ALL, "finite"),
    "aten.min.dim": (lambda d, k: [d, k], lambda dtype: (dtype, "int32"), ALL, "finite"),
    "aten.var_mean.correction": (lambda d, k: [[d], 0, k], lambda d: (d, d), FLOATS, "finite"),
}
# The same shape comes out.
_ALONG = {
    "aten._softmax.default": (lambda d: [d, False], str, FLOATS, "finite"),
    "aten.softmax.int": (lambda d: [d], _float_dtype, ALL, "finite"),
    "aten._log_softmax.default": (lambda d: [d, False], str, FLOATS, "finite"),
    "aten.log_softmax.int": (lambda d: [d], _float_dtype, ALL, "finite"),
    "aten.cumsum.default": (lambda d: [d], _sum_dtype, ALL, "summed"),
    "aten.cumprod.default": (lambda d: [d], _sum_dtype, ALL, "factors"),
}
_WHOLE = {
    "aten.prod.default": (_sum_dtype, "factors"),
    "aten.max.default": (str, "finite"),
    "aten.min.default": (str, "finite"),
    "aten.any.default": (_truth_dtype, "small"),
    "aten.all.default": (_truth_dtype, "small"),
}


def _composite(target, dtype, variant, what, args, results, values, dims=(), keep=False, which=0):
    """A Case: one operand, whose reduced `dims` are dropped or kept."""

    def build(builder):
        tile = builder.variant.tile
        shape = _without(tile, dims, keep) if dims else tile
        x = builder.load(dtype, values=values)
        if isinstance(results, tuple):
            value = builder.element(target, [x, *args], results, shape, which)
            builder.store(value, results[which], shape)
        else:
            builder.store(builder.node(target, [x, *args], results, shape), results, shape)

    return Case(target, dtype, what, variant, build)


def _whole(target, dtype, variant, result, values):
    """Of all lanes of a tile of rows, added to each of them."""

    def build(builder):
        x = builder.load(dtype, values=values)
        value = builder.node(target, [x], result, [])
        tile = builder.variant.tile
        ones = builder.node("tile.full", [_symbols(tile), 0, {"dtype": "int32"}], "int32", tile)
        wide = "int32" if result not in FLOATS else "float32"
        value = builder.node(
            "prims.convert_element_type.default", [value, {"dtype": wide}], wide, []
        )
        builder.store(builder.node("aten.add.Tensor", [ones, value], wide, tile), wide, tile)

    return Case(target, dtype, "", variant, build)


def composite_cases():
    """What is made of reductions: over each dim, with and without keepdim, in each dtype."""
    places = [("one", 0), ("one", -1), ("one-odd", 0), ("one-odd", 1), ("3d", 1), ("3d", 2)]
    for target, (args, result, dtypes, values) in {**_DIM_REDUCTIONS, **_PAIRS}.items():
        for dtype in dtypes:
            for (variant, dim), keep in ((p, k) for p in places for k in (False, True)):
                results = result(dtype)
                for which in range(2 if isinstance(results, tuple) else 1):
                    what = f"dim {dim}{' keepdim' if keep else ''}{f' [{which}]' if which else ''}"
                    yield _composite(
                        target,
                        dtype,
                        variant,
                        what,
                        args(dim, keep),
                        results,
                        values,
                        [dim],
                        keep,
                        which,
                    )
    for target, (args, result, dtypes, values) in _ALONG.items():
        for dtype in dtypes:
            for variant, dim in (*places, ("odd", -1), ("sq", 1)):
                yield _composite(
                    target, dtype, variant, f"dim {dim}", args(dim), result(dtype), values
                )
    for target, (result, values) in _WHOLE.items():
        for dtype in ALL:
            for variant in ("one", "one-odd", "3d"):
                yield _whole(target, dtype, variant, result(dtype), values)


def gather_cases():
    """One element of each row, the place of the greatest: along each dim, in each dtype."""
    for dtype in ALL:
        for variant, dim in (("2d", 1), ("one", 0), ("odd", 1), ("3d", 1), ("3d", 2)):
            yield _gather(dtype, variant, dim)


def _gather(dtype, variant, dim):
    def build(builder):
        shape = _without(builder.variant.tile, [dim], True)
        x, found = builder.load(dtype), builder.load("float32", values="finite")
        place = builder.node("aten.argmax.default", [found, dim, True], "int32", shape)
        value = builder.node("aten.gather.default", [x, dim, place], dtype, shape)
        builder.store(value, dtype, shape)

    return Case("aten.gather.default", dtype, f"dim {dim}", variant, build)


_VIEWS = (
    ("aten.permute.default", "sq", [[1, 0]], [256, "u0"]),
    ("aten.transpose.int", "sq", [0, 1], [256, "u0"]),
    ("aten.t.default", "sq", [], [256, "u0"]),
    ("aten.permute.default", "3d", [[0, 2, 1]], ["u0", 128, 32]),
    ("aten.permute.default", "3d", [[1, 0, 2]], [32, "u0", 128]),
    ("aten.permute.default", "3d", [[2, 1, 0]], [128, 32, "u0"]),
    ("aten.permute.default", "3d", [[1, 2, 0]], [32, 128, "u0"]),
    ("aten.transpose.int", "3d", [1, 2], ["u0", 128, 32]),
    ("aten.view.default", "2d", [["u0", 2, 128]], ["u0", 2, 128]),
    ("aten.reshape.default", "2d", [["u0", 4, 64]], ["u0", 4, 64]),
    ("aten.view.default", "3d", [["u0", 4096]], ["u0", 4096]),
    ("aten.view.default", "3d", [["u0", 128, 32]], ["u0", 128, 32]),
    ("aten.unsqueeze.default", "2d", [0], [1, "u0", 256]),
    ("aten.unsqueeze.default", "2d", [1], ["u0", 1, 256]),
    ("aten.unsqueeze.default", "2d", [2], ["u0", 256, 1]),
    ("aten.unsqueeze.default", "1d", [0], [1, "u0"]),
    ("aten.unsqueeze.default", "1d", [1], ["u0", 1]),
    ("tile.subscript", "2d", [[WHOLE, None, WHOLE]], ["u0", 1, 256]),
    ("tile.subscript", "1d", [[None, WHOLE]], [1, "u0"]),
    ("tile.subscript", "1d", [[WHOLE, None]], ["u0", 1]),
    ("aten.select.int", "sq", [1, 0], ["u0"]),
    ("aten.select.int", "sq", [1, 5], ["u0"]),
    ("aten.select.int", "3d", [1, 0], ["u0", 128]),
    ("aten.select.int", "3d", [1, 7], ["u0", 128]),
    ("aten.select.int", "3d", [2, 3], ["u0", 32]),
)


def _symbols(arg):
    if isinstance(arg, list):
        return [_symbols(item) for item in arg]
    return {"sym": arg} if isinstance(arg, str) else arg


def _view(target, dtype, variant, args, tile, source=None):
    def build(builder):
        x = builder.load(dtype, source)
        value = builder.node(target, [x, *_symbols(args)], dtype, tile)
        builder.store(value, dtype, tile)

    what = f"{args}".replace("'", "").replace("{slice: [None, None, None]}", ":")
    return Case(target, dtype, what, variant, build)


def view_cases():
    """The views that kernels hold, in each dtype."""
    for dtype in ALL:
        for target, variant, args, tile in _VIEWS:
            yield _view(target, dtype, variant, args, tile)
        yield _view("aten.expand.default", dtype, "2d", [["u0", 256]], ["u0", 256], ["u0", 1])
        yield _view("aten.expand.default", dtype, "2d", [["u0", 256]], ["u0", 256], [1, 256])
        yield _view("aten.squeeze.dim", dtype, "sq", [1], ["u0"], ["u0", 1])
        yield _view("aten.squeeze.dim", dtype, "2d", [1], ["u0", 256], ["u0", 1, 256])
        yield _view("tile.pre_broadcast_tile", dtype, "2d", [256], ["u0", 256], ["u0", 128])


_MOVES = (
    # target, variant, sources, arguments after the first, result
    ("aten.cat.default", "2d", [["u0", 128], ["u0", 128]], [1], ["u0", 256]),
    ("aten.cat.default", "odd", [["u0", 96], ["u0", 200], ["u0", 5]], [-1], ["u0", 301]),
    ("aten.cat.default", "2d", [["u0", 1], ["u0", 1]], [1], ["u0", 2]),
    ("aten.cat.default", "one", [[5, 200], [3, 200]], [0], [8, 200]),
    ("aten.cat.default", "one", [[32, 100], [7, 100]], [0], [39, 100]),
    ("aten.cat.default", "3d", [["u0", 3, 128], ["u0", 5, 128]], [1], ["u0", 8, 128]),
    ("aten.cat.default", "3d", [["u0", 32, 70], ["u0", 32, 128]], [2], ["u0", 32, 198]),
    ("aten.cat.default", "one", [[2, 9, 128], [3, 9, 128]], [0], [5, 9, 128]),
    ("aten.cat.default", "one", [[200], [100]], [0], [300]),
    ("aten.stack.default", "odd", [["u0", 200], ["u0", 200]], [1], ["u0", 2, 200]),
    ("aten.stack.default", "one", [[30, 200], [30, 200]], [0], [2, 30, 200]),
    ("aten.stack.default", "odd", [["u0", 200], ["u0", 200]], [2], ["u0", 200, 2]),
    ("aten.stack.default", "one", [[200], [200]], [0], [2, 200]),
    ("aten.stack.default", "one", [[200], [200]], [-1], [200, 2]),
    ("aten.slice.Tensor", "2d", [["u0", 256]], [1, 128, 256], ["u0", 128]),
    ("aten.slice.Tensor", "odd", [["u0", 200]], [1, 3, 77], ["u0", 74]),
    ("aten.slice.Tensor", "odd", [["u0", 200]], [-1, -5], ["u0", 5]),
    ("aten.slice.Tensor", "one", [[30, 200]], [0, 7, 8], [1, 200]),
    ("aten.slice.Tensor", "one", [[30, 200]], [0, 3, 29], [26, 200]),
    ("aten.slice.Tensor", "3d", [["u0", 32, 128]], [1, 5, 12], ["u0", 7, 128]),
    ("aten.slice.Tensor", "one", [[6, 9, 128]], [0, 1, 4], [3, 9, 128]),
    ("aten.slice.Tensor", "one", [[300]], [0, 7, 200], [193]),
    ("aten.slice.Tensor", "2d", [["u0", 256]], [1, 0, None, 2], ["u0", 128]),
    ("aten.slice.Tensor", "odd", [["u0", 200]], [1, 1, None, 3], ["u0", 67]),
    ("aten.slice.Tensor", "one", [[30, 200]], [0, 1, 30, 4], [8, 200]),
    ("aten.slice.Tensor", "3d", [["u0", 32, 128]], [2, 1, None, 2], ["u0", 32, 64]),
    ("aten.slice.Tensor", "3d", [["u0", 32, 128]], [1, 1, None, 2], ["u0", 16, 128]),
    ("aten.slice.Tensor", "one", [[6, 9, 128]], [0, 0, 6, 2], [3, 9, 128]),
    ("aten.slice.Tensor", "one", [[300]], [0, 1, None, 2], [150]),
    ("aten.flip.default", "2d", [["u0", 256]], [[1]], ["u0", 256]),
    ("aten.flip.default", "odd", [["u0", 200]], [[1]], ["u0", 200]),
    ("aten.flip.default", "one", [["u0", 256]], [[0]], ["u0", 256]),
    ("aten.flip.default", "one-odd", [["u0", 200]], [[0]], ["u0", 200]),
    ("aten.flip.default", "one", [[30, 200]], [[0, 1]], [30, 200]),
    ("aten.flip.default", "one", [[300]], [[0]], [300]),
    ("aten.flip.default", "3d", [["u0", 32, 128]], [[1]], ["u0", 32, 128]),
    ("aten.flip.default", "one", [[3, 9, 128]], [[0, 2]], [3, 9, 128]),
    ("prims.rev.default", "one-odd", [["u0", 200]], [[0, 1]], ["u0", 200]),
    ("aten.roll.default", "2d", [["u0", 256]], [[3], [1]], ["u0", 256]),
    ("aten.roll.default", "odd", [["u0", 200]], [[-7], [-1]], ["u0", 200]),
    ("aten.roll.default", "one-odd", [["u0", 200]], [[5], [0]], ["u0", 200]),
    ("aten.roll.default", "one", [[30, 200]], [[2, 128], [0, 1]], [30, 200]),
    ("aten.roll.default", "one", [[300]], [[1]], [300]),
    ("aten.roll.default", "3d", [["u0", 32, 128]], [[1], [1]], ["u0", 32, 128]),
    ("aten.roll.default", "one", [[3, 9, 128]], [[1], [0]], [3, 9, 128]),
    ("aten.constant_pad_nd.default", "odd", [["u0", 200]], [[3, 53], 2], ["u0", 256]),
    ("aten.constant_pad_nd.default", "one", [[30, 200]], [[0, 56, 1, 1], 1], [32, 256]),
    ("aten.constant_pad_nd.default", "one", [[30, 200]], [[-3, 4, 2, -1]], [31, 201]),
    ("aten.constant_pad_nd.default", "one", [[300]], [[1, 2], 1], [303]),
    ("aten.constant_pad_nd.default", "3d", [["u0", 32, 128]], [[0, 0, 1, 0], 3], ["u0", 33, 128]),
    ("aten.constant_pad_nd.default", "one", [[3, 9, 100]], [[0, 1, 0, 0, 2, 0]], [5, 9, 101]),
    ("aten.repeat.default", "odd", [["u0", 200]], [[1, 2]], ["u0", 400]),
    ("aten.repeat.default", "one", [[5, 128]], [[3, 2]], [15, 256]),
    ("aten.repeat.default", "one", [[5, 128]], [[2, 1, 1]], [2, 5, 128]),
    ("aten.repeat.default", "one", [[200]], [[3]], [600]),
    ("aten.repeat.default", "one", [[200]], [[8, 1]], [8, 200]),
)


def _move(target, dtype, variant, sources, args, tile):
    listed = "tensors" in dict(op_rows()[target].params)

    def build(builder):
        parts = [
            builder.load(dtype, source, f"any{i}" if i else "any")
            for i, source in enumerate(sources)
        ]
        value = builder.node(target, [parts if listed else parts[0], *args], dtype, tile)
        builder.store(value, dtype, tile)

    what = " ".join(map(str, [*sources, *args])).replace("'", "")
    return Case(target, dtype, what, variant, build)


def move_cases():
    """Views that put lanes elsewhere, in each dtype."""
    for dtype in ALL:
        for target, variant, sources, args, tile in _MOVES:
            yield _move(target, dtype, variant, sources, args, tile)
        for variant in ("2d", "odd", "3d"):
            same = [other for other in ALL if DTYPES[other].itemsize == DTYPES[dtype].itemsize]
            for other in same:
                if other != dtype and "bool" not in (other, dtype):
                    yield _bitcast(dtype, other, variant)


def _bitcast(dtype, other, variant):
    def build(builder):
        x = builder.load(dtype, values="finite")
        tile = builder.variant.tile
        value = builder.node("aten.view.dtype", [x, {"dtype": other}], other, tile)
        builder.store(value, other, tile)

    return Case("aten.view.dtype", dtype, f"as {other}", variant, build)


def _pieces(target, dtype, variant, source, args, tiles):
    def build(builder):
        x = builder.load(dtype, source)
        pieces = builder.tuple_of(target, [x, *args], dtype, tiles)
        for i, tile in enumerate(tiles):
            builder.store(builder.node("getitem", [pieces, i], dtype, tile), dtype, tile)

    what = " ".join(map(str, [source, *args])).replace("'", "")
    return Case(target, dtype, what, variant, build)


def piece_cases():
    """Splits, and joins of two, in each dtype."""
    rows, pair = ["u0", 100], ["u0", 128]
    for dtype in ALL:
        for args, sizes in (([100, 1], (100, 100)), ([128, -1], (128, 72))):
            tiles = [["u0", size] for size in sizes]
            yield _pieces("aten.split.Tensor", dtype, "odd", ["u0", 200], args, tiles)
        tiles = [["u0", 9, 128], ["u0", 23, 128]]
        yield _pieces(
            "aten.split_with_sizes.default", dtype, "3d", ["u0", 32, 128], [[9, 23], 1], tiles
        )
        yield _pieces("aten.unbind.int", dtype, "3d", ["u0", 2, 128], [1], [pair, pair])
        yield _pieces("aten.unbind.int", dtype, "one", [2, 9, 128], [], [[9, 128], [9, 128]])
        yield _pieces("aten.unbind.int", dtype, "one", [2, 200], [], [[200], [200]])
        yield _pieces("tile.split", dtype, "odd", ["u0", 100, 2], [], [rows, rows])
        yield _pieces("tile.split", dtype, "sq", ["u0", 2], [], [["u0"], ["u0"]])
        for variant, a, b, tile in (
            ("odd", rows, rows, ["u0", 100, 2]),
            ("2d", pair, ["u0", 1], ["u0", 128, 2]),
            ("1d", ["u0"], ["u0"], ["u0", 2]),
        ):
            yield _join(dtype, variant, a, b, tile)


def _join(dtype, variant, a, b, tile):
    def build(builder):
        parts = [builder.load(dtype, a), builder.load(dtype, b, "any1")]
        builder.store(builder.node("tile.join", parts, dtype, tile), dtype, tile)

    return Case("tile.join", dtype, f"{a} {b}".replace("'", ""), variant, build)


def _matmul(target, dtype, variant, what, operands, tile, result, extra=()):
    def build(builder):
        refs = [builder.load(d, t, v) for d, t, v in operands]
        args = [*refs, *extra]
        builder.store(builder.node(target, args, result, tile), result, tile)

    return Case(target, dtype, what, variant, build)


def matmul_cases():
    """Matmuls in each dtype."""
    for dtype in NUMBERS:
        is_int = dtype not in FLOATS
        wide = "int32" if is_int else "float32"
        a, b = (dtype, ["u0", 256], "finite"), (dtype, [256, 128], "finite")
        out = ["u0", 128]
        for variant in ("2d", "one"):
            yield _matmul("aten.mm.default", dtype, variant, "", [a, b], out, dtype)
            yield _matmul(
                "aten.mm.dtype", dtype, variant, f"{wide}", [a, b], out, wide, [{"dtype": wide}]
            )
            yield _matmul("tile.dot", dtype, variant, "", [a, b], out, wide)
            bias = (dtype, out, "finite")
            yield _matmul("aten.addmm.default", dtype, variant, "", [bias, a, b], out, dtype)
        a3, b3 = (dtype, ["u0", 32, 128], "finite"), (dtype, ["u0", 128, 128], "finite")
        out3 = ["u0", 32, 128]
        yield _matmul("aten.bmm.default", dtype, "3d", "", [a3, b3], out3, dtype)
        bias3 = (dtype, out3, "small")
        yield _matmul("aten.baddbmm.default", dtype, "3d", "", [bias3, a3, b3], out3, dtype)
        yield _matmul("aten.bmm.dtype", dtype, "3d", wide, [a3, b3], out3, wide, [{"dtype": wide}])
        row = (dtype, [256], "finite")
        for target in ("aten.mv.default", "aten.matmul.default"):
            yield _matmul(target, dtype, "2d", "vector", [a, row], ["u0"], dtype)
        row3 = (dtype, [128], "finite")
        yield _matmul("aten.matmul.default", dtype, "3d", "row", [row3, b3], ["u0", 128], dtype)
        b2 = (dtype, [128, 128], "finite")
        yield _matmul("aten.matmul.default", dtype, "3d", "batch", [a3, b3], out3, dtype)
        yield _matmul("aten.matmul.default", dtype, "3d", "rows", [a3, b2], out3, dtype)
        yield _matmul("aten.matmul.default", dtype, "2d", "", [a, b], out, dtype)
    for dtype in ("int8", "uint8"):
        a, b = (dtype, ["u0", 256], "finite"), (dtype, [256, 128], "finite")
        yield _matmul("aten._int_mm.default", dtype, "2d", "", [a, b], ["u0", 128], "int32")


def _creation(target, dtype, variant, args, number=None):
    def build(builder):
        tile = builder.variant.tile
        value = builder.node(target, _symbols(args(tile)), dtype, tile)
        builder.store(value, dtype, tile)

    return Case(target, dtype, "" if number is None else f"{number}", variant, build)


def creation_cases():
    """New tiles of each dtype, and the tile's index."""
    for dtype in ALL:
        kind = {"dtype": dtype}
        for variant in ("2d", "odd", "1d", "3d"):
            number = 1.5 if dtype in FLOATS else True if dtype == "bool" else 5
            yield _creation(
                "tile.full", dtype, variant, lambda t, n=number, k=kind: [t, n, k], number
            )
            yield _creation("aten.zeros.default", dtype, variant, lambda t, k=kind: [t, k])
            yield _creation("aten.ones.default", dtype, variant, lambda t, k=kind: [t, k])
    for variant in ("1d", "1d-odd"):

        def build(builder):
            tile = builder.variant.tile
            builder.store(builder.node("tile.index", ["u0"], "int32", tile), "int32", tile)

        yield Case("tile.index", "int32", "", variant, build)


def _made(target, dtype, variant, args, shape):
    """What an op makes of `args`, added to a tile of float32."""

    def build(builder):
        tile = builder.variant.tile
        x = builder.load("float32", values="finite")
        first = [x] if ".new_" in target or "_like" in target else []
        value = builder.node(target, [*first, *_symbols(args)], dtype, shape)
        wide = builder.node("aten.add.Tensor", [x, value], "float32", tile)
        builder.store(wide, "float32", tile)

    return Case(target, dtype, f"{args}".replace("'", ""), variant, build)


def range_cases():
    """Ranges, fills by other names, and triangles."""
    kind = {"dtype": "int32"}
    for variant in ("2d", "odd"):
        size = VARIANTS[variant].shape[1]
        tile = ["u0", size]
        for target, args in (
            ("aten.arange.default", [size]),
            ("aten.arange.start", [5, size + 5]),
            ("aten.arange.start_step", [2 * size, 0, -2]),
            ("aten.arange.start_step", [1.5, size + 1.5, 1.0, kind]),
            ("prims.iota.default", [size]),
            ("prims.iota.default", [size, 7, 3]),
        ):
            yield _made(target, "int32", variant, args, [size])
        for dtype in ("float32", "bfloat16"):
            to = {"dtype": dtype}
            yield _made(
                "aten.arange.start_step", dtype, variant, [1.0, 1.0 + size / 4, 0.25, to], [size]
            )
            yield _made("prims.iota.default", dtype, variant, [size, 1, 2, to], [size])
            yield _made("aten.new_full.default", dtype, variant, [tile, 2.5, to], tile)
        for target in ("aten.new_zeros.default", "aten.new_ones.default"):
            yield _made(target, "float32", variant, [tile], tile)
    for target in ("aten.tril.default", "aten.triu.default"):
        for dtype in ALL:
            for variant, diagonal in (("2d", 0), ("odd", 3), ("3d", -2)):
                yield _view(target, dtype, variant, [diagonal], VARIANTS[variant].tile)


def _load_store(dtype, variant):
    def build(builder):
        builder.store(builder.load(dtype, values="ramp"), dtype, builder.variant.tile)

    return Case("tile.load", dtype, "", variant, build)


def memory_cases():
    """A load and a store of each dtype, int4 too."""
    for dtype in (*ALL, "int4"):
        for variant in ("2d", "odd", "1d", "1d-odd", "3d"):
            yield _load_store(dtype, variant)


def all_cases():
    """Every case, in a fixed order."""
    found = {}
    for cases in (
        memory_cases(),
        conversion_cases(),
        creation_cases(),
        range_cases(),
        view_cases(),
        move_cases(),
        piece_cases(),
        reduction_cases(),
        composite_cases(),
        gather_cases(),
        matmul_cases(),
        pointwise_cases(),
    ):
        for case in cases:
            if not case.variant.endswith("odd") or case.dtype in ODD_DTYPES:
                found.setdefault(str(case), case)
    return list(found.values())
