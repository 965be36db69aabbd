"""Documents of one grid point, whose root does a few things with whole tensors."""

from document import WHOLE


def ref(name):
    """The argument that names a node."""
    return {"ref": name}


def call(name, target, *args):
    """A node."""
    return {"name": name, "target": target, "args": [*args]}


def tensor(name, role, dtype, shape):
    """A tensor."""
    return {"name": name, "role": role, "dtype": dtype, "shape": list(shape)}


def load(name, rank):
    """Nodes that name a host tensor and load all of it."""
    return [
        call(name, "tile.host_tensor", name),
        call(f"all_{name}", "tile.load", ref(name), [WHOLE] * rank),
    ]


def store(name, index, value):
    """Nodes that name a host tensor and store a value there."""
    return [
        call(name, "tile.host_tensor", name),
        call(f"to_{name}", "tile.store", ref(name), index, ref(value)),
    ]


def executed(document, seed=1, **values):
    """The case as properties.examine() takes it."""
    examined = {"seed": seed, "way": "executed", "thorough": False}
    return {"document": document, "values": values, **examined}


def document(name, tensors, nodes, scalars=()):
    """The document of these; scalars are int32, by name."""
    last = {"name": "output", "op": "output", "args": [[]]}
    return {
        **{"format": "fxtile", "version": 1, "name": name, "tensors": tensors},
        "scalars": [{"name": scalar, "dtype": "int32"} for scalar in scalars],
        "block_sizes": [{"id": 0, "symbol": "u0", "extent": 1, "size": 1}],
        "graphs": [{"id": 0, "kind": "root", "grid": [0], "nodes": [*nodes, last]}],
    }
