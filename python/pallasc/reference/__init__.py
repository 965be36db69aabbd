"""The NumPy reference interpreter of the graph format: the judge of every emitted kernel.

`run(graph, inputs)` executes a document tile by tile, each tile at its full block size, invalid
lanes and all, rounding where the graph rounds. It depends on numpy and ml_dtypes alone and shares
nothing with the code generator.
"""

from . import ops_create, ops_matmul, ops_pointwise, ops_reduce, ops_view  # noqa: F401 (fill OPS)
from .document import Document
from .errors import GraphError
from .interp import run

__all__ = ["Document", "GraphError", "run"]
