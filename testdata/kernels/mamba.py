"""Mamba-2, a state-space layer, by chunks of time: their states, those passed on, the output.

Heads of a group share B and C. Logarithms of decays are summed up within each chunk; decays are
float32, and only what enters a product has the dtype of x.
"""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def chunk_state(
    b: torch.Tensor, x: torch.Tensor, dt: torch.Tensor, log_decay: torch.Tensor
) -> torch.Tensor:
    """Return what each chunk adds to the state, [batch, chunks, heads, P, N].

    b [batch, T, groups, N], x [batch, T, heads, P]; dt, log_decay [batch, heads, chunks, chunk].
    """
    batch, _steps, groups, state = b.size()
    _batch, _steps, heads, width = x.size()
    _batch, _heads, chunks, chunk = dt.size()
    chunk = hl.specialize(chunk)
    shared = heads // groups
    block_m, block_n = hl.register_block_size(width), hl.register_block_size(state)
    out = torch.empty([batch, chunks, heads, width, state], dtype=x.dtype, device=x.device)
    for tile_h, tile_m, tile_n, tile_b, tile_c in hl.tile(
        [heads, width, state, batch, chunks], block_size=[1, block_m, block_n, 1, 1]
    ):
        i, h, c = tile_b.begin, tile_h.begin, tile_c.begin
        end = log_decay[i, h, c, chunk - 1]
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(chunk):
            rows = tile_k.index + c * chunk
            scale = torch.exp(end - log_decay[i, h, c, tile_k]) * dt[i, h, c, tile_k]
            values = x[i, rows, h, tile_m].transpose(0, 1) * scale[None, :]
            acc = hl.dot(values.to(x.dtype), b[i, rows, h // shared, tile_n], acc=acc)
        out[i, c, h, tile_m, tile_n] = acc.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def chunk_state_heads(
    b: torch.Tensor, x: torch.Tensor, dt: torch.Tensor, log_decay: torch.Tensor
) -> torch.Tensor:
    """Return what each chunk adds to the state, [batch, chunks, groups, shared, P, N].

    b [batch, groups, chunks, chunk, N]; x [batch, groups, shared, chunks, chunk, P], and the others
    as far as chunk.
    """
    batch, groups, shared, chunks, chunk, width = x.size()
    state = b.size(4)
    chunk = hl.specialize(chunk)
    out = torch.empty([batch, chunks, groups, shared, width, state], dtype=x.dtype, device=x.device)
    for tile_b, tile_g, tile_c, tile_h in hl.tile(
        [batch, groups, chunks, shared], block_size=[1, 1, 1, None]
    ):
        i, g, c = tile_b.begin, tile_g.begin, tile_c.begin
        end = log_decay[i, g, tile_h, c, chunk - 1]
        scale = torch.exp(end[:, None] - log_decay[i, g, tile_h, c, :]) * dt[i, g, tile_h, c, :]
        values = x[i, g, tile_h, c, :, :].transpose(1, 2) * scale[:, None, :]
        keys = b[i, g, c, :, :][None, :, :].expand(tile_h.block_size, chunk, state)
        added = hl.dot(values.to(x.dtype), keys, out_dtype=torch.float32)
        out[i, c, g, tile_h, :, :] = added.to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def state_passing(
    states: torch.Tensor, log_decay: torch.Tensor, first: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the states before each chunk, and the last: a linear recurrence over chunks.

    states [batch, chunks, heads, P N], log_decay of whole chunks [batch, heads, chunks], first
    [batch, heads, P N].
    """
    batch, chunks, heads, width = states.size()
    before, last = torch.empty_like(states), torch.empty_like(first)
    for tile_b, tile_h, tile_d in hl.tile([batch, heads, width], block_size=[1, None, None]):
        i = tile_b.begin
        s = first[i, tile_h, tile_d].to(torch.float32)
        for c in hl.grid(chunks):
            before[i, c, tile_h, tile_d] = s.to(before.dtype)
            decay = torch.exp(log_decay[i, tile_h, c])
            s = s * decay[:, None] + states[i, c, tile_h, tile_d].to(torch.float32)
        last[i, tile_h, tile_d] = s.to(last.dtype)
    return before, last


@helion.kernel(static_shapes=True)
def chunk_scan(
    cb: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    log_decay: torch.Tensor,
    c: torch.Tensor,
    states: torch.Tensor,
    skip: torch.Tensor,
) -> torch.Tensor:
    """Return the output from the states before each chunk, [batch, T, heads, P].

    cb [batch, chunks, groups, chunk, chunk] are the products of C and B, c [batch, T, groups, N],
    states [batch, chunks, heads, P, N], skip [heads]; the others are those of chunk_state.
    """
    batch, _steps, heads, width = x.size()
    _batch, chunks, groups, chunk, _chunk = cb.size()
    chunk = hl.specialize(chunk)
    shared = heads // groups
    block_m, block_n = hl.register_block_size(chunk), hl.register_block_size(width)
    out = torch.empty_like(x)
    for tile_h, tile_m, tile_n, tile_b, tile_c in hl.tile(
        [heads, chunk, width, batch, chunks], block_size=[1, block_m, block_n, 1, 1]
    ):
        i, h, n = tile_b.begin, tile_h.begin, tile_c.begin
        rows = tile_m.index + n * chunk
        decay = log_decay[i, h, n, tile_m]
        before = states[i, n, h, tile_n, :].transpose(0, 1)
        acc = hl.dot(c[i, rows, h // shared, :], before, out_dtype=torch.float32)
        acc = acc * torch.exp(decay)[:, None]
        for tile_k in hl.tile(0, tile_m.end):
            causal = tile_m.index[:, None] >= tile_k.index[None, :]
            apart = decay[:, None] - log_decay[i, h, n, tile_k][None, :]
            weight = torch.exp(torch.where(causal, apart, float("-inf")))
            weight = weight * dt[i, h, n, tile_k][None, :]
            weight = weight * cb[i, n, h // shared, tile_m, tile_k]
            values = x[i, tile_k.index + n * chunk, h, tile_n]
            acc = hl.dot(weight.to(x.dtype), values, acc=acc)
        out[i, rows, h, tile_n] = (acc + x[i, rows, h, tile_n] * skip[h]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def chunk_scan_heads(
    cb: torch.Tensor,
    x: torch.Tensor,
    dt: torch.Tensor,
    log_decay: torch.Tensor,
    c: torch.Tensor,
    states: torch.Tensor,
    skip: torch.Tensor,
) -> torch.Tensor:
    """Return the output from the states before each chunk, of the shape of x.

    cb [batch, groups, chunks, chunk, chunk], c [batch, groups, chunks, chunk, N], states [batch,
    chunks, groups, shared, P, N], skip [groups, shared]; the others are those of chunk_state_heads.
    """
    batch, groups, shared, chunks, chunk, _width = x.size()
    chunk, state = hl.specialize(chunk), hl.specialize(c.size(4))
    out = torch.empty_like(x)
    for tile_b, tile_g, tile_n, tile_h, tile_m in hl.tile(
        [batch, groups, chunks, shared, chunk], block_size=[1, 1, 1, None, None]
    ):
        i, g, n = tile_b.begin, tile_g.begin, tile_n.begin
        decay = log_decay[i, g, tile_h, n, tile_m]
        queries = c[i, g, n, tile_m, :][None, :, :]
        queries = queries.expand(tile_h.block_size, tile_m.block_size, state)
        before = states[i, n, g, tile_h, :, :].transpose(1, 2)
        acc = hl.dot(queries, before, out_dtype=torch.float32) * torch.exp(decay)[:, :, None]
        for tile_k in hl.tile(0, tile_m.end):
            causal = (tile_m.index[:, None] >= tile_k.index[None, :])[None, :, :]
            apart = decay[:, :, None] - log_decay[i, g, tile_h, n, tile_k][:, None, :]
            weight = torch.exp(torch.where(causal, apart, float("-inf")))
            weight = weight * dt[i, g, tile_h, n, tile_k][:, None, :]
            weight = weight * cb[i, g, n, tile_m, tile_k][None, :, :]
            acc = hl.dot(weight.to(x.dtype), x[i, g, tile_h, n, tile_k, :], acc=acc)
        straight = x[i, g, tile_h, n, tile_m, :] * skip[g, tile_h][:, None, None]
        out[i, g, tile_h, n, tile_m, :] = (acc + straight).to(x.dtype)
    return out
