"""Laplace's approximation, against direct computations with dense matrices."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import hfrnn
from hfrnn.analysis.posterior import LowRank
from hfrnn.errors import InputError

T, B = 6, 5
EXISTS = np.arange(T)[:, None] < np.array([6, 6, 4, 5, 6])


@cache
def setting(loss: str) -> tuple[hfrnn.Objective, Any, hfrnn.Batch]:
    """A small network with random weights, its training objective, and other sequences."""
    net = hfrnn.Network("lstm", 2, 2, 2, loss=loss, dtype="float64", l2=0.05)
    rng = np.random.default_rng(0)

    def batch() -> hfrnn.Batch:
        x = rng.standard_normal((T, B, 2))
        y = rng.integers(2, size=(T, B)) if loss == "softmax" else rng.integers(2, size=(T, B, 2)).astype(float)
        return hfrnn.Batch(x, y, lengths=EXISTS.sum(axis=0))

    theta = 0.5 * rng.standard_normal(net.n_parameters)
    return hfrnn.Objective(net, batch()), theta, batch()


def precision(objective: hfrnn.Objective, theta: Any, c: float, delta: float) -> Any:
    """P from products with unit vectors."""
    n, G = objective.net.n_parameters, objective.gauss_newton(theta)
    dense = np.stack([G @ unit for unit in np.eye(n)]) - objective.net.l2 * np.eye(n)
    return c * dense + delta * np.eye(n)


@pytest.mark.parametrize("loss", ["softmax", "logistic", "squared"])
def test_the_dense_marginal_likelihood_is_the_direct_one(loss: str) -> None:
    objective, theta, _ = setting(loss)
    n, variance = theta.size, 0.3 if loss == "squared" else 1.0
    found = hfrnn.laplace(objective, theta, prior_precision=1.7, noise_variance=0.3 if loss == "squared" else None)
    z, y = objective.net.run(theta, objective.batch)[0], np.asarray(objective.batch.targets)
    if loss == "squared":
        each = -0.5 * ((z - y) ** 2 / variance + math.log(2 * math.pi * variance))
    elif loss == "logistic":
        each = y * z - np.logaddexp(0, z)
    else:
        each = np.take_along_axis(z, y[:, :, None], 2)[:, :, 0] - np.logaddexp.reduce(z, axis=2)
    likelihood = each[EXISTS].sum()
    P = precision(objective, theta, objective.total_weight / variance, 1.7)
    prior = multivariate_normal(np.zeros(n), np.eye(n) / 1.7).logpdf(theta)
    expected = likelihood + prior + 0.5 * n * math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(P)[1]
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-10)
    assert found.log_marginal_likelihood == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("soft", [False, True])
def test_label_smoothing_does_not_change_the_likelihood_of_the_targets(soft: bool) -> None:
    objective, theta, _ = setting("softmax")
    symbols = np.where(EXISTS, objective.batch.targets, 0)
    targets = np.where(EXISTS[:, :, None], [0.3, 0.7], 0.0) if soft else symbols
    weights = np.where(EXISTS, 0.5 + np.arange(B), 0.0)
    batch = hfrnn.Batch(objective.batch.inputs, targets, weights, objective.batch.lengths)
    likelihoods = []
    for smoothing in (0.0, 0.3):
        net = hfrnn.Network("lstm", 2, 2, 2, loss="softmax", dtype="float64", l2=0.05, label_smoothing=smoothing)
        likelihoods.append(hfrnn.laplace(hfrnn.Objective(net, batch), theta, progress=False).log_likelihood)
    assert likelihoods[1] == pytest.approx(likelihoods[0], rel=1e-12)


@pytest.mark.parametrize("loss", ["softmax", "squared"])
def test_dense_variances_are_the_direct_ones(loss: str) -> None:
    objective, theta, other = setting(loss)
    found = hfrnn.laplace(objective, theta)
    P = precision(objective, theta, found.scale, found.prior_precision)
    jacobian = hfrnn.Objective(objective.net, other).jacobian(theta)
    J = np.stack([jacobian @ unit for unit in np.eye(theta.size)], axis=1)
    expected = np.einsum("ij,ij->i", J, np.linalg.solve(P, J.T).T).reshape(T, B, 2)
    predicted = found.predict(other)
    np.testing.assert_allclose(predicted.variances, expected, rtol=1e-8, atol=1e-16)
    np.testing.assert_array_equal(predicted.outputs, objective.net.run(theta, other)[0])


def test_the_progress_counts_every_pass_to_its_end() -> None:
    objective, theta, _ = setting("squared")
    activities = {"dense": {"matrix"}, "diagonal": {"diagonal"}, "low-rank": {"diagonal", "eigenvectors"}}
    for structure, wanted in activities.items():
        for draws in (None, 3):
            told: list[tuple[str, int, int]] = []
            how: dict[str, Any] = {"structure": structure, "draws": draws, "rank": 2}
            hfrnn.laplace(objective, theta, progress=lambda *each: told.append(each), **how)  # noqa: B023
            assert {what for what, _, _ in told} == wanted
            for what in wanted:
                done = [each[1:] for each in told if each[0] == what]
                numbers, ends = [n for n, _ in done], {most for _, most in done}
                assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
                assert len(ends) == 1
                assert numbers[-1] <= min(ends)
                assert what == "eigenvectors" or numbers[-1] == min(ends)
                assert what != "diagonal" or draws is None or numbers[-1] == draws


def test_sequences_without_a_scored_target_can_be_predicted() -> None:
    objective, theta, other = setting("squared")
    found, unknown = hfrnn.laplace(objective, theta), np.full(other.targets.shape, np.nan)
    batch = hfrnn.Batch(other.inputs, unknown, np.zeros((T, B)), other.lengths)
    assert np.array_equal(found.predict(batch).variances, found.predict(other).variances)
    bare = found.predict(hfrnn.Batch(other.inputs, lengths=other.lengths), steps=[-1, 2])
    assert bare.steps == (T - 1, 2)
    np.testing.assert_array_equal(bare.variances, found.predict(other).variances[[T - 1, 2]])


def test_the_default_prior_is_the_one_that_the_penalty_stands_for() -> None:
    objective, theta, _ = setting("squared")
    found, W = hfrnn.laplace(objective, theta), objective.total_weight
    assert found.prior_precision == pytest.approx(0.05 * W / found.noise_variance)
    z = objective.net.run(theta, objective.batch)[0]
    assert found.noise_variance == pytest.approx(((z - objective.batch.targets)[EXISTS] ** 2).mean())
    classes, theta, _ = setting("softmax")
    assert hfrnn.laplace(classes, theta).prior_precision == pytest.approx(0.05 * classes.total_weight)


def test_a_higher_rank_comes_nearer_to_the_dense_posterior_and_all_eigenvectors_reach_it() -> None:
    objective, theta, other = setting("softmax")
    dense, errors = hfrnn.laplace(objective, theta, prior_precision=0.1), []
    exact = dense.predict(other, steps=[0]).variances
    for structure, rank in (("diagonal", 1), ("low-rank", 6), ("low-rank", 16), ("low-rank", theta.size)):
        found = hfrnn.laplace(objective, theta, structure, rank=rank, prior_precision=0.1)
        ratio = np.abs(np.log(found.predict(other, steps=[0]).variances / exact)).mean()
        errors.append((abs(found.log_marginal_likelihood - dense.log_marginal_likelihood), ratio))
    evidence, variances = np.transpose(errors)
    assert evidence[0] > evidence[1] > evidence[2]
    assert evidence[2] < 0.05 * evidence[0]
    assert variances[0] > variances[2]
    assert evidence[3] < 1e-8 * abs(dense.log_marginal_likelihood)
    assert variances[3] < 1e-6


def test_the_low_rank_formulas_are_those_of_the_dense_matrix() -> None:
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((9, 3)))[0]
    part = LowRank(np.array([5.0, 2.0, 0.0]), Q, rng.random(9))
    c, delta, X = 3.0, 0.4, rng.standard_normal((4, 9))
    P = c * (Q * part.g @ Q.T + np.diag(part.d)) + delta * np.eye(9)
    np.testing.assert_allclose(part.times_covariance(X, c, delta), X @ np.linalg.inv(P), rtol=1e-10, atol=1e-14)
    assert part.log_ratio(c, delta) == pytest.approx(np.linalg.slogdet(P / delta)[1], rel=1e-10)
    root = part.samples(np.eye(9), c, delta)
    np.testing.assert_allclose(root.T @ root, np.linalg.inv(P), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("structure", "method", "m"), [
    ("dense", "factorization", 3000), ("low-rank", "factorization", 3000), ("dense", "cg", 60),
    pytest.param("dense", "cg", 400, marks=pytest.mark.slow),
])  # fmt: skip
def test_samples_have_the_covariance_of_the_posterior(structure: str, method: str, m: int) -> None:
    objective, theta, _ = setting("logistic")
    n = theta.size
    found = hfrnn.laplace(objective, theta, structure, rank=n, prior_precision=0.5)
    samples = found.sample(m, method=method) - theta
    white = samples @ np.linalg.cholesky(precision(objective, theta, found.scale, 0.5))  # of N(0, I)
    assert np.abs(white.mean(axis=0)).max() < 4.5 / math.sqrt(m)
    assert np.abs(white.T @ white / m - np.eye(n)).max() < 6 / math.sqrt(m)
    again = found.sample(m if method == "factorization" else 9, method=method) - theta
    np.testing.assert_array_equal(samples[: len(again)], again)


def test_what_cannot_be_computed_is_refused() -> None:
    objective, theta, other = setting("softmax")
    plain = hfrnn.Objective(objective.net.without_penalty(), objective.batch)
    with pytest.raises(InputError, match="noise_variance"):
        hfrnn.laplace(objective, theta, noise_variance=1.0)
    with pytest.raises(InputError, match="prior_precision"):
        hfrnn.laplace(plain, theta)
    with pytest.raises(InputError, match="steps"):
        hfrnn.laplace(objective, theta).predict(other, steps=[T])
    objective, theta, other = setting("squared")
    exact = hfrnn.Batch(other.inputs, objective.net.run(theta, other)[0], lengths=other.lengths)
    posterior = hfrnn.laplace(hfrnn.Objective(objective.net, exact), theta, prior_precision=1.0, noise_variance=0.1)
    with pytest.raises(InputError, match="reached exactly"):
        posterior.tuned()


def test_tuning_raises_the_marginal_likelihood_to_a_maximum() -> None:
    objective, theta, _ = setting("squared")
    before = hfrnn.laplace(objective, theta, prior_precision=30.0, noise_variance=1.0)
    tuned = before.tuned()
    assert tuned.log_marginal_likelihood > before.log_marginal_likelihood
    for a, b in ((1.2, 1.0), (1 / 1.2, 1.0), (1.0, 1.2), (1.0, 1 / 1.2)):
        near = tuned.with_values(a * tuned.prior_precision, b * tuned.noise_variance)
        assert near.log_marginal_likelihood < tuned.log_marginal_likelihood


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_class_probabilities_are_flatter_than_those_of_the_mode(loss: str) -> None:
    objective, theta, other = setting(loss)
    found = hfrnn.laplace(objective, 4 * theta).predict(other, steps=[0, 3])
    e = np.exp(found.outputs)
    mode = e / e.sum(axis=2, keepdims=True) if loss == "softmax" else e / (1 + e)
    far = np.abs(mode - 0.5) > 0.2
    assert far.any()
    if loss == "softmax":
        np.testing.assert_allclose(found.probabilities.sum(axis=2), 1)
    else:
        assert (np.abs(found.probabilities - 0.5) < np.abs(mode - 0.5))[far].all()
    assert (found.variances > 0).all()
