"""Losses over a vocabulary or a distribution: cross-entropy, Kullback-Leibler, Jensen-Shannon."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return each row's cross-entropy, float32 [N], of logits [N, V] and labels int32 [N, 1].

    The label's logit is picked by comparing columns with the label: no gather.
    """
    n, v = logits.size()
    losses = torch.empty([n], dtype=torch.float32, device=logits.device)
    for tile_n in hl.tile(n):
        row = logits[tile_n, :].to(torch.float32)
        top = torch.amax(row, dim=-1, keepdim=True)
        total = torch.sum(torch.exp(row - top), dim=-1)
        column = hl.arange(v)
        label = labels[tile_n, :]
        picked = torch.sum(torch.where(column[None, :] == label, row, 0.0), dim=-1)
        losses[tile_n] = torch.log(total) + top.squeeze(-1) - picked
    return losses


@helion.kernel(static_shapes=True)
def cross_entropy_online(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The same in tiles of columns, with a running maximum and sum."""
    n, v = logits.size()
    losses = torch.empty([n], dtype=torch.float32, device=logits.device)
    for tile_n in hl.tile(n):
        top = hl.full([tile_n], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_n], dtype=torch.float32)
        picked = hl.zeros([tile_n], dtype=torch.float32)
        label = labels[tile_n, :]
        for tile_v in hl.tile(v):
            part = logits[tile_n, tile_v].to(torch.float32)
            new_top = torch.maximum(top, torch.amax(part, dim=1))
            scale = torch.exp(top - new_top)
            total = total * scale + torch.exp(part - new_top[:, None]).sum(dim=1)
            hit = tile_v.index[None, :] == label
            picked += torch.where(hit, part, 0.0).sum(dim=1)
            top = new_top
        losses[tile_n] = torch.log(total) + top - picked
    return losses


@helion.kernel(static_shapes=True)
def kl_div(y_pred: torch.Tensor, y_true: torch.Tensor, eps: float) -> torch.Tensor:
    """Return each row's KL divergence, float32 [B]: sum of t * (log max(t, eps) - p).

    y_pred [B, V] holds log-probabilities p, y_true [B, V] probabilities t.
    """
    b, v = y_pred.size()
    loss = torch.empty([b], dtype=torch.float32, device=y_pred.device)
    for tile_b in hl.tile(b):
        total = hl.zeros([tile_b], dtype=torch.float32)
        for tile_v in hl.tile(v):
            pred = y_pred[tile_b, tile_v].to(torch.float32)
            true = y_true[tile_b, tile_v].to(torch.float32)
            total += (true * (torch.log(torch.clamp(true, min=eps)) - pred)).sum(dim=-1)
        loss[tile_b] = total
    return loss


@helion.kernel(static_shapes=True)
def jsd(log_q: torch.Tensor, log_p: torch.Tensor, beta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the generalized Jensen-Shannon divergence of each row and its gradient by log_q.

    log_q and log_p [B, V] are log-probabilities; m = beta * p + (1 - beta) * q. The loss, float32
    [B], is beta * KL(p, m) + (1 - beta) * KL(q, m); the gradient is [B, V].
    """
    b, v = log_q.size()
    loss = torch.empty([b], dtype=torch.float32, device=log_q.device)
    grad = torch.empty_like(log_q)
    for tile_b in hl.tile(b):
        total = hl.zeros([tile_b], dtype=torch.float32)
        for tile_v in hl.tile(v):
            lq = log_q[tile_b, tile_v].to(torch.float32)
            lp = log_p[tile_b, tile_v].to(torch.float32)
            q = torch.exp(lq)
            p = torch.exp(lp)
            lm = torch.log(beta * p + (1 - beta) * q)
            total += (beta * p * (lp - lm) + (1 - beta) * q * (lq - lm)).sum(dim=-1)
            grad[tile_b, tile_v] = ((1 - beta) * q * (lq - lm)).to(log_q.dtype)
        loss[tile_b] = total
    return loss, grad
