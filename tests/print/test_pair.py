"""A forward and its backwards as one module: what is paired, what is refused, how it is printed."""

import ast
import json
import subprocess
import sys

import kit
import pallasc
import pytest
from builder import Doc, G, f32, sym
from kit import accepted, refused
from pallasc.lint import lint_module

RMS = kit.COVERAGE / "rms_norm_odd.json"
RMS_BWD = kit.COVERAGE / "rms_norm_bwd_odd.json"


def rows(name, inputs, outputs, dtypes=()):
    """A document whose every output is the sum of its inputs, [16, 128] each."""
    dtypes = dict(dtypes)
    doc = Doc(name=name).block(16)
    for role, names in (("input", inputs), ("output", outputs)):
        for array in names:
            doc.tensor(array, role, dtypes.get(array, "float32"), [16, 128])
    g = G(0, grid=[0])
    index = [sym("u0"), {"slice": [None, None, None]}]
    total = None
    for array in inputs:
        dtype = dtypes.get(array, "float32")
        tile = g.load(array, index, {"dtype": dtype, "shape": ["u0", 128]})
        if dtype != "float32":
            target = "prims.convert_element_type.default"
            tile = g.call(target, tile, {"dtype": "float32"}, meta=f32("u0", 128))
        total = (
            tile if total is None else g.call("aten.add.Tensor", total, tile, meta=f32("u0", 128))
        )
    for array in outputs:
        g.store(array, index, total)
    return doc.add(g.out())


@pytest.fixture
def pair(tmp_path):
    """Arguments for the command: paths of a forward and of backwards with --backward."""

    def write(forward, *backwards):
        paths = []
        for i, document in enumerate((forward, *backwards)):
            paths.append(tmp_path / f"{'bwd' if i else 'fwd'}{i}.json")
            paths[-1].write_text(json.dumps(document))
        return [paths[0], *(f"--backward={path}" for path in paths[1:])]

    return write


FORWARD = rows("sums", ["x", "y_in"], ["out", "kept"])


def rules(text):
    """The part of a module from the custom_vjp up to the function that callers use."""
    return text[text.index("@functools.partial(jax.custom_vjp") : text.index("\n\n\ndef sums(")]


def test_the_rules_read_well(pair):
    delta = rows("delta", ["out", "out_grad"], ["delta"])
    back = rows("back", ["delta", "kept", "x"], ["d_x", "grad_y"])
    text = accepted(*pair(FORWARD, delta, back), "--returns=out").out
    assert (
        rules(text)
        == """\
@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _sums_vjp(x, y_in, interpret):
    return _sums_fwd(x, y_in, interpret)[0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _sums_fwd(x, y_in, interpret):
    if interpret:
        _allow_checkpoint()
    out, kept = _sums_jit(x, y_in, interpret)
    residuals = (x, out, kept)
    return out, residuals


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _sums_bwd(interpret, residuals, out_grad):
    x, out, kept = residuals
    delta = _delta_jit(out, out_grad, interpret)
    d_x, grad_y = _back_jit(delta, kept, x, interpret)
    return d_x, grad_y


def _sums_twice(interpret, primals, tangents):
    raise TypeError("sums can be differentiated once: its backward has no gradient")


_sums_fwd.defjvp(_sums_twice)
_sums_bwd.defjvp(_sums_twice)
_sums_vjp.defvjp(_sums_fwd, _sums_bwd)"""
    )


def test_several_cotangents_and_no_residual(pair):
    back = rows("back", ["dout", "dkept"], ["dx"])
    text = accepted(*pair(FORWARD, back), "--nondiff=y_in").out
    assert "    return (out, kept), residuals" in text
    assert (
        rules(text).split("\n\n\n")[2]
        == """\
@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _sums_bwd(interpret, _, cotangents):
    dout, dkept = cotangents
    dx = _back_jit(dout, dkept, interpret)
    return dx, None"""
    )


def test_ignored_cotangents_have_no_name(pair):
    back = rows("back", ["dout"], ["dx", "dy"])
    text = accepted(*pair(FORWARD, back), "--nondiff=kept").out
    assert "    dout, _ = cotangents\n" in text
    text = accepted(
        *pair(FORWARD, rows("back", ["x"], ["dx", "dy"])), "--returns=kept", "--nondiff=kept"
    ).out
    assert "def _sums_bwd(interpret, residuals, cotangents):\n    (x,) = residuals\n" in text


