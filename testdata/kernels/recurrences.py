"""What runs along time or a row by a function: recurrences, segments, state-space layers."""

import helion
import helion.language as hl
import torch


def after(left_decay, left, right_decay, right):
    """Combine h -> left_decay h + left with the step after it."""
    return left_decay * right_decay, right_decay * left + right


def within(left, left_key, right, right_key):
    """A sum that begins anew where the key does."""
    return torch.where(left_key == right_key, left + right, right), right_key


def first_larger(left, left_at, right, right_at):
    """The larger value and where it is; of two that are equal the first."""
    keep = left >= right
    return torch.where(keep, left, right), torch.where(keep, left_at, right_at)


@helion.kernel(static_shapes=True)
def recurrence_scan(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return h[t] = a[t] h[t - 1] + b[t]: all are [T, D]. Chunks of time are scanned."""
    steps, width = a.size()
    out = torch.empty_like(b)
    for tile_d in hl.tile(width):
        h = hl.zeros([tile_d], dtype=torch.float32)
        for tile_t in hl.tile(steps):
            decay, here = hl.associative_scan(after, (a[tile_t, tile_d], b[tile_t, tile_d]), dim=0)
            values = here + decay * h[None, :]
            out[tile_t, tile_d] = values
            last = (tile_t.index == tile_t.end - 1)[:, None]
            h = torch.where(last, values, 0.0).sum(0)
    return out


@helion.kernel(static_shapes=True)
def recurrence_loop(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return h[t] = a[t] h[t - 1] + b[t]: all are [T, D]. One step after the other."""
    steps, width = a.size()
    out = torch.empty_like(b)
    for tile_d in hl.tile(width):
        h = hl.zeros([tile_d], dtype=torch.float32)
        for t in hl.grid(steps):
            h = a[t, tile_d] * h + b[t, tile_d]
            out[t, tile_d] = h
    return out


@helion.kernel(static_shapes=True)
def segmented_scan(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return the running sums of x [M, N] along rows, anew where keys [N] change."""
    m, n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        key = keys[:].to(torch.float32)[None, :].expand(tile_m.block_size, n)
        sums, _ = hl.associative_scan(within, (x[tile_m, :], key), dim=1)
        out[tile_m, :] = sums
    return out


@helion.kernel(static_shapes=True)
def argmax_reduce(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest element of each row of x [M, N] and where it is first."""
    m, n = x.size()
    best = torch.empty([m], dtype=x.dtype, device=x.device)
    place = torch.empty([m], dtype=torch.int32, device=x.device)
    for tile_m in hl.tile(m):
        at = hl.arange(n).to(torch.float32)[None, :].expand(tile_m.block_size, n)
        value, where = hl.reduce(
            first_larger, (x[tile_m, :], at), dim=1, other=(float("-inf"), 0.0)
        )
        best[tile_m] = value
        place[tile_m] = where.to(torch.int32)
    return best, place


@helion.kernel(static_shapes=True)
def causal_conv1d(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return silu(bias + the sum over k of weight[k] x[t - k]): x [T, D], weight [4, D]."""
    steps, width = x.size()
    out = torch.empty_like(x)
    for tile_t, tile_d in hl.tile([steps, width]):
        acc = bias[tile_d].to(torch.float32)[None, :].expand(tile_t.block_size, tile_d.block_size)
        for k in hl.static_range(4):
            seen = (tile_t.index >= k)[:, None]
            rows = hl.load(x, [tile_t.index - k, tile_d], extra_mask=seen).to(torch.float32)
            acc = acc + rows * weight[k, tile_d].to(torch.float32)[None, :]
        out[tile_t, tile_d] = (acc * torch.sigmoid(acc)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor,
    beta: torch.Tensor,
) -> torch.Tensor:
    """Return q S[t], S[t] = decay[t] (I - beta[t] k k') S[t - 1] + beta[t] k v': by chunks of 64.

    q, k [heads, T, K], v [heads, T, V], log_decay and beta [heads, T], in float32. Within a chunk
    new values solve a unit lower triangular system, inverted as the product of I + (-A)^(2^i).
    """
    heads, steps, key = k.size()
    value = v.size(2)
    out = torch.empty_like(v)
    for h in hl.grid(heads):
        s = hl.zeros([key, value], dtype=torch.float32)
        for tile_t in hl.tile(steps, block_size=64):
            keys, gate = k[h, tile_t, :], beta[h, tile_t][:, None]
            g = torch.cumsum(log_decay[h, tile_t], 0)
            end = log_decay[h, tile_t].sum(0)
            row, col = tile_t.index[:, None], tile_t.index[None, :]
            apart = torch.exp(torch.where(row >= col, g[:, None] - g[None, :], float("-inf")))
            power = torch.where(row > col, hl.dot(keys * gate, keys.transpose(0, 1)) * -apart, 0.0)
            inverse = torch.where(row == col, 1.0, 0.0) + power
            for _ in hl.static_range(5):
                power = hl.dot(power, power)
                inverse = inverse + hl.dot(inverse, power)
            since = torch.exp(g)[:, None]
            fresh = v[h, tile_t, :] - hl.dot(keys * since, s)
            new = hl.dot(inverse, fresh * gate)
            queries = q[h, tile_t, :]
            seen = hl.dot(queries, keys.transpose(0, 1)) * apart
            out[h, tile_t, :] = hl.dot(queries * since, s) + hl.dot(seen, new)
            left = torch.exp(end - g)[:, None]
            s = s * torch.exp(end) + hl.dot((keys * left).transpose(0, 1), new)
    return out
