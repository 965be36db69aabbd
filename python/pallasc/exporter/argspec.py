"""The command line's arguments: `bf16[8,32,8192,128]` is a tensor, all else a Python literal.

`i64[128]:0..999` is a tensor whose values are of a range.
"""

import ast
import re

from ..errors import UsageError
from ..reference.values import DTYPES

SHORT = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "f64": "float64",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "b1": "bool",
}
LONG = {*SHORT.values(), *DTYPES}
_TENSOR = re.compile(r"([A-Za-z]\w*)\[([\d\s,x]*)\](?::(-?\d+)\.\.(-?\d+))?")


def argument_parse(text):
    """Return ("tensor", dtype name, shape, range or None), ("dtype", name) or ("literal", value).

    Raises UsageError for what is none of these.
    """
    text = text.strip()
    if match := _TENSOR.fullmatch(text):
        dtype, sizes, low, high = match.groups()
        if SHORT.get(dtype, dtype) not in LONG:
            raise UsageError(f"unknown dtype '{dtype}' in '{text}' (one of {', '.join(SHORT)})")
        shape = [size.strip() for size in re.split("[,x]", sizes)] if sizes.strip() else []
        if not all(size.isdigit() for size in shape):
            raise UsageError(f"a size is missing in '{text}'")
        ends = None if low is None else (int(low), int(high))
        return "tensor", SHORT.get(dtype, dtype), tuple(int(size) for size in shape), ends
    if SHORT.get(text, text) in LONG:
        return "dtype", SHORT.get(text, text)
    try:
        return "literal", ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        message = f"argument '{text}' is neither like bf16[128,64] nor a Python literal"
        raise UsageError(message) from error


def argument_make(parsed):
    """Return the value of a parsed argument; tensors are fakes, of no memory."""
    import torch
    from torch._subclasses import FakeTensorMode

    kind, *rest = parsed
    if kind == "tensor":
        with FakeTensorMode():
            return torch.empty(rest[1], dtype=getattr(torch, rest[0]))
    return getattr(torch, rest[0]) if kind == "dtype" else rest[0]
