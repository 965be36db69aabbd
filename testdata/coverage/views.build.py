"""Graphs of views that Helion cannot trace: it has neither slices of values nor strided ones.

A function for each returns the document.
"""

WHOLE = {"slice": [None, None, None]}


def _node(name, target, args, dtype=None, shape=None):
    node = {"name": name, "target": target, "args": args}
    return node | ({"meta": {"dtype": dtype, "shape": shape}} if dtype else {})


def _ref(name):
    return {"ref": name}


def _rotary(name, dtype, heads, rows, size, blocks):
    """x [heads, rows, size], cos and sin [rows, size / 2]: the halves of each row are rotated."""
    half, f32 = size // 2, "float32"
    tile, table = ["u0", "u1", half], ["u1", half]
    shapes = {"x": [heads, rows, size], "cos": [rows, half], "sin": [rows, half]}
    nodes = [
        _node(t, "tile.host_tensor", [t], dtype if t == "x" else f32, s) for t, s in shapes.items()
    ]
    nodes += [
        _node(
            "tile",
            "tile.load",
            [_ref("x"), [{"sym": "u0"}, {"sym": "u1"}, WHOLE]],
            dtype,
            [*tile[:2], size],
        ),
        _node("c", "tile.load", [_ref("cos"), [{"sym": "u1"}, WHOLE]], f32, table),
        _node("s", "tile.load", [_ref("sin"), [{"sym": "u1"}, WHOLE]], f32, table),
        _node(
            "wide",
            "prims.convert_element_type.default",
            [_ref("tile"), {"dtype": f32}],
            f32,
            [*tile[:2], size],
        ),
        _node("left", "aten.slice.Tensor", [_ref("wide"), 2, 0, half], f32, tile),
        _node("right", "aten.slice.Tensor", [_ref("wide"), 2, half], f32, tile),
    ]
    for result, a, b, join in (
        ("first", "left", "right", "sub"),
        ("second", "right", "left", "add"),
    ):
        nodes += [
            _node(f"{result}_c", "aten.mul.Tensor", [_ref(a), _ref("c")], f32, tile),
            _node(f"{result}_s", "aten.mul.Tensor", [_ref(b), _ref("s")], f32, tile),
            _node(
                result, f"aten.{join}.Tensor", [_ref(f"{result}_c"), _ref(f"{result}_s")], f32, tile
            ),
        ]
    nodes += [
        _node(
            "turned",
            "aten.cat.default",
            [[_ref("first"), _ref("second")], -1],
            f32,
            [*tile[:2], size],
        ),
        _node("out", "tile.host_tensor", ["out"], dtype, shapes["x"]),
        _node(
            "store",
            "tile.store",
            [_ref("out"), [{"sym": "u0"}, {"sym": "u1"}, WHOLE], _ref("turned")],
        ),
    ]
    tensors = [
        {"name": t, "role": "input", "dtype": dtype if t == "x" else f32, "shape": s}
        for t, s in shapes.items()
    ]
    tensors.append({"name": "out", "role": "output", "dtype": dtype, "shape": shapes["x"]})
    return _document(name, tensors, nodes, [heads, rows], blocks)


def _document(name, tensors, nodes, extents, blocks):
    symbols = [
        {"id": i, "symbol": f"u{i}", "name": f"tile_{i}", "extent": extent}
        for i, extent in enumerate(extents)
    ]
    nodes.append({"name": "output", "op": "output", "args": [[]]})
    return {
        "format": "fxtile",
        "version": 1,
        "name": name,
        "tensors": tensors,
        "returns": [{"tensor": t["name"]} for t in tensors if t["role"] == "output"],
        "block_sizes": symbols,
        "graphs": [{"id": 0, "kind": "root", "grid": list(range(len(extents))), "nodes": nodes}],
        "config": {"block_sizes": blocks},
    }


def rotary_slices():
    """Halves of 128 lanes, cut and joined in the kernel."""
    return _rotary("rotary_slices", "float32", 4, 128, 256, [2, 64])


def rotary_slices_odd():
    """Halves of 48 lanes."""
    return _rotary("rotary_slices", "bfloat16", 3, 53, 96, [2, 32])


def rotary_slices_production():
    """32 heads of a batch of 8."""
    return _rotary("rotary_slices", "bfloat16", 256, 4096, 128, [4, 256])


def _strided(name, dtype, rows, size, blocks):
    """x [rows, size]; out [rows, size / 2], lane i the sum of lanes 2 i and 2 i + 1."""
    tile, half = ["u0", size // 2], size // 2
    index = [{"sym": "u0"}, WHOLE]
    nodes = [
        _node("x", "tile.host_tensor", ["x"], dtype, [rows, size]),
        _node("tile", "tile.load", [_ref("x"), index], dtype, ["u0", size]),
        _node("even", "aten.slice.Tensor", [_ref("tile"), 1, 0, size, 2], dtype, tile),
        _node("odd", "aten.slice.Tensor", [_ref("tile"), 1, 1, size, 2], dtype, tile),
        _node("both", "aten.add.Tensor", [_ref("even"), _ref("odd")], dtype, tile),
        _node("out", "tile.host_tensor", ["out"], dtype, [rows, half]),
        _node("store", "tile.store", [_ref("out"), index, _ref("both")]),
    ]
    tensors = [
        {"name": "x", "role": "input", "dtype": dtype, "shape": [rows, size]},
        {"name": "out", "role": "output", "dtype": dtype, "shape": [rows, half]},
    ]
    return _document(name, tensors, nodes, [rows], blocks)


def pair_sums():
    """Sums of neighbours."""
    return _strided("pair_sums", "float32", 256, 512, [64])


def pair_sums_odd():
    """Rows of 300."""
    return _strided("pair_sums", "bfloat16", 421, 300, [64])


def pair_sums_production():
    """Rows of 4096."""
    return _strided("pair_sums", "bfloat16", 8192, 4096, [64])
