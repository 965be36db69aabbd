"""A layer norm in two levels: each grid point runs over its rows in an inner loop."""

import kit


def layer_norm_two_level():
    """`layer_norm_odd` with its nodes in a loop over the rows of a grid tile."""
    found = kit.document("layer_norm_odd")
    [root] = found["graphs"]
    inner = [_renamed({k: v for k, v in n.items() if k != "loc"}) for n in root["nodes"]]
    tile = {"sym": "u0"}
    nodes = [
        {"name": "begin", "target": "tile.begin", "args": [tile], "meta": {"sym": None}},
        {"name": "end", "target": "tile.end", "args": [tile], "meta": {"sym": None}},
        {
            "name": "loop",
            "target": "tile.for_loop",
            "args": [0, [{"ref": "begin"}], [{"ref": "end"}], []],
            "meta": {"tuple": []},
        },
        {"name": "output", "op": "output", "args": [[]]},
    ]
    blocks = [b for b in found["block_sizes"] if not b.get("reduction")]
    found["block_sizes"] = [*blocks, {"id": 1, "symbol": "u2", "name": "tile_m", "extent": None}]
    found["graphs"] = [
        {"id": 0, "kind": "for_loop", "block_ids": [1], "nodes": inner},
        {"id": 1, "kind": "root", "grid": [0], "nodes": nodes},
    ]
    return found | {"name": "layer_norm_two_level", "config": {"block_sizes": [128, 32]}}


def _renamed(value):
    """A node with the loop's block in place of the grid's."""
    if isinstance(value, dict):
        return {key: _renamed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    return "u2" if value == "u0" else value
