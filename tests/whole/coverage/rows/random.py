"""Random numbers: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3")."""

import numpy as np

from coverage.row import family

# Of that paper: the multipliers of a round, and what is added to the key after it.
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
MASK = np.uint64(0xFFFFFFFF)


def philox(seed, shape):
    """The first word at each place of `shape`, int32: counter: its number; key: the seed."""
    place = np.arange(np.prod(shape), dtype=np.uint64).reshape(shape)
    counter = [place & MASK, place >> np.uint64(32), np.zeros_like(place), np.zeros_like(place)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = (counter[2 * i] * np.uint64(MULTIPLIERS[i]) for i in range(2))
        high_a, high_b = a >> np.uint64(32), b >> np.uint64(32)
        left, right = (np.uint64(k) for k in key)
        counter = [high_b ^ counter[1] ^ left, b & MASK, high_a ^ counter[3] ^ right, a & MASK]
        key = [(k + step) & 0xFFFFFFFF for k, step in zip(key, KEY_STEPS, strict=True)]
    return counter[0].astype(np.uint32).view(np.int32)


def noise(x):
    """x + the word's size times 4.6566127342e-10, about 2**-31: each rounded to float32."""
    word = philox(42, x.shape).astype(np.int64)
    size = np.where(word < 0, -word - 1, word).astype(np.float32)
    return ((x.astype(np.float32) + size * np.float32(4.6566127342e-10)).astype(np.float64),)


def dice(x):
    """x + 1 + the word's size modulo 6."""
    return (x + 1 + np.abs(philox(2**40 + 7, x.shape).astype(np.int64)) % 6,)


ROWS = [
    family("random numbers, uniform", "random_noise", "8192", noise, [64, 128]),
    family("random numbers, integers", "random_dice", "8192", dice, [64, 128]),
]
