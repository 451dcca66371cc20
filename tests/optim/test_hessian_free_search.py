"""Updates that fail, search, stop and resume, and line-search damping."""

import math

import numpy as np
import pytest
from support.least_squares import LeastSquares, bent_beyond, linear, run, same, solution_of, wavy

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.cg import CGStop
from hfrnn.optim.damping import Damping
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions, UpdateInterrupted
from hfrnn.optim.minimize import minimize
from hfrnn.optim.quadratic import TrialLosses


# ---------------------------------------------------------------------- failure
def test_a_failed_line_search_changes_nothing_but_grows_the_damping_and_clears_the_warm_start():
    objective = wavy()
    optimizer = HessianFree(Damping("structural", 0.2, 0.04), HessianFreeOptions(mu_growth=None))
    theta = optimizer.update(np.zeros(40), objective).theta
    assert solution_of(optimizer) is not None
    mu = optimizer.damping.mu
    f0 = objective.value(theta)
    update = optimizer.update(theta, wavy(bend=lambda at, f: f0 + 1.0 + f))
    assert not update.success
    assert np.array_equal(update.theta, theta)
    assert not np.shares_memory(update.theta, theta)
    assert (update.step_size, update.step_norm, update.loss_after) == (0.0, 0.0, update.loss_before)
    assert update.rho == -math.inf
    assert update.next_mu == pytest.approx(1.5 * mu)
    assert solution_of(optimizer) is None
    assert optimizer.update(theta, objective).success


def test_damping_grows_after_a_failure_even_where_rho_was_good():
    """rho on the curvature objective can be high while no step lowers the loss of the gradient objective."""
    gradient = wavy(bend=lambda theta, f: 1e9)
    options = HessianFreeOptions(rho_objective="curvature")
    update = HessianFree(Damping("tikhonov", lambda_=20.0), options).update(np.zeros(40), gradient, wavy())
    assert update.rho > 0.75
    assert not update.success
    assert update.next_lambda_ == pytest.approx(30.0)


@pytest.mark.parametrize("kind", ["tikhonov", "line-search"])
def test_non_finite_losses_at_trial_steps_are_survived(kind):
    objective = wavy(bend=bent_beyond(0.5, math.nan))
    optimizer = HessianFree(Damping(kind))
    theta, log = run(optimizer, np.zeros(40), objective, 4)
    assert np.linalg.norm(theta) <= 0.5
    assert any(each.success for each in log)
    assert math.isfinite(log[-1].loss_after)


@pytest.mark.parametrize("where", ["loss", "gradient", "curvature"])
def test_a_non_finite_loss_or_gradient_at_theta_is_an_error_that_changes_nothing(where):
    objective, curvature = wavy(), None
    theta, optimizer = np.zeros(40), HessianFree(options=HessianFreeOptions(rho_objective="curvature"))
    before = optimizer.state_dict()
    f, g = objective.loss_and_gradient(theta)
    if where == "loss":
        objective.loss_and_gradient = lambda theta: (math.nan, g)
    elif where == "gradient":
        objective.loss_and_gradient = lambda theta: (f, g * math.inf)
    else:
        curvature = wavy(bend=lambda theta, f: math.inf)
    with np.errstate(invalid="ignore"), pytest.raises(NonFiniteError, match="not finite at the present parameters"):
        optimizer.update(theta, objective, curvature)
    assert repr(optimizer.state_dict()) == repr(before)


def test_theta_of_another_size_is_refused():
    optimizer = HessianFree()
    optimizer.update(np.zeros(40), wavy())
    with pytest.raises(InputError, match="one optimizer for one model"):
        optimizer.update(np.zeros(41), wavy(n=41))


# ---------------------------------------------------------------------- the last line search
def overshooting():
    """One residual, atan(theta): the full Gauss-Newton step from 3 overshoots far and raises the loss."""
    return LeastSquares(np.arctan, lambda theta: np.diag(1.0 / (1.0 + theta * theta)))


