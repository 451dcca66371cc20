"""Updates that are not measured (H12), and the return to the parameters before a bad step (H13)."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.counted import CALM, DIAGONAL, Counted, make, n, start

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.damping import Damping, LevenbergMarquardt
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions
from hfrnn.optim.outcome import End, Failure
from hfrnn.optim.update_model import STEADY_UPDATES


def after(updates, f, **options):
    """An optimizer that measures one update in 50, and the parameters after some updates."""
    optimizer, theta = make(50, **options), start()
    for _ in range(updates):
        theta = optimizer.update(theta, f).theta
    return optimizer, theta


def test_only_one_update_in_so_many_evaluates_losses_after_the_first_ones():
    optimizer, f, theta = make(4), Counted(), start()
    evaluated = []
    for _ in range(STEADY_UPDATES + 9):
        before = f.losses
        update = optimizer.update(theta, f)
        theta = update.theta
        evaluated.append(f.losses > before)
        assert update.evaluations == f.losses - before
        assert math.isnan(update.rho) == math.isnan(update.loss_after) == (not evaluated[-1])
    assert evaluated == [True] * STEADY_UPDATES + [k % 4 == 0 for k in range(STEADY_UPDATES, STEADY_UPDATES + 9)]


def test_a_change_of_the_damping_is_followed_by_measured_updates_until_it_is_steady_again():
    optimizer, f, theta = make(1000), Counted(), start()
    measured = []
    for k in range(3 * STEADY_UPDATES):
        if k == STEADY_UPDATES + 2:  # rho is about 1
            optimizer.rule = optimizer.lambda_rule = LevenbergMarquardt(low=0.0, high=0.1)
            optimizer.updates = 1000  # the next update is measured, and weakens the damping
        elif k == STEADY_UPDATES + 3:
            optimizer.rule = optimizer.lambda_rule = CALM
        update = optimizer.update(theta, f)
        theta = update.theta
        measured.append(not math.isnan(update.rho))
    assert measured == [k < 2 * STEADY_UPDATES + 3 and k not in (5, 6) for k in range(3 * STEADY_UPDATES)]


def test_a_continued_optimizer_measures_the_same_updates():
    f = Counted()
    optimizer, theta = after(3, f)
    other = make(50)
    other.load_state_dict(optimizer.state_dict())
    for k in range(3, STEADY_UPDATES + 2):
        update, again = optimizer.update(theta, f), other.update(theta, f)
        assert math.isnan(update.rho) == math.isnan(again.rho) == (k >= STEADY_UPDATES)
        np.testing.assert_array_equal(update.theta, again.theta)
        theta = update.theta


def test_an_unmeasured_update_takes_the_last_iterate_and_keeps_the_damping():
    f = Counted()
    optimizer, theta = after(STEADY_UPDATES, f)
    strength = optimizer.damping.lambda_
    matrix = DIAGONAL + 3 * theta**2 + strength
    b = -(DIAGONAL * theta + theta**3)  # two iterations of CG in its plain form
    r, p, x = b.copy(), b.copy(), np.zeros(n)
    for _ in range(2):
        alpha = r @ r / (p @ (matrix * p))
        x, r_new = x + alpha * p, r - alpha * matrix * p
        p, r = r_new + (r_new @ r_new) / (r @ r) * p, r_new
    update = optimizer.update(theta, f)
    np.testing.assert_allclose(update.theta, theta + x, rtol=1e-12)
    assert (update.step_size, update.lambda_, optimizer.damping.lambda_) == (1.0, strength, strength)
    assert update.loss == update.loss_before


def test_line_search_damping_measures_every_update():
    optimizer = HessianFree(Damping("line-search"), HessianFreeOptions(cg_iterations=3, warm_start=0.0, rho_every=5))
    f, theta = Counted(), start()
    for _ in range(STEADY_UPDATES + 3):
        update = optimizer.update(theta, f)
        theta = update.theta
        assert update.evaluations > 0


@pytest.mark.parametrize("updates", [3, STEADY_UPDATES], ids=["measured", "unmeasured"])
@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e6])
def test_a_loss_that_rises_after_a_step_restores_the_parameters_before_it(broken, updates):
    f = Counted(updates + 2, broken)
    optimizer, theta = after(updates, f)
    stepped = optimizer.update(theta, f)
    assert stepped.success
    assert math.isnan(stepped.rho) == (updates == STEADY_UPDATES)
    update = optimizer.update(stepped.theta, f)
    assert update.failed is Failure.DIVERGED
    assert update.failures == 1
    assert not update.success
    np.testing.assert_array_equal(update.theta, theta)
    assert optimizer.damping.lambda_ == pytest.approx(1.5 * stepped.next_lambda_) == update.next_lambda_
    again = optimizer.update(update.theta, f)
    assert again.failed is None
    assert again.loss_before == pytest.approx(f._f(theta))
    assert update.loss_is_after
    assert update.loss == again.loss_before  # on the new batch, of the parameters that the update returned


@pytest.mark.parametrize(("rise", "before", "losses", "failed"), [
    (1.19, 0.0, 0, None), (1.21, 1.2, 1, None), (1.21, 1.11, 1, None), (1.21, 1.09, 1, Failure.DIVERGED),
])  # fmt: skip
def test_a_rise_from_batch_to_batch_is_checked_on_the_same_batch(rise, before, losses, failed, monkeypatch):
    f = Counted(STEADY_UPDATES + 2)
    optimizer, theta = after(STEADY_UPDATES, f)
    last = optimizer.update(theta, f)
    theta = last.theta
    f.broken, counted = rise * last.loss_before, f.losses
    own, seen = f.loss, []

    def loss(at):
        seen.append(at)
        own(at)
        return before * last.loss_before

    monkeypatch.setattr(f, "loss", loss)
    update = optimizer.update(theta, f)
    assert update.failed is failed
    assert f.losses - counted == losses == len(seen) == update.evaluations


@pytest.mark.parametrize("large", [False, True])
def test_an_update_that_promises_too_much_is_measured(large):
    optimizer, f, theta = make(50), Counted(), start()
    f.floor = 0.0 if large else 1e3
    for _ in range(STEADY_UPDATES):
        optimizer.update(theta, f)  # the same point again: the loss there is far from the minimum
    before = f.losses
    update = optimizer.update(theta, f)
    assert (update.q < -0.25 * update.loss_before) == large == (not math.isnan(update.rho))
    assert f.losses - before == update.evaluations == int(large)


def test_a_loss_that_is_not_finite_is_an_error_where_there_is_no_earlier_point():
    with pytest.raises(NonFiniteError):
        make().update(start(), Counted(1))
    f, optimizer = Counted(2), make()
    returned = optimizer.update(optimizer.update(start(), f).theta, f)
    assert returned.failed is Failure.DIVERGED
    f.breaks = 3
    with pytest.raises(NonFiniteError):
        optimizer.update(returned.theta, f)


def test_too_many_returns_end_the_optimization():
    f = Counted(STEADY_UPDATES + 2)
    optimizer, theta = after(STEADY_UPDATES + 1, f, max_failures=1)
    assert optimizer.update(theta, f).ended is End.NO_PROGRESS


def test_the_state_resumes_to_the_same_bits_after_an_unmeasured_step():
    f = Counted(STEADY_UPDATES + 2)
    optimizer, theta = after(STEADY_UPDATES + 1, f)
    state = optimizer.state_dict()
    other, g = make(50), Counted(1)
    other.load_state_dict(state)
    found, expected = other.update(theta, g), optimizer.update(theta, f)
    assert found.failed is expected.failed is Failure.DIVERGED
    np.testing.assert_array_equal(found.theta, expected.theta)
    with pytest.raises(InputError, match="before_loss"):
        make().load_state_dict({**state, "before_loss": None})


def test_the_last_line_search_uses_the_objective_of_rho_if_asked():
    f, c, theta = Counted(), Counted(), start()
    options = HessianFreeOptions(cg_iterations=3, rho_objective="curvature", search_objective="rho", warm_start=0.0)
    update = HessianFree(Damping("tikhonov", lambda_=1.0), options).update(theta, f, c)
    assert f.losses == 0
    assert c.losses == update.evaluations > 1
    assert update.search_objective == "curvature"
    assert update.loss == update.loss_before
    assert update.loss_after == pytest.approx(c._f(update.theta))


@pytest.mark.parametrize("search", ["gradient", "rho"])
@pytest.mark.parametrize("offset", [-50.0, 50.0])
def test_a_line_search_compares_with_the_loss_of_its_own_batch(search, offset):
    """The two batches differ by a constant, so the steps are the same whichever batch the search is on."""
    plain, other = Counted(), Counted()
    other.floor += offset
    optimizer, reference = make(1, rho_objective="curvature", search_objective=search), make(1)
    theta, expected = start(), start()
    for _ in range(3):
        update, expected = optimizer.update(theta, plain, other), reference.update(expected, Counted()).theta
        theta = update.theta
        assert (update.step_size, update.failed) == (1.0, None)
    np.testing.assert_allclose(theta, expected, rtol=1e-9)


def test_the_parameters_before_a_step_are_kept_from_a_caller_who_overwrites_them():
    f = Counted(3, 1e6)
    optimizer, theta = make(50), start()
    for _ in range(2):
        before = theta.copy()
        theta[:] = optimizer.update(theta, f).theta
    update = optimizer.update(theta, f)
    assert update.failed is Failure.DIVERGED
    np.testing.assert_array_equal(update.theta, before)


@pytest.mark.parametrize("low", [0.0, 2.0], ids=["high rho", "low rho"])
def test_earlier_iterates_are_compared_only_if_rho_is_low(low):
    options = HessianFreeOptions(cg_iterations=2, warm_start=0.0, mu_growth=None, compare_iterates="low-rho")
    rule = LevenbergMarquardt(low=low, high=max(low, 1.0))
    optimizer, f = HessianFree(Damping("tikhonov", lambda_=1.0), options, rule), Counted()
    update = optimizer.update(start(), f)
    always = HessianFree(Damping("tikhonov", lambda_=1.0), replace(options, compare_iterates="always"), rule)
    assert update.evaluations == f.losses == (1 if low == 0.0 else 2)
    assert (update.chosen_iteration, update.rho > low) == (2, low == 0.0)
    assert np.array_equal(update.theta, always.update(start(), Counted()).theta)
