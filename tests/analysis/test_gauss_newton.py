"""The Gauss-Newton matrix as rows, dense and as a diagonal, against products with unit vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_cases import Case, cases, vectors
from support.slow import slow_unless

import hfrnn
from hfrnn.errors import InputError, NonFiniteError

situations = ["softmax", "logistic", "squared", "stack", "real", "output-weights", "output-mask", "learned-state"]
some = [case for case in cases(*situations) if case.arch in ("rnn", "lstm", "hornn-gated")]
some += cases("class-softmax")[:1]
dense_cases = slow_unless(lambda case: case.arch == "rnn" or case.id == "hornn-gated-squared", some)
diagonal_cases = slow_unless(lambda case: case.id.endswith(("softmax", "squared", "mask")), some[:8])


def by_products(objective: hfrnn.Objective, theta: Any) -> Any:
    eye = np.eye(objective.net.n_parameters)
    G = objective.gauss_newton(theta)
    return np.stack([G @ unit for unit in eye]) - objective.net.l2 * eye


def check_dense(objective: hfrnn.Objective, theta: Any) -> None:
    found = hfrnn.dense_gauss_newton(objective, theta)
    np.testing.assert_allclose(found, by_products(objective, theta), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("case", dense_cases, ids=lambda case: case.id)
def test_the_dense_matrix_is_that_of_products_with_unit_vectors(case: Case) -> None:
    net, batch = case.net(), case.data()
    check_dense(hfrnn.Objective(net, batch), vectors(net, batch)[0])


def test_a_matrix_with_more_outputs_than_weights_is_the_same_and_noise_is_that_of_the_objective() -> None:
    net = hfrnn.Network("rnn", 2, 1, 5, dtype="float64", l2=0.2)
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(9, 3))
    assert net.n_parameters < 9 * net.n_out
    check_dense(hfrnn.Objective(net, hfrnn.Batch(x, x)), rng.standard_normal(net.n_parameters))
    net = hfrnn.Network("rnn", 3, 4, 2, loss="logistic", dtype="float64")
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.standard_normal((5, 4, 3)), rng.random((5, 4, 2)))
    objective, theta = hfrnn.Objective(net, batch, noise=hfrnn.StateNoise(1.0)), net.init(0)
    check_dense(objective, theta)
    expected = np.diag(by_products(objective, theta))
    np.testing.assert_allclose(hfrnn.gauss_newton_diagonal(objective, theta)[0], expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("case", diagonal_cases, ids=lambda case: case.id)
def test_the_diagonal_is_that_of_the_dense_matrix(case: Case) -> None:
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch)
    exact, errors = hfrnn.gauss_newton_diagonal(objective, theta)
    expected = np.diag(hfrnn.dense_gauss_newton(objective, theta))
    np.testing.assert_allclose(exact, expected, rtol=1e-9, atol=1e-15)
    assert not errors.any()
    estimate, errors = hfrnn.gauss_newton_diagonal(objective, theta, draws=400)
    off = np.abs(estimate - expected)
    assert (off <= 5 * errors + 1e-14).all()
    assert (off[errors > 0] < 2 * errors[errors > 0]).mean() > 0.8
    assert errors.sum() < 0.2 * expected.sum()


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


def test_curvature_that_is_not_finite_or_has_no_root_is_refused() -> None:
    net = hfrnn.Network("rnn", 2, 3, 2, loss="squared", activation="relu", dtype="float64")
    rng = np.random.default_rng(0)
    objective = hfrnn.Objective(net, hfrnn.Batch(rng.random((9, 2, 2)), rng.random((9, 2, 2))))
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(NonFiniteError):
        hfrnn.curvature_trace(objective, np.full(net.n_parameters, 1e80))
    with pytest.raises(InputError, match="products"):
        hfrnn.curvature_trace(objective, net.init(0), products=3)
    case = cases("class-softmax")[0]
    net, batch = case.net(), case.data()
    with pytest.raises(InputError, match="class-softmax"):
        hfrnn.gauss_newton_diagonal(hfrnn.Objective(net, batch), vectors(net, batch)[0])
