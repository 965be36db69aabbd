"""Values of the graph format: dtypes, expressions, metas and JSON constants."""

import math

import sympy
import torch

from ..reference.values import DTYPES
from .errors import ExportError

# What to do about a dtype that a TPU lacks.
INSTEAD = {
    "int64": "use int32",
    "float64": "use float32",
    "uint64": "use uint32; for a table of pointers, pass the tensors as one (torch.stack)",
    "float4_e2m1fn_x2": "pass its bytes (x.view(torch.uint8)) and make floats of both halves",
}
# What an int64 tensor holds of these is what they are.
INTS_OF_INT32 = (torch.int32, torch.int16, torch.int8, torch.uint16, torch.uint8, torch.bool)


def dtype_name(dtype):
    """Return the name of a torch dtype: 'float32', also of one that the format lacks."""
    return str(dtype).removeprefix("torch.")


def tensor_dtype(dtype, what, where):
    """Return the dtype of a tensor in memory; int64, float64 and the like are ExportErrors."""
    name = dtype_name(dtype)
    if name in DTYPES:
        return name
    hint = f": {INSTEAD[name]}" if name in INSTEAD else ""
    raise ExportError(f"{what} is {name}, which the graph format lacks{hint}", where)


def value_dtype(dtype, what, where):
    """Return the dtype of a value on the device, where torch's integer sums may be int64."""
    return "int64" if dtype == torch.int64 else tensor_dtype(dtype, what, where)


def constant(value):
    """Return a Python number as JSON: ints and floats stay apart, non-finite floats are objects."""
    if isinstance(value, float) and not math.isfinite(value):
        text = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        return {"float": text}
    return value


def size_hint(trace, symbol):
    """Return what a symbol of Helion's for a size is in the call that was traced."""
    env = trace.env.shape_env
    values = getattr(env, "backed_var_to_val", None) or env.var_to_val
    return int(values[symbol])


