"""Kernels that copy between devices, of one device's part each.

`peers` and `slots` are tables of each device's own: whom it sends to, and whose part it has at
which step.
"""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def pass_on(x: torch.Tensor, peers: torch.Tensor) -> torch.Tensor:
    """Gives the device's rows to another, in HBM."""
    out = torch.empty_like(x)
    for _ in hl.grid(1):
        copy = hl.make_async_remote_copy(x, [], peers[0], dst=out, dst_index=[])
        copy.start()
        copy.wait()
    return out


@helion.kernel(static_shapes=True)
def gather_matmul(
    x: torch.Tensor, w: torch.Tensor, peers: torch.Tensor, slots: torch.Tensor
) -> torch.Tensor:
    """Multiplies all devices' rows: those that are here, while they go on to the next device."""
    rows, size = x.size()
    steps = slots.size(1)
    parts = torch.empty([steps, rows, size], dtype=x.dtype, device=x.device)
    out = torch.empty([steps, rows, w.size(1)], dtype=torch.float32, device=x.device)
    for _ in hl.grid(1):
        parts[slots[0, 0], :, :] = x[:, :]
        for step in hl.tile(steps, block_size=1):
            slot = slots[0, step.begin]
            copy = hl.make_async_remote_copy(parts, [slot], peers[0])
            if step.begin < steps - 1:
                copy.start()
            out[slot, :, :] = hl.dot(parts[slot, :, :], w[:, :])
            if step.begin < steps - 1:
                copy.wait()
    return out


@helion.kernel(static_shapes=True)
def matmul_scatter(
    x: torch.Tensor, w: torch.Tensor, peers: torch.Tensor, slots: torch.Tensor
) -> torch.Tensor:
    """Adds up all devices' products, of which each keeps its rows: sums travel from one to the next."""
    steps, rows, _ = x.size()
    sums = torch.zeros([steps, rows, w.size(1)], dtype=torch.float32, device=x.device)
    out = torch.empty([rows, w.size(1)], dtype=torch.float32, device=x.device)
    for _ in hl.grid(1):
        for step in hl.tile(steps - 1, block_size=1):
            total = hl.dot(x[slots[0, step.begin], :, :], w[:, :], acc=sums[step.begin, :, :])
            copy = hl.make_async_remote_copy(
                total, [], peers[0], dst=sums, dst_index=[step.begin + 1]
            )
            copy.start()
            copy.wait()
        last = x[slots[0, steps - 1], :, :]
        out[:, :] = hl.dot(last, w[:, :], acc=sums[steps - 1, :, :])
    return out


@helion.kernel(static_shapes=True)
def add_up(x: torch.Tensor, partners: torch.Tensor) -> torch.Tensor:
    """Adds up all devices' tiles: in each round two devices exchange what they have."""
    rounds = partners.size(1)
    theirs = torch.empty([rounds, *x.size()], dtype=x.dtype, device=x.device)
    out = torch.empty_like(x)
    for _ in hl.grid(1):
        total = x[:, :]
        for turn in hl.tile(rounds, block_size=1):
            copy = hl.make_async_remote_copy(
                total, [], partners[0, turn.begin], dst=theirs, dst_index=[turn.begin]
            )
            copy.start()
            copy.wait_send()
            copy.wait_recv()
            total = total + theirs[turn.begin, :, :]
        out[:, :] = total
    return out


@helion.kernel(static_shapes=True)
def exchange_rounds(x: torch.Tensor, peers: torch.Tensor, rounds: int) -> torch.Tensor:
    """Passes rows on so often, each time from where they came to: all wait for all between rounds."""
    there = torch.empty_like(x)
    for _ in hl.grid(1):
        there[:, :] = x[:, :]
        for _turn in hl.tile(rounds, block_size=1):
            row = there[:, :] * 0.5
            hl.remote_barrier(peers[:])
            copy = hl.make_async_remote_copy(row, [], peers[0], dst=there, dst_index=[])
            copy.start()
            copy.wait()
            hl.remote_barrier(peers[:])
    return there
