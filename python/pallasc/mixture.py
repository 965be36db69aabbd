"""`pallasc.experts`: a mixture of experts on a mesh, whose devices have some of the experts each.

Docs: docs/sharding.md. What a device computes is a kernel of rows that are sorted by expert; here
is what sorts them, takes them to the experts' devices and back, and adds up.
"""

import functools

from .errors import UsageError


def experts(kernel, mesh, axis, tokens=(), capacity=None):
    """A function of whole arrays that gives each token the weighted sum of its experts' outputs.

    Where `axis` is one of `tokens`, a token's rows go to the devices of its experts and back
    (`jax.lax.ragged_all_to_all`). Else each device has the tokens already: it computes what its
    experts give, and the devices add that up (`jax.lax.psum`).

    Args:
      kernel: f(rows, offsets, *weights, interpret=...) of one device: rows [R, D] sorted by expert,
        int32 offsets [e + 1] of the first row of each of its e experts, and their weights; it gives
        [R, D']. Rows from offsets[e] on are of no expert. A loaded module, or a `pallasc.jit`;
        `worklist` makes one of a kernel that takes lists.
      mesh: a jax.sharding.Mesh.
      axis: the mesh's axis along which the experts are cut.
      tokens: the axis or axes along which the tokens are cut; (): each device has them all.
      capacity: R, the rows that a device computes at once; None: as many as could all be its own.
        What is above it counts as 0.

    Returns:
      f(x, chosen, weight, *weights, interpret=False): x [T, D], the experts of each token, int32
      [T, k], -1 for none, and what they count, [T, k]; of the weights the first dim is of the
      experts. It gives [T, D'] of x's dtype, and is jitted. Sums are float32.

    Raises UsageError for an axis that the mesh has not.
    """
    import jax

    cut = (tokens,) if isinstance(tokens, str) else tuple(tokens)
    for name in (axis, *cut):
        if name not in mesh.shape:
            raise UsageError(f"experts: the mesh has no axis {name!r}: {', '.join(mesh.shape)}")
    layer = _exchanged if axis in cut else _summed
    rows, spread = jax.sharding.PartitionSpec(cut), jax.sharding.PartitionSpec(axis)

    def of_one_device(x, chosen, weight, *weights, interpret):
        run = functools.partial(_grouped, functools.partial(kernel, interpret=interpret), weights)
        there = _Axis(axis, mesh.shape[axis], weights[0].shape[0], bool(interpret))
        return layer(run, there, capacity, x, chosen, weight).astype(x.dtype)

    @functools.partial(jax.jit, static_argnames=("interpret",))
    def whole(x, chosen, weight, *weights, interpret=False):
        specs = (rows, rows, rows, *(spread for _ in weights))
        split = jax.shard_map(
            functools.partial(of_one_device, interpret=interpret),
            mesh=mesh,
            in_specs=specs,
            out_specs=rows,
            check_vma=False,  # what the simulation gathers is the same everywhere, and does not say
        )
        places = tuple(jax.sharding.NamedSharding(mesh, spec) for spec in specs)
        return split(*jax.device_put((x, chosen, weight, *weights), places))

    return whole


class _Axis:
    """The mesh's axis of the experts.

    Attributes:
      name, devices: of the axis.
      experts: how many a device has.
      simulated: on a CPU, which has no ragged all-to-all.
    """

    def __init__(self, name, devices, experts, simulated):
        self.name, self.devices, self.experts = name, devices, experts
        self.simulated = simulated


