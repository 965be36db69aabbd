"""Rows of kernels that move data: joined, broadcast, permuted, turned over, padded, rotated."""

import numpy as np

from coverage.row import Row

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


def _row(graph, formula, second, name=None, **rest):
    return Row(
        name=name or graph.replace("_", " "),
        friendly=graph,
        odd=f"{graph}_odd",
        production=f"{graph}_production",
        formula=formula,
        second={"block_sizes": second},
        **rest,
    )


ROWS = [
    _row("concatenate", concatenate, [128]),
    _row("concatenate_rows", concatenate, [1]),
    _row("broadcast_operands", broadcast_operands, [128, 128]),
    _row("broadcast_3d", broadcast_3d, [1, 16]),
    _row("permuted_operands", permuted_operands, [256, 128]),
    _row("permuted_3d", permuted_3d, [128, 8]),
    _row("transposed_views", transposed, [256, 128, 256]),
    _row("transposed_operands", transposed, [256, 128, 256]),
    _row("flip_rows", flip_rows, [32], "flip"),
    _row("stack", stack, [32]),
    _row("pad", padded_to(lambda n: {256: 384, 300: 421}[n]), [32]),
    _row("swap_pairs", swap_pairs, [8], "split and join"),
    _row(
        "pair_sums", pair_sums, [32], "strided slices", note="built: Helion has no strided slices"
    ),
    _row("rotary", rotary, [1, 128], "rotary embedding, halves loaded"),
    _row(
        "rotary_slices",
        rotary,
        [1, 128],
        "rotary embedding, halves cut in the kernel",
        note="built: Helion has no slices of values",
    ),
    _row("rotary_pairs", rotary_pairs, [1, 128], "rotary embedding, pairs of lanes"),
]
