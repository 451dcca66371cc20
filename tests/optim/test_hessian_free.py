"""Whole updates: known minima, what they report, warm start, choice of the iterate, mu, and how rho is measured."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from support.least_squares import LeastSquares, Product, bent_beyond, linear, rosenbrock, run, solution_of, wavy

from hfrnn.optim.cg import CGStop, conjugate_gradient
from hfrnn.optim.damping import Damping, LevenbergMarquardt, rho
from hfrnn.optim.full_step import usual_losses
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions


def solved(objective, theta, lambda_, **options):
    """CG on the quadratic of an update with Tikhonov damping."""
    return conjugate_gradient(
        Product(objective.matrix(theta, 0.0, lambda_)).apply, -objective.loss_and_gradient(theta)[1], **options
    )


# ---------------------------------------------------------------------- known minima
@pytest.mark.parametrize("damping", [
    Damping("tikhonov", lambda_=1.0), Damping("structural", mu=0.1), Damping("structural+tikhonov", 0.1, 0.1),
    Damping("none"), Damping("line-search"),
], ids=lambda damping: damping.kind)  # fmt: skip
def test_rosenbrock_is_minimised(damping):
    theta, log = run(HessianFree(damping), np.array([-1.2, 1.0]), rosenbrock(), 60)
    assert np.allclose(theta, [1.0, 1.0], atol=1e-6)
    losses = [log[0].loss_before] + [each.loss_after for each in log]
    assert all(after <= before for before, after in itertools.pairwise(losses))


def test_a_linear_problem_without_damping_is_solved_in_one_update():
    objective, a, y = linear()
    options = HessianFreeOptions(cg_epsilon=0.0, cg_iterations=200)
    update = HessianFree(Damping("none"), options).update(np.ones(30), objective)
    assert np.allclose(update.theta, np.linalg.lstsq(a, y, rcond=None)[0], atol=1e-10)
    assert update.rho == pytest.approx(1.0, rel=1e-9)
    assert (update.step_size, update.cg_stop) == (1.0, CGStop.RESIDUAL)


# ---------------------------------------------------------------------- what an update says
def test_an_update_reports_what_it_did():
    objective, theta = wavy(), np.zeros(40)
    optimizer = HessianFree(Damping("structural", mu=0.5, lambda_=0.02, metric="preactivation"))
    f0, g = objective.loss_and_gradient(theta)
    update = optimizer.update(theta, objective)
    assert objective.asked == [(0.5, 0.02, "preactivation")]
    assert update.loss_before == f0
    assert update.loss_after == objective.value(update.theta)
    assert update.gradient_norm == pytest.approx(np.linalg.norm(g))
    assert update.step_norm == pytest.approx(np.linalg.norm(update.theta - theta))
    x = (update.theta - theta) / update.step_size
    a = objective.matrix(theta, 0.5, 0.02)
    assert update.q == pytest.approx(g @ x + x @ a @ x / 2, rel=1e-9)
    assert update.rho == pytest.approx((objective.value(theta + x) - f0) / update.q, rel=1e-9)
    assert update.products == update.cg_iterations
    assert update.evaluations == objective.losses
    assert (update.mu, update.lambda_) == (0.5, 0.02)
    assert (update.next_mu, update.next_lambda_) == (optimizer.damping.mu, optimizer.damping.lambda_)
    assert set(update.seconds) == {"gradient", "preconditioner", "cg", "products", "search"}
    assert (update.failed, update.failures, update.ended, update.residual_drift) == (None, 0, None, None)
    assert min(update.seconds.values()) >= 0.0
    assert update.smallest_curvature >= 0.02
    assert (update.rho_model, update.rho_objective) == ("damped", "gradient")
    with pytest.raises(dataclasses.FrozenInstanceError):
        update.step_size = 2.0


def test_neither_theta_nor_the_damping_given_is_modified():
    theta, damping = np.zeros(40), Damping("tikhonov")
    optimizer = HessianFree(damping)
    update = optimizer.update(theta, wavy())
    assert not theta.any()
    assert not np.shares_memory(theta, update.theta)
    assert damping == Damping("tikhonov")
    assert optimizer.damping != damping


# ---------------------------------------------------------------------- warm start, choice of the iterate
def test_cg_starts_from_the_last_iterate_of_the_last_run_times_the_decay():
    objective, decay = wavy(), 0.5
    optimizer = HessianFree(Damping("tikhonov", lambda_=0.3), HessianFreeOptions(warm_start=decay, cg_iterations=9))
    first = optimizer.update(np.zeros(40), objective)
    last = solved(objective, np.zeros(40), 0.3, max_iterations=9).x
    assert np.array_equal(solution_of(optimizer), last)

    heard = []
    second = optimizer.update(first.theta, objective, on_cg=lambda i, q: heard.append((i, q)))
    expected = solved(objective, first.theta, first.next_lambda_, x0=last * decay, max_iterations=9)
    assert heard == list(enumerate(expected.q_history[1:], 1))
    assert second.products == second.cg_iterations + 1


def test_cg_that_ends_above_no_step_at_all_is_no_start_for_the_next():
    """Its rho is minus infinity: with a start that stays bad the damping would grow for ever."""
    gradient, a, y = linear()
    c = 100.0
    curvature = LeastSquares(lambda theta: c * (a @ theta - y), lambda theta: c * a)
    options = HessianFreeOptions(cg_iterations=1, warm_start=1.0)
    for objective, kept in ((gradient, True), (curvature, False)):
        optimizer = HessianFree(Damping("tikhonov", lambda_=1e-6), options)
        start = np.linalg.lstsq(a, y, rcond=None)[0]
        optimizer.load_state_dict({**optimizer.state_dict(), "cg_solution": start})
        update = optimizer.update(np.zeros(30), gradient, objective)
        assert update.failed is None
        assert (update.q < 0.0, solution_of(optimizer) is not None) == (kept, kept)


def test_the_choice_walks_back_while_the_loss_falls():
    plain, theta = wavy(strength=4.0), np.zeros(40)
    options = HessianFreeOptions(mu_growth=None, cg_epsilon=0.0)
    optimizer = HessianFree(Damping("tikhonov", lambda_=1e-3), options)
    update = optimizer.update(theta, plain)
    cg = solved(plain, theta, 1e-3, epsilon=0.0)
    losses = [plain.value(theta + x) for _, _, x in cg.iterates]
    k = len(losses) - 1
    while k > 0 and losses[k - 1] < losses[k]:
        k -= 1
    assert 0 < k < len(losses) - 1
    assert update.chosen_iteration == cg.iterates[k][0]
    assert update.evaluations == len(losses) - k + 1  # every loss once; the line search takes the full step's over
    assert not np.array_equal(solution_of(optimizer), cg.iterates[k][2])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_iterates_with_a_non_finite_loss_are_walked_past(bad):
    theta = np.zeros(40)
    plain = wavy()
    cg = solved(plain, theta, 0.1, epsilon=0.0)
    norms = [np.linalg.norm(x) for _, _, x in cg.iterates]
    objective = wavy(bend=bent_beyond((norms[3] + norms[4]) / 2, bad))
    options = HessianFreeOptions(mu_growth=None, cg_epsilon=0.0)
    update = HessianFree(Damping("tikhonov", lambda_=0.1), options).update(theta, objective)
    assert update.chosen_iteration == cg.iterates[3][0]
    assert update.success


# ---------------------------------------------------------------------- mu on the way
def test_mu_that_grows_threefold_ends_cg_and_starts_the_next_update():
    theta = np.zeros(40)
    objective = wavy(bend=bent_beyond(1e-6, 1e9))
    optimizer = HessianFree(Damping("structural+tikhonov", 1.0, 2.0))
    update = optimizer.update(theta, objective)
    # factors 1.5, 2.25, 3.375 at iterations 1, 2, 3: the third is the first at or above 3
    assert (update.cg_stop, update.cg_iterations) == (CGStop.MU_GROWTH, 3)
    assert (update.next_mu, update.next_lambda_) == pytest.approx((3.375, 6.75))


def test_the_trailing_factor_follows_the_rule_down_too():
    """Good rho at iterations 1 and 2 lowers the factor to 4/9, so five bad ones are needed to reach 3."""
    theta = np.zeros(40)
    plain = wavy(strength=1.0)
    cg = solved(plain, theta, 3.0, epsilon=0.0, residual_tolerance=0.0)
    f0 = plain.value(theta)
    assert all(rho(plain.value(x), f0, q) > 0.75 for _, q, x in cg.iterates[:2])
    edge = (np.linalg.norm(cg.iterates[1][2]) + np.linalg.norm(cg.iterates[2][2])) / 2
    objective = wavy(strength=1.0, bend=bent_beyond(edge, math.nan))
    options = HessianFreeOptions(cg_epsilon=0.0, residual_tolerance=0.0)
    update = HessianFree(Damping("tikhonov", lambda_=3.0), options).update(theta, objective)
    factor, checked = (2 / 3) ** 2, 2
    while factor < 3.0:
        factor, checked = factor * 1.5, checked + 1
    assert (update.cg_stop, update.cg_iterations) == (CGStop.MU_GROWTH, cg.iterates[checked - 1][0])
    assert update.next_lambda_ == pytest.approx(3.0 * factor)
    assert update.chosen_iteration == 2


@pytest.mark.parametrize("mu_growth", [3.0, None])
def test_without_growth_the_rule_at_the_chosen_iterate_decides(mu_growth):
    options = HessianFreeOptions(mu_growth=mu_growth)
    _, log = run(HessianFree(Damping("tikhonov", lambda_=1.0), options), np.array([-1.2, 1.0]), rosenbrock(), 12)
    checked = [each for each in log if each.cg_stop is not CGStop.MU_GROWTH]
    assert len({LevenbergMarquardt().factor(each.rho) for each in checked}) > 1
    for each in checked:
        assert each.next_lambda_ == pytest.approx(each.lambda_ * LevenbergMarquardt().factor(each.rho))


@pytest.mark.parametrize("damping", [Damping("none"), Damping("tikhonov", adapt="none")], ids=lambda each: each.kind)
def test_nothing_is_checked_on_the_way_where_nothing_adapts(damping):
    update = HessianFree(damping).update(np.zeros(40), wavy(bend=bent_beyond(1e-6, 1e9)))
    assert update.cg_iterations > 3
    assert update.cg_stop is not CGStop.MU_GROWTH
    assert update.next_lambda_ == update.lambda_


@pytest.mark.parametrize(("damping", "growth", "every"), [
    (Damping("structural", mu=1e-6), None, 1), (Damping("structural", mu=1e-6), None, 4),
    (Damping("structural", mu=1e-6), 3.0, 1), (Damping("none"), 3.0, 1), (Damping("line-search"), None, 1),
])  # fmt: skip
def test_updates_on_a_quadratic_compute_their_usual_number_of_losses(damping, growth, every):
    options = HessianFreeOptions(cg_iterations=7, cg_epsilon=0.0, mu_growth=growth, rho_every=every, warm_start=0.0)
    objective, *_ = linear()
    optimizer = HessianFree(damping, options, LevenbergMarquardt(low=0.0, high=1e9))  # the damping stays as it is
    log = run(optimizer, np.zeros(30), objective, 16)[1][8:]
    assert {each.cg_iterations for each in log} == {7}
    assert sum(each.evaluations for each in log) == 8 * usual_losses(damping, options, 7)
    if damping.kind == "line-search":  # a warm start costs one more loss
        assert usual_losses(damping, HessianFreeOptions(warm_start=0.95), 7) == usual_losses(damping, options, 7) + 1


# ---------------------------------------------------------------------- two objectives, two ways to measure rho
@pytest.mark.parametrize("where", ["gradient", "curvature"])
def test_rho_is_measured_on_the_objective_that_is_asked_for(where):
    gradient, curvature, theta = wavy(), wavy(rows=slice(30)), np.zeros(40)
    options = HessianFreeOptions(rho_objective=where)
    update = HessianFree(Damping("tikhonov", lambda_=5.0), options).update(theta, gradient, curvature)
    judge = {"gradient": gradient, "curvature": curvature}[where]
    x = (update.theta - theta) / update.step_size
    assert update.rho > 0.1
    assert update.rho == pytest.approx(rho(judge.value(theta + x), judge.value(theta), update.q), rel=1e-9)
    assert update.loss_after == gradient.value(update.theta)  # the last line search stays on the gradient objective
    assert update.loss_after < update.loss_before
    assert update.evaluations == gradient.losses + curvature.losses
    assert gradient.asked == []
    assert len(curvature.asked) == 1


@pytest.mark.parametrize(
    "damping", [Damping("structural", 2.0, 3.0), Damping("structural", 0.7, 3.0), Damping("tikhonov", lambda_=3.0)]
)
def test_the_undamped_model_leaves_the_damping_term_out_of_rho(damping):
    objective, theta = wavy(), np.zeros(40)
    update = HessianFree(damping, HessianFreeOptions(rho_model="undamped", mu_growth=None)).update(theta, objective)
    x, (f0, g) = (update.theta - theta) / update.step_size, objective.loss_and_gradient(theta)
    q = g @ x + x @ objective.matrix(theta) @ x / 2
    assert update.rho == pytest.approx((objective.value(theta + x) - f0) / q, rel=1e-9)
    assert q < update.q
    assert update.products == update.cg_iterations + (damping.kind == "structural")  # lambda/2 |x|^2 takes no product
    assert len(objective.asked) == 1 + (damping.kind == "structural")


def test_mu_on_the_way_follows_the_model_that_is_asked_for():
    """The loss falls by a fifth of what the undamped quadratic says; heavy damping promises about half as much."""
    objective = linear()[0]
    theta = np.ones(30)
    f0 = objective.value(theta)
    objective.bend = lambda at, f: f0 + 0.2 * (f - f0)
    options = [HessianFreeOptions(rho_model=model) for model in ("damped", "undamped")]
    damped, undamped = (HessianFree(Damping("tikhonov", lambda_=1e6), o).update(theta, objective) for o in options)
    assert (undamped.cg_stop, undamped.cg_iterations) == (CGStop.MU_GROWTH, 3)
    assert undamped.products == 3  # without mu the damping term lambda/2 |x|^2 takes no product
    assert undamped.rho == pytest.approx(0.2, rel=1e-6)
    assert damped.cg_stop is not CGStop.MU_GROWTH
    assert damped.rho == pytest.approx(0.4, rel=0.01)
