"""layer_norm_bwd_two_level: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "layer_norm_bwd_two_level",
    "target": "v6e",
    "inputs": [
        {"name": "dy", "dtype": "bfloat16", "shape": [421, 300]},
        {"name": "x", "dtype": "bfloat16", "shape": [421, 300]},
        {"name": "mean", "dtype": "float32", "shape": [421]},
        {"name": "rstd", "dtype": "float32", "shape": [421]},
        {"name": "weight", "dtype": "bfloat16", "shape": [300]},
    ],
    "outputs": [
        {"name": "dx", "dtype": "bfloat16", "shape": [421, 300]},
        {"name": "dweight", "dtype": "bfloat16", "shape": [300]},
        {"name": "dbias", "dtype": "bfloat16", "shape": [300]},
    ],
    "config": {
        "block_sizes": [128, 16],
        "pallas_loop_type": "emit_pipeline",
        "pallas_pre_broadcast": False,
    },
    "vmem_bytes": 419361,
    "vmem_most_bytes": 2621352,
    "vmem": {
        "windows": 201216,
        "inner": 81920,
        "scratch": 6144,
        "intermediates": 130081,
    },
    "flops": 0,
    "hbm_bytes": 762968,
    "estimate": {
        "cycles": 17752,
        "seconds": 1.0115e-05,
        "mxu": 0,
        "vector": 990,
        "xlu": 393,
        "eup": 108,
        "load": 175,
        "store": 126,
        "hbm": 1502,
        "waits": 6422,
        "start": 1289,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _mask(x, axis, count, fill):
    """x where its index along axis is below count, else fill."""
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return jnp.where(index < count, x, fill)


def _layer_norm_bwd_two_level_kernel(
    weight_ref,
    x_hbm,
    dy_hbm,
    rstd_hbm,
    mean_hbm,
    dx_ref,
    dweight_ref,
    dbias_ref,
    dweight_acc_ref,
    dbias_acc_ref,
    dweight_acc_ref_1,
    dbias_acc_ref_1,
):
    block_m = pl.program_id(0)

    @pl.when(block_m == 0)
    def first_visit():
        dweight_acc_ref[...] = jnp.zeros((1, 300), jnp.float32)
        dbias_acc_ref[...] = jnp.zeros((1, 300), jnp.float32)

    # dweight_acc = torch.zeros([n], dtype=torch.float32, device=x.device)
    dweight_acc = jnp.zeros((1, 300), jnp.float32)
    # scale = weight[:].to(torch.float32)[None, :]
    load = weight_ref[...]
    load_f32 = load.astype(jnp.float32)
    # for tile_m in hl.tile(tile_cta.begin, tile_cta.end):
    tile_end = jnp.minimum(block_m * 128 + 128, 421)

    def step(j, x_win, dy_win, rstd_win, mean_win, dweight_acc_1, dbias_acc):
        # rows = x[tile_m, :].to(torch.float32)
        load_1 = x_win[...]
        rows = load_1.astype(jnp.float32)
        # grad = dy[tile_m, :].to(torch.float32)
        load_1_1 = dy_win[...]
        load_1_1 = _mask(load_1_1, 0, tile_end - block_m * 128 - j * 16, 0)
        grad = load_1_1.astype(jnp.float32)
        # row_rstd = rstd[tile_m][:, None]
        load_2 = rstd_win[...]
        # x_hat = (rows - mean[tile_m][:, None]) * row_rstd
        load_3 = mean_win[...]
        x_hat = (rows - load_3) * load_2
        # dweight_acc += torch.sum(grad * x_hat, dim=0)
        mul_1 = grad * x_hat
        mul_1_masked = _mask(mul_1, 0, tile_end - block_m * 128 - j * 16, 0)
        dweight_acc_1_1 = dweight_acc_1 + jnp.sum(mul_1_masked, axis=0, keepdims=True)
        # dbias_acc += torch.sum(grad, dim=0)
        dbias_acc_1 = dbias_acc + jnp.sum(grad, axis=0, keepdims=True)
        # wdy = grad * scale
        wdy = grad * load_f32
        # c1 = torch.sum(x_hat * wdy, dim=-1) / n
        c1 = jnp.sum(x_hat * wdy, axis=1, keepdims=True) / 300
        # c2 = torch.sum(wdy, dim=-1) / n
        c2 = jnp.sum(wdy, axis=1, keepdims=True) / 300
        # dx[tile_m, :] = ((wdy - x_hat * c1[:, None] - c2[:, None]) * row_rstd).to(...
        mul_5 = (wdy - x_hat * c1 - c2) * load_2
        dx_ref[pl.ds(j * 16, 16), :] = _mask(
            mul_5.astype(jnp.bfloat16),
            0,
            tile_end - block_m * 128 - j * 16,
            dx_ref[pl.ds(j * 16, 16), :],
        )
        return dweight_acc_1_1, dbias_acc_1

    dweight_acc_ref_1[...] = dweight_acc
    dbias_acc_ref_1[...] = dweight_acc

    def body(x_win, dy_win, rstd_win, mean_win):
        dweight_acc_ref_1[...], dbias_acc_ref_1[...] = step(
            pl.program_id(0),
            x_win,
            dy_win,
            rstd_win,
            mean_win,
            dweight_acc_ref_1[...],
            dbias_acc_ref_1[...],
        )

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(pl.cdiv(tile_end - block_m * 128, 16),),
        in_specs=[
            pl.BlockSpec((16, 300), lambda j: (block_m * 8 + j, 0)),
            pl.BlockSpec((16, 300), lambda j: (block_m * 8 + j, 0)),
            pl.BlockSpec((16, 1), lambda j: (block_m * 8 + j, 0)),
            pl.BlockSpec((16, 1), lambda j: (block_m * 8 + j, 0)),
        ],
    )
    pipeline(x_hbm, dy_hbm, rstd_hbm, mean_hbm)
    dweight_acc_2 = dweight_acc_ref_1[...]
    dbias_acc_2 = dbias_acc_ref_1[...]
    # dweight[tile_cta.id, :] = dweight_acc
    dweight_acc_ref[...] = dweight_acc_ref[...] + dweight_acc_2
    # dbias[tile_cta.id, :] = dbias_acc
    dbias_acc_ref[...] = dbias_acc_ref[...] + dbias_acc_2

    @pl.when(block_m == 3)
    def last_visit():
        dweight_ref[...] = dweight_acc_ref[...].astype(jnp.bfloat16)
        dbias_ref[...] = dbias_acc_ref[...].astype(jnp.bfloat16)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _layer_norm_bwd_two_level_jit(dy, x, mean, rstd, weight, interpret):
    call = _pallas_call(
        _layer_norm_bwd_two_level_kernel,
        name="layer_norm_bwd_two_level",
        grid=(4,),
        in_specs=[
            pl.BlockSpec((1, 300), lambda block_m: (0, 0)),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((128, 300), lambda block_m: (block_m, 0)),
            pl.BlockSpec((1, 300), lambda block_m: (0, 0)),
            pl.BlockSpec((1, 300), lambda block_m: (0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((421, 300), jnp.bfloat16),
            jax.ShapeDtypeStruct((1, 300), jnp.bfloat16),
            jax.ShapeDtypeStruct((1, 300), jnp.bfloat16),
        ],
        scratch_shapes=[
            pltpu.VMEM((1, 300), jnp.float32),
            pltpu.VMEM((1, 300), jnp.float32),
            pltpu.VMEM((1, 300), jnp.float32),
            pltpu.VMEM((1, 300), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",),
            vmem_limit_bytes=5242880,
        ),
        interpret=interpret,
    )
    dx, dweight, dbias = call(
        weight.reshape((1, 300)), x, dy, rstd.reshape((421, 1)), mean.reshape((421, 1))
    )
    return dx, dweight.reshape((300,)), dbias.reshape((300,))


def layer_norm_bwd_two_level(dy, x, mean, rstd, weight, interpret=False):
    """Returns bfloat16[421, 300], bfloat16[300], bfloat16[300].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("dy", dy, "bfloat16[421, 300]")
    _check("x", x, "bfloat16[421, 300]")
    _check("mean", mean, "float32[421]")
    _check("rstd", rstd, "float32[421]")
    _check("weight", weight, "bfloat16[300]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn(
            "layer_norm_bwd_two_level: tested with jax >=0.8.3,<0.11", stacklevel=2
        )
    return _layer_norm_bwd_two_level_jit(
        dy, x, mean, rstd, weight, _simulator(interpret)
    )


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
