"""Losses of language models and of reinforcement learning on them, over a vocabulary."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def grpo_loss(
    logits: torch.Tensor,
    old_logp: torch.Tensor,
    ref_logp: torch.Tensor,
    ids: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    temperature: float,
    beta: float,
    eps_low: float,
    eps_high: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the GRPO loss, the KL term, whether the ratio is clipped, and lse: float32 [B, L].

    logits [B, L, V]; old_logp, ref_logp, mask float32 and ids int32 [B, L]; advantages [B]. The
    online sum of exponentials and the chosen token's logit come out of one walk over V.
    """
    batches, length, vocabulary = logits.size()
    loss = torch.empty([batches, length], dtype=torch.float32, device=logits.device)
    kl_out, clipped = torch.empty_like(loss), torch.empty_like(loss)
    lse_out = torch.empty_like(loss)
    for tile_b, tile_l in hl.tile([batches, length]):
        top = hl.full([tile_b, tile_l], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_b, tile_l], dtype=torch.float32)
        chosen = hl.zeros([tile_b, tile_l], dtype=torch.float32)
        token = ids[tile_b, tile_l]
        for tile_v in hl.tile(vocabulary):
            z = logits[tile_b, tile_l, tile_v].to(torch.float32) / temperature
            new_top = torch.maximum(top, torch.amax(z, dim=-1))
            weight = torch.exp(z - new_top[:, :, None])
            total = total * torch.exp(top - new_top) + torch.sum(weight, dim=-1)
            top = new_top
            here = tile_v.index[None, None, :] == token[:, :, None]
            chosen = chosen + torch.sum(torch.where(here, z, 0.0), dim=-1)
        lse = top + torch.log(total)
        logp = chosen - lse
        ratio = torch.exp(logp - old_logp[tile_b, tile_l])
        inside = torch.clamp(ratio, 1.0 - eps_low, 1.0 + eps_high)
        gain = advantages[tile_b].to(torch.float32)[:, None]
        apart = ref_logp[tile_b, tile_l] - logp
        kl = torch.exp(apart) - apart - 1.0
        keep = mask[tile_b, tile_l]
        low = (ratio < 1.0 - eps_low) & (gain < 0.0)
        high = (ratio > 1.0 + eps_high) & (gain > 0.0)
        loss[tile_b, tile_l] = (beta * kl - torch.minimum(ratio * gain, inside * gain)) * keep
        kl_out[tile_b, tile_l] = kl * keep
        clipped[tile_b, tile_l] = torch.where(low | high, keep, 0.0)
        lse_out[tile_b, tile_l] = lse
    return loss, kl_out, clipped, lse_out


@helion.kernel(static_shapes=True)
def grpo_loss_bwd(
    grad: torch.Tensor,
    logits: torch.Tensor,
    old_logp: torch.Tensor,
    ref_logp: torch.Tensor,
    chosen: torch.Tensor,
    ids: torch.Tensor,
    advantages: torch.Tensor,
    lse: torch.Tensor,
    mask: torch.Tensor,
    temperature: float,
    beta: float,
    eps_low: float,
    eps_high: float,
) -> torch.Tensor:
    """Return the gradient of grpo_loss with respect to the logits [B, L, V], of `grad` [B, L].

    chosen: the chosen tokens' logits over the temperature, lse: as grpo_loss gives it; both [B, L].
    """
    batches, length, vocabulary = logits.size()
    dlogits = torch.empty_like(logits)
    for tile_b, tile_l in hl.tile([batches, length]):
        row_lse = lse[tile_b, tile_l]
        logp = chosen[tile_b, tile_l] - row_lse
        ratio = torch.exp(logp - old_logp[tile_b, tile_l])
        inside = torch.clamp(ratio, 1.0 - eps_low, 1.0 + eps_high)
        gain = advantages[tile_b].to(torch.float32)[:, None]
        free = torch.where(ratio * gain <= inside * gain, ratio * gain, 0.0)
        slope = beta * (1.0 - torch.exp(ref_logp[tile_b, tile_l] - logp)) - free
        slope = slope * mask[tile_b, tile_l] * grad[tile_b, tile_l] / temperature
        token = ids[tile_b, tile_l]
        for tile_v in hl.tile(vocabulary):
            z = logits[tile_b, tile_l, tile_v].to(torch.float32) / temperature
            weight = torch.exp(z - row_lse[:, :, None])
            here = tile_v.index[None, None, :] == token[:, :, None]
            step = torch.where(here, 1.0 - weight, -weight)
            dlogits[tile_b, tile_l, tile_v] = (step * slope[:, :, None]).to(logits.dtype)
    return dlogits


