"""Rows and columns where int tensors say: gathers, scatters, sums by index."""

import helion
import helion.language as hl
import torch


@helion.kernel()
def embedding(weight, ids):
    """Rows of a table."""
    out = torch.empty([ids.size(0), weight.size(1)], dtype=weight.dtype, device=weight.device)
    for tile_b, tile_e in hl.tile(out.size()):
        out[tile_b, tile_e] = weight[ids[tile_b], tile_e]
    return out


@helion.kernel()
def odd_rows(weight, ids):
    """Rows whose numbers the kernel computes."""
    out = torch.empty([ids.size(0), weight.size(1)], dtype=weight.dtype, device=weight.device)
    for tile_b, tile_e in hl.tile(out.size()):
        numbers = ids[tile_b]
        out[tile_b, tile_e] = weight[numbers * 2 + 1, tile_e] * numbers[:, None]
    return out


@helion.kernel()
def columns(x, ids):
    """Columns of a matrix, in another order."""
    out = torch.empty([x.size(0), ids.size(0)], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile(out.size()):
        out[tile_m, tile_n] = x[tile_m, ids[tile_n]]
    return out


@helion.kernel()
def table_rows(weight, ids):
    """Rows by a table of two dims."""
    batch, count = ids.size()
    dim = hl.specialize(weight.size(1))
    out = torch.empty([batch, count, dim], dtype=weight.dtype, device=weight.device)
    for tile_b, tile_c in hl.tile([batch, count]):
        out[tile_b, tile_c, :] = weight[ids[tile_b, tile_c], :]
    return out


@helion.kernel()
def crossed(x, rows, cols):
    """Each of some rows at each of some columns."""
    out = torch.empty([rows.size(0), cols.size(0)], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile(out.size()):
        out[tile_m, tile_n] = x[rows[tile_m], cols[tile_n]]
    return out


@helion.kernel()
def gather_gemv(weight, x, ids):
    """Products of a vector with rows of a matrix."""
    out = torch.empty([ids.size(0)], dtype=torch.float32, device=weight.device)
    for tile_b in hl.tile(ids.size(0)):
        acc = hl.zeros([tile_b], dtype=torch.float32)
        for tile_k in hl.tile(weight.size(1)):
            acc = acc + (weight[ids[tile_b], tile_k].to(torch.float32) * x[tile_k][None, :]).sum(-1)
        out[tile_b] = acc
    return out


@helion.kernel()
def embedding_backward(grad, ids, rows):
    """Gradients of rows, added up where a row was read."""
    out = torch.zeros([hl.specialize(rows), grad.size(1)], dtype=grad.dtype, device=grad.device)
    for tile_b, tile_e in hl.tile(grad.size()):
        hl.atomic_add(out, [ids[tile_b], tile_e], grad[tile_b, tile_e])
    return out


@helion.kernel()
def permute_rows(x, ids):
    """Rows put where their numbers say."""
    out = torch.empty_like(x)
    for tile_b, tile_e in hl.tile(x.size()):
        out[ids[tile_b], tile_e] = x[tile_b, tile_e]
    return out


@helion.kernel()
def histogram(ids, bins):
    """How often each number comes."""
    out = torch.zeros([hl.specialize(bins), 1], dtype=torch.int32, device=ids.device)
    for tile_b in hl.tile(ids.size(0)):
        hl.atomic_add(out, [ids[tile_b], slice(None)], 1)
    return out


@helion.kernel()
def put_flagged(x, ids, keep):
    """Rows put where their numbers say, if they are flagged."""
    out = torch.zeros_like(x)
    for tile_b in hl.tile(x.size(0)):
        flags = (keep[tile_b] > 0)[:, None]
        hl.store(out, [ids[tile_b], slice(None)], x[tile_b, :], extra_mask=flags)
    return out
