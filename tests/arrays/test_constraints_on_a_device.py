"""Constraints on a device whose arrays refuse to become NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.fake_device import FakeArray, FakeBackend

import hfrnn

MASK = np.random.default_rng(0).random((6, 6)) < 0.5


def results(backend: Any) -> list[Any]:
    """Variables, weights and derivatives of a small network."""
    net = hfrnn.Network("rnn", 3, 6, 2, loss="squared", dtype="float64", activation="relu", backend=backend, l2=0.1)
    constraints = hfrnn.Constraints(net, {"layer0.W_h": MASK}, {"layer0.W_h": [1, 1, 1, -1, -1, 0]})
    rng = np.random.default_rng(1)
    batch = hfrnn.Batch(rng.standard_normal((7, 5, 3)), rng.standard_normal((7, 5, 2)))
    objective = hfrnn.ConstrainedObjective(hfrnn.Objective(net, batch, threads=1), constraints)
    v = constraints.variables(constraints.initial(net.init(1)))
    v = v - 0.1 * objective.loss_and_gradient(v)[1]
    w = constraints.weights(v)
    constraints.restrict(v)
    return [
        v, w, constraints.variables(w, like=v), objective.hessian(v) @ v, objective.gauss_newton(v, 0.1, 0.1) @ v,
        objective.squared_gradients(v), objective.part_gradients(v, 3), objective.jacobian(v) @ v, objective.exists,
    ]  # fmt: skip


def test_results_on_the_device_have_the_bits_of_numpy() -> None:
    for expected, actual in zip(results("numpy"), results(FakeBackend()), strict=True):
        assert isinstance(actual, FakeArray)
        assert expected.any()
        np.testing.assert_array_equal(actual._host, expected)
