"""Graphs that Helion does not trace: one tensor read at two positions of each step of a loop."""


def _neighbour_sums(rows, columns, width, dtype, block, loop):
    """out[m, k] = x[m, k] + x[m, k + 128]: x [rows, width], out [rows, columns], tiles of 128."""
    host = {"dtype": dtype, "shape": [rows, width]}
    tile = {"dtype": dtype, "shape": ["u0", "u1"]}
    later = {"slice": [{"ref": "begin_later"}, {"ref": "end_later"}, None]}

    def node(name, target, args, meta=None):
        return {"name": name, "target": target, "args": args} | ({"meta": meta} if meta else {})

    body = [
        node("x", "tile.host_tensor", ["x"], host),
        node("begin", "tile.begin", [{"sym": "u1"}], {"sym": None}),
        node("begin_later", "add", [{"ref": "begin"}, 128], {"sym": None}),
        node("end_later", "add", [{"ref": "begin_later"}, 128], {"sym": None}),
        node("here", "tile.load", [{"ref": "x"}, [{"sym": "u0"}, {"sym": "u1"}]], tile),
        node(
            "later",
            "tile.load",
            [{"ref": "x"}, [{"sym": "u0"}, later]],
            {"dtype": dtype, "shape": ["u0", 128]},
        ),
        node("total", "aten.add.Tensor", [{"ref": "here"}, {"ref": "later"}], tile),
        node("out", "tile.host_tensor", ["out"], {"dtype": dtype, "shape": [rows, columns]}),
        node(
            "store",
            "tile.store",
            [{"ref": "out"}, [{"sym": "u0"}, {"sym": "u1"}], {"ref": "total"}],
        ),
        {"name": "output", "op": "output", "args": [[]]},
    ]
    root = [
        node("loop", "tile.for_loop", [0, [0], [columns], []], {"tuple": []}),
        {"name": "output", "op": "output", "args": [[]]},
    ]
    return {
        "format": "fxtile",
        "version": 1,
        "name": "neighbour_sums",
        "tensors": [
            {"name": "x", "role": "input", "dtype": dtype, "shape": [rows, width]},
            {"name": "out", "role": "output", "dtype": dtype, "shape": [rows, columns]},
        ],
        "block_sizes": [
            {"id": 0, "symbol": "u0", "name": "tile_m", "extent": rows},
            {"id": 1, "symbol": "u1", "name": "tile_k", "extent": columns, "size": 128},
        ],
        "graphs": [
            {"id": 0, "kind": "for_loop", "block_ids": [1], "nodes": body},
            {"id": 1, "kind": "root", "grid": [0], "nodes": root},
        ],
        "config": {"block_sizes": [block], "pallas_loop_type": loop},
    }


def neighbour_sums():
    """Tiles of 128 columns, the last of which has a next one."""
    return _neighbour_sums(256, 384, 512, "bfloat16", 128, "emit_pipeline")


def neighbour_sums_odd():
    """The columns past 384 are not read: tiles of 128 have a size of their own."""
    return _neighbour_sums(421, 256, 400, "float32", 128, "emit_pipeline")


def neighbour_sums_4096():
    """4096 rows."""
    return _neighbour_sums(4096, 8064, 8192, "bfloat16", 512, "emit_pipeline")
