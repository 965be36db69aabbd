"""Six kernels simulated, and seven compiled for a TPU, by the jax and libtpu of this Python.

`make check-jax` runs it in .venv and in each environment of requirements-jax-VERSION.txt: one
module text is for all. Of VMEM no more than predicted is used since jax 0.10; before, it is told.
"""

import functools
import importlib.metadata
import sys
import warnings
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parents[1]),
    str(Path(__file__).resolve().parents[2] / "python"),
]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import proof  # noqa: E402
from pallasc import aot_worker  # noqa: E402

CASES = (
    proof.Case("softmax_odd"),
    proof.Case("softmax_two_pass", "emit_pipeline"),
    proof.Case("bmm_odd", "fori_loop"),
    proof.Case("layer_norm"),
    proof.Case("matmul_split_k_odd", "resident"),
    proof.Case("attention_b1_h2_s384_d256", "unroll"),
)
# A pipeline in the kernel, which sums what its points give, and takes and gives 1-D arrays.
LARGE = (proof.Case("rms_norm_bwd_4096_8192", blocks=(128,)),)
CHIPS = ("v5e", "v6e")


def tracing_for(device):
    """As that of aot_worker, for versions of jax whose AbstractDevice has no platform."""
    abstract = jax.sharding.AbstractDevice(device.device_kind, device.num_cores)
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=abstract)
    return jax.sharding.use_abstract_mesh(mesh)


def simulated(case):
    """Whether the simulated outputs are within the tolerances of the float64 formula."""
    arrays = proof.inputs(case.graph, "random")
    outputs = proof.module(case).load()(*arrays, interpret=True)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    document = proof.document(case.graph)
    expected = proof.expected_formula(case.graph, "random", case.blocks)
    verdicts = [
        proof.compare.compare(
            np.asarray(actual),
            wanted.reshape(actual.shape),
            proof.compare.tolerance_for(document, index),
        )
        for index, (actual, wanted) in enumerate(zip(outputs, expected, strict=True))
    ]
    return all(verdict.ok for verdict in verdicts)


def compiled(case, chip):
    """(whether it compiles and its VMEM is as it must be, what is to be told)."""
    module = proof.module(case, chip)
    used = max(aot_worker.scoped_vmem(aot_worker.compile_module(module, chip)))
    predicted = module.info["vmem_bytes"]
    kept = used <= predicted or jax.__version_info__ < (0, 10)
    return kept, f"compiled, VMEM {used} of {predicted} predicted"


def transformed():
    """Whether vmap, a checked shard_map and the refused gradient do what they do elsewhere."""
    softmax = proof.module(CASES[0]).load().softmax
    kernel = functools.partial(softmax, interpret=True)
    (x,) = (jnp.asarray(array) for array in proof.inputs(CASES[0].graph, "random"))
    plain = kernel(x)
    parts = jax.sharding.PartitionSpec("data")
    mesh = jax.sharding.Mesh(np.asarray(jax.devices("cpu")[:1]), ("data",))
    mapped = jax.shard_map(kernel, mesh=mesh, in_specs=parts, out_specs=parts)
    try:
        jax.grad(lambda x: softmax(x).astype("float32").sum())(x)
        return False
    except TypeError as error:
        good = str(error).startswith("softmax has no backward: ")
    good = good and jnp.array_equal(jax.vmap(kernel)(jnp.stack([-x, x]))[1], plain)
    return bool(good and jnp.array_equal(jax.jit(mapped)(x), plain))


def asked(question, *arguments):
    """(whether the answer is good, what is to be told of it)."""
    try:
        answer = question(*arguments)
    except Exception as error:
        return False, f"{type(error).__name__}: {str(error)[:300]}"
    return answer if isinstance(answer, tuple) else (answer, "right" if answer else "WRONG")


def main():
    """Prints a line for each question; exit status 1 if an answer is not good."""
    names = ("jax", "jaxlib", "libtpu")
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in names), flush=True)
    if jax.__version_info__ < (0, 10):
        aot_worker.tracing_for = tracing_for
    all_good = True
    questions = [("transformations", transformed)]
    for case in (*CASES, *LARGE):
        if case in CASES:
            questions.append((f"{case.id}: simulated", simulated, case))
        questions += [(f"{case.id}: {chip}", compiled, case, chip) for chip in CHIPS]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*tested with jax")
        for name, *question in questions:
            good, told = asked(*question)
            print(f"{name}: {told}", flush=True)
            all_good = all_good and good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
