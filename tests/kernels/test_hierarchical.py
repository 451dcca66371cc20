"""The hierarchical network: levels that hear faster ones too, and where it meets clockwork and rnn."""

from typing import Any

import numpy as np
from support.engine_cases import random_batch, vectors

import hfrnn


def network(arch: str, **changes: Any) -> hfrnn.Network:
    return hfrnn.Network(arch, **{"n_in": 4, "hidden": 6, "n_out": 4, "dtype": "float64", **changes})


def test_a_level_moves_at_its_period_and_hears_all_levels():
    net = network("hierarchical", periods=(1, 3), bias=True)
    batch = random_batch(net, np.random.default_rng(0), T=8, B=2)
    theta = vectors(net, batch)[0]
    p = net.views(theta)
    h = np.zeros((2, 6))
    for t in range(8):
        new = np.tanh(p["layer0.W_x"][batch.inputs[t]] + p["layer0.b"] + h @ p["layer0.W_h"])
        h = np.where(np.array([True] * 3 + [t % 3 == 0] * 3), new, h)
        expected = h @ p["output.W_y0"]
        np.testing.assert_allclose(net.run(theta, batch)[0][t], expected, rtol=1e-13, atol=1e-15)


def test_without_the_connections_from_faster_to_slower_levels_it_is_clockwork():
    """Values and products; the gradient differs in the blocks that clockwork never reads."""
    net, same = (network(arch, periods=(1, 2, 4)) for arch in ("hierarchical", "clockwork"))
    batch = random_batch(net, np.random.default_rng(1), T=9, B=3, ragged=True)
    theta, v, _ = vectors(net, batch)
    level = np.arange(6) // 2
    reads = np.ones(net.n_parameters)
    net.views(reads)["layer0.W_h"][...] = level[:, None] >= level[None, :]
    theta, v, read = theta * reads, v * reads, reads > 0
    np.testing.assert_allclose(net.run(theta, batch)[0], same.run(theta, batch)[0], rtol=1e-14)
    gradient, other = net.loss_and_gradient(theta, batch)[1], same.loss_and_gradient(theta, batch)[1]
    np.testing.assert_allclose(gradient[read], other[read], rtol=1e-12, atol=1e-15)
    assert (np.abs(gradient[~read]) > 1e-6).all()
    G, H = net.gauss_newton(theta, batch, structural=0.3), same.gauss_newton(theta, batch, structural=0.3)
    np.testing.assert_allclose((G @ v)[read], (H @ v)[read], rtol=1e-11, atol=1e-14)
