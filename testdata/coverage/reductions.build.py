"""Reductions that Helion 1.5.1 does not trace: torch.var_mean, torch.logsumexp.

And an op that Mosaic has not: lgamma, which is refused.

Each graph is one op over the last dim of x [M, N], whole rows at a time. A function for each
returns the document.
"""

ALL = {"slice": [None, None, None]}


def _meta(dtype, shape):
    return {"dtype": dtype, "shape": shape}


def _rows(name, dtype, shape, block, make, outputs):
    """A document: `make(nodes)` appends nodes that use `row`; `outputs` are (tensor, dtype, node).

    Every output is [M], but a tensor called "rows", which is [M, N].
    """
    m, n = shape
    tile = ["u0", n]
    tensors = [{"name": "x", "role": "input", "dtype": dtype, "shape": [m, n]}]
    nodes = [
        {"name": "x", "target": "tile.host_tensor", "args": ["x"], "meta": _meta(dtype, [m, n])},
        {
            "name": "row",
            "target": "tile.load",
            "args": [{"ref": "x"}, [{"sym": "u0"}, ALL]],
            "meta": _meta(dtype, tile),
        },
    ]
    make(nodes)
    for tensor, out, value in outputs:
        whole = tensor == "rows"
        sizes = [m, n] if whole else [m]
        index = [{"sym": "u0"}, ALL] if whole else [{"sym": "u0"}]
        tensors.append({"name": tensor, "role": "output", "dtype": out, "shape": sizes})
        host = {"name": tensor, "target": "tile.host_tensor", "args": [tensor]}
        nodes.append({**host, "meta": _meta(out, sizes)})
        store = [{"ref": tensor}, index, {"ref": value}]
        nodes.append({"name": f"store_{tensor}", "target": "tile.store", "args": store})
    nodes.append({"name": "output", "op": "output", "args": [[]]})
    return {
        "format": "fxtile",
        "version": 1,
        "name": name,
        "tensors": tensors,
        "returns": [{"tensor": tensor} for tensor, _, _ in outputs],
        "block_sizes": [{"id": 0, "symbol": "u0", "name": "tile_m", "extent": m}],
        "graphs": [{"id": 0, "kind": "root", "grid": [0], "nodes": nodes}],
        "config": {"block_sizes": [block]},
    }


def _node(name, target, args, dtype, shape=("u0",)):
    meta = _meta(dtype, list(shape))
    return {"name": name, "target": target, "args": [{"ref": "row"}, *args], "meta": meta}


def _var_mean(dtype, shape, block):
    def make(nodes):
        pair = _node("pair", "aten.var_mean.correction", [[-1]], dtype)
        del pair["meta"]
        pair |= {"kwargs": {"correction": 1}, "meta": {"tuple": [_meta(dtype, ["u0"])] * 2}}
        nodes.append(pair)
        for i, name in enumerate(("var", "mean")):
            taken = {"name": name, "target": "getitem", "args": [{"ref": "pair"}, i]}
            nodes.append({**taken, "meta": _meta(dtype, ["u0"])})

    results = [("spread", dtype, "var"), ("centre", dtype, "mean")]
    return _rows("var_mean_rows", dtype, shape, block, make, results)


def var_mean_rows():
    """float32, aligned."""
    return _var_mean("float32", (256, 1024), 64)


def var_mean_rows_odd():
    """bfloat16, odd."""
    return _var_mean("bfloat16", (421, 300), 64)


def var_mean_rows_8192_4096():
    """What people run."""
    return _var_mean("bfloat16", (8192, 4096), 128)


def _logsumexp(dtype, shape, block):
    def make(nodes):
        nodes.append(_node("total", "aten.logsumexp.default", [[-1]], dtype))

    return _rows("logsumexp_rows", dtype, shape, block, make, [("out", dtype, "total")])


def logsumexp_rows():
    """float32, aligned."""
    return _logsumexp("float32", (256, 1024), 64)


def logsumexp_rows_odd():
    """bfloat16, odd."""
    return _logsumexp("bfloat16", (421, 300), 64)


def logsumexp_rows_8192_4096():
    """What people run."""
    return _logsumexp("bfloat16", (8192, 4096), 128)


def lgamma_rows():
    """Refused: Mosaic has no lgamma."""

    def make(nodes):
        nodes.append(_node("value", "aten.lgamma.default", [], "float32", ("u0", 1024)))

    return _rows("lgamma_rows", "float32", (256, 1024), 64, make, [("rows", "float32", "value")])
