"""`pallasc.vjp`: simulated gradients beside jax's autodiff of the plain formula and differences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pairs
import pallasc
import pytest
from builder import Doc, G, f32, sl, sym
from pallasc import lint
from pallasc.errors import CompileError, UsageError

# Of an element, beside |b| + rms of its array; bfloat16 has 8 bits, and is rounded more than once.
TOLERANCE = {"float32": 2e-5, "bfloat16": 3e-2}


@functools.cache
def paired(name, dtype):
    """(the pair, its function, inputs, a cotangent)."""
    pair = pairs.PAIRS[name](dtype)
    function = pallasc.vjp(pair.forward, pair.backwards, **pair.wishes)
    rng = np.random.default_rng(0)
    inputs = [array(rng, entry, pair.bounds) for entry in function.info["inputs"]]
    (out,) = function.info["outputs"]
    return pair, function, inputs, array(rng, out, {})


def array(rng, entry, bounds):
    if entry["name"] in bounds:
        return jnp.asarray(rng.integers(0, bounds[entry["name"]] + 1, entry["shape"]), "int32")
    return jnp.asarray(rng.standard_normal(entry["shape"]) / 2, entry["dtype"])


def is_float(x):
    return jnp.issubdtype(x.dtype, jnp.floating)


def close(actual, expected, tolerance):
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape
    scale = np.abs(expected) + np.sqrt(np.mean(np.square(expected)))
    assert np.max(np.abs(actual - expected) / scale) <= tolerance


BFLOAT16 = pytest.param("bfloat16", marks=pytest.mark.full)


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16])
@pytest.mark.parametrize("name", pairs.PAIRS)
def test_as_autodiff_of_the_formula(name, dtype):
    pair, function, inputs, cotangent = paired(name, dtype)
    out, back = jax.vjp(functools.partial(function, interpret=True), *inputs)
    gradients = back(cotangent)
    wide = [x.astype("float32") if is_float(x) else x for x in inputs]
    expected, back = jax.vjp(pair.formula, *wide)
    close(out, expected, TOLERANCE[dtype])
    for x, gradient, wanted in zip(
        inputs, gradients, back(cotangent.astype("float32")), strict=True
    ):
        if is_float(x):
            assert gradient.dtype == x.dtype
            close(gradient, wanted, TOLERANCE[dtype])
        else:
            assert gradient.dtype == jax.dtypes.float0 and gradient.shape == x.shape


@pytest.mark.parametrize("name", pairs.PAIRS)
def test_as_finite_differences(name):
    """Along the gradient, where the difference is largest beside rounding, and one nearby."""
    _, function, inputs, cotangent = paired(name, "float32")
    floats = [i for i, x in enumerate(inputs) if is_float(x)]
    run = functools.partial(function, interpret=True)
    gradients = jax.vjp(run, *inputs)[1](cotangent)

    def along(directions, step):
        moved = list(inputs)
        for i, direction in zip(floats, directions, strict=True):
            moved[i] = inputs[i] + step * direction
        out = np.asarray(run(*moved), np.float64)
        return np.sum(out * np.asarray(cotangent, np.float64))

    rng = np.random.default_rng(1)
    slopes = [np.asarray(gradients[i], np.float64) for i in floats]
    steepest = [slope / np.sqrt(np.mean(np.square(slope))) for slope in slopes]
    mixed = [s + rng.standard_normal(s.shape) for s in steepest]
    for directions in (steepest, mixed):
        directions = [np.float32(direction) for direction in directions]
        wanted = sum(np.sum(s * d) for s, d in zip(slopes, directions, strict=True))
        step = 2e-3
        found = (along(directions, step) - along(directions, -step)) / (2 * step)
        assert abs(found - wanted) <= 2e-3 * abs(wanted), (found, wanted)


# ---- jax's ways


@pytest.fixture
def rms_norm():
    """(function of x and weight, which gives a number; the arguments; the gradients)."""
    _, function, inputs, cotangent = paired("rms_norm", "float32")
    gradients = jax.vjp(functools.partial(function, interpret=True), *inputs)[1](cotangent)
    return lambda *xs: jnp.sum(function(*xs, interpret=True) * cotangent), inputs, gradients


def same(gradients, expected):
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-5)


def test_under_grad_jit_and_checkpoint(rms_norm):
    loss, inputs, expected = rms_norm
    both = (0, 1)
    same(jax.grad(loss, both)(*inputs), expected)
    same(jax.jit(jax.grad(loss, both))(*inputs), expected)
    same(jax.grad(jax.jit(loss), both)(*inputs), expected)
    same(jax.grad(jax.checkpoint(loss), both)(*inputs), expected)
    same(jax.jit(jax.grad(jax.checkpoint(loss), both))(*inputs), expected)
    value, gradients = jax.value_and_grad(loss, both)(*inputs)
    same(gradients, expected)
    np.testing.assert_allclose(value, loss(*inputs), rtol=1e-5)
    same([jax.grad(loss, 1)(*inputs)], expected[1:])
    assert jax.eval_shape(jax.grad(loss, both), *inputs)[0].shape == inputs[0].shape


def test_layers_of_a_scan_are_recomputed():
    _, function, (x, weight), _ = paired("rms_norm", "float32")

    def network(layer):
        last = lambda x: jax.lax.scan(layer, x, None, length=2)[0]  # noqa: E731
        return jax.jit(jax.grad(lambda x: jnp.sum(last(x) ** 3)))(x)

    layer = lambda x, _: (function(x, weight, interpret=True), None)  # noqa: E731
    np.testing.assert_allclose(network(jax.checkpoint(layer)), network(layer), rtol=1e-6)


def test_under_checkpoint_on_a_tpu():
    """The forward's kernel runs again for the residuals."""
    _, function, inputs, _ = paired("rms_norm", "float32")
    loss = jax.checkpoint(lambda x, weight: jnp.sum(function(x, weight)))
    traced = jax.jit(jax.value_and_grad(loss)).trace(*inputs)
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert text.count('kernel_name = "rms_norm"') == 2
    assert text.count('kernel_name = "rms_norm_bwd"') == 1


