"""`pallasc.vjp` and `pallasc.jit` of a forward alone, at the sizes of its document or of a call."""

import json

import jax
import jax.numpy as jnp
import kit
import numpy as np
import pallasc
import plain
import pytest
from pallasc.errors import UsageError
from sized import sized


def array(*shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def softmax():
    """Softmax of bfloat16[S, D], for 421 x 1000."""
    return sized("softmax_odd", {"S": 421, "D": 1000})


def test_a_forward_alone():
    function = pallasc.vjp(kit.path("rms_norm_odd"), returns=["out"])
    inputs = [array(*t["shape"], dtype=t["dtype"], seed=1) for t in function.info["inputs"]]
    loss = lambda of: lambda x, w: (of(x, w).astype("float32") ** 2).sum()  # noqa: E731
    got = jax.jit(jax.grad(loss(lambda x, w: function(x, w, interpret=True)), (0, 1)))(*inputs)
    wide = [x.astype("float32") for x in inputs]
    wanted = jax.grad(loss(lambda x, w: plain.rms_norm(x, w)[0]), (0, 1))(*wide)
    for x, gradient, other in zip(inputs, got, wanted, strict=True):
        assert gradient.dtype == x.dtype
        assert jnp.abs(gradient.astype("float32") - other).max() < 2e-2 * jnp.abs(other).max()


def test_what_the_forward_keeps_is_not_returned():
    function = pallasc.vjp(kit.document("cross_entropy_online_odd"))
    assert [t["name"] for t in function.info["outputs"]] == ["losses"]
    assert "residuals = (logits, labels, logsumexp)" in function.source


def test_tensors_that_are_updated_in_place():
    function = pallasc.vjp(kit.document("add_in_place_odd"))
    x, y = (array(421, 300, dtype=t["dtype"]) for t in function.info["inputs"])
    d_x, d_y = jax.grad(
        lambda *inputs: function(*inputs, interpret=True).astype("float32").sum(), (0, 1)
    )(x, y)
    assert np.array_equal(np.asarray(d_x), np.ones(x.shape)) and d_x.dtype == x.dtype
    assert np.array_equal(np.asarray(d_y), np.ones(y.shape)) and d_y.dtype == y.dtype


def test_named_sizes_are_those_of_the_document_or_asked_for(tmp_path, capsys):
    from pallasc.__main__ import main

    for sizes in ({}, {"S": 24}):
        backward = pallasc.grad(softmax(), sizes=sizes)
        rows = {"S": 421, **sizes}["S"]
        assert backward == pallasc.grad(
            json.loads(kit.text("softmax_odd").replace("421", str(rows)))
        )
    file = tmp_path / "softmax.json"
    file.write_text(json.dumps(softmax()))
    assert main(["grad", str(file), "--size", "S=24"]) == 0
    shapes = [t["shape"] for t in json.loads(capsys.readouterr().out)["tensors"]]
    assert shapes == [[24, 1000]] * 3
    assert main(["grad", str(file), "--size", "T=24"]) != 0
    assert "there is no size 'T': its sizes are S, D" in capsys.readouterr().err
    function = pallasc.vjp(softmax(), sizes={"S": 24})
    assert function.info["inputs"][0]["shape"] == [24, 1000]


def test_jit_reads_the_sizes_from_arguments():
    function = pallasc.jit(softmax(), interpret=True, gradients=True)
    for rows in (24, 40):
        x, given = array(rows, 1000, dtype="bfloat16"), array(rows, 1000, dtype="bfloat16", seed=1)
        out, pull = jax.vjp(function, x)
        (gradient,) = pull(given)
        wide, back = jax.vjp(plain.softmax, x.astype("float32"))
        (wanted,) = back(given.astype("float32"))
        for a, b in ((out, wide), (gradient, wanted)):
            assert jnp.abs(a.astype("float32") - b).max() < 2e-2 * jnp.abs(b).max()
    assert function.cache_info().currsize == 2


def test_what_does_not_go_together_is_refused():
    with pytest.raises(UsageError, match="no buckets"):
        pallasc.jit(softmax(), gradients=True, buckets={"S": 8})
    with pytest.raises(UsageError, match="give its document"):
        pallasc.vjp(pallasc.compile(kit.document("add")))
    with pytest.raises(UsageError, match="sizes are of a forward whose backward is derived"):
        pallasc.vjp(softmax(), pallasc.grad(softmax()), sizes={"S": 24})
    graph = kit.document("adamw_run_time_odd")
    with pytest.raises(pallasc.CompileError, match="gives the gradient of input 'rate'"):
        pallasc.vjp(graph)
    names = [s["name"] for s in graph["scalars"] if "value" not in s]
    assert pallasc.vjp(graph, nondiff=names).info["name"] == graph["name"]
