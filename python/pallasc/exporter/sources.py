"""Where a node comes from: the statement of the kernel's source at a line."""

import ast
import inspect
import os
import textwrap

from ..statements import Statements


class KernelSource(Statements):
    """The parsed source of a kernel function; line numbers are those of its file."""

    def __init__(self, fn):
        lines, first = inspect.getsourcelines(fn)
        self.path = inspect.getsourcefile(fn) or fn.__code__.co_filename
        self.tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(self.tree, first - 1)
        super().__init__(self.tree, lines, first, os.path.basename(self.path))

    def registered_blocks(self):
        """Return {tile's name: its block's} where the kernel registers block sizes.

        Of `block_m = hl.register_block_size(m)` and `for tile_m in hl.tile(m, block_size=block_m)`
        it is {"tile_m": "block_m"}: the configuration speaks of `block_m`.
        """
        registered, blocks = set(), {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and called(node.value) == "register_block_size":
                registered |= {x.id for x in node.targets if isinstance(x, ast.Name)}
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.For) or called(node.iter) != "tile":
                continue
            for keyword in node.iter.keywords:
                names, sizes = entries(node.target), entries(keyword.value)
                if keyword.arg == "block_size" and len(names) == len(sizes):
                    blocks |= {n: s for n, s in zip(names, sizes, strict=True) if s in registered}
        return blocks

    def where(self, line):
        """Return `file:line` for a message."""
        return f"{self.file}:{line}"


def called(node):
    """Return the last name of what a call calls, `tile` of `hl.tile(m)`; else None."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", None))


def entries(node):
    """Return the names in `a` or `[a, b]`, None for what is no name."""
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return [getattr(item, "id", None) for item in items]