class Symbols:
    """What Helion's symbols mean: block sizes, tunables, host scalars, positions of tiles."""

    def __init__(self, trace):
        self.trace = trace
        self.origins = trace.host.expr_to_origin
        self.blocks = {}  # sympy symbol -> block id
        for info in trace.env.block_sizes:
            self.blocks[info.symbol()] = info.block_id
        fixed = [getattr(i.block_size_source, "value", None) for i in trace.env.block_sizes]
        self.ones = {
            str(info.symbol())
            for info, size in zip(trace.env.block_sizes, fixed, strict=True)
            if isinstance(size, int) and size == 1
        }
        self.configured = dict(getattr(trace.env, "config_value_expressions", {}))
        self.known = {}  # sympy symbol -> int, the host integers
        self.names = {}  # sympy symbol of a size of an argument -> its name in the document

    def sizes_name(self, inputs):
        """Name the sizes of arguments after the first that has them, and return {name: size}.

        Those that host code decides by were made numbers before.
        """
        sizes = {}
        for label, tensor in inputs.items() if self.trace.named else ():
            for dim, size in enumerate(tensor.shape):
                expr = size.node.expr if isinstance(size, torch.SymInt) else sympy.sympify(size)
                expr = self.trace.env.shape_env.replace(self.trace.env.specialize_expr(expr))
                if expr.is_Symbol and expr not in self.known and expr not in self.names:
                    name = f"{label}_{dim}"
                    self.names[expr] = name
                    sizes[name] = size_hint(self.trace, expr)
        return sizes

    def block_symbol(self, block_id):
        """Return the format's symbol of a block id."""
        return str(self.trace.env.block_sizes[block_id].symbol())

    def block_of(self, value):
        """Return the symbol of a block that an int is, also if its size is one number; or None."""
        expr = value.node._expr if isinstance(value, torch.SymInt) else None
        return expr if expr in self.blocks else None

    def is_one(self, size):
        """Return whether a size of a shape is a block of one element."""
        return size in self.ones

    def expression(self, value):
        """Return an int, or the format's expression string, or None if known only at run time."""
        if isinstance(value, (bool, int)):
            return value
        expr = value._sympy_() if isinstance(value, torch.SymInt) else sympy.sympify(value)
        expr = self.trace.env.specialize_expr(expr)
        if self.trace.named:  # sizes that are equal have one symbol, some a number
            expr = self.trace.env.shape_env.replace(expr)
        expr = expr.xreplace(self.known)
        if expr.is_Integer:
            return int(expr)
        return self.text(expr, 0)

    def text(self, expr, tightness):
        """Print `expr` with parentheses where the context binds tighter; None: not expressible."""
        if expr.is_Integer:
            return str(int(expr)) if expr >= 0 or tightness == 0 else f"({int(expr)})"
        if expr in self.configured:
            return self.config_text(self.configured[expr])
        if expr.is_Symbol:
            return str(expr) if expr in self.blocks else self.names.get(expr)
        name = type(expr).__name__
        args = expr.args
        if name == "Add":
            ordered = sorted(args, key=lambda a: (a.is_Integer, self.order(a)))
            return self.joined(ordered, " + ", 1, tightness)
        if name == "Mul":
            return self.joined(sorted(args, key=self.order), " * ", 2, tightness)
        if name in ("FloorDiv", "CleanDiv"):
            return self.joined(args, " // ", 3, tightness)
        if name in ("Mod", "PythonMod"):
            return self.joined(args, " % ", 3, tightness)
        if name in ("Max", "Min"):
            return self.call(name.lower(), sorted(args, key=self.order))
        if name == "CeilDiv":
            return self.call("cdiv", args)
        return None

    def order(self, expr):
        """Return the text by which operands are ordered, sizes by their names."""
        return str(expr.xreplace({old: sympy.Symbol(new) for old, new in self.names.items()}))

    def joined(self, args, operator, level, tightness):
        """Print an infix operator; `level` is how tightly it binds."""
        parts = [
            self.text(arg, level if index == 0 else level + 1) for index, arg in enumerate(args)
        ]
        if None in parts:
            return None
        text = operator.join(parts)
        return f"({text})" if level < tightness else text

    def call(self, name, args):
        """Print a function of the expression language."""
        parts = [self.text(arg, 0) for arg in args]
        return None if None in parts else f"{name}({', '.join(parts)})"

    def config_text(self, value):
        """Print Helion's expression of config values."""
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            return value
        if value.operation == "config":
            return value.arguments[0]
        name = {"cdiv": "cdiv", "next_power_of_2": "next_pow2"}[value.operation]
        return f"{name}({', '.join(self.config_text(arg) for arg in value.arguments)})"

    def origin_find(self, expr):
        """Return Helion's origin of a symbol or expression, or None."""
        found = self.origins.get(expr)
        return found.origin if found else None

    def shape(self, sizes, what, where):
        """Return a shape; a size known only at run time is an ExportError."""
        shape = [self.expression(size) for size in sizes]
        if None in shape:
            size = sizes[shape.index(None)]
            raise ExportError(f"{what} has a size known only at run time ({size})", where)
        return shape

    def meta(self, value, what, where):
        """Return the `meta` of a value: tensor, scalar, symbol, tuple, or None for nothing."""
        if value is None:
            return None
        if isinstance(value, torch.Tensor):
            dtype = value_dtype(value.dtype, what, where)
            return {"dtype": dtype, "shape": self.shape(value.shape, what, where)}
        if isinstance(value, (list, tuple)):
            return {"tuple": [self.meta(entry, what, where) for entry in value]}
        if isinstance(value, (bool, torch.SymBool)):
            return {"sym": None, "dtype": "bool"}
        if isinstance(value, (int, torch.SymInt)):
            return {"sym": self.expression(value)}
        if isinstance(value, (float, torch.SymFloat)):
            return {"dtype": "float32", "shape": []}
        raise ExportError(f"{what} has a value of {type(value).__name__}", where)
