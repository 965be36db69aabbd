"""What atomics give back: places in queues, tickets, and who came first."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def ranks(ids, experts):
    """Each token's place in the queue of its expert, and how many each expert has."""
    count = torch.zeros([hl.specialize(experts)], dtype=torch.int32, device=ids.device)
    rank = torch.empty_like(ids)
    for tile_t in hl.tile(ids.size(0)):
        rank[tile_t] = hl.atomic_add(count, [ids[tile_t]], 1)
    return rank, count


@helion.kernel(static_shapes=True)
def dispatch(x, ids, slots, experts):
    """Tokens x [T, D] put into the slots of their experts, [E * S, D]; what comes late is dropped."""
    experts, slots = hl.specialize(experts), hl.specialize(slots)
    count = torch.zeros([experts], dtype=torch.int32, device=x.device)
    out = torch.zeros([experts * slots, x.size(1)], dtype=x.dtype, device=x.device)
    slot = torch.empty_like(ids)
    for tile_t in hl.tile(ids.size(0)):
        expert = ids[tile_t]
        rank = hl.atomic_add(count, [expert], 1)
        place = torch.where(rank < slots, expert * slots + rank, -1)
        slot[tile_t] = place
        hl.store(out, [place, slice(None)], x[tile_t, :], extra_mask=(place >= 0)[:, None])
    return out, slot, count


@helion.kernel(static_shapes=True)
def sums_before(x, ids, groups):
    """For each row of x, the sum of the rows of its group that come before it; and all sums."""
    sums = torch.zeros([hl.specialize(groups), x.size(1)], dtype=torch.float32, device=x.device)
    before = torch.empty_like(x)
    for tile_d, tile_t in hl.tile([x.size(1), x.size(0)]):
        rows = x[tile_t, tile_d].to(torch.float32)
        before[tile_t, tile_d] = hl.atomic_add(sums, [ids[tile_t], tile_d], rows).to(x.dtype)
    return before, sums


@helion.kernel(static_shapes=True)
def tickets(x):
    """What is positive in each column of a block of rows begins there; and how much there is."""
    m, n = x.size()
    block_m = hl.register_block_size(m)
    total = torch.zeros([n], dtype=torch.int32, device=x.device)
    begin = torch.empty([(m + block_m - 1) // block_m, n], dtype=torch.int32, device=x.device)
    for tile_n, tile_m in hl.tile([n, m], block_size=[None, block_m]):
        positive = (x[tile_m, tile_n] > 0).to(torch.int32).sum(0)
        begin[tile_m.id, tile_n] = hl.atomic_add(total, [tile_n], positive)
    return begin, total


@helion.kernel(static_shapes=True)
def first_come(keys, slots):
    """Each token asks for a slot: who finds it empty (-1) has it. What each found, and the owners."""
    owner = torch.full([hl.specialize(slots)], -1, dtype=torch.int32, device=keys.device)
    found = torch.empty_like(keys)
    for tile_t in hl.tile(keys.size(0)):
        mine = tile_t.index.to(torch.int32)
        free = torch.full_like(mine, -1)
        found[tile_t] = hl.atomic_cas(owner, [keys[tile_t]], free, mine)
    return found, owner
