"""torch as the judge of single ops: documents of tests/whole/ops/cases.py, evaluated on a CPU.

Written from the names of the targets alone: what the reference and the compiler both take for
granted is not taken for granted here.

Tensors are strided, so that torch takes its scalar path: its vectors compute some functions with
less care (no denormals, fmod of large quotients) and contract products and sums.
"""

import ml_dtypes
import numpy as np
import torch

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint32": torch.uint32,
    "uint16": torch.uint16,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
# torch -> numpy: of what numpy lacks, a dtype of the same bits and what these are.
_BITS = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.int8, ml_dtypes.float8_e5m2),
}
_NUMPY_BITS = {np.dtype(there): here for here, (_, there) in _BITS.items()}


class Silent(Exception):
    """torch does not define it: it has no such kernel on a CPU, or refuses the dtypes."""


def dtype_of(name):
    """torch's dtype of that name; Silent if it has none."""
    if name not in DTYPES:
        raise Silent(f"torch has no {name}")
    return DTYPES[name]


def to_torch(array):
    """The tensor of an array of one of the format's dtypes."""
    if array.dtype == ml_dtypes.int4:
        raise Silent("torch has no int4")
    array = np.ascontiguousarray(array)
    here = _NUMPY_BITS.get(array.dtype)
    bits = array if here is None else array.view(np.int16 if array.itemsize == 2 else np.int8)
    spread = np.stack([bits, bits], -1)  # every second element: see the head of this file
    tensor = torch.from_numpy(spread)
    return (tensor if here is None else tensor.view(here))[..., 0]


def to_numpy(tensor):
    """The array of a tensor."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype in _BITS:
        bits, there = _BITS[tensor.dtype]
        return tensor.view(bits).numpy().view(there)
    return tensor.numpy()


def run(document, arrays):
    """What torch gives for each of the document's outputs: an array, or a Silent with the reason.

    The document has one root whose only block is u0, of a size that covers its extent.
    """
    size = {b["symbol"]: b["extent"] for b in document["block_sizes"]}
    values, inputs, outputs = {}, iter(arrays), {}
    shapes = {t["name"]: t for t in document["tensors"]}
    (graph,) = document["graphs"]
    hosts = {t["name"]: next(inputs) for t in document["tensors"] if t["role"] == "input"}
    for node in graph["nodes"][:-1]:
        try:
            values[node["name"]] = _node(node, values, size, hosts, shapes)
        except Silent as silent:
            values[node["name"]] = silent
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            values[node["name"]] = Silent(f"{node['target']}: {str(error).splitlines()[0]}")
        if node["target"] == "tile.store":
            outputs[values[node["args"][0]["ref"]]] = values[node["name"]]
    return [outputs[entry["tensor"]] for entry in document["returns"]]


def _node(node, values, size, hosts, shapes):
    target = node["target"]

    def value(raw):
        if isinstance(raw, list):
            return [value(item) for item in raw]
        if not isinstance(raw, dict):
            return raw
        if "ref" in raw:
            if isinstance(values[raw["ref"]], Silent):
                raise values[raw["ref"]]
            return values[raw["ref"]]
        if "sym" in raw:
            return size[raw["sym"]]
        if "slice" in raw:
            return slice(*raw["slice"])
        if "dtype" in raw:
            return dtype_of(raw["dtype"])
        return float(raw["float"])

    if target == "tile.host_tensor":
        return node["args"][0]
    if target == "tile.load":
        return to_torch(hosts[value(node["args"][0])])
    args = [value(arg) for arg in node["args"]]
    kwargs = {key: value(raw) for key, raw in (node.get("kwargs") or {}).items()}
    if target == "tile.store":
        tensor = shapes[args[0]]
        kept = args[2] if isinstance(args[2], torch.Tensor) else torch.tensor(args[2])
        return to_numpy(kept.to(dtype_of(tensor["dtype"])).expand(tensor["shape"]))
    return _call(target, args, kwargs)


def _call(target, args, kwargs):
    if target in _TILE:
        return _TILE[target](*args, **kwargs)
    library, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, library), name)
    if "sizes" in name or name in ("softmax", "log_softmax"):
        return getattr(packet, overload)(*args, **kwargs)
    if target == "aten.gather.default":
        args[2] = args[2].to(torch.int64)
    if overload == "correction":
        return getattr(torch, name)(*args, **kwargs)
    schema = getattr(packet, overload)._schema.arguments
    named = {a.name: a for a in schema}
    # What the format takes by position torch takes by name, and the other way round.
    positional = [a for a in schema if not a.kwarg_only]
    by_name = [a.name for a in schema if a.kwarg_only and a.name not in ("layout", "device")]
    extra = dict(zip(by_name, args[len(positional) :], strict=False))
    kept = {key: v for key, v in {**extra, **kwargs}.items() if key in named}
    given = [_as_declared(a, arg) for a, arg in zip(positional, args, strict=False)]
    return getattr(packet, overload)(*given, **kept)


def _as_declared(declared, arg):
    """A number where the schema has a tensor, as a tensor without dims: it promotes alike."""
    number = isinstance(arg, (bool, int, float)) and "Tensor" in str(declared.type)
    return torch.tensor(arg) if number else arg


def _mm(a, b, *rest):
    out = rest[-1] if rest and isinstance(rest[-1], torch.dtype) else None
    if not a.dtype.is_floating_point:
        return torch.matmul(a.to(torch.int64), b.to(torch.int64)).to(out or torch.int32)
    return (
        torch.matmul(a.to(torch.float64), b.to(torch.float64)).to(torch.float32).to(out or a.dtype)
    )


def _fma(a, b, c):
    """torch has it in compiled code alone: one rounding, by way of float64."""
    wide = [x.to(torch.float64) if isinstance(x, torch.Tensor) else x for x in (a, b, c)]
    return (wide[0] * wide[1] + wide[2]).to(a.dtype)


_TILE = {
    "tile.full": lambda shape, x, dtype: torch.full(shape, x, dtype=dtype),
    "tile.index": lambda size: torch.arange(size, dtype=torch.int32),
    "tile.subscript": lambda x, index: x[tuple(index)],
    "tile.split": lambda x: (x[..., 0], x[..., 1]),
    "tile.join": lambda a, b: torch.stack(torch.broadcast_tensors(a, b), -1),
    "tile.pre_broadcast_tile": lambda x, size: torch.cat([x] * (size // x.shape[-1]), -1),
    "tile.dot": lambda a, b: _mm(a, b, torch.int32 if not a.is_floating_point() else torch.float32),
    "aten.mm.dtype": _mm,
    "aten.bmm.dtype": _mm,
    "prims.fma.default": _fma,
    "getitem": lambda values, i: values[i],
}
