import subprocess
import sys

import numpy as np
import pytest
from pallasc.errors import FileError, ModuleError
from pallasc.module import Module, parse_info, read_module

INFO = 'KERNEL_INFO = {"name": "k", "target": "v6e", "inputs": [], "outputs": [], "config": {}}\n'


def test_info_runs_nothing():
    module = Module(INFO + "raise SystemExit(5)\ndef k(*inputs, interpret=False):\n    pass\n")
    assert module.info["name"] == "k"


def test_load_calls_the_kernel(data):
    module = read_module(data / "tiled_add.py")
    x, y = np.ones((2, 40, 300), np.float32)
    out = module.load()(x, y, np.float32(3), interpret=True)
    assert np.array_equal(out, np.full((40, 300), 4, np.float32))
    assert module.load() is module.load()
    assert module.load().tiled_add is not None


def test_kernels_work_inside_jit(data):
    import jax

    for name in ("dma_double", "pipelined"):
        module = read_module(data / f"{name}.py")
        x = np.ones(module.info["inputs"][0]["shape"], np.float32)
        out = jax.jit(lambda x, load=module.load: load()(x + 1, interpret=True) + 1)(x)
        assert np.array_equal(out, np.full(x.shape, 5, np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("x = (\n", ":1: not Python"),
        ("import jax\n", "no KERNEL_INFO"),
        ("KERNEL_INFO = dict(name='k')\n", "no KERNEL_INFO"),
        ("KERNEL_INFO = {'name': 'k'}\n", "has no target, inputs"),
        (INFO, "'k', which is not defined"),
        (INFO.replace('"inputs": []', '"inputs": [3]') + "def k(): pass\n", "malformed"),
        ("x\0y", "not Python"),
        ("(" * 5000, "not Python"),
    ],
)
def test_not_a_module(text, message):
    with pytest.raises(ModuleError, match=message):
        parse_info(text, "f.py")


def test_module_that_does_not_load():
    body = "def k(*inputs, interpret=False):\n    pass\n"
    for line in ("import no_such_thing\n", "1 / 0\n"):
        with pytest.raises(ModuleError, match="does not load"):
            Module(INFO + line + body).load()


def test_unreadable(tmp_path):
    with pytest.raises(FileError, match="cannot read"):
        read_module(tmp_path / "none.py")
    (tmp_path / "latin.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="UTF-8"):
        read_module(tmp_path / "latin.py")


def test_importing_the_package_is_light():
    code = (
        "import sys, pallasc; pallasc.Module; pallasc.CompileError; "
        "print([m for m in ('jax', 'numpy', 'torch') if m in sys.modules])"
    )
    path = str(__import__("pathlib").Path(__file__).resolve().parents[1])
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}
    )
    assert result.stdout.strip() == "[]", result.stderr


def test_what_is_read_when_it_is_asked_for():
    module = Module(INFO + "def k(*inputs):\n    pass\n", None, '{"vmem": 1}')
    assert (module.filename, module.plan) == ("k.py", {"vmem": 1})
    assert Module("no Python (", None, "{").source == "no Python ("
    with pytest.raises(ModuleError, match="<pallasc>:1: not Python"):
        _ = Module("no Python (", None).filename
