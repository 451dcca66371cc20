"""Influence scores, against the dense formula and against leaving sequences out."""

from __future__ import annotations

from functools import cache
from typing import Any

import influence as benchmark
import numpy as np
import pytest
from scipy.stats import spearmanr

import hfrnn
from hfrnn.errors import InputError

B = 40


@cache
def trained() -> tuple[hfrnn.Objective, Any, hfrnn.Batch]:
    """A small LSTM regression at its minimum, and validation data."""
    rng = np.random.default_rng(3)
    batch, validation = (hfrnn.Batch(*benchmark.sequences(count, 0.1, rng)) for count in (B, 50))
    net = benchmark.network(3, 0.02)
    theta, gradient = benchmark.trained(net, batch, net.init(0))
    assert gradient < 1e-6
    return hfrnn.Objective(net, batch), theta, validation


@pytest.mark.parametrize(("matrix", "solver"), [("gauss-newton", "cg"), ("gauss-newton", "dense"), ("hessian", "cg")])
def test_scores_are_those_of_the_dense_formula(matrix: str, solver: str) -> None:
    objective, theta, validation = trained()
    found = hfrnn.influence(objective, theta, validation, 0.01, matrix, solver, tolerance=1e-12)
    wanted = objective.net.without_penalty().loss_and_gradient(theta, validation)[1]
    A, eye = objective.gauss_newton(theta) if matrix == "gauss-newton" else objective.hessian(theta), np.eye(theta.size)
    x = np.linalg.solve(np.stack([A @ unit for unit in eye]) + 0.01 * eye, wanted)
    expected = objective.per_sequence_gradients(theta) @ x / objective.total_weight
    np.testing.assert_allclose(found.scores, expected[None], rtol=1e-7, atol=1e-12)
    assert found.residuals[0] < 1e-10
    assert (found.iterations[0] == 0) == (solver == "dense")
    assert found.rank_correlations[0] > 0.99


@pytest.mark.slow
def test_scores_follow_leaving_sequences_out() -> None:
    objective, theta, validation = trained()
    net, batch = objective.net, objective.batch
    plain = net.without_penalty()
    scores = hfrnn.influence(objective, theta, validation, matrix="hessian").scores[0]
    changes, chosen = [], np.argsort(scores)[:: B // 8]
    for b in chosen:
        less = hfrnn.Batch(batch.inputs, batch.targets, np.where(np.arange(B) == b, 0.0, batch.weights))
        again = benchmark.trained(benchmark.network(3, 0.02 * B / (B - 1)), less, theta)[0]
        changes.append(plain.loss(again, validation) - plain.loss(theta, validation))
    assert spearmanr(scores[chosen], changes).statistic >= 0.9


def test_several_validation_losses_are_scored_at_once() -> None:
    objective, theta, validation = trained()
    parts = [validation.columns(0, 20), validation.columns(20, 50)]
    found = hfrnn.influence(objective, theta, parts, solver="dense").scores
    assert found.shape == (2, B)
    for scores, part in zip(found, parts, strict=True):
        np.testing.assert_allclose(scores, hfrnn.influence(objective, theta, part, solver="dense").scores[0])
    gradients = np.stack([objective.net.without_penalty().loss_and_gradient(theta, part)[1] for part in parts])
    by_gradients = hfrnn.influence(objective, theta, gradients, solver="dense").scores
    np.testing.assert_allclose(by_gradients, found, rtol=1e-9, atol=1e-15)


def test_bounds_hold_and_changes_show_what_a_coarse_tolerance_did() -> None:
    objective, theta, validation = trained()
    exact = hfrnn.influence(objective, theta, validation, solver="dense").scores
    errors, changes = [], []
    for tolerance in (0.3, 0.03, 1e-3):
        found = hfrnn.influence(objective, theta, validation, tolerance=tolerance)
        error = np.abs(found.scores - exact)
        assert (error <= found.bounds * (1 + 1e-9)).all()
        assert found.residuals[0] <= tolerance
        errors.append(error.max())
        changes.append(found.changes.max())
    assert errors[0] > errors[1] > errors[2]
    assert changes[0] > changes[2]


def test_a_singular_matrix_is_refused() -> None:
    objective, theta, validation = trained()
    plain = hfrnn.Objective(objective.net.without_penalty(), objective.batch)
    with pytest.raises(InputError, match="give damping above 0"):
        hfrnn.influence(plain, theta, validation)
    with pytest.raises(InputError, match="positive definite"):
        hfrnn.influence(plain, -3 * theta, validation, damping=1e-6, matrix="hessian")


def test_a_class_softmax_has_the_same_scores_with_both_solvers() -> None:
    net = hfrnn.Network("rnn", 5, 4, 5, loss="class-softmax", classes=[0, 0, 1, 1, 1], dtype="float64", l2=0.05)
    x = np.random.default_rng(0).integers(5, size=(7, 6))
    batch = hfrnn.Batch(x[:-1], x[1:])
    objective, theta = hfrnn.Objective(net, batch), net.init(0)
    by_cg = hfrnn.influence(objective, theta, batch, 0.1, solver="cg", tolerance=1e-12).scores
    exact = hfrnn.influence(objective, theta, batch, 0.1, solver="dense").scores
    np.testing.assert_allclose(by_cg, exact, rtol=1e-7, atol=1e-12)


def test_label_smoothing_is_no_part_of_the_validation_loss() -> None:
    net = hfrnn.Network("rnn", 5, 4, 5, dtype="float64", l2=0.05, label_smoothing=0.3)
    x = np.random.default_rng(0).integers(5, size=(7, 6))
    batch = hfrnn.Batch(x[:-1], x[1:])
    objective, theta = hfrnn.Objective(net, batch), net.init(0)
    plain = hfrnn.Objective(hfrnn.Network("rnn", 5, 4, 5, dtype="float64"), batch)
    gradient = plain.loss_and_gradient(theta)[1]
    found, expected = (hfrnn.influence(objective, theta, validation, 0.1, solver="dense").scores
                       for validation in (batch, gradient[None]))  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-10)
