"""Data that steers a kernel: what is known of the arrays that it reads as scalars.

A kernel may take group sizes, page tables or the blocks of a mask as operands that it reads from
SMEM. Where such an array is a constant of the traced function, or the caller gives it, the run
reads it. In HBM an array lies in tiles; a copy to SMEM keeps that order, and the kernel's addresses
are those of it. `words` gives the image.
"""

import base64
import re

import numpy as np

FORMAT = 2  # of how much is known of calls: dumps of functions with data are kept by it
MAX_BYTES = 1 << 20  # SMEM has as much
_TYPE = r"%([\w.\-]+) = (\w+)\[([\d,]*)\]\{([^}]*)\}"
_CALL = r"%([\w.\-]+) = [^\n]*?custom-call\(([^\n]*?)\), custom_call_target=\"tpu_custom_call\""
_DTYPES = {
    "pred": "bool",
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32)},
    "f32": "float32",
}


def known_calls(closed, values):
    """What is known of the operands of Pallas kernels: [(name, {operand: array})], in their order.

    Args:
      closed: the traced function, a ClosedJaxpr.
      values: an array for each of its arguments, None where it is not known.
    """
    found = []
    _walk(closed.jaxpr, closed.consts, values, found)
    return found


def _walk(jaxpr, constants, values, found):
    """Evaluates what is known in a jaxpr; gives what is known of its results."""
    known = dict(zip(jaxpr.constvars, constants, strict=True))
    known |= dict(zip(jaxpr.invars, values, strict=True))

    def value(variable):
        return variable.val if hasattr(variable, "val") else known.get(variable)

    for equation in jaxpr.eqns:
        inputs = [value(variable) for variable in equation.invars]
        if equation.primitive.name == "pallas_call":
            # Bounds of the grid that are data are operands like others, the first ones.
            arrays = {i: a for i, a in enumerate(inputs) if _is_small(a)}
            name = equation.params.get("name") or ""
            found.append((name, {i: np.asarray(a) for i, a in arrays.items()}))
            continue
        results = _results(equation, inputs, found)
        known |= dict(zip(equation.outvars, results, strict=True))
    return [value(variable) for variable in jaxpr.outvars]


def _is_small(array):
    """Whether an array is known and one that SMEM can hold."""
    if array is None or np.size(array) == 0:
        return False
    array = np.asarray(array)
    return array.nbytes <= MAX_BYTES and array.dtype.name in _DTYPES.values()


def _results(equation, inputs, found):
    """What is known of an equation's results: None for what is not."""
    unknown = [None] * len(equation.outvars)
    named = ("jaxpr", "call_jaxpr", "call")  # the last of custom_vmap
    body = next((equation.params[name] for name in named if name in equation.params), None)
    if hasattr(body, "jaxpr") and len(body.jaxpr.invars) == len(inputs):
        return _walk(body.jaxpr, body.consts, inputs, found)
    if hasattr(body, "eqns") and len(body.invars) == len(inputs) and not body.constvars:
        return _walk(body, [], inputs, found)
    if any(value is None for value in inputs) or equation.effects or body is not None:
        return unknown
    if any(np.size(value) > MAX_BYTES for value in inputs):
        return unknown
    try:
        results = equation.primitive.bind(*inputs, **equation.params)
    except Exception:  # whatever cannot be computed here is not known
        return unknown
    return list(results) if equation.primitive.multiple_results else [results]


def save(calls, hlo):
    """{kernel: {operand: entry}} for a dump, of `known_calls` and the compiled module's text.

    A Pallas kernel keeps its name, and XLA puts a number behind it; one without a name is called as
    XLA likes. Where several have one name, they are told apart by nothing: what is not the same for
    all of them is not known.
    """
    named = {name for name, _ in calls}
    types = {name: rest for name, *rest in re.findall(_TYPE, hlo)}
    saved = {}
    for kernel, operands in re.findall(_CALL, hlo):
        base = kernel.partition(".")[0]
        alike = [arrays for name, arrays in calls if name == (base if base in named else "")]
        names = re.findall(r"%([\w.\-]+)", operands)
        entries = {}
        for index, array in (alike[0] if alike else {}).items():
            same = all(np.array_equal(array, other.get(index)) for other in alike)
            if same and index < len(names) and names[index] in types:
                dtype, _, layout = types[names[index]]
                entries[str(index)] = _entry(array, dtype, layout)
        saved[kernel] = {index: entry for index, entry in entries.items() if entry}
    return {kernel: entries for kernel, entries in saved.items() if entries}


def _entry(array, dtype, layout):
    """An array as JSON has it; None if the compiled kernel takes another dtype."""
    if dtype not in _DTYPES:
        return None
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "layout": layout, "data": data}


def tables(entries):
    """{operand: its words} of the entries of a kernel in a dump."""
    found = {}
    for index, entry in (entries or {}).items():
        data = np.frombuffer(base64.b64decode(entry["data"]), entry["dtype"])
        found[int(index)] = words(data.reshape(entry["shape"]), entry["layout"])
    return found


def words(array, layout):
    """An array as it lies in memory: 32-bit words, as signed ints.

    `layout` as in HLO: dims from the minor one on, then tiles: "1,0:T(8,128)(4,1)". Each tile cuts
    the last dims of what the one before left, filled up to whole tiles.
    """
    order, _, tiling = layout.partition(":")
    minor = [int(dim) for dim in order.split(",") if dim]
    array = np.transpose(array, minor[::-1])
    tiles = re.match(r"T((?:\([\d,*]+\))+)", tiling)
    for tile in re.findall(r"\(([\d,]+)\)", tiles[1]) if tiles else []:
        array = _tiled(array, [int(size) for size in tile.split(",")])
    data = np.ascontiguousarray(array).tobytes()
    return np.frombuffer(data + bytes(-len(data) % 4), "<i4").tolist()


def _tiled(array, tile):
    """An array whose last dims are cut into tiles, which become the last dims."""
    array = array.reshape((1,) * (len(tile) - array.ndim) + array.shape)
    lead = array.ndim - len(tile)
    padding = [-size % cut for size, cut in zip(array.shape[lead:], tile, strict=True)]
    array = np.pad(array, [(0, 0)] * lead + [(0, more) for more in padding])
    shape = list(array.shape[:lead])
    for size, cut in zip(array.shape[lead:], tile, strict=True):
        shape += [size // cut, cut]
    outer = [lead + 2 * dim for dim in range(len(tile))]
    inner = [dim + 1 for dim in outer]
    return array.reshape(shape).transpose([*range(lead), *outer, *inner])
