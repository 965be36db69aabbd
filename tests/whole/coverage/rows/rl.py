"""Rows of losses over a vocabulary: GRPO, and linear layers fused with what follows them."""

import numpy as np

from coverage.row import family, parameters

TEMPERATURE, BETA, EPS_LOW, EPS_HIGH = 0.9, 0.04, 0.2, 0.2
NOTHING_TO_COPY = "it loads nothing that its steps move"


# ---- formulas ------------------------------------------------------------------------------------


def log_sum(z):
    """The logarithm of the sum of exponentials over the last dim."""
    top = z.max(-1)
    return top + np.log(np.exp(z - top[..., None]).sum(-1))


def chosen_of(z, ids):
    """z [..., V] at ids [...]."""
    return np.take_along_axis(z, ids.astype(int)[..., None], -1)[..., 0]


def grpo_loss(logits, old_logp, ref_logp, ids, advantages, mask):
    """Loss, KL term, clipped, lse: as in the GRPO paper, token by token."""
    z = logits / TEMPERATURE
    lse = log_sum(z)
    logp = chosen_of(z, ids) - lse
    ratio, gain = np.exp(logp - old_logp), advantages[:, None]
    inside = np.clip(ratio, 1 - EPS_LOW, 1 + EPS_HIGH)
    kl = np.exp(ref_logp - logp) - (ref_logp - logp) - 1
    low, high = (ratio < 1 - EPS_LOW) & (gain < 0), (ratio > 1 + EPS_HIGH) & (gain > 0)
    loss = -np.minimum(ratio * gain, inside * gain) + BETA * kl
    return loss * mask, kl * mask, (low | high) * mask, lse


def grpo_loss_bwd(grad, logits, old_logp, ref_logp, chosen, ids, advantages, lse, mask):
    """The gradient of the loss with respect to the logits; chosen and lse are taken as given."""
    logp = chosen - lse
    ratio, gain = np.exp(logp - old_logp), advantages[:, None]
    inside = np.clip(ratio, 1 - EPS_LOW, 1 + EPS_HIGH)
    slope = np.where(ratio * gain <= inside * gain, -ratio * gain, 0.0)
    slope += BETA * (1 - np.exp(ref_logp - logp))
    one = np.arange(logits.shape[-1]) == ids[..., None]
    weight = np.exp(logits / TEMPERATURE - lse[..., None])
    return ((one - weight) * (slope * mask * grad / TEMPERATURE)[..., None],)


def fused_linear_jsd(x, weight, teacher_x, teacher_weight):
    """Half of KL(p, mix) + KL(q, mix), mix = (p + q) / 2."""
    student, teacher = x @ weight.T, teacher_x @ teacher_weight.T
    q_log = student - log_sum(student)[:, None]
    p_log = teacher - log_sum(teacher)[:, None]
    p, q = np.exp(p_log), np.exp(q_log)
    mix_log = np.log((p + q) / 2)
    return (((p * (p_log - mix_log)).sum(-1) + (q * (q_log - mix_log)).sum(-1)) / 2,)


def fused_linear_cross_entropy(x, weight, ids):
    """lse(x @ weight.T) - the logit of ids."""
    logits = x @ weight.T
    return (log_sum(logits) - chosen_of(logits, ids),)


# ---- inputs --------------------------------------------------------------------------------------


def tokens(document, rng):
    """Ids below the vocabulary; masks of 0 and 1; log-probabilities near those of the logits."""
    given = parameters(document)
    shapes = {p.name: p.shape for p in given}
    vocabulary = shapes["logits"][-1] if "logits" in shapes else shapes["weight"][0]
    usual = -np.log(vocabulary)
    values = {
        "ids": lambda shape: rng.integers(0, vocabulary, shape),
        "mask": lambda shape: rng.integers(0, 2, shape),
        "old_logp": lambda shape: usual + 0.3 * rng.standard_normal(shape),
        "ref_logp": lambda shape: usual + 0.3 * rng.standard_normal(shape),
        "lse": lambda shape: -usual + 0.1 * rng.standard_normal(shape),
        "chosen": lambda shape: 0.3 * rng.standard_normal(shape),
        "logits": lambda shape: 0.3 * rng.standard_normal(shape),
    }
    return [values.get(p.name, rng.standard_normal)(p.shape).astype(p.dtype) for p in given]


# ---- rows ----------------------------------------------------------------------------------------


ROWS = [
    family("GRPO loss", "grpo_loss", "32000", grpo_loss, [1, 128, 256], inputs=tokens),
    family(
        "GRPO loss backward", "grpo_loss_bwd", "32000", grpo_loss_bwd, [1, 128, 256], inputs=tokens
    ),
    family(
        "fused linear + JSD",
        "fused_linear_jsd",
        "8192",
        fused_linear_jsd,
        [16, 256],
        note="whole rows of the vocabulary: a vocabulary too wide for VMEM needs the logits in HBM",
    ),
    family(
        "fused linear + cross-entropy",
        "fused_linear_cross_entropy",
        "32000",
        fused_linear_cross_entropy,
        [16, 256, 128],
        inputs=tokens,
        refused={"emit_pipeline": NOTHING_TO_COPY},
    ),
]