def test_the_one_cotangent_has_short_names(pair):
    for name in ("dy", "do", "dout", "d_out", "grad", "grad_out", "grad_output"):
        forward = rows("sums", ["x"], ["result"])
        text = accepted(*pair(forward, rows("back", [name], ["dx"]))).out
        assert f"dx = _back_jit({name}, interpret)" in text


def test_names_that_say_nothing_are_mapped(pair):
    back = rows("back", ["a", "b"], ["c", "d"])
    words = "--residuals=a=kept", "--cotangents=b=out", "--gradients=c=x,d=y_in", "--returns=out"
    text = accepted(*pair(FORWARD, back), *words).out
    assert "    c, d = _back_jit(kept, b, interpret)\n    return c, d" in text


def test_one_name_in_several_backwards(pair):
    backs = rows("one", ["dy", "saved"], ["out"]), rows("two", ["dy", "saved"], ["out"])
    words = (
        "--returns=out",
        "--gradients=one.out=y_in,two.out=x",
        "--residuals=saved=x,two.saved=kept",
        "--cotangents=dy=out",
    )
    text = accepted(*pair(FORWARD, *backs), *words).out
    assert rules(text).split("\n\n\n")[2].splitlines()[-3:] == [
        "    d_y_in = _one_jit(dy, x, interpret)",
        "    d_x = _two_jit(dy, kept, interpret)",
        "    return d_x, d_y_in",
    ]


def test_names_that_clash_differ(pair):
    back = rows("sums", ["dout"], ["dx", "dy"])
    text = accepted(*pair(FORWARD, back), "--returns=out").out
    assert "    dx, dy = _sums_bwd_jit(dout, interpret)" in text
    assert text.count("def _sums_kernel(") == text.count("def _sums_bwd_kernel(") == 1


def test_long_lists_are_laid_out(pair):
    names = [f"a_rather_long_name_{i}" for i in range(8)]
    forward = rows("sums", names, ["out"])
    back = rows("back", ["dout", *names], [f"d_{name}" for name in names])
    check_clean(accepted(*pair(forward, back)).out)


