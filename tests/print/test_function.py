"""What an emitted function promises its callers, whatever the kernel."""

import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import proof
import pytest
from pallasc.simulate import interpret_params, simulate

ATTENTION = proof.Case("attention_b1_h2_s421_d128", "emit_pipeline")
SOFTMAX = proof.Case("softmax_odd")
BMM = proof.Case("bmm_odd", "fori_loop")
LOOPS = (
    *(proof.Case("attention_b1_h2_s384_d256", loop) for loop in proof.LOOPS),
    SOFTMAX,
    BMM,
)
# Several kernels in turn: of other grids, of one grid, in place with a run-time scalar.
ROOTS = tuple(
    proof.Case(graph)
    for graph in ("normalise_by_total_odd", "roots_shared_block_odd", "roots_gradient_step_odd")
)


def kernel(case):
    return proof.module(case).load()


@functools.cache
def plain_run(case):
    """The simulated run that others are compared with: a Simulation."""
    return simulate(kernel(case), proof.inputs(case.graph, "random"), interpret_params())


def right(case, outputs):
    """Of the random inputs, within the tolerances of the float64 formula."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    document = proof.document(case.graph)
    expected = proof.expected_formula(case.graph, "random", case.blocks)
    for index, (actual, wanted) in enumerate(zip(outputs, expected, strict=True)):
        tolerance = proof.compare.tolerance_for(document, index)
        actual = np.asarray(actual)
        assert proof.compare.compare(actual, wanted.reshape(actual.shape), tolerance).ok
    return True


@pytest.mark.parametrize("case", (*LOOPS, *ROOTS), ids=lambda case: case.id)
def test_interpret_true(case):
    arrays = proof.inputs(case.graph, "random")
    assert right(case, kernel(case)(*arrays, interpret=True))


@pytest.mark.parametrize("case", (*LOOPS, *ROOTS), ids=lambda case: case.id)
def test_grid_points_run_in_any_order(case):
    """Bit for bit the same in shuffled orders of the parallel dims, on one core and on two."""
    arrays = proof.inputs(case.graph, "random")
    others = [
        simulate(kernel(case), arrays, interpret_params(cores=cores, seed=seed))
        for cores, seed in ((1, 1), (2, 3))
    ]
    for run in (plain_run(case), *others):
        assert (run.races, run.complaints) == ([], [])
        for a, b in zip(run.outputs, plain_run(case).outputs, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("case", LOOPS, ids=lambda case: case.id)
def test_copies_that_move_at_once(case):
    """DMAs that act when they start instead of when they are waited for: the same bits."""
    arrays = proof.inputs(case.graph, "random")
    late, early = plain_run(case), simulate(kernel(case), arrays, interpret_params(eager=True))
    assert (early.races, early.complaints) == ([], [])
    for a, b in zip(late.outputs, early.outputs, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("case", (SOFTMAX, BMM, *ROOTS), ids=lambda case: case.id)
def test_inputs_are_left_alone(case):
    arrays = [np.asarray(x) for x in proof.inputs(case.graph, "random")]
    copies = [array.copy() for array in arrays]
    kernel(case)(*arrays, interpret=True)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(arrays, copies, strict=True))


@pytest.mark.parametrize("case", (SOFTMAX, BMM, ATTENTION, *ROOTS), ids=lambda case: case.id)
def test_under_jit(case):
    arrays = proof.inputs(case.graph, "random")
    function = jax.jit(lambda *inputs: kernel(case)(*inputs, interpret=True))
    assert right(case, function(*arrays))


@pytest.mark.parametrize("case", (*LOOPS, *ROOTS), ids=lambda case: case.id)
def test_under_vmap(case):
    """A batch of calls gives what the calls give one by one."""
    arrays = proof.inputs(case.graph, "random")
    batch = [jnp.stack([jnp.asarray(array), -jnp.asarray(array)]) for array in arrays]
    function = kernel(case)

    def call(*inputs):
        return function(*inputs, interpret=True)

    together = jax.tree.leaves(jax.vmap(call)(*batch))
    for index in range(2):
        alone = jax.tree.leaves(call(*(item[index] for item in batch)))
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(np.asarray(a[index]), np.asarray(b))


@pytest.mark.parametrize("chip", proof.CHIPS)
@pytest.mark.parametrize("case", (*LOOPS, *ROOTS), ids=lambda case: case.id)
def test_exports_for_a_tpu(case, chip):
    """jax.export with platforms=["tpu"], on a machine without one."""
    info = proof.module(case, chip).info
    given = [*info["inputs"], *({"shape": (), **item} for item in info.get("scalars", ()))]
    arguments = [jax.ShapeDtypeStruct(item["shape"], item["dtype"]) for item in given]
    function = getattr(proof.module(case, chip).load(), info["name"])
    exported = jax.export.export(jax.jit(function), platforms=["tpu"])(*arguments)
    assert exported.platforms == ("tpu",)
    kernels = proof.module(case, chip).plan.get("kernels", [None])
    assert exported.mlir_module().count("@tpu_custom_call") == len(kernels)
    wanted = [(tuple(item["shape"]), item["dtype"]) for item in info["outputs"]]
    assert [(item.shape, item.dtype.name) for item in exported.out_avals] == wanted


WRONG = {
    "shape": lambda x: x[:-1],
    "rank": lambda x: x[None],
    "transposed": lambda x: np.swapaxes(x, 0, 1),
    "dtype": lambda x: x.astype(np.float16),
    "float64": lambda x: x.astype(np.float64),
    "int64": lambda x: x.astype(np.int64),
    "list": lambda x: x.tolist(),
    "float": lambda x: 1.0,
    "none": lambda x: None,
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("interpret", (False, True))
def test_wrong_inputs_are_told(wrong, interpret):
    """A TypeError that names the input, what it must be, and what it is."""
    case = SOFTMAX
    (array,) = proof.inputs(case.graph, "random")
    with pytest.raises(TypeError, match=r"\bx must be bfloat16\[421, 1000\], not "):
        kernel(case)(WRONG[wrong](array), interpret=interpret)


def test_the_wrong_input_of_several_is_named():
    q, k, v = proof.inputs(ATTENTION.graph, "random")
    with pytest.raises(TypeError, match=r"\bk_in must be bfloat16\[1, 2, 421, 128\], not float32"):
        kernel(ATTENTION)(q, k.astype(np.float32), v)
    with pytest.raises(TypeError, match="argument"):
        kernel(ATTENTION)(q, k)


IMPORT = """
import builtins, os, sys, warnings
import jax, jax.numpy, jax.experimental.pallas, jax.experimental.pallas.tpu
before, options = set(sys.modules), dict(jax.config.values)
environment, directory = dict(os.environ), os.listdir(".")
def refuse(event, arguments):
    if event in ("open", "os.system", "subprocess.Popen", "socket.connect") and ".pyc" not in str(
        arguments[0]
    ) and not str(arguments[0]).endswith("kernel.py"):
        raise AssertionError(event, arguments)
warnings.simplefilter("error")
sys.path.insert(0, ".")
sys.dont_write_bytecode = True
sys.addaudithook(refuse)
import kernel
assert set(sys.modules) - before == {"kernel"}, set(sys.modules) - before
assert dict(jax.config.values) == options
assert dict(os.environ) == environment and os.listdir(".") == directory
assert not jax._src.xla_bridge._backends
print(type(kernel.KERNEL_INFO).__name__, *sorted(kernel.KERNEL_INFO))
"""


@pytest.mark.parametrize("case", (SOFTMAX, BMM, ATTENTION), ids=lambda case: case.id)
def test_import_has_no_side_effects(case, tmp_path):
    """No file, process, module, setting, device or warning; nothing printed."""
    (tmp_path / "kernel.py").write_text(proof.module(case).source)
    process = subprocess.run(
        [sys.executable, "-c", IMPORT], cwd=tmp_path, capture_output=True, text=True
    )
    keys = "dict compiler config estimate flops hbm_bytes inputs jax name outputs target"
    keys += " vmem vmem_bytes vmem_most_bytes"
    assert (process.stdout.strip(), process.stderr) == (keys, "")
