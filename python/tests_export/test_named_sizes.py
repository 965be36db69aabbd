"""Sizes of arguments as names: one export is what exports at each size would be."""

import json
import pathlib
import re

import helion
import helion.language as hl
import numpy as np
import pytest
import torch
from pallasc import reference
from pallasc.export import ExportError, arrays, from_helion, kernel_load, main
from pallasc.reference import expr

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "testdata/kernels"
# Where strings are expressions.
EXPRESSIONS = ("shape", "extent", "begin", "size", "slice", "sym", "args")
PLAIN = ("name", "target", "loc", "config")


def kernel(file, name):
    return kernel_load(str(KERNELS / f"{file}.py"), name)


def at_sizes(value, sizes, key=None):
    """A document with the number of each name in place of it."""
    if isinstance(value, dict) and key not in PLAIN:
        found = {k: at_sizes(v, sizes, k) for k, v in value.items() if k != "sizes"}
        argument = set(found) == {"sym"} and isinstance(found["sym"], int) and key != "meta"
        return found["sym"] if argument else found
    if isinstance(value, list):
        return [at_sizes(entry, sizes, key) for entry in value]
    if not isinstance(value, str) or key not in EXPRESSIONS or not re.search(r"_\d", value):
        return value
    names = expr.names(value)
    return expr.evaluate(value, sizes.__getitem__) if names and names <= set(sizes) else value


def meta(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("name", ["attention", "causal_attention"])
def test_one_export_is_that_of_each_length(name):
    function = kernel("attention", name)

    def export(batch, length, named):
        q = meta(batch, 2, length, 64, dtype=torch.bfloat16)
        return from_helion(function, (q, q, q), named_sizes=named)

    document = export(3, 256, True)
    assert document["tensors"][0]["shape"] == ["q_in_0", "q_in_1", "q_in_2", 64]
    sizes = document["sizes"]
    assert list(sizes)[:3] == ["q_in_0", "q_in_1", "q_in_2"] and sizes["q_in_2"] == 256
    assert document["block_sizes"][0]["extent"] == "q_in_0 * q_in_1"
    for batch, length in ((3, 256), (2, 421), (5, 512)):
        chosen = {n: {"0": batch, "1": 2, "2": length}[n[-1]] for n in sizes}
        assert at_sizes(document, chosen) == export(batch, length, False)


@helion.kernel(static_shapes=False)
def centred(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m in hl.tile(x.size(0)):
        rows = x[tile_m, :]
        out[tile_m, :] = rows - torch.amax(rows, -1, keepdim=True)
    return out


def test_a_kernel_for_any_sizes():
    """By the kernel's own settings; Helion takes the number of what is loaded whole."""
    document = from_helion(centred, (meta(24, 40),))
    assert document["sizes"] == {"x_0": 24}
    assert document["tensors"][1]["shape"] == ["x_0", 40]
    for m in (24, 17):
        x = np.random.default_rng(m).standard_normal((m, 40)).astype(np.float32)
        (out,) = reference.run(at_sizes(document, {"x_0": m}), [x])
        np.testing.assert_array_equal(out, x - x.max(-1, keepdims=True))
        assert arrays(document, [torch.from_numpy(x)])[0].shape == (m, 40)
    with pytest.raises(ExportError, match=r"'x' is \[24, 41\], not \['x_0', 40\]"):
        arrays(document, [torch.zeros(24, 41)])
    assert "sizes" not in from_helion(centred, (meta(24, 40),), named_sizes=False)
    assert "sizes" not in from_helion(kernel("softmax", "softmax"), (meta(24, 40),))


@helion.kernel(static_shapes=False)
def deciding(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    assert x.size(1) > 1
    scale = 2.0 if x.size(0) > 16 else 3.0
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] * scale
    return out


@helion.kernel(static_shapes=False)
def asserting(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    assert x.size(0) == y.size(0)
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] + y[tile]
    return out


def test_what_host_code_asserts_has_one_name():
    document = from_helion(asserting, (meta(24, 40), meta(24, 40)))
    shapes = [tensor["shape"] for tensor in document["tensors"]]
    assert shapes == [["x_0", "x_1"], ["x_0", "y_1"], ["x_0", "x_1"]]


def test_what_host_code_decides_by_is_a_number():
    document = from_helion(deciding, (meta(24, 40),))
    assert "sizes" not in document
    document = from_helion(halving, (meta(24, 40),))
    assert document["tensors"][0]["shape"] == [24, "x_1"]


@helion.kernel(static_shapes=False)
def halving(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile([min(x.size(0), 16), x.size(1)]):
        out[tile] = x[tile] * 0.5
    return out


def test_sizes_that_cannot_be_names(capsys):
    split = kernel("split_k", "matmul_split_k")
    args = (meta(64, 1024), meta(1024, 64))
    with pytest.raises(ExportError, match="sizes of matmul_split_k cannot be names"):
        from_helion(split, args, named_sizes=True)
    loose = helion.kernel(split.fn, static_shapes=False)
    assert "sizes" not in from_helion(loose, args)
    assert "note: sizes of matmul_split_k are numbers: split_k.py:" in capsys.readouterr().err


def test_the_command(tmp_path):
    path = tmp_path / "softmax.json"
    argv = [f"{KERNELS}/softmax.py:softmax", "--args", "f32[64,128]", "-o", str(path)]
    assert main([*argv, "--named-sizes"]) == 0
    assert json.loads(path.read_text())["sizes"] == {"x_0": 64, "x_1": 128}