def check_clean(text):
    assert lint_module(text) == []
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--stdin-filename=m.py", "-"]
        done = subprocess.run(ruff, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_clean():
    check_clean(accepted(RMS, f"--backward={RMS_BWD}", "--returns=out").out)


def test_python_gives_the_same_module():
    given = pallasc.vjp(RMS, RMS_BWD, returns=["out"], target="v5e").source
    words = f"--backward={RMS_BWD}", "--returns=out", "--target=v5e"
    assert given == accepted(RMS, *words).out


def test_the_page_shows_what_is_printed():
    page = (kit.ROOT / "docs" / "gradients.md").read_text()
    shown = page.split("```python\n@functools")[1].split("\n```")[0]
    assert f"\n@functools{shown}\n" in accepted(RMS, f"--backward={RMS_BWD}", "--returns=out").out


def test_what_is_told_of_backwards():
    text = accepted(RMS, f"--backward={RMS_BWD}", "--returns=out").out
    (info,) = [part for part in text.split("\n\n") if part.startswith("KERNEL_INFO = ")]
    info = ast.literal_eval(info.removeprefix("KERNEL_INFO = "))
    assert [array["name"] for array in info["outputs"]] == ["out"]
    (backward,) = info["backward"]
    assert backward["name"] == "rms_norm_bwd"
    assert [array["name"] for array in backward["outputs"]] == ["dx", "dweight"]
    assert backward["vmem_bytes"] > 0


def test_kernel_text_is_paired_too(tmp_path):
    expected = accepted(RMS, f"--backward={RMS_BWD}", "--returns=out").out
    texts = []
    for graph in (RMS, RMS_BWD):
        texts.append(tmp_path / f"{graph.stem}.kernel")
        texts[-1].write_text(accepted("--emit=kernel", graph).out)
    given = accepted(texts[0], f"--backward={texts[1]}", "--returns=out").out
    assert given == expected
    words = [texts[0], f"--backward={texts[1]}"]
    error = refused(1, *words, "--returns=out", "--nondiff=x")
    line = texts[1].read_text().splitlines().index("output dx bfloat16[421, 300]") + 1
    assert f"{texts[1]}:{line}:1: error: output 'dx' of rms_norm_bwd is the gradient of" in error
    warning = accepted(*words, "--returns=out", "--set=block_sizes=[8]").err
    assert "warning: kernel text is compiled as it stands" in warning
    texts[1].write_text(accepted("--emit=kernel", "--target=v7x", RMS_BWD).out)
    error = refused(1, texts[0], f"--backward={texts[1]}", "--returns=out")
    assert "error: rms_norm_bwd is for v7x, rms_norm for v6e [pair-program]" in error


def test_the_configuration_is_the_forward_s():
    back = [f"--backward={RMS_BWD}", "--returns=out"]
    text = accepted(RMS, *back, "--set=block_sizes=[8]").out
    assert text.count('"config": {"block_sizes": [8]') == 1


def test_hostile_names_stay_names(pair):
    names = ["a b'\"\n", "jax", "residuals", "None", "ü", "interpret", "__import__('os')"]
    forward = rows("sums", names, ["out", "cotangents", "class"])
    back = rows("back", ["dout", "d_cotangents", *names], [f"d_{name}" for name in names])
    text = accepted(*pair(forward, back), "--nondiff=class").out
    check_clean(text)
    compile(text, "m.py", "exec")
    error = refused(1, *pair(forward, rows("back", ["dout", "\x1b[31m"], ["d_jax"])))
    assert "input '\\x1b[31m' of back" in error and "\x1b" not in error


# ---- what is refused

BACK = rows("back", ["dout", "x"], ["dx", "dy"])
OUT = ("--returns=out",)
REFUSED = [
    (
        "unknown input",
        rows("back", ["dout", "foo"], ["dx", "dy"]),
        OUT,
        "bwd1.json:1:{foo}: error: input 'foo' of back is no input, output or cotangent of sums, "
        "nor given by an earlier backward [pair-unknown]",
    ),
    (
        "dtypes",
        rows("back", ["dout", "x"], ["dx", "dy"], {"x": "bfloat16"}),
        OUT,
        "bwd1.json:1:{x}: error: input 'x' of back is bfloat16[16, 128], input 'x' of sums is "
        "float32[16, 128] [pair-mismatch]",
    ),
    (
        "cotangent's dtype",
        rows("back", ["dout"], ["dx", "dy"], {"dout": "bfloat16"}),
        OUT,
        "input 'dout' of back is bfloat16[16, 128], the cotangent of output 'out' of sums is "
        "float32[16, 128]",
    ),
    (
        "gradient's dtype",
        rows("back", ["dout"], ["dx", "dy"], {"dy": "bfloat16"}),
        OUT,
        "output 'dy' of back is bfloat16[16, 128], input 'y_in' of sums is float32[16, 128]",
    ),
    (
        "unknown output",
        rows("back", ["dout"], ["dx", "dy", "foo"]),
        OUT,
        "output 'foo' of back is the gradient of no input of sums, and no later backward reads it",
    ),
    (
        "no gradient",
        rows("back", ["dout"], ["dx"]),
        OUT,
        "fwd0.json:1:{y_in}: error: no backward gives the gradient of input 'y_in' of sums "
        "[pair-gradient]",
    ),
    (
        "two gradients",
        rows("back", ["dout"], ["dx", "grad_x", "dy"]),
        OUT,
        "output 'grad_x' of back is a second gradient of input 'x' of sums, beside output 'dx' of "
        "back",
    ),
    (
        "nondiff with a gradient",
        BACK,
        (*OUT, "--nondiff=x"),
        "output 'dx' of back is the gradient of input 'x' of sums, which `nondiff` says has none",
    ),
    ("cotangent not taken", BACK, (), "sums returns 'kept', whose cotangent no backward takes"),
    (
        "cotangent of what is no output",
        BACK,
        (*OUT, "--cotangents=dout=kept"),
        "input 'dout' of back is no input, output or cotangent of sums, nor given by an earlier "
        "backward, as `cotangents` has it: 'kept'",
    ),
    (
        "unknown input in a wish",
        BACK,
        (*OUT, "--gradients=dx=foo"),
        "output 'dx' of back is the gradient of no input of sums, and no later backward reads it, "
        "as `gradients` has it: 'foo'",
    ),
    ("returns", BACK, ("--returns=foo",), "`returns` names 'foo', which is no output of sums"),
    ("nondiff", BACK, (*OUT, "--nondiff=f"), "`nondiff` names 'f', which is no input or output of"),
    (
        "wish",
        BACK,
        (*OUT, "--residuals=f=x"),
        "`residuals` says 'f=x', but no backward has such an",
    ),
    (
        "unknown in a wish",
        BACK,
        (*OUT, "--residuals=x=foo"),
        "input 'x' of back is no input, output or cotangent of sums, nor given by an earlier "
        "backward, as `residuals` has it: 'foo'",
    ),
]


@pytest.mark.parametrize(
    ("back", "words", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_refused(pair, tmp_path, back, words, message):
    arguments = pair(FORWARD, back)
    error = refused(1, *arguments, *words)
    for document, name in ((FORWARD, "fwd0"), (back, "bwd1")):
        text = (tmp_path / f"{name}.json").read_text()
        for array in document["tensors"]:
            column = text.index(json.dumps(array)) + 1
            if name in message:
                message = message.replace(f"{{{array['name']}}}", str(column))
    assert message in error


def test_a_name_that_fits_two_is_refused(pair):
    forward = rows("sums", ["x", "x_in"], ["out"])
    error = refused(1, *pair(forward, rows("back", ["dout"], ["dx", "d_x_in"])))
    assert "output 'dx' of back may be input 'x' of sums or input 'x_in' of sums" in error
    words = "--gradients=dx=x,d_x_in=x_in"
    accepted(*pair(forward, rows("back", ["dout"], ["dx", "d_x_in"])), words)


def updated(name):
    """x = x + 2 of float32[16, 128], in place."""
    doc = Doc(name=name).block(16).tensor("x", "inout", "float32", [16, 128])
    g = G(0, grid=[0])
    index = [sym("u0"), {"slice": [None, None, None]}]
    tile = g.load("x", index, f32("u0", 128))
    g.store("x", index, g.call("aten.add.Tensor", tile, 2.0, meta=f32("u0", 128)))
    return doc.add(g.out())


def test_what_is_updated_in_place_has_two_sides(pair):
    """Of `x` x_in is what it was, x_out what it became: of both there may be a residual."""
    error = refused(1, *pair(updated("more"), rows("back", ["dx", "x"], ["grad_x"])))
    assert "input 'x' of back may be input 'x' of more or output 'x' of more" in error
    assert "hint: 'x_in' is what it was before the update, 'x_out' what it became" in error
    for side, handed in (("x_in", "residuals = (x,)"), ("x_out", "residuals = (x_1,)")):
        arguments = pair(updated("more"), rows("back", ["dx", side], ["grad_x"]))
        assert handed in accepted(*arguments).out
        named = pair(updated("more"), rows("back", ["dx", "old"], ["grad_x"]))
        assert handed in accepted(*named, f"--residuals=old={side}").out
    back = rows("back", ["d_x_out", "x_in", "x_out"], ["d_x_in"])
    assert "residuals = (x, x_1)" in accepted(*pair(updated("more"), back)).out


def test_a_short_name_needs_one_output(pair):
    error = refused(1, *pair(FORWARD, rows("back", ["grad"], ["dx", "dy"])))
    assert "hint: sums has the outputs 'out', 'kept': say in `returns` which one is not" in error


def test_each_graph_says_what_is_wrong_with_it(pair):
    wrong = json.loads(json.dumps(BACK).replace("tile.load", "tile.lode"))
    error = refused(1, *pair(wrong, wrong, wrong))
    assert [f"{name}.json" in error for name in ("fwd0", "bwd1", "bwd2")] == [True] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--returns=out"], "--returns is for a pair of graphs: it needs a --backward"),
        (["--backward=-", "--config=-"], "standard input can be read only once"),
        (["--backward=b", "--emit=plan"], "--backward makes a Python module of several graphs"),
        (["--backward=b", "--passes=cse"], "--backward makes a Python module of several graphs"),
        (["--backward=b", "--sweep"], "a sweep judges one graph: leave out --backward"),
        (["--backward=b", "--residuals=a"], "expected BACKWARD=FORWARD, the names of two arrays"),
        (["--backward=b", "--nondiff="], "--nondiff needs names, with commas between"),
        (["--backward="], "--backward needs the name of a file"),
    ],
)
def test_wrong_usage(words, message):
    assert message in refused(2, RMS, *words)


def test_missing_files():
    assert "cannot read nowhere.json" in refused(3, RMS, "--backward=nowhere.json")