def test_armijo_takes_the_first_step_that_is_good_enough_and_minimum_the_best():
    theta = np.array([3.0])
    f0, g = overshooting().loss_and_gradient(theta)
    x = -np.arctan(theta) * (1.0 + theta * theta)
    powers = [0.8**j for j in range(61)]
    values = [overshooting().value(theta + step * x) for step in powers]
    armijo = next(s for s, f in zip(powers, values, strict=True) if f < f0 and f <= f0 + 0.01 * s * float(g @ x))
    best = powers[int(np.argmin(values))]
    assert best < armijo < 1.0
    for name, expected in (("armijo", armijo), ("minimum", best)):
        update = HessianFree(Damping("none"), HessianFreeOptions(line_search=name)).update(theta, overshooting())
        assert update.step_size == pytest.approx(expected)
        assert update.rho == -math.inf  # of the full step, before the line search


# ---------------------------------------------------------------------- line-search damping
def test_line_search_damping_on_a_quadratic_follows_cg_to_the_minimum():
    objective, a, y = linear()
    options = HessianFreeOptions(cg_epsilon=0.0, cg_iterations=200, residual_tolerance=1e-10)
    update = HessianFree(Damping("line-search"), options).update(np.ones(30), objective)
    assert objective.asked == [(0.0, 0.0, "hidden")]
    assert np.allclose(update.theta, np.linalg.lstsq(a, y, rcond=None)[0], atol=1e-5)
    assert update.rho == pytest.approx(1.0, rel=1e-6)
    assert 1 <= update.chosen_iteration <= update.cg_iterations
    assert (update.mu, update.next_mu, update.lambda_, update.next_lambda_) == (0.0, 0.0, 0.0, 0.0)


def test_line_search_damping_reports_the_quadratic_at_x_f():
    objective, a, y = linear(n=10, bend=lambda theta, f: f + 5.0 * float(np.sum(theta**4)))
    seen = []
    optimizer = HessianFree(Damping("line-search"), HessianFreeOptions(cg_iterations=6))
    update = optimizer.update(np.zeros(10), objective, on_cg=lambda i, q: seen.append(q))
    x = update.theta / update.step_size
    q = -(a.T @ y) @ x + x @ a.T @ a @ x / 2
    assert update.q == pytest.approx(q, rel=1e-9)
    assert abs(q - seen[-1]) > 1e-3 * abs(q)
    assert update.rho == pytest.approx((objective.loss(x) - objective.value(np.zeros(10))) / q, rel=1e-9)


def test_line_search_damping_starts_both_vectors_at_the_warm_start():
    optimizer = HessianFree(Damping("line-search"), HessianFreeOptions(cg_iterations=3))
    objective = wavy()
    theta = optimizer.update(np.zeros(40), objective).theta
    start = 0.95 * solution_of(optimizer)
    seen = []
    optimizer.update(theta, wavy(bend=lambda at, f: (seen.append(at), f)[1]))
    assert np.array_equal(seen[0], theta + start)


def test_line_search_damping_drops_a_warm_start_whose_loss_is_not_finite():
    optimizer = HessianFree(Damping("line-search"), HessianFreeOptions(cg_iterations=3))
    theta = optimizer.update(np.zeros(40), wavy()).theta
    start = theta + 0.95 * solution_of(optimizer)
    update = optimizer.update(theta, wavy(bend=lambda at, f: math.nan if np.array_equal(at, start) else f))
    assert update.products == update.cg_iterations
    assert update.success


def test_more_than_five_directions_without_gain_end_the_run():
    update = HessianFree(Damping("line-search")).update(np.zeros(40), wavy(bend=lambda theta, f: 1e9))
    assert (update.cg_stop, update.cg_iterations) == (CGStop.NO_GAIN, 6)
    assert (update.success, update.chosen_iteration) == (False, 0)


