"""softmax_two_pass: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "softmax_two_pass",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "shape": [421, 1000]},
    ],
    "outputs": [
        {"name": "out", "dtype": "bfloat16", "shape": [421, 1000]},
    ],
    "config": {
        "block_sizes": [256, 64],
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 655534,
    "vmem_most_bytes": 2916567,
    "vmem": {
        "windows": 327680,
        "inner": 98304,
        "scratch": 65536,
        "intermediates": 164014,
    },
    "flops": 0,
    "hbm_bytes": 2300344,
    "estimate": {
        "cycles": 28237,
        "seconds": 1.609e-05,
        "mxu": 0,
        "vector": 1848,
        "xlu": 815,
        "eup": 1568,
        "load": 299,
        "store": 336,
        "hbm": 2999,
        "waits": 12294,
        "start": 1365,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _mask(x, axis, count, fill):
    """x where its index along axis is below count, else fill."""
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return jnp.where(index < count, x, fill)


def _softmax_two_pass_kernel(x_hbm, x_tail_ref, out_ref, row_max_ref, row_sum_ref):
    tile_m = pl.program_id(0)

    # for tile_n in hl.tile(n, block_size=block_n):
    def step(x_win, row_max, row_sum, ragged=False):
        # values = x[tile_m, tile_n].to(torch.float32)
        load = x_win[...]
        values = load.astype(jnp.float32)
        # new_max = torch.maximum(row_max, torch.amax(values, dim=1))
        values_masked = _mask(values, 1, 232, -jnp.inf) if ragged else values
        new_max = jnp.maximum(row_max, jnp.max(values_masked, axis=1, keepdims=True))
        # scaled_sum = row_sum * torch.exp(row_max - new_max)
        scaled_sum = row_sum * jnp.exp(row_max - new_max)
        # row_sum = scaled_sum + torch.exp(values - new_max[:, None]).sum(dim=1)
        exp_1 = jnp.exp(values - new_max)
        exp_1_masked = _mask(exp_1, 1, 232, 0) if ragged else exp_1
        row_sum_1 = scaled_sum + jnp.sum(exp_1_masked, axis=1, keepdims=True)
        return new_max, row_sum_1

    # row_max = hl.full([tile_m], float("-inf"), dtype=torch.float32)
    row_max_ref[...] = jnp.full((64, 1), -jnp.inf, jnp.float32)
    # row_sum = hl.zeros([tile_m], dtype=torch.float32)
    row_sum_ref[...] = jnp.zeros((64, 1), jnp.float32)

    def body(x_win):
        row_max_ref[...], row_sum_ref[...] = step(
            x_win, row_max_ref[...], row_sum_ref[...]
        )

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(3,),
        in_specs=[
            pl.BlockSpec(
                (64, 256), lambda j: (tile_m, j), pipeline_mode=pl.Buffered(3)
            ),
        ],
    )
    pipeline(x_hbm)
    row_max_1 = row_max_ref[...]
    row_sum_2 = row_sum_ref[...]
    row_max_1, row_sum_2 = step(x_tail_ref, row_max_1, row_sum_2, ragged=True)

    # line 41: for tile_n in hl.tile(n, block_size=block_n):
    def step_1(x_win_1, out_win):
        # line 42: values = x[tile_m, tile_n].to(torch.float32)
        load_1 = x_win_1[...]
        values_1 = load_1.astype(jnp.float32)
        # weight = torch.exp(values - row_max[:, None])
        weight = jnp.exp(values_1 - row_max_1)
        # out[tile_m, tile_n] = (weight / row_sum[:, None]).to(x.dtype)
        out_win[...] = (weight / row_sum_2).astype(jnp.bfloat16)

    def body_1(x_win_1):
        step_1(x_win_1, out_ref.at[:, pl.ds(pl.program_id(0) * 256, 256)])

    pipeline_1 = pltpu.emit_pipeline(
        body_1,
        grid=(3,),
        in_specs=[
            pl.BlockSpec(
                (64, 256), lambda j_1: (tile_m, j_1), pipeline_mode=pl.Buffered(3)
            ),
        ],
    )
    pipeline_1(x_hbm)
    step_1(x_tail_ref, out_ref.at[:, pl.ds(768, 256)])


@functools.partial(jax.jit, static_argnames=("interpret",))
def _softmax_two_pass_jit(x, interpret):
    call = _pallas_call(
        _softmax_two_pass_kernel,
        name="softmax_two_pass",
        grid=(7,),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec((64, 256), lambda tile_m: (tile_m, 3)),
        ],
        out_specs=[
            pl.BlockSpec((64, 1024), lambda tile_m: (tile_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((421, 1000), jnp.bfloat16),
        ],
        scratch_shapes=[
            pltpu.VMEM((64, 1), jnp.float32),
            pltpu.VMEM((64, 1), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=7569408, transcendentals=1605632, bytes_accessed=2300344
        ),
        interpret=interpret,
    )
    (out,) = call(x, x)
    return out


def softmax_two_pass(x, interpret=False):
    """Returns bfloat16[421, 1000].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "bfloat16[421, 1000]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("softmax_two_pass: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _softmax_two_pass_jit(x, _simulator(interpret))


