"""What is built computes what is meant: each kernel of built.py, simulated, beside float64."""

import numpy as np
import pallasc
import pytest
from built import KERNELS, attention, key_bias, matmul_bias
from pallasc.simulate import interpret_params, simulate

# Of the difference beside 1 and the value: sums of hundreds of float32, and bfloat16's 8 bits.
TOLERANCE = {"attention": 4e-3}
SUMS = 4e-5


def simulated(module, inputs):
    ran = simulate(module.load(), inputs, interpret_params())
    assert not ran.races
    assert not ran.complaints
    return ran.outputs


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    graph, inputs, expected = KERNELS[name]()
    (found,) = simulated(pallasc.compile(graph), inputs)
    assert found.shape == expected.shape
    error = np.abs(found.astype(np.float64) - expected) / (1 + np.abs(expected))
    assert error.max() <= TOLERANCE.get(name, SUMS)


def test_a_bias_of_keys_is_added_to_turned_scores():
    source = pallasc.compile(key_bias()[0]).source
    assert "load_1_across = jnp.transpose(load_1_rows, (0, 2, 1))" in source
    assert "add = scores + jnp.tile(load_1_across, (1, 1, 2))" in source


def test_other_sizes():
    graph, _, _ = matmul_bias()
    x, w, bias = (np.ones(shape, np.float32) for shape in ((72, 130), (130, 128), (128,)))
    module = pallasc.compile(graph, sizes={"M": 72, "N": 128, "K": 130})
    assert module.info["sizes"] == {"M": 72, "N": 128, "K": 130}
    (found,) = simulated(module, [x, w, bias])
    np.testing.assert_array_equal(found, np.full((72, 128), 131, np.float32))


def test_jit_reads_the_sizes_from_the_arguments():
    graph, (q, k, v), _ = attention()
    part = [x[:, :40] for x in (q, k, v)]
    jitted = pallasc.jit(graph, interpret=True)
    assert jitted.sizes_for(*part) == {"S": 40}
    found = np.asarray(jitted(*part)).astype(np.float64)
    q64, k64, v64 = (x.astype(np.float64) for x in part)
    weights = np.exp(q64 @ k64.transpose(0, 2, 1) / 8)
    expected = weights / weights.sum(-1, keepdims=True) @ v64
    assert np.abs(found - expected).max() <= 4e-3