@helion.kernel(static_shapes=True)
def fused_linear_jsd(
    x: torch.Tensor,
    weight: torch.Tensor,
    teacher_x: torch.Tensor,
    teacher_weight: torch.Tensor,
    beta: float,
) -> torch.Tensor:
    """Return each row's Jensen-Shannon divergence of two linear layers' softmaxes, float32 [M].

    x and teacher_x are [M, K], the weights [V, K]. With p the teacher's and q the student's
    probabilities and mix = beta * p + (1 - beta) * q: beta * KL(p, mix) + (1 - beta) * KL(q, mix).
    """
    m, k = x.size()
    v = hl.specialize(weight.size(0))
    out = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        student = hl.zeros([tile_m, v], dtype=torch.float32)
        teacher = hl.zeros([tile_m, v], dtype=torch.float32)
        for tile_k in hl.tile(k):
            student = torch.addmm(student, x[tile_m, tile_k], weight[:, tile_k].T)
            teacher = torch.addmm(teacher, teacher_x[tile_m, tile_k], teacher_weight[:, tile_k].T)
        s_rest = student - torch.amax(student, dim=-1, keepdim=True)
        t_rest = teacher - torch.amax(teacher, dim=-1, keepdim=True)
        s_log = s_rest - torch.log(torch.sum(torch.exp(s_rest), dim=-1, keepdim=True))
        t_log = t_rest - torch.log(torch.sum(torch.exp(t_rest), dim=-1, keepdim=True))
        q, p = torch.exp(s_log), torch.exp(t_log)
        both = torch.maximum(t_log, s_log)
        mix = beta * torch.exp(t_log - both) + (1.0 - beta) * torch.exp(s_log - both)
        mix_log = both + torch.log(mix)
        to_teacher = torch.sum(p * (t_log - mix_log), dim=-1)
        to_student = torch.sum(q * (s_log - mix_log), dim=-1)
        out[tile_m] = beta * to_teacher + (1.0 - beta) * to_student
    return out


@helion.kernel(static_shapes=True)
def fused_linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """Return the cross-entropy of x @ weight.T against ids, float32 [M]; no logits are stored.

    x [M, K], weight [V, K], ids int32 [M].
    """
    m, k = x.size()
    v, _k = weight.size()
    out = torch.empty([m], dtype=torch.float32, device=x.device)
    for tile_m in hl.tile(m):
        top = hl.full([tile_m], float("-inf"), dtype=torch.float32)
        total = hl.zeros([tile_m], dtype=torch.float32)
        chosen = hl.zeros([tile_m], dtype=torch.float32)
        token = ids[tile_m]
        for tile_v in hl.tile(v):
            logits = hl.zeros([tile_m, tile_v], dtype=torch.float32)
            for tile_k in hl.tile(k):
                logits = torch.addmm(logits, x[tile_m, tile_k], weight[tile_v, tile_k].T)
            new_top = torch.maximum(top, torch.amax(logits, dim=-1))
            step = torch.exp(logits - new_top[:, None])
            total = total * torch.exp(top - new_top) + torch.sum(step, dim=-1)
            top = new_top
            here = tile_v.index[None, :] == token[:, None]
            chosen = chosen + torch.sum(torch.where(here, logits, 0.0), dim=-1)
        out[tile_m] = top + torch.log(total) - chosen
    return out
