"""The feed-forward network over FOFE codes: values against codes that are computed first, and where it meets fnn."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors

import hfrnn


def network(arch: str = "fofe-fnn", **changes: Any) -> hfrnn.Network:
    return hfrnn.Network(arch, **{"n_in": 4, "hidden": 3, "n_out": 4, "dtype": "float64", **changes})


def codes(inputs: Any, alpha: float, V: int) -> Any:
    """z_t = alpha * z_{t-1} + e_t for symbols (T, B): (T, B, V)."""
    z = np.zeros((*inputs.shape, V))
    for t, symbols in enumerate(inputs):
        z[t] = np.eye(V)[symbols] + (alpha * z[t - 1] if t else 0)
    return z


@pytest.mark.parametrize(("alpha", "n"), [(0.0, 2), (0.6, 1), (0.6, 4), (1.0, 2)])
def test_it_is_a_feed_forward_network_whose_inputs_are_the_codes(alpha, n):
    """Every derivative too. The bias is added after the recursion: its coefficient is 1 at every step."""
    net = network(alpha=alpha, codes=n, hidden=(3, 2), direct_input=False)
    plain = network("fnn", order=n, hidden=(3, 2), direct_input=False)
    batch = random_batch(net, np.random.default_rng(0), T=6, B=2, ragged=True)
    theta, v, _ = vectors(net, batch)
    views, same = net.views(theta), plain.views(theta)
    assert {name: view.shape for name, view in views.items()} == {name: view.shape for name, view in same.items()}
    z = hfrnn.Batch(codes(batch.inputs, alpha, 4), batch.targets, batch.weights, batch.lengths)
    loss, gradient = net.loss_and_gradient(theta, batch)
    expected = plain.loss_and_gradient(theta, z)
    assert loss == pytest.approx(expected[0], rel=1e-14)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12, atol=1e-15)
    G, H = net.gauss_newton(theta, batch, structural=0.5), plain.gauss_newton(theta, z, structural=0.5)
    np.testing.assert_allclose(G @ v, H @ v, rtol=1e-11, atol=1e-14)


def test_an_embedding_goes_through_the_codes():
    net = network(embedding=2, alpha=0.7, bias=False)
    batch = random_batch(net, np.random.default_rng(1), T=5, B=2)
    theta = vectors(net, batch)[0]
    p = net.views(theta)
    h = np.tanh(codes(batch.inputs, 0.7, 4) @ p["embedding.E"] @ p["layer0.W_x"])
    np.testing.assert_allclose(net.run(theta, batch)[0], h @ p["output.W_y0"], rtol=1e-13, atol=1e-15)
