"""Tensors that are updated in place: of `x`, what was read is `x_in`, what was written `x_out`.

They are told apart where each tile reads its own place alone, before it writes it, and all of the
tensor is written. Then the graph is one of an input and an output.
"""

import copy

from .errors import WRITTEN, GradError
from .values import topological


def split(document, path):
    """(the document with an input and an output for each tensor that is updated, their names)."""
    names = [t["name"] for t in document["tensors"] if t["role"] == "inout"]
    if not names:
        return document, names
    document, tensors = copy.deepcopy(document), []
    listed = document.get("returns")
    if not listed:
        written = [t["name"] for t in document["tensors"] if t["role"] in ("output", "inout")]
        listed = document["returns"] = [{"tensor": name} for name in written]
    for entry in listed:
        if entry["tensor"] in names:
            entry["tensor"] += "_out"
    for t in document["tensors"]:
        if t.get("of") in names:
            raise GradError(f"{path}: {t['name']!r} is another name of {t['of']!r}, which changes")
        if t["name"] in names:
            tensors += [t | {"name": t["name"] + end, "role": role} for end, role in _ENDS]
        else:
            tensors.append(t)
    document["tensors"] = tensors
    return document, names


_ENDS = (("_in", "input"), ("_out", "output"))


def check(program):
    """Refuses reads of what may have been written before."""
    for name in program.inouts:
        stores = [s for s in program.stores if s.tensor == f"{name}_out"]
        values = topological([store.value for store in program.stores])
        for load in values:
            if load.target != "tile.load" or load.args[0] != f"{name}_in":
                continue
            for store in stores:
                if not _same(load.args[1], store.index):
                    raise GradError(
                        f"reads {name!r} at another place than it is written at, by a tile that "
                        "may run later",
                        load.origin,
                        WRITTEN,
                    )
        for store in stores:
            _check_store(program, store, name)
        if not stores:
            raise GradError(f"{name!r} is updated in place, and nothing writes it")


def _check_store(program, store, name):
    covers = store.mask is None
    found = set()
    for entry, size in zip(store.index, program.tensor(store.tensor)["shape"], strict=True):
        if isinstance(entry, dict) and entry.get("sym") in program.blocks:
            found.add(entry["sym"])
            covers &= program.extent(entry["sym"]) == size
        else:
            covers &= entry == {"slice": [None, None, None]}
    if not covers:
        raise GradError(
            f"writes a part of {name!r} alone; the rest stays as it was", store.origin, WRITTEN
        )
    if {*program.grid, *store.loops} - found:
        raise GradError(f"several tiles update one place of {name!r}", store.origin, WRITTEN)


def _same(index, other):
    return all(a is b or a == b for a, b in zip(index, other, strict=True))
