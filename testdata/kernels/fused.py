"""What models compute around a matmul or instead of a long tensor: beside the kernels by hand."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def rms_norm_matmul(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return (x / rms(x) * weight) @ y: x [M, K], weight [K], y [K, N].

    1 / rms of a row scales what its products add up to, so that the row is read once.
    """
    m, k = x.size()
    k = hl.specialize(k)
    n = y.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        squares = hl.zeros([tile_m], dtype=torch.float32)
        for tile_k in hl.tile(k):
            rows = x[tile_m, tile_k].to(torch.float32)
            squares = squares + torch.sum(rows * rows, dim=-1)
            scaled = (rows * weight[tile_k].to(torch.float32)[None, :]).to(x.dtype)
            acc = torch.addmm(acc, scaled, y[tile_k, tile_n])
        out[tile_m, tile_n] = (acc * torch.rsqrt(squares / k + 1e-6)[:, None]).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def softmax_bwd(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the gradient y * (dy - sum(dy * y)) of softmax, of its result y [M, N] and dy."""
    m, _n = y.size()
    dx = torch.empty_like(y)
    for tile_m in hl.tile(m):
        weight = y[tile_m, :].to(torch.float32)
        grad = dy[tile_m, :].to(torch.float32)
        total = torch.sum(grad * weight, dim=1, keepdim=True)
        dx[tile_m, :] = (weight * (grad - total)).to(y.dtype)
    return dx


@helion.kernel(static_shapes=True)
def linear_cross_entropy(x: torch.Tensor, w: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return each row's cross-entropy, float32 [N], of logits x @ w, which are not stored.

    x [N, H], w [H, V], labels int32 [N, 1].
    """
    n, _h = x.size()
    v = w.size(1)
    losses = torch.empty([n], dtype=torch.float32, device=x.device)
    for tile_n in hl.tile(n):
        top = hl.full([tile_n], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_n], dtype=torch.float32)
        picked = hl.zeros([tile_n], dtype=torch.float32)
        label = labels[tile_n, :]
        rows = x[tile_n, :]
        for tile_v in hl.tile(v):
            logits = hl.dot(rows, w[:, tile_v], out_dtype=torch.float32)
            new_top = torch.maximum(top, torch.amax(logits, dim=1))
            part = torch.exp(logits - new_top[:, None]).sum(dim=1)
            total = total * torch.exp(top - new_top) + part
            hit = tile_v.index[None, :] == label
            picked = picked + torch.where(hit, logits, 0.0).sum(dim=1)
            top = new_top
        losses[tile_n] = torch.log(total) + top - picked
    return losses
