"""What the tests of scrn, leaky and rate share: a learned share at its logit, and the activations in plain NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import hfrnn
from support.engine_cases import random_batch, vectors


def sigma(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


PHI = {
    "tanh": np.tanh,
    "logistic": sigma,
    "relu": lambda a: np.maximum(a, 0),
    "softplus": lambda a: np.logaddexp(0, a),
}


def check_learned_at_its_logit(fixed: hfrnn.Network, learned: hfrnn.Network, start: float) -> None:
    """Assert that a network of two layers with a learned share computes what it does with the same share fixed."""
    batch = random_batch(fixed, np.random.default_rng(0), ragged=True, carried=True)
    theta, v, _ = vectors(fixed, batch)
    ours, tangent = learned.init(), np.zeros(learned.n_parameters)
    for target, source in ((ours, theta), (tangent, v)):
        for name, view in fixed.views(source).items():
            learned.views(target)[name][...] = view
    for l in range(2):
        np.testing.assert_allclose(learned.views(ours)[f"layer{l}.q"], math.log(start / (1 - start)), rtol=1e-15)
    np.testing.assert_allclose(learned.run(ours, batch)[0], fixed.run(theta, batch)[0], rtol=1e-12)
    gradient, expected = learned.loss_and_gradient(ours, batch)[1], fixed.loss_and_gradient(theta, batch)[1]
    for metric in fixed.metrics:
        G = learned.gauss_newton(ours, batch, 0.7, metric=metric) @ tangent
        GF = fixed.gauss_newton(theta, batch, 0.7, metric=metric) @ v
        for name, view in fixed.views(expected).items():
            np.testing.assert_allclose(learned.views(gradient)[name], view, rtol=1e-10, atol=1e-14)
            np.testing.assert_allclose(learned.views(G)[name], fixed.views(GF)[name], rtol=1e-10, atol=1e-14)
    assert (learned.views(gradient)["layer0.q"] != 0).all()
