"""Documents in which a tensor meets another: an operand that is spread, a mask, what an atomic adds
to; or an int that the kernel or its caller knows; and those that convert one. A tensor is loaded
whole, of each dtype and of odd shapes.
"""

import itertools

import one_point
from document import WHOLE
from one_point import call, load, ref, store, tensor
from single_ops import DTYPES

SHAPES = (
    *([7], [300], [1, 1], [5, 1], [1, 130], [40, 7], [100, 300], [260, 2], [256, 128]),
    *([3, 1, 7], [2, 9, 130], [4, 8, 128], [1, 8, 1], [16, 1, 128], [2, 3, 5, 6]),
)
OPERATORS = ("add.Tensor", "mul.Tensor", "maximum.default", "div.Tensor", "gt.Tensor")
ATOMICS = ("add", "max", "min", "and", "or", "xor")


def _whole(name, shape):
    """Nodes that store a value to all of the output `o`."""
    return store("o", [WHOLE] * len(shape), name)


def _spread(shape):
    """Shapes that are broadcast to this one."""
    return map(list, sorted(set(itertools.product(*((n, 1) for n in shape)))))


def conversions(dtype, shape):
    """(name, tensors, nodes) of each."""
    for to in DTYPES:
        if to != dtype:
            made = call("v", "prims.convert_element_type.default", ref("all_x"), {"dtype": to})
            yield f"to {to}", [tensor("o", "output", to, shape)], [made, *_whole("v", shape)]


def operators(dtype, shape):
    """The same, of an operand that is spread, or has fewer dims."""
    for op, narrow, cut in itertools.product(OPERATORS, _spread(shape), (0, 1)):
        other = narrow[cut:]
        compares = op == "gt.Tensor"
        unfit = (dtype == "bool" and not compares) or (op == "div.Tensor" and "float" not in dtype)
        if other and not unfit and not (cut and narrow[0] > 1):
            gives = "bool" if compares else dtype
            given = tensor("y", "input", dtype, other), tensor("o", "output", gives, shape)
            made = call("v", f"aten.{op}", ref("all_x"), ref("all_y"))
            yield f"{op} {other}", given, [*load("y", len(other)), made, *_whole("v", shape)]


def masks(dtype, shape):
    """The same, of a choice, a masked load and a masked store."""
    for narrow in _spread(shape):
        mask, first = tensor("c", "input", "bool", narrow), load("c", len(narrow))
        out = tensor("o", "output", dtype, shape)
        zero = call("z", "tile.full", [], 0, {"dtype": dtype})
        chosen = call("v", "aten.where.self", ref("all_c"), ref("all_x"), ref("z"))
        yield f"where {narrow}", [mask, out], [*first, zero, chosen, *_whole("v", shape)]
        every = [WHOLE] * len(shape)
        masked = call("v", "tile.load", ref("x"), every, ref("all_c"))
        yield f"masked load {narrow}", [mask, out], [*first, masked, *_whole("v", shape)]
        put = call("w", "tile.store", ref("o"), every, ref("all_x"), ref("all_c"))
        name = call("o", "tile.host_tensor", "o")
        kept = tensor("o", "inout", dtype, shape)
        yield f"masked store {narrow}", [mask, kept], [*first, name, put]


def atomics(dtype, shape):
    """The same, to all of some dims and the last position of others, used or not."""
    for op, pattern in itertools.product(ATOMICS, itertools.product("n:", repeat=len(shape))):
        if op in ("and", "or", "xor") and "float" in dtype:
            continue
        places = [n - 1 if c == "n" else WHOLE for n, c in zip(shape, pattern, strict=True)]
        kept = [n for n, c in zip(shape, pattern, strict=True) if c == ":"]
        value, one = "all_y" if kept else "one", call("one", "tile.full", [], 1, {"dtype": dtype})
        first = load("y", len(kept)) if kept else [one]
        given = [tensor("y", "input", dtype, kept)] if kept else []
        change = call("a", f"tile.atomic_{op}", ref("t"), places, ref(value))
        nodes = [call("t", "tile.host_tensor", "t"), *first, change]
        given.append(tensor("t", "inout", dtype, shape))
        yield f"{op} at {''.join(pattern)}", given, nodes
        if kept:
            used = [*given, tensor("o", "output", dtype, kept)]
            yield f"{op} at {''.join(pattern)}, used", used, [*nodes, *_whole("a", kept)]


def ints(dtype, shape):
    """The same, of a tensor and the end of a tile, or an int that is given."""
    some = ("add.Tensor", "maximum.default", "remainder.Scalar", "lt.Tensor", "bitwise_or.Tensor")
    for op, which in itertools.product((*some, "rsub", "clamp", "where"), ("end", "given")):
        compares = op == "lt.Tensor"
        if (dtype == "bool" and not compares) or ("float" in dtype and op == "bitwise_or.Tensor"):
            continue
        s = call("s", "tile.end", "u0") if which == "end" else call("s", "tile.scalar", "s1")
        less = call("c", "aten.lt.Tensor", ref("all_x"), ref("s"))
        made = {
            "rsub": call("v", "aten.sub.Tensor", ref("s"), ref("all_x")),
            "clamp": call("v", "aten.clamp.default", ref("all_x"), 1, ref("s")),
            "where": call("v", "aten.where.self", ref("c"), ref("all_x"), ref("s")),
        }.get(op) or call("v", f"aten.{op}", ref("all_x"), ref("s"))
        out = tensor("o", "output", "bool" if compares else dtype, shape)
        nodes = [s, *([less] if op == "where" else []), made, *_whole("v", shape)]
        yield f"{op} {which}", [out], nodes


def cases():
    """(name, case as properties.examine() takes it) of all."""
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        x, loads = [tensor("x", "input", dtype, shape)], load("x", len(shape))
        every = [
            (name, [*x, *others], [*loads, *nodes])
            for kind in (conversions, operators, masks, ints)
            for name, others, nodes in kind(dtype, shape)
        ]
        if "float8" not in dtype and dtype != "uint16":
            every += atomics(dtype, shape)
        for name, tensors, nodes in every:
            given = ("s1",) if any(node["target"] == "tile.scalar" for node in nodes) else ()
            made = one_point.document("meeting", tensors, nodes, given)
            values = {scalar: "bound:5" for scalar in given}
            yield f"{dtype} {shape} {name}", one_point.executed(made, **values)
