"""Small Helion kernels, each for one feature of the exporter or one of its refusals."""

import helion
import helion.language as hl
import torch
from helion.autotuner import PowerOfTwoFragment

TABLE = torch.linspace(0, 1, 64)
OFFSET = 0.25


@helion.kernel(static_shapes=False)
def branches(x: torch.Tensor, count: int, factor: float) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in hl.grid(x.size(0)):
        for tile in hl.tile(x.size(1)):
            v = x[i, tile]
            w = v + 1
            if i > 3:
                v = v * factor
                u = v + count
            else:
                u = v * v
                w = w + 2
            out[i, tile] = u + tile.begin + tile.id * count + (count * 2) + w + v
    return out


@helion.kernel
def split_k(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    _k, n = y.size()
    out = torch.zeros([m, n], dtype=torch.float32, device=x.device)
    split = hl.register_tunable("split", PowerOfTwoFragment(1, 8, 2))
    block_k = helion.next_power_of_2(helion.cdiv(k, split))
    for tile_m, tile_n, outer_k in hl.tile([m, n, k], block_size=[None, None, block_k]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for inner_k in hl.tile(outer_k.begin, outer_k.end):
            acc = torch.addmm(acc, x[tile_m, inner_k], y[inner_k, tile_n])
        hl.atomic_add(out, [tile_m, tile_n], acc)
    return out


@helion.kernel
def partial_sums(x: torch.Tensor) -> torch.Tensor:
    m, n = x.size()
    block = hl.register_block_size(m)
    parts = torch.empty([(m + block - 1) // block, n], dtype=torch.float32, device=x.device)
    for tile in hl.tile(m, block_size=block):
        parts[tile.id, :] = x[tile, :].to(torch.float32).sum(0)
    return parts.sum(0).to(x.dtype)


@helion.kernel
def host_views(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    left = x[:, 16:48]
    turned = left.t()
    scales = scale.to(torch.float32)[None, :].expand(turned.size(0), -1)
    out = torch.full([32, 32], 2.5, dtype=x.dtype, device=x.device)
    rows = torch.empty([1024], dtype=torch.float32, device=x.device)
    for i, j in hl.tile(turned.size()):
        out[i, j] = turned[i, j] * scales[i, j]
    for i in hl.tile(4, 20):
        rows[i] = scale[i].to(torch.float32) + 1
    return out.t(), rows


@helion.kernel
def in_place(x: torch.Tensor) -> torch.Tensor:
    flat = x.view(-1)
    for tile in hl.tile(flat.size(0)):
        flat[tile] = flat[tile] * 2
    return x


@helion.kernel
def writes_arguments(x: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> None:
    for tile in hl.tile(x.size(0)):
        v = x[tile, :]
        rows[tile] = v.sum(1)
        out[tile, :] = out[tile, :] + v * 2


@helion.kernel
def writes_nothing(x: torch.Tensor) -> None:
    made = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        made[tile] = x[tile] * 2


@helion.kernel
def scans(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        v = x[tile, :]
        spread = torch.var(v, 1, keepdim=True) + torch.amax(v * v, 1, keepdim=True)
        out[tile, :] = hl.cumsum(v, 1) + spread + torch.full_like(v, 3.0)
    return out


@helion.kernel
def twins(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        low = hl.zeros([tile], dtype=torch.float32)
        high = low
        fresh = low
        for cols in hl.tile(x.size(1)):
            v = x[tile, cols]
            low = low - v.sum(1)
            high = high + v.amax(1)
            fresh = v.amin(1)
        for cols in hl.tile(x.size(1)):
            out[tile, cols] = x[tile, cols] + (low * high + fresh)[:, None]
    return out


@helion.kernel
def list_of_tensors(xs: list[torch.Tensor], double: bool, factor: float) -> torch.Tensor:
    out = torch.empty_like(xs[0])
    weight = 2.0 if double else 1.0
    for tile in hl.tile(out.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for x in xs:
            acc = acc + x[tile] * weight
        out[tile] = acc * (factor * 2.0) + OFFSET
    return out


@helion.kernel
def filled(x: torch.Tensor) -> torch.Tensor:
    row = x.select(0, -1)
    out = torch.empty_like(row)
    out.fill_(7)
    for tile in hl.tile(4):
        out[tile] = row[tile] * 2
    return out


@helion.kernel
def uses_global(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] + TABLE[tile] + TABLE[tile] * 2
    return out


@helion.kernel
def writes_global(x: torch.Tensor) -> torch.Tensor:
    for tile in hl.tile(x.size(0)):
        TABLE[tile] = x[tile]
    return x


@helion.kernel
def writes_int64(x: torch.Tensor) -> torch.Tensor:
    for tile in hl.tile(x.size(0)):
        x[tile] = x[tile] + 1
    return x


@helion.kernel
def makes_int64(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.int64, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = tile.index
    return out


@helion.kernel
def with_epilogue(x: torch.Tensor, epilogue, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, j in hl.tile(x.size()):
        out[i, j] = epilogue(x[i, j] + y[j], i, j)
    return out


@helion.kernel
def host_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = x + y
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = both[tile] * 2
    return out


@helion.kernel
def host_chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = x + torch.exp(y) * 2
    both.mul_(3)
    both[1:3] = 7.0
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = both[tile, :] - y[:][None, :]
    return out + 1


@helion.kernel
def filled_after(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    out[2].zero_()
    return out


@helion.kernel
def filled_after_it_is_read(x: torch.Tensor) -> torch.Tensor:
    out = torch.ones_like(x)
    seen = out * 2
    out.fill_(7)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = out[tile, :] + seen[tile, :]
    return out


@helion.kernel
def host_sum_changed(x: torch.Tensor) -> torch.Tensor:
    total = x.sum(0)
    for tile in hl.tile(x.size(0)):
        x[tile] = x[tile] * 2
    return total


@helion.kernel
def host_norm_changed(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    total = torch.sum(x, 0, keepdim=True)
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] - total[0]
    return out


@helion.kernel
def host_copy_changed(x: torch.Tensor) -> torch.Tensor:
    before = x.clone()
    out = torch.empty_like(x)
    x.add_(1)
    for tile in hl.tile(x.size(0)):
        out[tile] = before[tile] + x[tile]
    return out


@helion.kernel
def host_puts(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    out.index_put_((x > 0,), x)
    for tile in hl.tile(x.size(0)):
        out[tile] = out[tile] + x[tile]
    return out


@helion.kernel
def by_stride(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * x.stride(0)
    return out


@helion.kernel
def printing(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        hl.device_print("x", x[tile])
        out[tile] = x[tile]
    return out


@helion.kernel
def pair(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile]
    return out, 3


@helion.kernel
def pair_of_one(x: torch.Tensor) -> tuple[torch.Tensor]:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile]
    return (out,)


@helion.kernel
def gathers(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty([index.size(0), x.size(1)], dtype=x.dtype, device=x.device)
    for i, j in hl.tile(out.size()):
        out[i, j] = x[index[i], j]
    return out


@helion.kernel
def host_fails(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile]
    raise ValueError("no such thing")
    return out


@helion.kernel
def tile_mean(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.float32, device=x.device)
    for tile in hl.tile(x.size(0)):
        total = hl.zeros([tile], dtype=torch.float32)
        for cols in hl.tile(x.size(1)):
            total = total + torch.mean(x[tile, cols] + 1.0, 1)
        out[tile] = torch.nn.functional.gelu(total, approximate="tanh")
    return out


@helion.kernel
def tile_variance(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.float32, device=x.device)
    for tile in hl.tile(x.size(0)):
        total = hl.zeros([tile], dtype=torch.float32)
        for cols in hl.tile(x.size(1)):
            total = total + torch.var(x[tile, cols], 1)
        out[tile] = total
    return out


@helion.kernel
def ragged_rows(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([offsets.size(0) - 1, x.size(1)], dtype=x.dtype, device=x.device)
    for group in hl.grid(offsets.size(0) - 1):
        begin = offsets[group]
        end = offsets[group + 1]
        for cols in hl.tile(x.size(1)):
            total = hl.zeros([cols], dtype=torch.float32)
            for rows in hl.tile(begin, end):
                total = total + x[rows, cols].sum(0)
            out[group, cols] = total.to(x.dtype)
    return out


@helion.kernel
def jagged_sum(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    groups = offsets.size(0) - 1
    out = torch.zeros([groups], dtype=x.dtype, device=x.device)
    for group in hl.tile(groups):
        begins = offsets[group]
        lengths = offsets[group.index + 1] - begins
        total = hl.zeros([group], dtype=torch.float32)
        for items in hl.jagged_tile(lengths):
            total = total + x[begins[:, None] + items.index[None, :]].sum(1)
        out[group] = total
    return out


@helion.kernel
def halving(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        v = x[tile]
        most = v.amax()
        while most > 1.0:
            v = v * 0.5
            most = v.amax()
        out[tile] = v
    return out


@helion.kernel
def tensor_branch(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        v = x[tile]
        if v.sum() > 0:
            out[tile] = v
    return out


@helion.kernel(static_shapes=True)
def branch_without_else(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        acc = hl.zeros([tile], dtype=torch.float32)
        for i in hl.grid(4):
            if i < 2:
                acc = acc + x[tile]
        out[tile] = acc
    return out


def plain(x):
    return x


@helion.kernel
def dropout(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty_like(x)
    noise = torch.empty_like(x)
    for i, j in hl.tile(x.size()):
        out[i, j] = torch.where(torch.rand_like(x[i, j]) > 0.25, x[i, j], 0.0)
        noise[i, j] = torch.rand_like(x[i, j])
    return out, noise


@helion.kernel
def seeded(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, j in hl.tile(x.size()):
        out[i, j] = hl.rand([i, j], seed=7)
    return out


@helion.kernel(static_shapes=True)
def sized_by_an_item(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    rows = int(offsets[-1].item())
    out = torch.zeros(rows * x.size(1), dtype=x.dtype)
    flat = x.view(-1)
    for tile in hl.tile(x.numel()):
        out[tile] = flat[tile] * 2
    return out.reshape(rows, x.size(1))


@helion.kernel(static_shapes=True)
def sums_of_64_bits(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.int64)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(-1)
    return out
