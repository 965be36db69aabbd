"""Which target of the graph format each Helion operation becomes."""

import operator

# Helion's operations by the name of their function: (target, how many arguments to keep).
# Arguments past that are cache hints, memory orders and devices.
PLAIN = {
    "full": ("tile.full", 3),
    "subscript": ("tile.subscript", 2),
    "split": ("tile.split", 1),
    "join": ("tile.join", 2),
    "store": ("tile.store", 4),
    "load": ("tile.load", 3),
    "dot": ("tile.dot", 4),
    "_mask_to": ("tile.mask_to", 2),
    "_new_var": ("tile.new_var", 1),
    "_phi": ("tile.phi", 2),
    "_and": ("and_", 2),
    "_or": ("or_", 2),
    "_not": ("not_", 1),
    "tile_index": ("tile.index", 1),
    "tile_begin": ("tile.begin", 1),
    "tile_end": ("tile.end", 1),
    "tile_id": ("tile.id", 1),
    "tile_count": ("tile.count", 1),
    "tile_block_size": ("tile.block_size", 1),
    "atomic_add": ("tile.atomic_add", 3),
    "atomic_max": ("tile.atomic_max", 3),
    "atomic_min": ("tile.atomic_min", 3),
    "atomic_and": ("tile.atomic_and", 3),
    "atomic_or": ("tile.atomic_or", 3),
    "atomic_xor": ("tile.atomic_xor", 3),
    "atomic_xchg": ("tile.atomic_xchg", 3),
    "atomic_cas": ("tile.atomic_cas", 4),
}

# What to write for operations of Helion that a TPU lacks.
INSTEAD = {
    "device_print": "a kernel prints nothing: store the value to a tensor that it returns",
    "dot_scaled": "multiply by the scales, then hl.dot",
    "inline_asm_elementwise": "write it with torch",
    "inline_triton": "write it with torch",
    "triton_kernel": "write it with torch",
}

# Targets that do something besides giving a value, and so are never dead.
EFFECTS = ("tile.store", "tile.atomic_", "tile.for_loop", "tile.if", "tile.while", "tile.remote_")

SYMBOLIC = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "mod",
    operator.neg: "neg",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
    operator.and_: "and_",
    operator.or_: "or_",
    operator.not_: "not_",
}

# Ints of positions have no bits in the graph: a shift, or a mask of low bits, as arithmetic.
BITS = {operator.rshift: "floordiv", operator.lshift: "mul", operator.and_: "mod"}

RELATIONS = {
    "StrictLessThan": "lt",
    "LessThan": "le",
    "StrictGreaterThan": "gt",
    "GreaterThan": "ge",
    "Equality": "eq",
    "Unequality": "ne",
    "And": "and_",
    "Or": "or_",
    "Not": "not_",
}

# Helion's origins of a position symbol, by class name.
POSITIONS = {
    "GridOrigin": "tile.begin",
    "TileBeginOrigin": "tile.begin",
    "TileEndOrigin": "tile.end",
    "TileCountOrigin": "tile.count",
    "TileIdOrigin": "tile.id",
}

# Reductions whose result depends on how many elements there are.
COUNTING = {
    "aten.mean.default",
    "aten.mean.dim",
    "aten.var.correction",
    "aten.var_mean.correction",
    "aten.std.correction",
}

# Keyword arguments that mean nothing here.
IGNORED_KWARGS = {
    "device",
    "layout",
    "pin_memory",
    "memory_format",
    "requires_grad",
    "_extra_args",
    "_extra_deps",
}
