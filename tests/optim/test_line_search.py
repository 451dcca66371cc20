"""The last line search, and the direction search of line-search damping."""

import math

import numpy as np
import pytest

from hfrnn.optim.cg import conjugate_gradient
from hfrnn.optim.line_search import DirectionSearch, backtracking_line_search, minimising_line_search


def traced(loss):
    """A function that keeps the steps, or the first entries, that it is asked for."""

    def asked(x):
        asked.steps.append(float(np.ravel(x)[0]))
        return loss(asked.steps[-1])

    asked.steps = []
    return asked


def test_the_step_is_the_first_power_of_the_factor_that_satisfies_armijo():
    def loss(step):
        return 1.0 - step + 2.0 * step * step

    for armijo in (0.01, 0.5):
        steps = [0.8**j for j in range(61)]
        expected = next(s for s in steps if loss(s) < 1.0 and loss(s) <= 1.0 - armijo * s)
        result = backtracking_line_search(loss, 1.0, -1.0, armijo=armijo)
        assert result.step == pytest.approx(expected, rel=1e-12)
        assert result.f == pytest.approx(loss(expected))
    assert backtracking_line_search(loss, 1.0, -1.0, armijo=0.5).step < result.step * 1.0001


def test_a_decrease_below_the_armijo_share_is_refused():
    result = backtracking_line_search(lambda step: 1.0 - 0.009 * step, 1.0, -1.0)
    assert not result.success
    assert backtracking_line_search(lambda step: 1.0 - 0.011 * step, 1.0, -1.0).step == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_non_finite_loss_is_no_decrease(bad):
    result = backtracking_line_search(lambda step: bad if step > 0.5 else 1.0 - step, 1.0, -1.0)
    assert result.step == pytest.approx(0.8**4)
    assert result.evaluations == 5
    assert minimising_line_search(lambda step: bad if step > 0.5 else 1.0 - step, 1.0).step == pytest.approx(0.8**4)


def test_failure_gives_step_zero_after_sixty_backtracks():
    for result in (
        backtracking_line_search(lambda step: 1.0 + step, 1.0, -1.0),
        minimising_line_search(lambda step: 1.0 + step, 1.0),
    ):
        assert (result.step, result.f, result.evaluations, result.success) == (0.0, 1.0, 61, False)


def test_a_slope_above_zero_still_asks_for_a_decrease():
    assert not backtracking_line_search(lambda step: 1.0 + 1e-6 * step, 1.0, +1.0).success
    assert not backtracking_line_search(lambda step: 1.0, 1.0, 0.0).success


def test_a_known_first_loss_is_not_evaluated_again():
    loss = traced(lambda step: 1.0 - step)
    result = backtracking_line_search(loss, 1.0, -1.0, first=0.0)
    assert (result.step, result.f, result.evaluations, loss.steps) == (1.0, 0.0, 0, [])
    assert backtracking_line_search(loss, 1.0, -1.0, first=2.0).step == pytest.approx(0.8)
    assert loss.steps == [0.8]


def test_the_minimising_search_finds_the_best_power_of_the_factor():
    def loss(step):
        return (step - 0.4) ** 2

    result = minimising_line_search(loss, loss(0.0))
    best = min((0.8**j for j in range(61)), key=loss)
    assert result.step == pytest.approx(best)
    assert result.evaluations == 6  # 1, .8, .64, .512, .4096, .328: the last one is worse


# ---------------------------------------------------------------------- line-search damping
def test_a_direction_is_shortened_while_the_loss_falls():
    loss = traced(lambda x: (x - 0.3) ** 2)
    search = DirectionSearch(loss, np.zeros(1), 0.09)
    assert search.follow(np.ones(1), 1.0, -1.0)
    assert loss.steps == [1.0, 0.5, 0.25, 0.125]
    assert (search.x[0], search.idle) == (0.25, 0)
    assert search.f == pytest.approx(0.0025)


def test_a_direction_without_gain_leaves_x_f_alone_and_is_counted():
    search = DirectionSearch(lambda x: 1.0 + x[0] ** 2, np.zeros(1), 1.0)
    assert not search.follow(np.ones(1), 1.0, -1.0)
    assert (search.x[0], search.f, search.idle, search.q_change) == (0.0, 1.0, 1, 0.0)


def test_a_direction_is_shortened_ten_times_at_most():
    loss = traced(lambda x: x)
    search = DirectionSearch(loss, np.zeros(1), 0.0)
    search.follow(np.ones(1), 1.0, -1.0)
    assert loss.steps == [0.5**k for k in range(11)]
    assert search.idle == 1


def test_shortening_ends_where_the_loss_stays_the_same():
    loss = traced(lambda x: 0.5)
    search = DirectionSearch(loss, np.zeros(1), 1.0)
    assert search.follow(np.ones(1), 1.0, -1.0)
    assert loss.steps == [1.0, 0.5]
    assert (search.x[0], search.f) == (1.0, 0.5)


def test_shortening_goes_on_past_losses_that_are_not_finite():
    search = DirectionSearch(lambda x: math.nan if x[0] > 0.3 else 1.0 - x[0], np.zeros(1), 1.0)
    assert search.follow(np.ones(1), 1.0, -1.0)
    assert search.x[0] == 0.25


def test_q_of_x_f_is_the_quadratic_at_x_f():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((12, 12))
    a, b, x0 = factor @ factor.T + np.eye(12), rng.standard_normal(12), 0.1 * rng.standard_normal(12)

    def loss(x):  # not the quadratic, so that x_f leaves x_q
        return x @ a @ x / 2 - b @ x + 3.0 * np.sum(x**4) + np.sum(np.abs(x))

    def apply(v, out):
        out[:] = a @ v

    search = DirectionSearch(loss, x0, loss(x0))

    def follow(it):
        search.follow(it.direction, it.alpha, it.q_step)

    result = conjugate_gradient(apply, b, x0, max_iterations=8, on_iterate=follow)
    assert not np.allclose(search.x, result.x, atol=1e-3)
    assert not np.allclose(search.x, x0, atol=1e-3)
    q = search.x @ a @ search.x / 2 - b @ search.x
    assert result.q_history[0] + search.q_change == pytest.approx(q, rel=1e-9)