# ---------------------------------------------------------------------- stopping and resuming
def test_should_stop_gives_the_update_up_and_leaves_the_state_as_it_was():
    objective = wavy()
    optimizer = HessianFree(Damping("tikhonov"))
    theta = optimizer.update(np.zeros(40), objective).theta
    before = optimizer.state_dict()
    asked = []

    def should_stop():
        asked.append(True)
        return len(asked) == 4

    with pytest.raises(UpdateInterrupted):
        optimizer.update(theta, objective, should_stop=should_stop)
    assert len(asked) == 4
    after = optimizer.state_dict()
    for name in ("cg_solution", "before"):
        assert np.array_equal(before.pop(name), after.pop(name))
    assert before == after
    reference = HessianFree(Damping("tikhonov"))
    run(reference, np.zeros(40), objective, 1)
    assert same(optimizer.update(theta, objective), reference.update(theta, objective))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["structural", "tikhonov", "structural+tikhonov", "line-search", "none"])
def test_going_on_after_a_load_gives_the_same_bits(kind, dtype):
    objective = linear(dtype=dtype)[0] if kind == "none" else wavy()
    theta = np.zeros(30 if kind == "none" else 40, dtype=dtype)
    options = HessianFreeOptions(cg_iterations=6)
    going_on = HessianFree(Damping(kind), options)
    theta, _ = run(going_on, theta, objective, 3)
    state = going_on.state_dict()
    resumed = HessianFree(Damping(kind), options)
    resumed.load_state_dict(state)
    for vector in (state["cg_solution"], state["before"]):  # the state is a copy
        if vector is not None:
            vector[:] = 7.0
    for _ in range(4):
        first, second = going_on.update(theta, objective), resumed.update(theta, objective)
        assert same(first, second)
        theta = first.theta


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing():
    optimizer = HessianFree(Damping("tikhonov"))
    optimizer.update(np.zeros(40), wavy())
    before = repr(optimizer.state_dict())
    for state in ({"kind": "tikhonov", "mu": 0.0, "lambda_": 1.0}, HessianFree().state_dict()):
        with pytest.raises(InputError):
            optimizer.load_state_dict(state)
    assert repr(optimizer.state_dict()) == before


# ---------------------------------------------------------------------- steps that overflow
class Strict:
    """f = |theta|^2 / 2, which refuses what is not finite; its curvature is far too small."""

    def loss(self, theta):
        if not np.isfinite(theta).all():
            raise InputError("theta holds NaN or infinity")
        return 0.5 * float(theta.astype(float) @ theta)

    def loss_and_gradient(self, theta):
        return self.loss(theta), theta.copy()

    def gauss_newton(self, theta, structural=0.0, tikhonov=0.0, metric="hidden"):
        return self

    def apply(self, v, out):
        out[:] = v * np.float32(1e-30)


@pytest.mark.parametrize("kind", ["none", "line-search"])
def test_an_update_rejects_steps_to_infinity(kind):
    theta = np.full(3, 1e20, np.float32)
    with np.errstate(over="ignore"):
        update = HessianFree(Damping(kind), HessianFreeOptions(cg_iterations=1)).update(theta, Strict())
    assert np.isfinite(update.theta).all()
    assert update.loss_after <= update.loss_before


def test_the_loss_of_a_trial_step_to_infinity_is_infinite_and_counted():
    trials = TrialLosses(Strict(), np.full(3, 3e38, np.float32))
    with np.errstate(over="ignore"):
        assert trials(np.full(3, 3e38, np.float32)) == np.inf
    assert (trials.evaluations, trials.finite) == (1, 0)


def test_a_start_that_is_not_finite_is_wrong_input():
    with pytest.raises(InputError, match="theta holds NaN"):
        minimize(lambda t: np.nan, lambda t: t.copy(), lambda t: lambda v: v.copy(), np.full(3, np.nan))
