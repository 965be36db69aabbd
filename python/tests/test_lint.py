import pytest
from pallasc.lint import lint_module

HEAD = 'import jax\n\nKERNEL_INFO = {"name": "k"}\n\n\n'


def codes(body, source_lines=None, head=HEAD):
    return [finding.code for finding in lint_module(head + body, source_lines)]


def kernel(*lines):
    return "def k(x_ref, o_ref):\n" + "".join(f"    {line}\n" for line in lines)


def test_clean_modules(data):
    for path in data.glob("*.py"):
        assert lint_module(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = (\n", "P001"),
        ("x\0", "P001"),
        ("print(1)\n", "P101"),
        ("x = 1\n", "P101"),
        ('KERNEL_INFO = {"a": f()}\n', "P101"),
        ("KERNEL_INFO = {}\nclass A:\n    pass\n", "P101"),
        ("def f(x=g()):\n    return x\n", "P101"),
        ("def f(x: g()):\n    return x\n", "P101"),
        ("@evil\ndef f(x):\n    return x\n", "P101"),
        ("@jax.jit(evil())\ndef f(x):\n    return x\n", "P101"),
        ("@functools.partial(jax.jit, static_argnames=(f(),))\ndef f(x):\n    return x\n", "P101"),
        ("def f(x):\n    return x\n\n\nf.defvjp(f, evil())\n", "P101"),
        ("def f(x):\n    return x\n\n\nf.defvjp(f, jax.jit)\n", "P101"),
        ("def f(x):\n    return x\n\n\nf.defjvp(f, f)\n", "P101"),
        ("def f(x):\n    return x\n\n\nf.evil(f, f)\n", "P101"),
        ("import numpy\n", "P102"),
        ("import os\n", "P102"),
        ("from . import x\n", "P102"),
        ("from os import system\n", "P102"),
        ("import jax._src.core\n", "P102"),
        ("def f():\n    from jax._src import core\n    return core\n", "P102"),
        ("def f():\n    return __import__('jax')\n", "P103"),
        ("def f():\n    return eval('1')\n", "P103"),
        ("def f(x):\n    return x.__class__\n", "P103"),
        ("def f(x):\n    return getattr(x, 'y')\n", "P103"),
        ("def f():\n    return __builtins__\n", "P103"),
        ("def f():\n    return '/home/me/x.py'\n", "P104"),
        ("# see /work/x.py\n", "P104"),
        ("def f():\n    return r'C:\\x'\n", "P104"),
    ],
)
def test_skeleton_and_names(text, code):
    assert code in [finding.code for finding in lint_module(text)]


def test_allowed_skeleton():
    text = (
        '"""Doc."""\nimport functools\nimport warnings\n'
        "from jax.experimental import pallas as pl\n\n" + HEAD + "\n"
        "@jax.jit\ndef f(x):\n    return x\n\n"
        '@functools.partial(jax.jit, static_argnames=("interpret",))\n'
        "def g(*inputs, interpret=False):\n"
        "    try:\n        from jax._src import core\n\n        return core.x\n"
        "    except ImportError:\n        return inputs\n\n"
        "@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))\n"
        "def h(x, interpret):\n    return x\n\n"
        "h.defvjp(f, g)\nf.defjvp(g)\n"
    )
    assert lint_module(text) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a = x_ref[...]", "o_ref[...] = a"], []),
        (["a = x_ref[...]"], ["P201"]),
        (["_a = x_ref[...]"], []),
        (["a = 1", "a = 2", "o_ref[0] = a"], ["P201"]),
        (["a = 1", "a = a + 1", "o_ref[0] = a"], []),
        (["def f():", "    return 1"], ["P201"]),
        (["a, b = x_ref[...]", "o_ref[...] = a"], ["P201"]),
        (["a = 1", "def f(i):", "    return a + i", "o_ref[0] = f(1)"], []),
    ],
)
def test_unused(lines, expected):
    assert codes(kernel(*lines)) == expected


@pytest.mark.parametrize(
    ("lines", "repeated"),
    [
        (["a = jnp.exp(x)", "b = jnp.exp(x)"], True),
        (["a = x * 2", "b = x * 2"], True),
        (["a = 1", "b = 1"], False),
        (["a = x", "b = x"], False),
        (["a = jnp.zeros((8,))", "b = jnp.zeros((8,))"], False),
        (["a = x_ref[0]", "b = x_ref[0]"], True),
        (["a = x_ref[0]", "x_ref[0] = a", "b = x_ref[0]"], False),
        (["a = x_ref[0]", "copy.wait()", "b = x_ref[0]"], False),
        (["a = x_ref[0]", "f(x_ref)", "b = x_ref[0]"], False),
        (["a = x * 2", "copy.wait()", "b = x * 2"], True),
        (["a = x * 2", "x = y", "b = x * 2"], False),
        (["x = x * 2", "x = x * 2"], False),
        (["a = f(x)", "b = f(x)"], False),
        (["a = x * 2", "def g(i):", "    b = x * 2", "    return b + i"], True),
        (["a = x * 2", "def g(x):", "    b = x * 2", "    return b"], False),
        (["a = x_ref[0]", "def g(i):", "    b = x_ref[0]", "    return b"], False),
        (["def g(x):", "    a = y * 2", "    return a", "b = y * 2"], False),
        (["if a:", "    b = y * 2", "else:", "    b = y * 2"], False),
        (["a = y * 2", "if a:", "    b = y * 2"], True),
        (["for i in r:", "    a = i * 2", "    i = 3", "b = i * 2"], False),
        (["a = i * 2", "for i in r:", "    b = i * 2"], False),
        (["a = lambda x: x * 2", "b = lambda x: x * 2"], False),
    ],
)
def test_repeated(lines, repeated):
    lines = [*lines, "return a, b, g, x"]
    assert ("P202" in codes(kernel(*lines))) == repeated


def test_comments():
    body = kernel("# a = x", "a = x_ref[0]", "# a = x", "o_ref[0] = a")
    assert codes(body) == ["P203"]
    assert codes(body, ["a = x"]) == ["P203"]
    assert codes(body, ["a  = x", "a = x"]) == []
    assert codes(body, []) == []


def test_command(cli, data, tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("import os\n")
    result = cli("lint", data / "tiled_add.py", bad)
    assert result.returncode == 1
    assert result.stdout == f"{bad}:1:1: P102 imports os: a kernel has no use for it\n"
    assert cli("lint", data / "tiled_add.py").returncode == 0
    assert cli("lint", tmp_path / "none.py").returncode == 3
