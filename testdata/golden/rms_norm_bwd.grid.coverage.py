"""rms_norm_bwd: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "rms_norm_bwd",
    "target": "v6e",
    "inputs": [
        {"name": "dy", "dtype": "float32", "shape": [256, 512]},
        {"name": "x", "dtype": "float32", "shape": [256, 512]},
        {"name": "weight", "dtype": "float32", "shape": [512]},
        {"name": "rstd", "dtype": "float32", "shape": [256]},
    ],
    "outputs": [
        {"name": "dx", "dtype": "float32", "shape": [256, 512]},
        {"name": "dweight", "dtype": "float32", "shape": [512]},
    ],
    "config": {"block_sizes": [64]},
    "vmem_bytes": 1562413,
    "vmem_most_bytes": 4050167,
    "vmem": {"windows": 791552, "inner": 0, "scratch": 16384, "intermediates": 754477},
    "flops": 0,
    "hbm_bytes": 1577984,
    "estimate": {
        "cycles": 4578,
        "seconds": 2.609e-06,
        "mxu": 0,
        "vector": 324,
        "xlu": 175,
        "eup": 32,
        "load": 91,
        "store": 66,
        "hbm": 1689,
        "waits": 679,
        "start": 1626,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _part(index, count, take):
    """take(index) with a static index, one of count."""
    branches = [functools.partial(take, part) for part in range(count)]
    return jax.lax.switch(index, branches)


def _to_column(x):
    """A row [..., 1, m] as a column [..., m, 1]."""
    rows = jnp.broadcast_to(x, (*x.shape[:-2], 128, x.shape[-1]))
    return jnp.swapaxes(rows, -1, -2)[..., :1]


def _rms_norm_bwd_kernel(
    rstd_ref, x_ref, dy_ref, weight_ref, dweight_ref, dx_ref, dweight_acc_ref
):
    block_m = pl.program_id(0)

    @pl.when(block_m == 0)
    def first_visit():
        dweight_acc_ref[...] = jnp.zeros((8, 512), jnp.float32)

    # row_rstd = rstd[tile_m][:, None]
    load = _part(
        jax.lax.rem(block_m, 2), 2, lambda part: rstd_ref[:, pl.ds(part * 64, 64)]
    )
    row_rstd = _to_column(load)
    # x_hat = x[tile_m, :].to(torch.float32) * row_rstd
    load_1 = x_ref[...]
    x_hat = load_1 * row_rstd
    # grad = dy[tile_m, :].to(torch.float32)
    grad = dy_ref[...]
    # dweight[tile_m.id, :] = torch.sum(grad * x_hat, dim=0)
    registers = (grad * x_hat).reshape((8, 8, 512))
    dweight_acc_ref[...] = dweight_acc_ref[...] + jnp.sum(registers, axis=0)
    # wdy = grad * weight[:].to(torch.float32)[None, :]
    load_3 = weight_ref[...]
    wdy = grad * load_3
    # c1 = torch.sum(x_hat * wdy, dim=-1) / n
    c1 = jnp.sum(x_hat * wdy, axis=1, keepdims=True) / 512
    # dx[tile_m, :] = ((wdy - x_hat * c1[:, None]) * row_rstd).to(x.dtype)
    dx_ref[...] = (wdy - x_hat * c1) * row_rstd

    @pl.when(block_m == 3)
    def last_visit():
        dweight_ref[...] = jnp.sum(dweight_acc_ref[...], axis=0, keepdims=True)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _rms_norm_bwd_jit(dy, x, weight, rstd, interpret):
    call = _pallas_call(
        _rms_norm_bwd_kernel,
        name="rms_norm_bwd",
        grid=(4,),
        in_specs=[
            pl.BlockSpec((1, 128), lambda block_m: (0, jax.lax.div(block_m, 2))),
            pl.BlockSpec((64, 512), lambda block_m: (block_m, 0)),
            pl.BlockSpec((64, 512), lambda block_m: (block_m, 0)),
            pl.BlockSpec((1, 512), lambda block_m: (0, 0)),
        ],
        out_specs=[
            pl.BlockSpec((1, 512), lambda block_m: (0, 0)),
            pl.BlockSpec((64, 512), lambda block_m: (block_m, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((1, 512), jnp.float32),
            jax.ShapeDtypeStruct((256, 512), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((8, 512), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",),
            vmem_limit_bytes=7340032,
        ),
        cost_estimate=pl.CostEstimate(
            flops=1327104, transcendentals=32768, bytes_accessed=1577984
        ),
        interpret=interpret,
    )
    dweight, dx = call(rstd.reshape((1, 256)), x, dy, weight.reshape((1, 512)))
    return dx, dweight.reshape((512,))


def rms_norm_bwd(dy, x, weight, rstd, interpret=False):
    """Returns float32[256, 512], float32[512].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("dy", dy, "float32[256, 512]")
    _check("x", x, "float32[256, 512]")
    _check("weight", weight, "float32[512]")
    _check("rstd", rstd, "float32[256]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn("rms_norm_bwd: tested with jax >=0.8.3,<0.11", stacklevel=2)
    return _rms_norm_bwd_jit(dy, x, weight, rstd, _simulator(interpret))


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
