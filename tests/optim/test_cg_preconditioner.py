"""Conjugate gradient with a preconditioner."""

import numpy as np
import pytest
from support.linear_systems import EXACT, badly_scaled, operator, spd

from hfrnn.optim.cg import CGStop, conjugate_gradient, diagonal_preconditioner


@pytest.mark.parametrize("warm", [False, True])
def test_the_residual_rule_follows_the_norm_of_the_preconditioner(warm):
    a, b, d = badly_scaled()
    x0 = 10.0 * np.random.default_rng(2).standard_normal(60) if warm else None
    levels, plain = [], []

    def watch(it):
        r = b - a @ it.x
        levels.append(np.sqrt(r @ (r / d)) / np.sqrt(b @ (b / d)))
        plain.append(np.linalg.norm(r) / np.linalg.norm(b))

    m = diagonal_preconditioner(d, 1e-12, exponent=1.0)
    options = {"preconditioner": m, "residual_tolerance": 1e-3, "on_iterate": watch}
    result = conjugate_gradient(operator(a), b, x0, **EXACT, **options)
    first = next(i for i, level in enumerate(levels, 1) if level <= 1e-3)
    assert (result.stop, result.iterations) == (CGStop.RESIDUAL, first)
    assert next((i for i, level in enumerate(plain, 1) if level <= 1e-3), None) != first
    assert result.preconditioned_norm == pytest.approx(levels[-1] * np.sqrt(b @ (b / d)), rel=1e-6)
    assert result.residual_norm == pytest.approx(plain[-1] * np.linalg.norm(b), rel=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_preconditioner_that_is_not_finite_ends_the_run(bad):
    a, b = spd(10)
    with np.errstate(invalid="ignore"):
        result = conjugate_gradient(operator(a), b, preconditioner=lambda r, out: out.fill(bad))
    assert (result.stop, result.iterations) == (CGStop.NON_FINITE, 0)


def test_the_diagonal_preconditioner_divides_by_the_power_of_the_shifted_diagonal():
    out = np.empty(2)
    diagonal_preconditioner(np.array([15.0, 80.0]), 1.0)(np.array([8.0, 27.0]), out)
    assert np.allclose(out, [1.0, 1.0], rtol=1e-15)


@pytest.mark.parametrize(("warm", "beside"), [(False, 1), (True, 2)])
def test_a_start_at_zero_applies_the_preconditioner_to_b_only_once(warm, beside):
    a, b = spd(30)
    calls = []

    def m(r, out):
        calls.append(r.copy())
        out[:] = r / 3.0

    x0 = np.ones(30) if warm else None
    result = conjugate_gradient(operator(a), b, x0, **{**EXACT, "max_iterations": 4}, preconditioner=m)
    assert len(calls) == result.iterations + beside == 4 + beside
    np.testing.assert_array_equal(calls[0], b)
    residual = np.linalg.norm(b - a @ result.x)
    assert result.preconditioned_norm == pytest.approx(residual / np.sqrt(3.0), rel=1e-9)


def test_a_right_hand_side_whose_squares_underflow_ends_the_run():
    a, b = spd(10)
    result = conjugate_gradient(operator(a), 1e-170 * b, preconditioner=lambda r, out: np.copyto(out, r))
    assert result.stop is CGStop.RESIDUAL
    assert result.iterations == 0