def _summed(run, there, capacity, x, chosen, weight):
    """Of tokens that each device has: float32 [T, D']."""
    import jax
    import jax.numpy as jnp

    (count, each), experts = chosen.shape, there.experts
    own = chosen.reshape(-1) - jax.lax.axis_index(there.name) * experts
    own = jnp.where((own >= 0) & (own < experts), own, experts)
    found = run(x, jnp.arange(count * each) // each, own, capacity or count * each)
    return jax.lax.psum(_of_tokens(found, weight), there.name)


def _exchanged(run, there, capacity, x, chosen, weight):
    """Of tokens of which each device has some: float32 [T, D']."""
    import jax
    import jax.numpy as jnp

    count, (devices, experts) = chosen.size, (there.devices, there.experts)
    ids = jnp.where(chosen < 0, devices * experts, chosen).reshape(-1)  # none are the last
    order = jnp.argsort(ids, stable=True)  # by device, and there by expert
    bounds = jnp.searchsorted(ids[order], jnp.arange(devices * experts + 1))
    counts = jax.lax.all_gather(jnp.diff(bounds).astype(jnp.int32), there.name)
    counts = counts.reshape(devices, devices, experts)  # [from, to, expert]
    me, capacity = jax.lax.axis_index(there.name), capacity or count * devices
    table = counts.sum(2)  # rows that go from one device to another
    first = jnp.cumsum(table, 1) - table  # where they begin among those of the one
    arrive = jnp.cumsum(table, 0) - table  # and of the other
    table = jnp.clip(capacity - arrive, 0, table)
    arrive = jnp.minimum(arrive, capacity)
    forth = (first[me], table[me], arrive[me], table[:, me])
    back = (arrive[:, me], table[:, me], first[:, me], table[me])
    rows = _exchange(there, x[order // chosen.shape[1]], capacity, *forth)
    mine = counts[:, me].reshape(-1)  # [from, expert]: as the rows came
    row = jnp.arange(capacity)
    own = (jnp.searchsorted(jnp.cumsum(mine) - mine, row, side="right") - 1) % experts
    found = run(rows, row, jnp.where(row < mine.sum(), own, experts), capacity)
    return _of_tokens(_exchange(there, found, count, *back)[jnp.argsort(order)], weight)


def _exchange(there, x, rows, first, sizes, arrive, expected):
    """Gives x's rows from `first` on, `sizes` of them for each device, to where they `arrive`.

    Gives [rows, D], which has 0 where none does; `expected` is how many each device sends.
    """
    import jax
    import jax.numpy as jnp

    if not there.simulated:
        out, offsets = jnp.zeros((rows, x.shape[1]), x.dtype), (first, sizes, arrive, expected)
        return jax.lax.ragged_all_to_all(x, out, *offsets, axis_name=there.name)
    me = jax.lax.axis_index(there.name)
    x, first, arrive = (jax.lax.all_gather(a, there.name) for a in (x, first, arrive))
    row = jnp.arange(rows)[:, None] - arrive[:, me]  # [row, from]: which of the rows it would be
    fits = (row >= 0) & (row < expected)
    sender = jnp.argmax(fits, 1)
    at = jnp.take_along_axis(row + first[:, me], sender[:, None], 1)[:, 0]
    found = x[sender, jnp.clip(at, 0, x.shape[1] - 1)]
    return jnp.where(fits.any(1)[:, None], found, 0)


def _grouped(kernel, weights, x, source, own, capacity):
    """What the kernel gives of rows x[source], whose experts are `own`: [len(own), D'].

    Rows of no expert of this device (`own` is the number of those) are 0, and so is what is above
    `capacity`.
    """
    import jax.numpy as jnp

    count = weights[0].shape[0]
    order = jnp.argsort(own, stable=True)
    place = jnp.argsort(order)
    order = order[:capacity]
    offsets = jnp.searchsorted(own[order], jnp.arange(count + 1)).astype(jnp.int32)
    found = kernel(x[source[order]], offsets, *weights)
    kept = (own < count) & (place < capacity)
    return jnp.where(kept[:, None], found[jnp.minimum(place, capacity - 1)], 0)


def _of_tokens(found, weight):
    """The weighted sums over each token's rows, which stand one behind the other: float32."""
    import jax.numpy as jnp

    rows = found.reshape(*weight.shape, -1).astype(jnp.float32)
    return (rows * weight[..., None].astype(jnp.float32)).sum(1)


def worklist(kernel, block):
    """A kernel of rows and offsets, for `experts`, of one that takes lists.

    Args:
      kernel: f(x, blocks, groups, offsets, *weights, interpret=...): x [B, block, D] in blocks, and
        int32 lists of B + e - 1 steps, the blocks and the experts that have rows there.
      block: the rows of a block.
    """

    def listed(x, offsets, *weights, interpret=False):
        import jax.numpy as jnp

        if x.shape[0] % block:
            raise ValueError(f"worklist: {x.shape[0]} rows are no blocks of {block}")
        blocks = x.reshape(-1, block, x.shape[1])
        starts = jnp.concatenate([jnp.arange(len(blocks)) * block, offsets[1:-1]])
        row = jnp.clip(jnp.sort(starts), 0, jnp.maximum(offsets[-1] - 1, 0))
        group = jnp.searchsorted(offsets, row, side="right") - 1
        group = jnp.minimum(group, offsets.shape[0] - 2)
        lists = ((row // block).astype(jnp.int32), group.astype(jnp.int32))
        found = kernel(blocks, *lists, offsets, *weights, interpret=interpret)
        return found.reshape(x.shape[0], -1)

    return listed
