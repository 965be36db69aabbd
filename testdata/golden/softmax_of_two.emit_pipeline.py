"""softmax_of_two: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "softmax_of_two",
    "target": "v6e",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [256, 512]},
        {"name": "y", "dtype": "float32", "shape": [256, 768]},
    ],
    "outputs": [
        {"name": "out_x", "dtype": "float32", "shape": [256, 512]},
        {"name": "out_y", "dtype": "float32", "shape": [256, 768]},
        {"name": "lse", "dtype": "float32", "shape": [256]},
    ],
    "config": {
        "block_sizes": [128, 256, 128],
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 1406043,
    "vmem_most_bytes": 3854702,
    "vmem": {
        "windows": 1024,
        "inner": 524288,
        "scratch": 262144,
        "intermediates": 618587,
    },
    "flops": 0,
    "hbm_bytes": 3933184,
    "estimate": {
        "cycles": 19686,
        "seconds": 1.1217e-05,
        "mxu": 0,
        "vector": 1072,
        "xlu": 873,
        "eup": 1216,
        "load": 363,
        "store": 385,
        "hbm": 4209,
        "waits": 11340,
        "start": 601,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _softmax_of_two_kernel(
    x_hbm,
    y_hbm,
    out_x_hbm,
    out_y_hbm,
    lse_ref,
    top_ref,
    total_ref,
    top_ref_1,
    total_ref_1,
):
    tile_m = pl.program_id(0)

    # for tile_n in hl.tile(n, block_size=block_n):
    def step(x_win, top, total):
        # values = x[tile_m, tile_n].to(torch.float32)
        values = x_win[...]
        # new_top = torch.maximum(top, torch.amax(values, dim=1))
        new_top = jnp.maximum(top, jnp.max(values, axis=1, keepdims=True))
        # total = total * torch.exp(top - new_top)
        total_1 = total * jnp.exp(top - new_top)
        # total = total + torch.exp(values - new_top[:, None]).sum(dim=1)
        total_1_1 = total_1 + jnp.sum(jnp.exp(values - new_top), axis=1, keepdims=True)
        return new_top, total_1_1

    # top = hl.full([tile_m], float("-inf"), dtype=torch.float32)
    top_ref[...] = jnp.full((128, 1), -jnp.inf, jnp.float32)
    # total = hl.zeros([tile_m], dtype=torch.float32)
    total_ref[...] = jnp.zeros((128, 1), jnp.float32)

    def body(x_win):
        top_ref[...], total_ref[...] = step(x_win, top_ref[...], total_ref[...])

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(4,),
        in_specs=[
            pl.BlockSpec(
                (128, 128), lambda j: (tile_m, j), pipeline_mode=pl.Buffered(3)
            ),
        ],
    )
    pipeline(x_hbm)
    top_1 = top_ref[...]
    total_2 = total_ref[...]

    # for tile_k in hl.tile(k, block_size=block_k):
    def step_1(y_win, top_2, total_3):
        # values = y[tile_m, tile_k].to(torch.float32)
        values_1 = y_win[...]
        # line 93: new_top = torch.maximum(top, torch.amax(values, dim=1))
        new_top_1 = jnp.maximum(top_2, jnp.max(values_1, axis=1, keepdims=True))
        # line 94: total = total * torch.exp(top - new_top)
        total_1_2 = total_3 * jnp.exp(top_2 - new_top_1)
        # line 95: total = total + torch.exp(values - new_top[:, None]).sum(dim=1)
        total_1_1_1 = total_1_2 + jnp.sum(
            jnp.exp(values_1 - new_top_1), axis=1, keepdims=True
        )
        return new_top_1, total_1_1_1

    top_ref_1[...] = top_1
    total_ref_1[...] = total_2

    def body_1(y_win):
        top_ref_1[...], total_ref_1[...] = step_1(
            y_win, top_ref_1[...], total_ref_1[...]
        )

    pipeline_1 = pltpu.emit_pipeline(
        body_1,
        grid=(3,),
        in_specs=[
            pl.BlockSpec(
                (128, 256), lambda j_1: (tile_m, j_1), pipeline_mode=pl.Buffered(3)
            ),
        ],
    )
    pipeline_1(y_hbm)
    top_3 = top_ref_1[...]
    total_4 = total_ref_1[...]

    # line 97: for tile_n in hl.tile(n, block_size=block_n):
    def step_2(x_win_1, out_x_win):
        # weight = torch.exp(x[tile_m, tile_n].to(torch.float32) - top[:, None])
        load = x_win_1[...]
        weight = jnp.exp(load - top_3)
        # out_x[tile_m, tile_n] = (weight / total[:, None]).to(x.dtype)
        out_x_win[...] = weight / total_4

    def body_2(x_win_1, out_x_win):
        step_2(x_win_1, out_x_win)

    pipeline_2 = pltpu.emit_pipeline(
        body_2,
        grid=(4,),
        in_specs=[
            pl.BlockSpec(
                (128, 128), lambda j_2: (tile_m, j_2), pipeline_mode=pl.Buffered(3)
            ),
        ],
        out_specs=[
            pl.BlockSpec((128, 128), lambda j_2: (tile_m, j_2)),
        ],
    )
    pipeline_2(x_hbm, out_x_hbm)

    # line 100: for tile_k in hl.tile(k, block_size=block_k):
    def step_3(y_win_1, out_y_win):
        # weight = torch.exp(y[tile_m, tile_k].to(torch.float32) - top[:, None])
        load_1 = y_win_1[...]
        weight_1 = jnp.exp(load_1 - top_3)
        # out_y[tile_m, tile_k] = (weight / total[:, None]).to(y.dtype)
        out_y_win[...] = weight_1 / total_4

    def body_3(y_win_1, out_y_win):
        step_3(y_win_1, out_y_win)

    pipeline_3 = pltpu.emit_pipeline(
        body_3,
        grid=(3,),
        in_specs=[
            pl.BlockSpec((128, 256), lambda j_3: (tile_m, j_3)),
        ],
        out_specs=[
            pl.BlockSpec((128, 256), lambda j_3: (tile_m, j_3)),
        ],
    )
    pipeline_3(y_hbm, out_y_hbm)
    # lse[tile_m] = top + torch.log(total)
    add = top_3 + jnp.log(total_4)
    lse_ref[...] = _to_row(add)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _softmax_of_two_jit(x, y, interpret):
    call = _pallas_call(
        _softmax_of_two_kernel,
        name="softmax_of_two",
        grid=(2,),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec((1, 128), lambda tile_m: (0, tile_m)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((256, 512), jnp.float32),
            jax.ShapeDtypeStruct((256, 768), jnp.float32),
            jax.ShapeDtypeStruct((1, 256), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((128, 1), jnp.float32),
            pltpu.VMEM((128, 1), jnp.float32),
            pltpu.VMEM((128, 1), jnp.float32),
            pltpu.VMEM((128, 1), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=7340032,
        ),
        cost_estimate=pl.CostEstimate(
            flops=4390912, transcendentals=1245184, bytes_accessed=3933184
        ),
        interpret=interpret,
    )
    out_x, out_y, lse = call(x, y)
    return out_x, out_y, lse.reshape((256,))


def softmax_of_two(x, y, interpret=False):
    """Returns float32[256, 512], float32[256, 768], float32[256].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("x", x, "float32[256, 512]")
    _check("y", y, "float32[256, 768]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("softmax_of_two: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _softmax_of_two_jit(x, y, _simulator(interpret))


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
