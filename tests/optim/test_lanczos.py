"""Lanczos: extreme eigenvalues and densities of matrices whose eigenvalues are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.optim import lanczos as lanczos_module
from hfrnn.optim.lanczos import extreme_eigenvalues, lanczos, most_products, quadrature

Matrix = np.ndarray


def times(A):
    return lambda v: A @ v


def counted(A):
    """Products with a matrix, and the list of their vectors."""
    calls = []
    return lambda v: (calls.append(v), A @ v)[1], calls


def symmetric(eigenvalues, seed=0):
    """A matrix of those eigenvalues in random directions."""
    values = np.asarray(eigenvalues, dtype=float)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(values.size, values.size)))
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


def rng(seed=0):
    return np.random.default_rng(seed)


spectra_of_matrices = st.lists(
    st.one_of(st.sampled_from([0.0, 1.0, -1.0, 2.0]), st.floats(-100, 100, allow_subnormal=False)),
    min_size=1,
    max_size=30,
)


# ---------------------------------------------------------------------- the ends
@given(values=spectra_of_matrices, count=st.integers(1, 4), seed=st.integers(0, 9))
def test_the_extremes_of_any_matrix_are_its_own(values, count, seed):
    A = symmetric(values, seed)
    for end, expected in (("largest", -np.sort(-np.array(values))), ("smallest", np.sort(values))):
        found, residuals = extreme_eigenvalues(times(A), len(values), count, end, 1e-10, rng(seed))
        assert found.shape == residuals.shape == (min(count, len(values)),)
        scale = max(np.abs(values).max(), 1e-300)
        assert (residuals <= 1e-9 * scale).all()
        assert abs(found[0] - expected[0]) <= 1e-8 * scale
        nearest = np.abs(found[:, None] - np.array(values)).min(axis=1)
        assert (nearest <= residuals + 1e-12 * scale).all()


@pytest.mark.parametrize(("n", "end"), [(1, "smallest"), (2, "largest"), (20, "smallest"), (21, "largest")])
def test_every_count_of_distinct_eigenvalues_comes_from_the_outside_in(n, end):
    values = np.linspace(-3, 5, n) ** 3
    expected = np.sort(values) if end == "smallest" else -np.sort(-values)
    for count in (1, n, n + 3):
        found, residuals = extreme_eigenvalues(times(symmetric(values)), n, count, end, 1e-10, rng())
        np.testing.assert_allclose(found, expected[:count], atol=1e-9)
        assert residuals.size == found.size


def test_residuals_say_how_far_an_eigenvalue_may_be_off():
    A = symmetric(np.linspace(0, 1, 300))
    loose, residuals = extreme_eigenvalues(times(A), 300, 3, "largest", 0.05, rng())
    assert residuals.max() > 1e-6
    distance = np.abs(loose[:, None] - np.linspace(0, 1, 300)).min(axis=1)
    assert (distance <= residuals).all()


def test_a_search_that_is_given_up_keeps_what_it_has_found(monkeypatch):
    monkeypatch.setattr(lanczos_module, "MOST_PRODUCTS", 60)
    product, calls = counted(np.diag(np.concatenate([[50.0, 20.0], np.linspace(0, 1, 498)])))
    found, residuals = extreme_eigenvalues(product, 500, 4, "largest", 1e-12, rng())
    assert 2 <= found.size < 4
    np.testing.assert_allclose(found[:2], [50, 20], rtol=1e-10)
    assert residuals.size == found.size
    assert len(calls) <= most_products(500, 4)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (20, 5), (21, 5), (300, 5)])
def test_the_products_stay_below_what_is_said(n, count):
    product, calls = counted(symmetric(np.linspace(1, 2, n) ** 4))
    extreme_eigenvalues(product, n, count, "largest", 1e-8, rng())
    assert count <= len(calls) <= most_products(n, count)


# ---------------------------------------------------------------------- the density
@given(values=spectra_of_matrices, steps=st.integers(1, 35), seed=st.integers(0, 9))
def test_the_rule_has_the_moments_of_the_matrix_below_twice_its_steps(values, steps, seed):
    A, r = symmetric(values, seed), rng(seed).normal(size=len(values))
    nodes, weights = quadrature(*lanczos(times(A), r, steps))
    assert nodes.shape == weights.shape
    assert nodes.size <= min(steps, len(values))
    assert (np.diff(nodes) >= 0).all()
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    scale = max(np.abs(values).max(), 1e-300)
    x = r / np.linalg.norm(r)
    for k in range(1, min(2 * steps, 12)):
        x = A @ x
        moment = r @ x / np.linalg.norm(r)
        assert weights @ nodes**k == pytest.approx(moment, abs=1e-9 * scale**k)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_after_n_steps_the_nodes_are_the_eigenvalues(n):
    values = np.sort(np.random.default_rng(n).normal(size=n))
    values[n // 2 :] *= 100
    values.sort()
    nodes, weights = quadrature(*lanczos(times(symmetric(values)), rng().choice((-1.0, 1.0), n), 10 * n))
    np.testing.assert_allclose(nodes, values, atol=1e-10)
    assert weights.sum() == pytest.approx(1, abs=1e-12)


def test_the_start_need_not_be_of_length_one_and_is_not_written():
    A, r = symmetric(np.arange(8.0)), np.arange(1.0, 9.0)
    expected = lanczos(times(A), r / 7, 5)
    for found, same in zip(lanczos(times(A), r, 5), expected, strict=True):
        np.testing.assert_allclose(found, same, rtol=1e-12)
    assert r.tolist() == list(range(1, 9))


def test_a_search_is_given_up_after_about_a_thousand_products():
    assert all(950 <= most_products(100_000, count) <= 1100 for count in (1, 4, 20))
    assert most_products(10, 3) == 13  # one for each row and each eigenvalue
