"""Trace and diagonal of an objective's curvature."""

from __future__ import annotations

import numpy as np
import pytest
from support.engine_cases import cases, vectors

import hfrnn
from hfrnn.errors import InputError, NonFiniteError


@pytest.mark.parametrize("matrix", ["gauss-newton", "hessian"])
def test_the_estimate_lies_within_its_errors(matrix: str) -> None:
    case = next(case for case in cases("squared") if case.arch == "lstm")
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch)
    A = objective.gauss_newton(theta) if matrix == "gauss-newton" else objective.hessian(theta)
    expected = np.diag(A @ np.eye(theta.size))
    found = hfrnn.curvature_trace(objective, theta, 90, matrix)
    assert abs(found.trace - expected.sum()) <= 4 * found.trace_error + 1e-9
    assert (np.abs(found.diagonal - expected) <= 5 * found.diagonal_errors + 1e-9).all()
    assert found.trace_error < 0.05 * abs(expected.sum())
    assert found.products == 90


def test_curvature_that_is_not_finite_is_refused() -> None:
    net = hfrnn.Network("rnn", 2, 3, 2, loss="squared", activation="relu", dtype="float64")
    rng = np.random.default_rng(0)
    objective = hfrnn.Objective(net, hfrnn.Batch(rng.random((9, 2, 2)), rng.random((9, 2, 2))))
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(NonFiniteError):
        hfrnn.curvature_trace(objective, np.full(net.n_parameters, 1e80))
    with pytest.raises(InputError, match="products"):
        hfrnn.curvature_trace(objective, net.init(0), products=3)
