"""Each way in which conjugate gradient stops."""

import math

import numpy as np
import pytest
from support.linear_systems import operator, spd

from hfrnn.optim import cg
from hfrnn.optim.cg import CGStop, conjugate_gradient


def test_stops_at_max_iterations():
    a, b = spd(200, condition=1e6)
    result = conjugate_gradient(operator(a), b, max_iterations=7)
    assert (result.stop, result.iterations, result.products) == (CGStop.MAX_ITERATIONS, 7, 7)
    none = conjugate_gradient(operator(a), b, max_iterations=0)
    assert (none.stop, none.iterations, none.products) == (CGStop.MAX_ITERATIONS, 0, 0)
    assert [(entry[0], entry[1], entry[2].any()) for entry in none.iterates] == [(0, 0.0, False)]


@pytest.mark.parametrize("growth", [0.0, 0.2])
def test_progress_stops_at_the_first_iteration_that_satisfies_the_rule(growth, monkeypatch):
    assert cg.WINDOW_GROWTH == 0.1
    monkeypatch.setattr(cg, "WINDOW_GROWTH", growth)
    a, b = spd(300, condition=3e3)
    full = conjugate_gradient(operator(a), b, epsilon=0.0, max_iterations=300).q_history

    def satisfied(i):
        k = max(10, math.ceil(growth * i))
        return i >= k and full[i] < 0 and (full[i] - full[i - k]) / full[i] < 0.0005 * k

    first = next(i for i in range(1, 301) if satisfied(i))
    result = conjugate_gradient(operator(a), b, max_iterations=300)
    assert (result.stop, result.iterations) == (CGStop.PROGRESS, first)
    assert 15 < first < 300


def test_the_progress_rule_is_first_asked_when_the_window_reaches_back_to_the_start():
    """From q_0 = 0 the whole of q is progress, 1 < epsilon*k = 1.2, so the run ends at i = k."""
    a, b = spd(50)
    assert conjugate_gradient(operator(a), b, window=3, epsilon=0.4).iterations == 3


def test_progress_is_not_asked_while_q_is_above_zero(monkeypatch):
    """From a start with q > 0 the relative fall of q has the wrong sign and would end the run at once."""
    a, b = spd(100, condition=1e4)
    x0 = 10.0 * np.random.default_rng(3).standard_normal(100)
    monkeypatch.setattr(cg, "WINDOW_GROWTH", 0.0)
    result = conjugate_gradient(operator(a), b, x0, window=1, max_iterations=300)
    first_negative = next(i for i, q in enumerate(result.q_history) if q < 0)
    assert first_negative > 3
    assert result.iterations > first_negative
    assert result.stop is CGStop.PROGRESS


def test_negative_curvature_stops_and_gives_the_last_good_iterate():
    a, b = np.diag([4.0, 1.0, -0.1]), np.array([1.0, 0.9, 1.1])
    result = conjugate_gradient(operator(a), b)
    assert result.stop is CGStop.CURVATURE
    assert result.smallest_curvature <= 0.0
    good = conjugate_gradient(operator(a), b, max_iterations=result.iterations)
    assert result.iterations >= 1
    assert np.array_equal(result.x, good.x)


def test_curvature_of_zero_along_the_first_direction_gives_the_start():
    result = conjugate_gradient(operator(np.zeros((3, 3))), np.ones(3))
    assert (result.stop, result.iterations, result.q) == (CGStop.CURVATURE, 0, 0.0)
    assert not result.x.any()
    assert result.iterates[0][0] == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_non_finite_product_stops_and_gives_the_last_good_iterate(bad):
    a, b = spd(30)
    calls = 0

    def apply(v, out):
        nonlocal calls
        calls += 1
        out[:] = a @ v
        if calls == 5:
            out[3] = bad

    result = conjugate_gradient(apply, b)
    assert (result.stop, result.iterations) == (CGStop.NON_FINITE, 4)
    assert np.array_equal(result.x, conjugate_gradient(operator(a), b, max_iterations=4).x)


def test_a_step_that_overflows_float32_is_not_taken():
    a = (1e-38 * np.eye(4)).astype(np.float32)
    result = conjugate_gradient(operator(a), np.array([10.0, 1.0, 1.0, 1.0], np.float32))
    assert (result.stop, result.iterations) == (CGStop.NON_FINITE, 0)
    assert not result.x.any()


def test_a_non_finite_right_hand_side_or_warm_start_gives_zero():
    a, b = spd(4)
    bad = [np.array([1.0, each, 0.0, 0.0]) for each in (np.nan, np.inf)]
    for rhs, x0 in ((bad[0], None), (bad[1], None), (b, bad[1])):
        with np.errstate(invalid="ignore"):
            result = conjugate_gradient(operator(a), rhs, x0)
        assert (result.stop, result.iterations) == (CGStop.NON_FINITE, 0)
        assert not result.x.any()


@pytest.mark.parametrize("reason", [CGStop.NO_GAIN, CGStop.MU_GROWTH])
def test_on_iterate_ends_the_run_for_its_own_reason(reason):
    a, b = spd(50)
    result = conjugate_gradient(operator(a), b, on_iterate=lambda it: reason if it.iteration == 6 else None)
    assert (result.stop, result.iterations) == (reason, 6)
    assert result.iterates[-1][0] == 6


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_singular_system_without_solution_ends_where_curvature_is_zero_to_rounding(dtype):
    a, b = np.diag([2.0, 1.0, 0.0]), np.ones(3)
    result = conjugate_gradient(operator(a.astype(dtype)), b.astype(dtype), epsilon=0.0)
    assert (result.stop, result.iterations) == (CGStop.CURVATURE, 2)
    assert np.linalg.norm(result.x) < 10.0
    assert result.q < 0.0