def _check(name, x, expected):
    """Raises TypeError unless x is an array of exactly the expected dtype and shape."""
    try:
        found = f"{x.dtype}{list(x.shape)}"
    except AttributeError:
        found = "no array"
    if found != expected:
        raise TypeError(f"{name} must be {expected}, not {found}")


def _simulator(interpret):
    """What pallas_call takes: True simulates a TPU, InterpretParams pass through."""
    if not interpret:
        return False
    mesh = jax.sharding.get_abstract_mesh()
    threads = 4 * mesh.size if mesh.manual_axes and mesh.size > 1 else 0
    if _threads() < threads:
        raise RuntimeError(
            f"{mesh.size} simulated devices need NPROC={threads} or more in the "
            "environment before jax starts: with fewer threads they wait forever"
        )
    try:
        from jax._src.pallas.mosaic import tpu_info

        if hasattr(pltpu, "get_tpu_info_for_chip"):
            chip = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion.TPU_V6E, 1)
            kind = tpu_info.get_device_kind()
        else:
            device = jax.sharding.AbstractDevice("TPU v6 lite", 1)
            chips = jax.sharding.AbstractMesh((), (), abstract_device=device)
            with jax.sharding.use_abstract_mesh(chips):
                chip, kind = tpu_info.get_tpu_info(), "cpu"
        tpu_info.registry.setdefault(kind, lambda: chip)
    except (ImportError, AttributeError):
        pass
    if interpret is not True:
        return interpret
    try:
        return pltpu.InterpretParams(buffer_bounds="padded")
    except TypeError:
        return pltpu.InterpretParams()


@functools.cache
def _threads():
    """How many threads XLA has on a CPU: it counts them once."""
    from os import cpu_count, environ

    count = environ.get("NPROC", "")
    return int(count) if count.isdecimal() else cpu_count() or 1


def _pallas_call(kernel, out_shape, interpret, **options):
    """pl.pallas_call for shard_map and vmap, which says that it has no derivative."""

    def run(*arrays):
        arrays, shapes = _varying(arrays, out_shape)
        call = pl.pallas_call(kernel, out_shape=shapes, interpret=interpret, **options)
        return call(*arrays)

    def batched(*arrays):
        specs = [*options.get("in_specs", [None]), *options.get("out_specs", [None])]
        windows = all(spec and len(spec.block_shape or ()) > 1 for spec in specs)
        half = any(x.dtype == jnp.float16 for x in (*arrays, *out_shape))
        return _batched(run, windows and not half and not interpret)(*arrays)

    def refuse(primals, tangents):
        raise TypeError(
            f"{KERNEL_INFO['name']} has no backward: add one by pallasc --backward or "
            "pallasc grad, or give it jax.lax.stop_gradient of its arguments"
        )

    call = jax.custom_jvp(batched)
    call.defjvp(refuse)
    return call


def _varying(arrays, shapes):
    """The same, varying along all axes of a shard_map along which one of them does."""
    axes = [_axes(x) for x in arrays]
    every = frozenset().union(*axes)
    along = {"vma": every}
    if hasattr(jax.sharding, "ManualAxisType"):
        along = {"manual_axis_type": jax.sharding.ManualAxisType(varying=every)}
    missing = [tuple(every - some) for some in axes]
    return (
        [jax.lax.pcast(x, to, to="varying") for x, to in zip(arrays, missing)],
        [jax.ShapeDtypeStruct(x.shape, x.dtype, **along) for x in shapes],
    )


def _axes(x):
    """The axes along which x varies in a shard_map that checks it."""
    kind = jax.typeof(x)
    return kind.vma if hasattr(kind, "vma") else kind.manual_axis_type.varying


def _batched(run, in_grid):
    """`run` whose vmap is one more dim of the grid, or one run after the other."""
    if not in_grid:
        return jax.custom_batching.sequential_vmap(run)
    call = jax.custom_batching.custom_vmap(run)

    def rule(_, batched, *arrays):
        together = jax.vmap(run, [0 if each else None for each in batched])
        outputs = _batched(together, in_grid)(*arrays)
        return outputs, jax.tree.map(lambda _: True, outputs)

    call.def_vmap(rule)
    return call
