"""A builder of graphs, for programs without torch: docs/build.md.

    g = Graph("add_one")
    x, out = g.input("x", [1000], "float32"), g.output("out", [1000], "float32")
    with g.grid(m=1000) as (m,):
        out[m] = x[m] + 1.0
    kernel = pallasc.compile(g).load()

`Graph` has the tables and bodies, `ops` a function for each op of docs/ops.md. It needs the
standard library and the compiler's library alone.
"""

from . import ops
from .functions import associative_scan, reduce
from .graph import Graph, axis
from .sizes import Dim, Size, cdiv, max_size, min_size, next_pow2
from .source import BuildError
from .values import Index, Operand, Scalar, Tensor, Tile, Value, Variable, ds

__all__ = [
    "BuildError",
    "Dim",
    "Graph",
    "Index",
    "Operand",
    "Scalar",
    "Size",
    "Tensor",
    "Tile",
    "Value",
    "Variable",
    "associative_scan",
    "axis",
    "cdiv",
    "ds",
    "max_size",
    "min_size",
    "next_pow2",
    "ops",
    "reduce",
]
