"""What draws a seed for each call reads it from one more input."""

import helion
import helion.language as hl
import numpy as np
import torch
from pallasc import reference
from pallasc.export import from_helion


@helion.kernel(static_shapes=True)
def noise(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] * torch.rand_like(x[tile]) + torch.rand_like(x[tile])
    return out


def test_each_op_has_a_word_of_the_seeds():
    from helion._compiler.rng_utils import philox_rand_ref

    x, seeds = np.ones(300, np.float32), np.array([5, -5], np.int32)
    document = from_helion(noise, (torch.ones(300),))
    assert document["tensors"][1] == {
        "name": "rng_seeds",
        "role": "input",
        "dtype": "int32",
        "shape": [2],
    }
    u, v = (philox_rand_ref(int(seed), torch.arange(300)).numpy() for seed in seeds)
    np.testing.assert_array_equal(reference.run(document, [x, seeds])[0], x * u + v)
