"""Documents that read or change what stands at positions that a scalar gives.

An element of the index is a position (`s`), the first one (`0`), or all of the dim (`:`).
"""

import itertools

import one_point
from document import WHOLE
from one_point import call, load, ref, store, tensor

DTYPES = (
    *("float32", "bfloat16", "float16", "float8_e4m3fn"),
    *("int32", "int16", "int8", "uint8", "bool"),
)
SHAPES = ([2, 1], [64, 7], [100, 300], [256, 256], [3, 40, 130], [4, 1, 256], [1, 300], [300], [5])
ADDED = ("float32", "bfloat16", "int32", "int8")  # atomically
WHAT = ("load", "store a number", "store a tile", "add")


def _nodes(what, dtype, index, kept):
    """(other tensors, nodes that do it) for the tensor `t`."""
    if what == "load":
        into = [WHOLE] * len(kept) or [0]
        read = call("v", "tile.load", ref("t"), index)
        return [tensor("o", "output", dtype, kept or [1])], [read, *store("o", into, "v")]
    if what == "store a tile":
        given = [tensor("x", "input", dtype, kept)]
        return given, [
            *load("x", len(kept)),
            call("w", "tile.store", ref("t"), index, ref("all_x")),
        ]
    op = "tile.atomic_add" if what == "add" else "tile.store"
    full = call("v", "tile.full", kept, 1, {"dtype": dtype})
    return [], [full, call("w", op, ref("t"), index, ref("v"))]


def document(what, dtype, shape, pattern):
    """One of them; `s` is at most the smallest dim that it stands for."""
    index = [{"s": ref("s"), "0": 0, ":": WHOLE}[c] for c in pattern]
    kept = [n for n, c in zip(shape, pattern, strict=True) if c == ":"]
    others, nodes = _nodes(what, dtype, index, kept)
    given = tensor("t", "input" if what == "load" else "inout", dtype, shape)
    first = [call("s", "tile.scalar", "s1"), call("t", "tile.host_tensor", "t")]
    return one_point.document("positions", [given, *others], [*first, *nodes], ["s1"])


def cases():
    """(name, case as properties.examine() takes it) of all."""
    for what, dtype, shape in itertools.product(WHAT, DTYPES, SHAPES):
        for pattern in map("".join, itertools.product("s0:", repeat=len(shape))):
            if "s" not in pattern or (what == "store a tile" and ":" not in pattern):
                continue
            if what == "add" and dtype not in ADDED:
                continue
            most = min(n for n, c in zip(shape, pattern, strict=True) if c == "s")
            sizes = "x".join(map(str, shape))
            made = document(what, dtype, shape, pattern)
            case = one_point.executed(made, most, s1=f"bound:{most}")
            yield f"{what} {dtype} {sizes} {pattern}", case
