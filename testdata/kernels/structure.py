"""How kernels are put together: several loops in order, updates in place, one array at two tilings."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def normalise_by_total(x: torch.Tensor) -> torch.Tensor:
    """Return x divided by the sum of all of it: x [M, N]. The second loop needs all of the first."""
    m, n = x.size()
    sums = torch.empty([m], dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        sums[tile_m] = torch.sum(x[tile_m, :].to(torch.float32), -1)
    hl.barrier()
    for tile_r in hl.tile(m):
        total = torch.sum(sums[:], 0)
        out[tile_r, :] = (x[tile_r, :].to(torch.float32) / total).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def layer_norm_bwd_two_loops(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (dx, dweight, dbias) of layer-norm: grad, x [M, N]; mean, rstd [M]; weight [N].

    The first loop leaves a row of partial sums for each tile of rows; the second adds those up.
    """
    m, n = x.size()
    block = hl.register_block_size(m)
    tiles = (m + block - 1) // block
    dx = torch.empty_like(x)
    weights = torch.empty([tiles, n], dtype=torch.float32, device=x.device)
    biases = torch.empty([tiles, n], dtype=torch.float32, device=x.device)
    dweight = torch.empty_like(weight)
    dbias = torch.empty_like(weight)
    for tile_m in hl.tile(m, block_size=block):
        g = grad[tile_m, :].to(torch.float32)
        w = weight[:].to(torch.float32)
        hat = (x[tile_m, :].to(torch.float32) - mean[tile_m][:, None]) * rstd[tile_m][:, None]
        weights[tile_m.id, :] = torch.sum(g * hat, 0)
        biases[tile_m.id, :] = torch.sum(g, 0)
        gw = g * w[None, :]
        c1 = torch.sum(gw, -1) / n
        c2 = torch.sum(gw * hat, -1) / n
        dx[tile_m, :] = ((gw - c1[:, None] - hat * c2[:, None]) * rstd[tile_m][:, None]).to(x.dtype)
    hl.barrier()
    for tile_n in hl.tile(n):
        dweight[tile_n] = torch.sum(weights[:, tile_n], 0).to(weight.dtype)
        dbias[tile_n] = torch.sum(biases[:, tile_n], 0).to(weight.dtype)
    return dx, dweight, dbias


@helion.kernel(static_shapes=True)
def add_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add y to x in place: both [M, N]."""
    for tile_m, tile_n in hl.tile(x.size()):
        x[tile_m, tile_n] = x[tile_m, tile_n] + y[tile_m, tile_n]
    return x


@helion.kernel(static_shapes=True)
def adamw(
    p: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    rate: float,
    decay: float,
    step: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One step of AdamW, all of p, m, v [M, N] in place; g is the gradient, `step` counts from 1."""
    for tile_m, tile_n in hl.tile(p.size()):
        grad = g[tile_m, tile_n].to(torch.float32)
        first = 0.9 * m[tile_m, tile_n] + 0.1 * grad
        second = 0.999 * v[tile_m, tile_n] + 0.001 * grad * grad
        m[tile_m, tile_n] = first
        v[tile_m, tile_n] = second
        scale = hl.full([tile_m, tile_n], step, dtype=torch.float32)
        hat = first / (1.0 - torch.exp(scale * -0.10536051565782628))
        root = torch.sqrt(second / (1.0 - torch.exp(scale * -0.0010005003335835335)))
        old = p[tile_m, tile_n]
        p[tile_m, tile_n] = old - rate * (hat / (root + 1e-8) + decay * old)
    return p, m, v


@helion.kernel(static_shapes=True)
def softmax_through_output(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of x's rows, float32 [M, N]; the third loop reads what the second stored."""
    m, n = x.size()
    out = torch.empty_like(x)
    for tile_m in hl.tile(m):
        top = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        for tile_n in hl.tile(n):
            top = torch.maximum(top, torch.amax(x[tile_m, tile_n], -1))
        total = hl.zeros([tile_m], dtype=torch.float32)
        for tile_k in hl.tile(n):
            e = torch.exp(x[tile_m, tile_k] - top[:, None])
            out[tile_m, tile_k] = e
            total = total + torch.sum(e, -1)
        for tile_j in hl.tile(n):
            out[tile_m, tile_j] = out[tile_m, tile_j] / total[:, None]
    return out


@helion.kernel(static_shapes=True)
def halves_of_output(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return [x + y, x - y] side by side: x, y [M, 128]. Two stores to one tile of the result."""
    m, n = x.size()
    out = torch.empty([m, 256], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(m):
        a, b = x[tile_m, :], y[tile_m, :]
        out[tile_m, 0:128] = a + b
        out[tile_m, 128:256] = a - b
    return out


@helion.kernel(static_shapes=True)
def centred_scores(x: torch.Tensor) -> torch.Tensor:
    """Return (x - mean(x)) @ x.T in float32, x [M, K]: whole rows and tiles of one array."""
    m, k = x.size()
    out = torch.empty([m, m], dtype=torch.float32, device=x.device)
    for tile_m, tile_n in hl.tile([m, m]):
        mean = torch.mean(x[tile_m, :].to(torch.float32), -1)
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            rows = (x[tile_m, tile_k].to(torch.float32) - mean[:, None]).to(x.dtype)
            acc = torch.addmm(acc, rows, x[tile_n, tile_k].transpose(0, 1))
        out[tile_m, tile_n] = acc
    return out


@helion.kernel(static_shapes=True)
def square(x: torch.Tensor) -> torch.Tensor:
    """Return x @ x in float32, x [M, M]: one array is both factors."""
    m, _m = x.size()
    out = torch.empty([m, m], dtype=torch.float32, device=x.device)
    for tile_m, tile_n in hl.tile([m, m]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(m):
            acc = torch.addmm(acc, x[tile_m, tile_k], x[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out
