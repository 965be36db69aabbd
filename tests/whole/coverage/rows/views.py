"""Rows of kernels that move data: joined, broadcast, permuted, turned over, padded, rotated."""

import numpy as np

from coverage.row import family

# ---- formulas ------------------------------------------------------------------------------------


def concatenate(x, y):
    """x beside y."""
    return (np.concatenate([x, y], 1),)


def broadcast_operands(x, row, column, one):
    """x [M, N], row [N], column [M, 1], one [1]."""
    return ((x + row) * column - one,)


def broadcast_3d(x, y, z):
    """x [B, M, N], y [M, N], z [B, 1, N]."""
    return (x * y + z,)


def permuted_operands(x, y):
    """x [N, M], y [M, N]."""
    return (x.T + y,)


def permuted_3d(x, y):
    """x [M, N, B], y [B, M, N]."""
    return (np.moveaxis(x, 2, 0) + y,)


def transposed(x, y):
    """x [K, M], y [N, K]."""
    return (np.einsum("km,nk->mn", x, y),)


def flip_rows(x):
    """Each row backwards."""
    return (x[:, ::-1],)


def stack(x, y):
    """[M, 2, N]."""
    return (np.stack([x, y], 1),)


def padded_to(size):
    """Rows padded to a size by ones."""

    def pad(x):
        return (np.concatenate([x, np.ones((x.shape[0], size(x.shape[1]) - x.shape[1]))], 1),)

    return pad


def swap_pairs(x):
    """x [M, N, 2]."""
    return (x[..., ::-1],)


def pair_sums(x):
    """x [M, 2 N]."""
    return (x[:, ::2] + x[:, 1::2],)


def turn(x, y, cos, sin):
    """(x, y) rotated by the angles whose cosines and sines are given."""
    return x * cos - y * sin, y * cos + x * sin


def rotary(x, cos, sin):
    """The halves of x [..., S, D] as the two coordinates; cos and sin [S, D / 2]."""
    half = x.shape[-1] // 2
    return (np.concatenate(turn(x[..., :half], x[..., half:], cos, sin), -1),)


def rotary_pairs(x, cos, sin):
    """Lanes 2 i and 2 i + 1 of x [..., S, D] as the two coordinates; cos and sin [S, D / 2]."""
    turned = np.stack(turn(x[..., ::2], x[..., 1::2], cos, sin), -1)
    return (turned.reshape(x.shape),)


# ---- rows ----------------------------------------------------------------------------------------


ROWS = [
    family("concatenate", "concatenate", "production", concatenate, [128]),
    family("concatenate rows", "concatenate_rows", "production", concatenate, [1]),
    family(
        "broadcast operands", "broadcast_operands", "production", broadcast_operands, [128, 128]
    ),
    family("broadcast 3d", "broadcast_3d", "production", broadcast_3d, [1, 16]),
    family("permuted operands", "permuted_operands", "production", permuted_operands, [256, 128]),
    family("permuted 3d", "permuted_3d", "production", permuted_3d, [128, 8]),
    family("transposed views", "transposed_views", "production", transposed, [256, 128, 256]),
    family("transposed operands", "transposed_operands", "production", transposed, [256, 128, 256]),
    family("flip", "flip_rows", "production", flip_rows, [32]),
    family("stack", "stack", "production", stack, [32]),
    family("pad", "pad", "production", padded_to(lambda n: {256: 384, 300: 421}[n]), [32]),
    family("split and join", "swap_pairs", "production", swap_pairs, [8]),
    family(
        "strided slices",
        "pair_sums",
        "production",
        pair_sums,
        [32],
        note="built: Helion has no strided slices",
    ),
    family("rotary embedding, halves loaded", "rotary", "production", rotary, [1, 128]),
    family(
        "rotary embedding, halves cut in the kernel",
        "rotary_slices",
        "production",
        rotary,
        [1, 128],
        note="built: Helion has no slices of values",
    ),
    family(
        "rotary embedding, pairs of lanes", "rotary_pairs", "production", rotary_pairs, [1, 128]
    ),
]
