"""Documents that read or change what stands at positions that a scalar gives.

An element of the index is a position (`s`), the first one (`0`), or all of the dim (`:`).
"""

import itertools

DTYPES = (
    *("float32", "bfloat16", "float16", "float8_e4m3fn"),
    *("int32", "int16", "int8", "uint8", "bool"),
)
SHAPES = ([2, 1], [64, 7], [100, 300], [256, 256], [3, 40, 130], [4, 1, 256], [1, 300], [300], [5])
ADDED = ("float32", "bfloat16", "int32", "int8")  # atomically
WHAT = ("load", "store a number", "store a tile", "add")

_ALL = {"slice": [None, None, None]}


def _ref(name):
    return {"ref": name}


def _call(name, target, *args):
    return {"name": name, "target": target, "args": [*args]}


def _tensor(name, role, dtype, shape):
    return {"name": name, "role": role, "dtype": dtype, "shape": shape}


def _nodes(what, dtype, index, kept):
    """(other tensors, nodes that do it) for the tensor `t`."""
    if what == "load":
        shape = kept or [1]
        into = [_ALL] * len(kept) or [0]
        return [_tensor("o", "output", dtype, shape)], [
            _call("o", "tile.host_tensor", "o"),
            _call("v", "tile.load", _ref("t"), index),
            _call("w", "tile.store", _ref("o"), into, _ref("v")),
        ]
    if what == "store a tile":
        return [_tensor("x", "input", dtype, kept)], [
            _call("x", "tile.host_tensor", "x"),
            _call("v", "tile.load", _ref("x"), [_ALL] * len(kept)),
            _call("w", "tile.store", _ref("t"), index, _ref("v")),
        ]
    op = "tile.atomic_add" if what == "add" else "tile.store"
    full = _call("v", "tile.full", kept, 1, {"dtype": dtype})
    return [], [full, _call("w", op, _ref("t"), index, _ref("v"))]


def document(what, dtype, shape, pattern):
    """One of them; `s` is at most the smallest dim that it stands for."""
    index = [{"s": _ref("s"), "0": 0, ":": _ALL}[c] for c in pattern]
    kept = [n for n, c in zip(shape, pattern, strict=True) if c == ":"]
    others, nodes = _nodes(what, dtype, index, kept)
    role = "input" if what == "load" else "inout"
    first = [_call("s", "tile.scalar", "s1"), _call("t", "tile.host_tensor", "t")]
    last = {"name": "output", "op": "output", "args": [[]]}
    return {
        **{"format": "fxtile", "version": 1, "name": "positions"},
        "tensors": [_tensor("t", role, dtype, shape), *others],
        "scalars": [{"name": "s1", "dtype": "int32"}],
        "block_sizes": [{"id": 0, "symbol": "u0", "extent": 1, "size": 1}],
        "graphs": [{"id": 0, "kind": "root", "grid": [0], "nodes": [*first, *nodes, last]}],
    }


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
            yield (
                f"{what} {dtype} {sizes} {pattern}",
                {
                    "document": document(what, dtype, shape, pattern),
                    "values": {"s1": f"bound:{most}"},
                    **{"seed": most, "way": "executed", "thorough": False},
                },
            )
