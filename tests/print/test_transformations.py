"""Emitted functions under jax's transformations: what a TPU runs stays what it is."""

import functools
import os
import re
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import kit
import numpy as np
import pytest
from pallasc.aot_worker import tracing_for
from pallasc.module import Module, kernel_text
from proof import ROOT

# Windows; arrays in HBM; run-time numbers and an update; a table read before the grid; float16.
GRAPHS = ("softmax_odd", "bmm", "put_row", "grouped_worklist_odd", "f16_layer_norm")


def module_of(graph):
    return kit.compiled(graph, "v6e")


def plain(module):
    """The module that calls pl.pallas_call itself; a kernel has its file's name in it."""
    text = re.sub(r"call = _pallas_call\(", "call = pl.pallas_call(", module.source)
    return Module(text, module.filename)


def lowered(module):
    """The text that XLA gets for a TPU, with its kernels."""
    info = module.info
    given = [*info["inputs"], *({"shape": (), **item} for item in info.get("scalars", ()))]
    arguments = [jax.ShapeDtypeStruct(item["shape"], item["dtype"]) for item in given]
    function = jax.jit(getattr(module.load(), info["name"]))
    with tracing_for(types.SimpleNamespace(device_kind="TPU v6 lite", num_cores=1)):
        return function.trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_tpu_runs_what_pallas_call_alone_gives(graph):
    module = module_of(graph)
    direct = plain(module)
    assert direct.source != module.source
    assert kernel_text(direct.source) == kernel_text(module.source)
    text = lowered(module)
    assert "tpu_custom_call" in text and text == lowered(direct)


def test_what_is_behind_the_helpers_is_part_of_the_kernel():
    source = module_of("softmax_odd").source
    text = kernel_text(source + "\n\ndef more(x):\n    return x\n")
    assert text == kernel_text(source) + "\n\ndef more(x):\n    return x\n"
    assert not re.search(r"_pallas_call|_varying|_axes|_batched|_threads", text)


@pytest.mark.parametrize("name", ("s", "name_of_many_letters_12", "n" * 31, "n" * 32, "n" * 63))
def test_versions_of_jax_are_no_part_of_the_kernel(name):
    """Wherever the line that tells of them breaks."""
    document = kit.text("softmax_odd").replace('"name": "softmax"', f'"name": "{name}"', 1)
    source = kit.compiled(document, "v6e").source
    assert '"jax": ">=0.8.3,<0.11"' in source and f"def {name}(" in source
    newer = kit.compiled(document, "v6e").source.replace("0.8.3", "0.10.2")
    newer = newer.replace("(0, 8, 3)", "(0, 10, 2)")
    assert kernel_text(newer) == kernel_text(source)
    assert '"jax": ">=0.10.2,<0.11"' in kernel_text(source)


SENTENCE = (
    "softmax has no backward: add one by pallasc --backward or pallasc grad, "
    "or give it jax.lax.stop_gradient of its arguments"
)


@pytest.mark.parametrize("outside", (lambda f: f, jax.jit, jax.checkpoint))
def test_differentiated_it_says_that_it_has_no_backward(outside):
    softmax = module_of("softmax_odd").load().softmax
    x = jnp.ones((421, 1000), jnp.bfloat16)
    function = outside(lambda x: softmax(x).astype(jnp.float32).sum())
    for differentiate in (
        lambda: jax.eval_shape(jax.grad(function), x),
        lambda: jax.eval_shape(lambda x: jax.vjp(function, x)[0], x),
        lambda: jax.eval_shape(lambda x: jax.jvp(function, (x,), (x,)), x),
        lambda: jax.eval_shape(lambda x: jax.linearize(function, x)[0], x),
    ):
        with pytest.raises(TypeError) as error:
            differentiate()
        assert str(error.value) == SENTENCE


def test_held_arguments_are_not_differentiated():
    softmax = module_of("softmax_odd").load().softmax

    def loss(x):
        return (softmax(jax.lax.stop_gradient(x)) * x).astype(jnp.float32).sum()

    gradient = jax.eval_shape(jax.grad(loss), jax.ShapeDtypeStruct((421, 1000), jnp.bfloat16))
    assert (gradient.shape, gradient.dtype) == ((421, 1000), jnp.bfloat16)


def test_a_batch_of_batches_with_numbers_and_updates():
    """Batched along any dim, or not; the updated array and the row's number too."""
    put_row = functools.partial(module_of("put_row").load().put_row, interpret=True)
    draw = np.random.default_rng(3)
    x, out = draw.normal(size=(2, 64, 3, 512)), draw.normal(size=(64, 512))
    x, out = jnp.asarray(x, jnp.float32), jnp.asarray(out, jnp.float32)
    to = jnp.asarray([5, 0, 63])
    many = jax.vmap(jax.vmap(put_row, (1, None, None, 0)), (0, None, None, None))
    together = many(x, out, 7, to)
    assert together.shape == (2, 3, 64, 512)
    for i in range(2):
        for j in range(3):
            wanted = out.at[int(to[j])].set(2.0 * x[i, 7, j])
            assert jnp.array_equal(together[i, j], put_row(x[i, :, j], out, 7, int(to[j])))
            assert jnp.array_equal(together[i, j], wanted)


SHARDED = """
import sys
sys.path[:0] = sys.argv[1:]
import functools, jax, jax.numpy as jnp, numpy as np
from jax.sharding import PartitionSpec as P
import kit
kernel = functools.partial(kit.compiled("bmm_odd", "v6e").load().bmm, interpret=True)
mesh = jax.make_mesh((2, 2), ("data", "model"))
draw = np.random.default_rng(1)
shapes = [item["shape"] for item in kit.compiled("bmm_odd", "v6e").info["inputs"]]
a, b = (jnp.asarray(draw.normal(size=shape), jnp.float32) for shape in shapes)
mapped = jax.shard_map(kernel, mesh=mesh, in_specs=(P("data"), P()), out_specs=P("data"))
with jax.set_mesh(mesh):
    both = jax.jit(mapped)(jax.device_put(jnp.concatenate([a, -a]), P("data")), b)
print(np.array_equal(np.asarray(both)[: a.shape[0]], np.asarray(kernel(a, b))))
"""


def sharded(**environment):
    """(status, what it printed, its error) of a kernel on 2 x 2 simulated devices."""
    paths = [str(ROOT / "python"), str(ROOT / "tests"), str(ROOT / "python" / "tests")]
    flags = "--xla_force_host_platform_device_count=4"
    given = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, **environment}
    process = subprocess.run(
        [sys.executable, "-c", SHARDED, *paths],
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
    )
    errors = [line for line in process.stderr.splitlines() if line.startswith("RuntimeError")]
    return process.returncode, process.stdout.strip(), errors


def test_simulated_devices_with_checked_axes():
    """One array varies along an axis of the mesh, the other along none."""
    assert sharded(NPROC="16") == (0, "True", [])


def test_too_few_threads_for_simulated_devices():
    status, printed, errors = sharded(NPROC="15")
    assert (status, printed) == (1, "")
    assert errors == [
        "RuntimeError: 4 simulated devices need NPROC=16 or more in the environment before jax "
        "starts: with fewer threads they wait forever"
    ]