def test_forward_mode_is_refused_by_jax(rms_norm):
    loss, inputs, _ = rms_norm
    with pytest.raises(TypeError, match=r"can't apply forward-mode .* to a custom_vjp function"):
        jax.jvp(loss, tuple(inputs), tuple(inputs))


def test_a_second_derivative_is_refused():
    function = pallasc.vjp(TRIPLE, BACK)
    for interpret in (True, False):
        run = functools.partial(function, interpret=interpret)
        first = jax.grad(lambda x, run=run: jnp.sum(run(x) ** 2))
        for second in (jax.grad(lambda x, first=first: jnp.sum(first(x))), jax.hessian(first)):
            with pytest.raises(
                TypeError, match=r"^triple can be differentiated once: its backward"
            ):
                jax.eval_shape(second, ONES)


def test_wrong_arguments_are_said(rms_norm):
    loss, (x, weight), _ = rms_norm
    with pytest.raises(TypeError, match=r"weight must be float32\[300\], not bfloat16\[300\]"):
        jax.grad(loss)(x, weight.astype("bfloat16"))


def test_the_module_is_a_module(tmp_path):
    _, function, inputs, _ = paired("rms_norm", "float32")
    assert lint.lint_module(function.source) == []
    assert function.__name__ == "rms_norm" and repr(function) == "<pallasc.Module rms_norm.py>"
    function.save(tmp_path / "m.py")
    read = pallasc.module.read_module(tmp_path / "m.py")
    assert read.info["backward"][0]["name"] == "rms_norm_bwd"
    again = read.load().rms_norm(*inputs, interpret=True)
    np.testing.assert_array_equal(again, function(*inputs, interpret=True))


# ---- what is given


