"""cross_entropy_online: a Pallas TPU kernel for v6e, made by pallasc 0.1.0."""

import functools
import warnings

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KERNEL_INFO = {
    "name": "cross_entropy_online",
    "target": "v6e",
    "inputs": [
        {"name": "logits", "dtype": "float32", "shape": [256, 1024]},
        {"name": "labels", "dtype": "int32", "shape": [256, 1]},
    ],
    "outputs": [
        {"name": "losses", "dtype": "float32", "shape": [256]},
    ],
    "config": {"block_sizes": [64, 256], "pallas_loop_type": "emit_pipeline"},
    "vmem_bytes": 588916,
    "vmem_most_bytes": 2833297,
    "vmem": {
        "windows": 66560,
        "inner": 131072,
        "scratch": 98304,
        "intermediates": 292980,
    },
    "flops": 0,
    "hbm_bytes": 1050624,
    "estimate": {
        "cycles": 13263,
        "seconds": 7.557e-06,
        "mxu": 0,
        "vector": 704,
        "xlu": 989,
        "eup": 416,
        "load": 256,
        "store": 194,
        "hbm": 1265,
        "waits": 4948,
        "start": 1236,
    },
    "compiler": "pallasc 0.1.0",
    "jax": ">=0.8.3,<0.11",
}


def _fold_lanes(combine, total, x):
    """total [..., 128] combined with each 128 lanes of x."""
    part = x[..., :128]
    for i in range(128, x.shape[-1], 128):
        part = combine(part, x[..., i : i + 128])
    return combine(total, part)


def _fold_where(total, condition, x):
    """total [..., 128], or of each 128 lanes of x those where the condition holds."""
    for i in range(0, x.shape[-1], 128):
        total = jnp.where(condition[..., i : i + 128], x[..., i : i + 128], total)
    return total


def _to_row(x):
    """A column [..., m, 1] as a row [..., 1, m]."""
    lanes = jnp.broadcast_to(x, (*x.shape[:-1], 128))
    return jnp.swapaxes(lanes, -1, -2)[..., :1, :]


def _cross_entropy_online_kernel(
    labels_ref, logits_hbm, losses_ref, top_ref, total_ref, picked_ref
):
    tile_n = pl.program_id(0)

    # for tile_v in hl.tile(v):
    def step(j, logits_win, top, total, picked):
        # label = labels[tile_n, :]
        label = labels_ref[...]
        # part = logits[tile_n, tile_v].to(torch.float32)
        part = logits_win[...]
        # new_top = torch.maximum(top, torch.amax(part, dim=1))
        new_top = jnp.maximum(top, jnp.max(part, axis=1, keepdims=True))
        # scale = torch.exp(top - new_top)
        scale = jnp.exp(top - new_top)
        # total = total * scale + torch.exp(part - new_top[:, None]).sum(dim=1)
        total_1 = _fold_lanes(
            jnp.add, total * scale, jnp.exp(part - jnp.tile(new_top, (1, 2)))
        )
        # hit = tile_v.index[None, :] == label
        tile_index = j * 256 + jax.lax.broadcasted_iota(jnp.int32, (1, 256), 1)
        hit = tile_index == label
        # picked += torch.where(hit, part, 0.0).sum(dim=1)
        picked_1 = _fold_where(picked, hit, part)
        return new_top, total_1, picked_1

    # top = hl.full([tile_n], float("-inf"), dtype=torch.float32)
    top_ref[...] = jnp.full((64, 128), -jnp.inf, jnp.float32)
    total_ref[...] = jnp.zeros((64, 128), jnp.float32)
    # total = hl.zeros([tile_n], dtype=torch.float32)
    picked_ref[...] = jnp.zeros((64, 128), jnp.float32)

    def body(logits_win):
        top_ref[...], total_ref[...], picked_ref[...] = step(
            pl.program_id(0), logits_win, top_ref[...], total_ref[...], picked_ref[...]
        )

    pipeline = pltpu.emit_pipeline(
        body,
        grid=(4,),
        in_specs=[
            pl.BlockSpec((64, 256), lambda j: (tile_n, j)),
        ],
    )
    pipeline(logits_hbm)
    top_1 = top_ref[...]
    total_2 = total_ref[...]
    picked_2 = picked_ref[...]
    picked_sum = jnp.sum(picked_2, axis=1, keepdims=True)
    total_sum = jnp.broadcast_to(jnp.sum(total_2, axis=1, keepdims=True), (64, 128))
    # losses[tile_n] = torch.log(total) + top - picked
    losses_ref[0, :, :] = _to_row(jnp.log(total_sum) + top_1 - picked_sum)


@functools.partial(jax.jit, static_argnames=("interpret",))
def _cross_entropy_online_jit(logits, labels, interpret):
    call = _pallas_call(
        _cross_entropy_online_kernel,
        name="cross_entropy_online",
        grid=(4,),
        in_specs=[
            pl.BlockSpec((64, 1), lambda tile_n: (tile_n, 0)),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=[
            pl.BlockSpec((1, 1, 64), lambda tile_n: (tile_n, 0, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((4, 1, 64), jnp.float32),
        ],
        scratch_shapes=[
            pltpu.VMEM((64, 128), jnp.float32),
            pltpu.VMEM((64, 128), jnp.float32),
            pltpu.VMEM((64, 128), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel",),
            vmem_limit_bytes=6291456,
        ),
        cost_estimate=pl.CostEstimate(
            flops=2883584, transcendentals=425984, bytes_accessed=1050624
        ),
        interpret=interpret,
    )
    (losses,) = call(labels, logits)
    return losses.reshape((256,))


def cross_entropy_online(logits, labels, interpret=False):
    """Returns float32[256].

    interpret: run on a CPU: True, or pltpu.InterpretParams.
    """
    _check("logits", logits, "float32[256, 1024]")
    _check("labels", labels, "int32[256, 1]")
    if not (0, 8, 3) <= jax.__version_info__ < (0, 11):
        warnings.warn(
            "cross_entropy_online: tested with jax >=0.8.3,<0.11", stacklevel=2
        )
    return _cross_entropy_online_jit(logits, labels, _simulator(interpret))


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
