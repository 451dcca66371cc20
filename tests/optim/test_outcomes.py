"""How updates fail and end, rho on a batch of its own, mu and lambda adapted apart, and preconditioners by option."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.least_squares import LeastSquares, bent_beyond, linear, rosenbrock, run, solution_of, wavy, with_squares

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.cg import CGStop, diagonal_preconditioner
from hfrnn.optim.damping import Damping, LevenbergMarquardt, rho
from hfrnn.optim.hessian_free import End, Failure, HessianFree, HessianFreeOptions
from hfrnn.optim.preconditioner import shift_of

ZERO, DAMPED = np.zeros(40), Damping("tikhonov")


# ---------------------------------------------------------------------- failures, and when to give up
def failing(bend=lambda theta, f: 1e9, **options):
    """An optimizer, and an objective whose loss is bent everywhere but at theta itself."""
    return HessianFree(DAMPED, HessianFreeOptions(**options)), wavy(bend=bend)


@pytest.mark.parametrize(("bend", "reason"), [(1e9, Failure.NO_DECREASE), (math.nan, Failure.NON_FINITE)])
@pytest.mark.parametrize("kind", ["tikhonov", "line-search", "none"])
def test_a_failed_update_says_why(bend, reason, kind):
    update = HessianFree(Damping(kind)).update(ZERO, wavy(bend=lambda theta, f: bend))
    assert (update.failed, update.success, update.failures) == (reason, False, 1)
    assert np.array_equal(update.theta, ZERO)


def test_a_failure_is_judged_by_the_losses_that_were_tried():
    """Line-search damping without a gain on the curvature batch asks for no loss of the gradient batch."""
    gradient, curvature = wavy(), wavy(bend=bent_beyond(1e-9, 1e9))
    options = HessianFreeOptions(rho_objective="curvature")
    update = HessianFree(Damping("line-search"), options).update(ZERO, gradient, curvature)
    assert (update.failed, gradient.losses) == (Failure.NO_DECREASE, 0)


def test_a_product_that_is_not_finite_fails_the_update_and_raises_the_damping():
    objective = wavy()
    objective.matrix = lambda *_: np.full((40, 40), np.nan)
    update = HessianFree(DAMPED).update(ZERO, objective)
    assert (update.failed, update.cg_stop) == (Failure.NON_FINITE, CGStop.NON_FINITE)
    assert np.array_equal(update.theta, ZERO)
    assert update.next_lambda_ == pytest.approx(1.5)


def test_curvature_that_is_nowhere_positive_fails_for_want_of_a_step():
    objective = wavy()
    objective.matrix = lambda *_: -np.eye(40)
    update = HessianFree(Damping("none")).update(ZERO, objective)
    assert (update.failed, update.cg_stop, update.q) == (Failure.NO_STEP, CGStop.CURVATURE, 0.0)


def test_an_indefinite_matrix_still_gives_a_step_that_lowers_the_loss():
    objective = wavy()
    plain = objective.matrix
    objective.matrix = lambda *arguments: plain(*arguments) - 0.05 * np.eye(40)
    _, log = run(HessianFree(Damping("none")), ZERO, objective, 3)
    assert log[0].cg_stop is CGStop.CURVATURE
    assert log[0].smallest_curvature <= 0.0
    assert all(each.loss_after < each.loss_before for each in log)


def test_failures_are_counted_and_raise_the_damping_and_a_success_forgets_them():
    optimizer, bad = failing(mu_growth=None)
    log = [optimizer.update(ZERO, bad) for _ in range(3)]
    assert [each.failures for each in log] == [1, 2, 3]
    assert [each.next_lambda_ for each in log] == pytest.approx([1.5, 1.5**2, 1.5**3])
    assert optimizer.update(ZERO, wavy()).failures == optimizer.failures == 0


@pytest.mark.parametrize(("most", "options"), [(1, {"max_failures": 1}), (10, {}), (99, {"max_failures": None})])
def test_too_many_failures_in_a_row_end_it(most, options):
    optimizer, bad = failing(**options)
    ended = [optimizer.update(ZERO, bad).ended for _ in range(11)]
    assert ended == [End.NO_PROGRESS if k >= most else None for k in range(1, 12)]
    assert optimizer.ended is ended[-1]


def test_the_count_of_failures_is_resumed():
    optimizer, bad = failing(max_failures=3)
    for _ in range(2):
        optimizer.update(ZERO, bad)
    resumed, _ = failing(max_failures=3)
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.update(ZERO, bad).ended is End.NO_PROGRESS
    again, _ = failing()
    again.load_state_dict(resumed.state_dict())
    assert (again.ended, again.failures) == (End.NO_PROGRESS, 3)


def test_a_state_without_failures_and_one_with_a_strange_end_are_refused():
    optimizer, _ = failing()
    state = optimizer.state_dict()
    with pytest.raises(InputError, match="ended for 'noon'"):
        optimizer.load_state_dict({**state, "ended": "noon"})
    del state["failures"], state["ended"]
    with pytest.raises(InputError, match="lacks failures, ended"):
        optimizer.load_state_dict(state)


@pytest.mark.parametrize("kind", ["structural", "tikhonov", "line-search", "none"])
def test_a_gradient_of_zero_is_a_solution_and_no_failure(kind):
    optimizer = HessianFree(Damping(kind))
    optimizer.update(np.array([-1.2, 1.0]), rosenbrock())
    before = optimizer.damping.mu, optimizer.damping.lambda_
    update = optimizer.update(np.array([1.0, 1.0]), rosenbrock())
    assert (update.failed, update.failures, update.ended) == (None, 0, End.SOLUTION)
    assert (update.next_mu, update.next_lambda_) == before
    assert (update.step_size, update.products, update.evaluations) == (0.0, 0, 0)
    assert (update.success, update.cg_stop, update.theta.tolist()) == (False, CGStop.RESIDUAL, [1.0, 1.0])
    assert {part for part, seconds in update.seconds.items() if seconds > 0.0} <= {"gradient"}
    assert math.isnan(update.rho)
    assert optimizer.ended is End.SOLUTION
    assert (optimizer.state_dict()["ended"], End.NO_PROGRESS.value) == ("zero gradient", "no progress")
    assert solution_of(optimizer) is None


# ---------------------------------------------------------------------- rho on a batch of its own
def test_rho_is_measured_on_a_separate_objective():
    gradient, curvature, separate = wavy(), wavy(rows=slice(30)), wavy(rows=slice(30, 60))
    options = HessianFreeOptions(rho_objective="separate")
    update = HessianFree(Damping("tikhonov", lambda_=5.0), options).update(ZERO, gradient, curvature, separate)
    x = update.theta / update.step_size
    assert update.rho == pytest.approx(rho(separate.value(x), separate.value(ZERO), update.q), rel=1e-9)
    assert update.rho != pytest.approx(rho(gradient.value(x), gradient.value(ZERO), update.q), rel=1e-3)
    assert (curvature.losses, separate.asked, update.rho_objective) == (0, [], "separate")
    assert update.loss_after == gradient.value(update.theta)
    assert update.evaluations == gradient.losses + separate.losses


def test_a_separate_objective_and_its_option_go_together():
    with pytest.raises(InputError, match=r"separate is not given: give the objective that measures rho$"):
        HessianFree(DAMPED, HessianFreeOptions(rho_objective="separate")).update(ZERO, wavy())
    with pytest.raises(InputError, match=r"^separate is given, .*: leave it out, or use the option rho"):
        HessianFree(DAMPED).update(ZERO, wavy(), None, wavy())


def test_a_separate_loss_that_is_not_finite_is_an_error():
    options = HessianFreeOptions(rho_objective="separate")
    with pytest.raises(NonFiniteError, match="loss of the separate batch"):
        HessianFree(DAMPED, options).update(ZERO, wavy(), None, wavy(bend=lambda theta, f: math.inf))


# ---------------------------------------------------------------------- mu and lambda together or apart
@pytest.mark.parametrize(("adapt", "rules", "expected"), [
    ("both", (), (0.3, 0.6)), ("mu", (), (0.3, 0.4)), ("lambda", (), (0.2, 0.6)), ("none", (), (0.2, 0.4)),
    ("both", (LevenbergMarquardt(grow=2.0),), (0.4, 0.8)),
    ("both", (LevenbergMarquardt(grow=2.0), LevenbergMarquardt(grow=5.0)), (0.4, 2.0)),
])  # fmt: skip
def test_the_adapted_strengths_grow_after_a_failure_each_by_its_rule(adapt, rules, expected):
    damping = Damping("structural+tikhonov", 0.2, 0.4, adapt=adapt)
    optimizer = HessianFree(damping, HessianFreeOptions(mu_growth=None), *rules)
    update = optimizer.update(ZERO, wavy(bend=lambda theta, f: 1e9))
    assert (update.next_mu, update.next_lambda_) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("adapt", "growths", "expected"), [("both", (2.0, 1.1), (4.0, 1.21)), ("lambda", (9.0, 2.0), (1.0, 4.0))]
)
def test_adapted_strengths_are_followed_on_the_way_each_by_its_rule(adapt, growths, expected):
    """A factor doubles at every checked iterate and ends the run at 4, the first one above 3; one is held or slow."""
    damping = Damping("structural+tikhonov", 1.0, 1.0, adapt=adapt)
    rules = (LevenbergMarquardt(grow=growth) for growth in growths)
    update = HessianFree(damping, None, *rules).update(ZERO, wavy(bend=bent_beyond(1e-6, 1e9)))
    assert (update.cg_stop, update.cg_iterations) == (CGStop.MU_GROWTH, 2)
    assert (update.next_mu, update.next_lambda_) == pytest.approx(expected)


def test_a_rule_for_a_lambda_that_does_not_adapt_is_refused():
    for damping in (Damping("structural", lambda_=0.0), Damping("structural", adapt="mu"), Damping("none")):
        with pytest.raises(InputError, match="lambda_rule"):
            HessianFree(damping, lambda_rule=LevenbergMarquardt())


# ---------------------------------------------------------------------- preconditioners, and true residuals
@pytest.mark.parametrize(("exponent", "shift", "relative"), [(0.75, None, None), (0.5, 2.0, None), (0.75, None, 0.1)])
def test_the_diagonal_is_that_of_the_curvature_objective_with_lambda_or_the_shift(exponent, shift, relative):
    gradient, curvature = linear()[0], with_squares(linear(seed=3)[0])
    theta = np.ones(30)
    options = {"preconditioner": "diagonal", "preconditioner_exponent": exponent, "preconditioner_shift": shift}
    options |= {} if relative is None else {"preconditioner_relative_shift": relative}
    damping = Damping("tikhonov", lambda_=0.3)
    update = HessianFree(damping, HessianFreeOptions(**options)).update(theta, gradient, curvature)
    d = curvature.squared_gradients(theta)
    m = diagonal_preconditioner(d, shift or (0.3 if relative is None else relative * d.mean()), exponent)
    expected = HessianFree(damping).update(theta, gradient, curvature, preconditioner=m)
    np.testing.assert_allclose(update.theta, expected.theta, rtol=1e-12)
    assert not np.array_equal(update.theta, HessianFree(damping).update(theta, gradient, curvature).theta)


@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_a_relative_shift_is_a_share_of_the_mean_of_the_diagonal(scale):
    D = scale * np.array([0.0, 1.0, 2.0, 5.0])
    options = HessianFreeOptions(preconditioner="diagonal", preconditioner_relative_shift=0.25)
    assert shift_of(options, Damping("tikhonov", lambda_=0.3), D) == pytest.approx(0.5 * scale)
    given = replace(options, preconditioner_shift=7.0)
    assert shift_of(given, Damping("tikhonov", lambda_=0.3), D) == 7.0
    assert shift_of(HessianFreeOptions(preconditioner="diagonal"), Damping("tikhonov", lambda_=0.3), D) == 0.3


def test_a_diagonal_of_zeros_has_a_shift_above_zero():
    options = HessianFreeOptions(preconditioner="kronecker", preconditioner_relative_shift=0.1)
    assert shift_of(options, Damping("none"), np.zeros(3, np.float32)) == 1e-30
    update = HessianFree(Damping("line-search"), replace(options, preconditioner="diagonal"))
    assert update.update(ZERO, with_squares(wavy())).success


def test_a_diagonal_without_anything_to_shift_it_is_refused():
    diagonal = HessianFreeOptions(preconditioner="diagonal")
    for damping in (Damping("structural", lambda_=0.0), Damping("line-search"), Damping("none")):
        with pytest.raises(InputError, match="preconditioner_shift"):
            HessianFree(damping, diagonal)
    shifted = HessianFreeOptions(preconditioner="diagonal", preconditioner_shift=0.1)
    assert HessianFree(Damping("line-search"), shifted).update(ZERO, with_squares(wavy())).success


def test_an_objective_without_squared_gradients_and_two_preconditioners_are_refused():
    optimizer = HessianFree(DAMPED, HessianFreeOptions(preconditioner="diagonal"))
    with pytest.raises(InputError, match="squared_gradients"):
        optimizer.update(ZERO, wavy())
    with pytest.raises(InputError, match="leave one of them out"):
        optimizer.update(ZERO, with_squares(wavy()), preconditioner=lambda r, out: None)


def test_a_recomputed_residual_is_reported_with_its_drift():
    options = HessianFreeOptions(residual_every=5, cg_epsilon=0.0, mu_growth=None)
    wide = wavy()
    objective = LeastSquares(lambda x: wide.residual(x).astype("f4"), lambda x: wide.jacobian(x).astype("f4"))
    update = HessianFree(Damping("tikhonov", lambda_=0.01), options).update(ZERO.astype("f4"), objective)
    assert 0.0 < update.residual_drift < 1e-3
    assert update.products == update.cg_iterations + update.cg_iterations // 5
    assert 0.0 < update.residual_norm < update.gradient_norm
