"""Hutch++: trace and diagonal with error bars, against dense matrices."""

import math

import numpy as np
import pytest

from hfrnn.optim.trace import hutch_plus_plus


def matrix(n, decay):
    """A symmetric matrix with the eigenvalues j^-decay, and random eigenvectors."""
    Q = np.linalg.qr(np.random.default_rng(5).standard_normal((n, n)))[0]
    return Q * np.arange(1.0, n + 1) ** -decay @ Q.T


def test_a_matrix_of_low_rank_has_its_exact_trace_and_diagonal():
    X = np.random.default_rng(0).standard_normal((30, 4))
    A = X @ X.T
    found = hutch_plus_plus(A.dot, 30, 15, np.random.default_rng(1))
    assert found.trace == pytest.approx(np.trace(A), rel=1e-10)
    assert found.trace_error < 1e-9
    np.testing.assert_allclose(found.diagonal, np.diag(A), rtol=1e-9)
    assert found.products == 15


def test_errors_cover_the_truth_as_standard_errors_do():
    n, runs = 60, 100
    A = matrix(n, 0.7)
    scores, entries = [], []
    for seed in range(runs):
        found = hutch_plus_plus(A.dot, n, 60, np.random.default_rng(seed))
        scores.append((found.trace - np.trace(A)) / found.trace_error)
        entries.append((found.diagonal - np.diag(A)) / found.diagonal_errors)
    assert abs(np.mean(scores)) < 4 / math.sqrt(runs)
    assert (np.abs(scores) < 2.1).mean() > 0.9
    assert 0.9 < (np.abs(entries) < 2.1).mean() < 0.98
    assert np.abs(np.mean(entries, axis=0)).max() < 5 * 1.2 / math.sqrt(runs)


def test_errors_are_smaller_than_those_of_hutchinson_with_as_many_products():
    n, A = 200, matrix(200, 2.0)
    rng = np.random.default_rng(0)
    plain = np.array([g @ A @ g for g in rng.choice((-1.0, 1.0), (60, n))])
    found = hutch_plus_plus(A.dot, n, 60, rng)
    assert found.trace_error < 0.1 * plain.std(ddof=1) / math.sqrt(60)
    assert abs(found.trace - np.trace(A)) < 0.01 * np.trace(A)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_small_matrix_takes_more_products_than_rows(n):
    A = matrix(n, 1.0)
    found = hutch_plus_plus(A.dot, n, 12, np.random.default_rng(0))
    np.testing.assert_allclose(found.diagonal, np.diag(A), rtol=1e-9)