def scale(name, array, result, number=None):
    """result = array times a number, or one that comes at run time."""
    doc = Doc(name=name).block(16)
    doc.tensor(array, "input", "float32", [16, 128]).tensor(result, "output", "float32", [16, 128])
    g = G(0, grid=[0])
    tile = g.load(array, [sym("u0"), sl()], f32("u0", 128))
    if number is None:
        doc.scalar("factor", "float32")
        number = g.call("tile.scalar", "factor", meta=f32())
    g.store(result, [sym("u0"), sl()], g.call("aten.mul.Tensor", tile, number, meta=f32("u0", 128)))
    return doc.add(g.out())


TRIPLE, BACK = scale("triple", "x", "out", 3.0), scale("back", "d_out", "d_x", 3.0)
ONES = jnp.ones((16, 128))


def test_modules_texts_paths_and_several_targets(tmp_path):
    sources = {pallasc.vjp(TRIPLE, BACK).source}
    compiled = pallasc.compile(TRIPLE), pallasc.compile(BACK)
    sources.add(pallasc.vjp(*compiled).source)
    sources.add(pallasc.vjp(compiled[0].kernel, [BACK]).source)
    paths = tmp_path / "f.py", tmp_path / "b.py"
    for path, module in zip(paths, compiled, strict=True):
        module.save(path)
    assert len(sources) == 1
    for chip in ("v5e", "v7x"):
        modules = [pallasc.compile(graph, target=chip) for graph in (TRIPLE, BACK)]
        assert pallasc.vjp(*modules).info["target"] == chip
        assert pallasc.vjp(modules[0], BACK).info["target"] == chip
        assert pallasc.vjp(TRIPLE, BACK, target=chip).info["target"] == chip
        with pytest.raises(CompileError, match=f"back is for v6e, triple for {chip}"):
            pallasc.vjp(modules[0], compiled[1])
    with pytest.raises(UsageError, match=r"f\.py: a module alone cannot be paired: give its graph"):
        pallasc.vjp(pallasc.module.read_module(paths[0]), BACK)


def test_numbers_at_run_time():
    forward, back = scale("scaled", "x", "out"), scale("back", "d_out", "d_x")
    with pytest.raises(CompileError, match="no backward gives the gradient of input 'factor'"):
        pallasc.vjp(forward, back)
    function = pallasc.vjp(forward, back, nondiff=["factor"])
    loss = lambda x, factor: jnp.sum(function(x, factor, interpret=True))  # noqa: E731
    gradients = jax.grad(loss, (0, 1))(ONES, 5.0)
    np.testing.assert_array_equal(gradients[0], 5 * ONES)
    assert gradients[1] == 0.0


def test_configurations():
    function = pallasc.vjp(TRIPLE, BACK, config={"block_sizes": [8]})
    assert function.info["config"]["block_sizes"] == [8]
    assert function.info["backward"][0]["config"]["block_sizes"] != [8]
    for config in ({"block_sizes": [8]}, [{"block_sizes": [8]}]):
        function = pallasc.vjp(TRIPLE, BACK, backward_config=config)
        assert function.info["backward"][0]["config"]["block_sizes"] == [8]
    with pytest.raises(UsageError, match="backward_config has 2 entries for 1 backwards"):
        pallasc.vjp(TRIPLE, BACK, backward_config=[None, None])


def test_wishes_of_another_kind():
    with pytest.raises(UsageError, match="vjp: there is no backward"):
        pallasc.vjp(TRIPLE, [])
    with pytest.raises(UsageError, match="gradients: a dict of names is needed"):
        pallasc.vjp(TRIPLE, BACK, gradients=["d_x"])
    with pytest.raises(UsageError, match="nondiff: a list of names is needed"):
        pallasc.vjp(TRIPLE, BACK, nondiff=[1])
    with pytest.raises(TypeError, match=r"a build\.Graph, JSON text or a path, not int"):
        pallasc.vjp(TRIPLE, 1)


def test_a_refusal_has_its_diagnostics():
    with pytest.raises(CompileError) as refused:
        pallasc.vjp(TRIPLE, scale("back", "d_out", "foo", 3.0))
    (first,) = refused.value.diagnostics
    assert first["code"] == "pair-unknown" and first["pointer"] == "/tensors/1"
    assert refused.value.exit_status == 1
