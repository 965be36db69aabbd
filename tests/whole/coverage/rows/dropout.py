"""Dropout and noise of Philox-4x32-10, of a seed in the graph and of seeds that are an input."""

import numpy as np

from coverage.row import family
from coverage.rows.random import KEY_STEPS, MASK, MULTIPLIERS

LONG = 2**64 - 1


def block(seed, shape):
    """The four words at each place of `shape`, int32."""
    place = np.arange(np.prod(shape), dtype=np.uint64).reshape(shape)
    c = [place & MASK, place >> np.uint64(32), np.zeros_like(place), np.zeros_like(place)]
    key = [int(seed) & 0xFFFFFFFF, (int(seed) & LONG) >> 32]
    for _ in range(10):
        a, b = (c[2 * i] * np.uint64(MULTIPLIERS[i]) for i in range(2))
        high_a, high_b = a >> np.uint64(32), b >> np.uint64(32)
        left, right = (np.uint64(k) for k in key)
        c = [high_b ^ c[1] ^ left, b & MASK, high_a ^ c[3] ^ right, a & MASK]
        key = [(k + step) & 0xFFFFFFFF for k, step in zip(key, KEY_STEPS, strict=True)]
    return [word.astype(np.uint32).view(np.int32) for word in c]


def uniform(word):
    """In [0, 1), as float32 rounds it."""
    long = word.astype(np.int64)
    size = np.where(long < 0, -long - 1, long).astype(np.float32)
    return size * np.float32(4.6566127342e-10)


def kept(x, keep):
    return np.where(keep, x / 0.75, 0), keep


def dropout(x):
    """(x / 0.75 where it is kept, what is)."""
    return kept(x, uniform(block(42, x.shape)[0]) >= np.float32(0.25))


def native_dropout(x, seeds):
    """The same, of torch's comparison and the seed of the call."""
    return kept(x, uniform(block(seeds[0], x.shape)[0]) > np.float32(0.25))


def four_masks(x):
    """x times how many of the four words are at least a half."""
    return (x * sum(uniform(word) >= np.float32(0.5) for word in block(7, x.shape)),)


ROWS = [
    family("dropout, its mask stored", "dropout", "8192", dropout, [256, 256]),
    family(
        "dropout, torch's, of a seed for each call",
        "native_dropout",
        "8192",
        native_dropout,
        [32, 256],
    ),
    family("random numbers, four words of a place", "four_masks", "1048576", four_masks, [2048]),
]
