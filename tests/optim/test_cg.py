"""Conjugate gradient against dense solves, its quadratic, and each way to stop."""

import math

import numpy as np
import pytest
import scipy.sparse.linalg

from hfrnn.errors import InputError
from hfrnn.optim.cg import CGStop, conjugate_gradient, diagonal_preconditioner, dot, norm


def spd(n, seed=0, condition=100.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    a = (basis * np.geomspace(1.0, condition, n)) @ basis.T
    return ((a + a.T) / 2).astype(dtype), rng.standard_normal(n).astype(dtype)


def operator(a):
    def apply(v, out):
        out[:] = a @ v

    return apply


def quadratic(a, b, x):
    a, b, x = (each.astype(np.float64) for each in (a, b, x))
    return x @ a @ x / 2 - b @ x


EXACT = {"epsilon": 0.0, "max_iterations": 400}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_solution_agrees_with_a_dense_solve_to_condition_times_machine_precision(warm, preconditioned, dtype):
    a, b = spd(40, condition=100.0, dtype=dtype)
    x0 = np.random.default_rng(1).standard_normal(40).astype(dtype) if warm else None
    m = diagonal_preconditioner(np.diag(a).copy(), 0.1) if preconditioned else None
    result = conjugate_gradient(operator(a), b, x0, preconditioner=m, **EXACT)
    solution = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    assert result.stop is CGStop.RESIDUAL
    assert result.x.dtype == dtype
    assert np.linalg.norm(result.x - solution) <= 100.0 * np.finfo(dtype).eps * np.linalg.norm(solution)


def test_n_steps_solve_a_system_of_n_distinct_eigenvalues():
    a, b = np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), np.ones(5)
    result = conjugate_gradient(operator(a), b, residual_tolerance=1e-12, epsilon=0.0)
    assert (result.iterations, result.stop) == (5, CGStop.RESIDUAL)


def test_inputs_are_not_written():
    a, b = spd(20)
    x0 = np.full(20, 0.3)
    b_before, x0_before = b.copy(), x0.copy()
    conjugate_gradient(operator(a), b, x0, preconditioner=diagonal_preconditioner(np.ones(20), 1.0))
    assert np.array_equal(b, b_before)
    assert np.array_equal(x0, x0_before)


@pytest.mark.parametrize("warm", [False, True])
def test_q_is_the_quadratic_itself_at_every_kept_iterate_and_at_the_start(warm):
    a, b = spd(60, condition=1e3)
    x0 = np.random.default_rng(2).standard_normal(60) if warm else None
    result = conjugate_gradient(operator(a), b, x0, max_iterations=25, epsilon=0.0)
    start = np.zeros(60) if x0 is None else x0
    assert result.q_history[0] == pytest.approx(quadratic(a, b, start), rel=1e-12, abs=0.0)
    assert len(result.q_history) == result.iterations + 1
    for iteration, q, x in result.iterates:
        assert q == result.q_history[iteration]
        assert q == pytest.approx(quadratic(a, b, x), rel=1e-11)


def test_q_falls_with_every_iteration_by_what_on_iterate_is_told():
    a, b = spd(60, condition=1e3)
    seen = []
    result = conjugate_gradient(operator(a), b, epsilon=0.0, max_iterations=20, on_iterate=seen.append)
    assert [each.iteration for each in seen] == list(range(1, 21))
    assert all(each.q_step < 0.0 for each in seen)
    assert np.allclose(np.diff(result.q_history), [each.q_step for each in seen], rtol=1e-9)


def test_on_iterate_sees_the_step_that_was_taken():
    a, b = spd(30)
    steps = []

    def watch(iterate):
        steps.append(iterate.alpha * iterate.direction)

    result = conjugate_gradient(operator(a), b, max_iterations=6, on_iterate=watch)
    assert np.allclose(sum(steps), result.x, rtol=1e-13)
    assert abs(steps[0] @ a @ steps[3]) < 1e-12 * np.sqrt((steps[0] @ a @ steps[0]) * (steps[3] @ a @ steps[3]))


def test_kept_iterates_are_those_of_martens_and_the_last():
    a, b = spd(200, condition=1e6)
    result = conjugate_gradient(operator(a), b, max_iterations=30, epsilon=0.0)
    assert [entry[0] for entry in result.iterates] == [1, 2, 3, 4, 5, 7, 9, 11, 14, 18, 24, 30]
    assert result.iterates[-1][2] is result.x
    up_to_a_kept_one = conjugate_gradient(operator(a), b, max_iterations=24, epsilon=0.0)
    assert [entry[0] for entry in up_to_a_kept_one.iterates] == [1, 2, 3, 4, 5, 7, 9, 11, 14, 18, 24]
    for iteration, _, x in result.iterates:
        shorter = conjugate_gradient(operator(a), b, max_iterations=iteration, epsilon=0.0)
        assert np.array_equal(shorter.x, x)


def test_without_keep_ratio_only_the_last_iterate_is_kept():
    a, b = spd(30)
    result = conjugate_gradient(operator(a), b, max_iterations=8, keep_ratio=None)
    assert [entry[0] for entry in result.iterates] == [8]


def test_a_warm_start_counts_iterations_from_itself_and_costs_one_product():
    a, b = spd(30)
    solution = np.linalg.solve(a, b)
    result = conjugate_gradient(operator(a), b, solution, residual_tolerance=1e-10)
    assert (result.iterations, result.products, result.stop) == (0, 1, CGStop.RESIDUAL)
    assert [entry[0] for entry in result.iterates] == [0]
    assert np.array_equal(result.x, solution)
    assert result.q == pytest.approx(-b @ solution / 2)


def test_a_right_hand_side_of_zeros_gives_zero_even_from_a_warm_start():
    a, _ = spd(5)
    result = conjugate_gradient(operator(a), np.zeros(5), np.ones(5))
    assert (result.stop, result.iterations) == (CGStop.RESIDUAL, 0)
    assert not result.x.any()


# the ways to stop


def test_stops_at_max_iterations():
    a, b = spd(200, condition=1e6)
    result = conjugate_gradient(operator(a), b, max_iterations=7)
    assert (result.stop, result.iterations, result.products) == (CGStop.MAX_ITERATIONS, 7, 7)
    none = conjugate_gradient(operator(a), b, max_iterations=0)
    assert (none.stop, none.iterations, none.products) == (CGStop.MAX_ITERATIONS, 0, 0)
    assert [(entry[0], entry[1], entry[2].any()) for entry in none.iterates] == [(0, 0.0, False)]


@pytest.mark.parametrize("growth", [0.0, 0.2])
def test_progress_stops_at_the_first_iteration_that_satisfies_the_rule(growth):
    a, b = spd(300, condition=3e3)
    full = conjugate_gradient(operator(a), b, epsilon=0.0, max_iterations=300).q_history

    def satisfied(i):
        k = max(10, math.ceil(growth * i))
        return i >= k and full[i] < 0 and (full[i] - full[i - k]) / full[i] < 0.0005 * k

    first = next(i for i in range(1, 301) if satisfied(i))
    result = conjugate_gradient(operator(a), b, window_growth=growth, max_iterations=300)
    assert (result.stop, result.iterations) == (CGStop.PROGRESS, first)
    assert 15 < first < 300


def test_the_progress_rule_is_first_asked_when_the_window_reaches_back_to_the_start():
    """From q_0 = 0 the whole of q is progress, 1 < epsilon*k = 1.2, so the run ends at i = k."""
    a, b = spd(50)
    assert conjugate_gradient(operator(a), b, window=3, epsilon=0.4).iterations == 3


def test_the_windows_growth_delays_the_progress_rule():
    a, b = spd(300, condition=1e5)
    fixed, growing = (
        conjugate_gradient(operator(a), b, window=2, window_growth=growth, epsilon=0.01, max_iterations=300).iterations
        for growth in (0.0, 0.5)
    )
    assert fixed != growing


def test_progress_is_not_asked_while_q_is_above_zero():
    """From a start with q > 0 the relative fall of q has the wrong sign and would end the run at once."""
    a, b = spd(100, condition=1e4)
    x0 = 10.0 * np.random.default_rng(3).standard_normal(100)
    result = conjugate_gradient(operator(a), b, x0, window=1, window_growth=0.0, max_iterations=300)
    first_negative = next(i for i, q in enumerate(result.q_history) if q < 0)
    assert first_negative > 3
    assert result.iterations > first_negative
    assert result.stop is CGStop.PROGRESS


def test_min_iterations_holds_the_progress_rule_back():
    a, b = spd(300, condition=1e5)
    early = conjugate_gradient(operator(a), b, epsilon=0.05, max_iterations=300).iterations
    late = conjugate_gradient(operator(a), b, epsilon=0.05, max_iterations=300, min_iterations=early + 9).iterations
    assert late == early + 9


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


def test_a_consistent_singular_system_is_solved():
    rng = np.random.default_rng(4)
    factor = rng.standard_normal((12, 20))
    a = factor.T @ factor
    b = a @ rng.standard_normal(20)
    result = conjugate_gradient(operator(a), b, residual_tolerance=1e-11, epsilon=0.0)
    assert result.stop is CGStop.RESIDUAL
    assert np.allclose(a @ result.x, b, atol=1e-9)
    assert np.allclose(result.x, np.linalg.pinv(a) @ b)


def test_residual_stop_honours_its_tolerance():
    a, b = spd(50)
    result = conjugate_gradient(operator(a), b, residual_tolerance=1e-3, epsilon=0.0)
    assert result.stop is CGStop.RESIDUAL
    assert result.residual_norm <= 1e-3 * np.linalg.norm(b)
    assert np.linalg.norm(b - a @ result.x) == pytest.approx(result.residual_norm, rel=1e-9)


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


@pytest.mark.parametrize("reason", [CGStop.INTERRUPTED, CGStop.MU_GROWTH])
def test_on_iterate_ends_the_run_for_its_own_reason(reason):
    a, b = spd(50)
    result = conjugate_gradient(operator(a), b, on_iterate=lambda it: reason if it.iteration == 6 else None)
    assert (result.stop, result.iterations) == (reason, 6)
    assert result.iterates[-1][0] == 6


def test_the_logs_words_for_stopping():
    assert {stop.value for stop in CGStop} == {
        "progress", "max_iterations", "mu_growth", "no_gain", "curvature", "residual", "non_finite", "interrupted",
    }  # fmt: skip


# precision, and what else is reported


def test_smallest_curvature_is_the_least_quotient_met():
    a, b = spd(12, condition=50.0)
    quotients = []

    def watch(iterate):
        s = iterate.direction
        quotients.append(s @ a @ s / (s @ s))

    result = conjugate_gradient(operator(a), b, epsilon=0.0, on_iterate=watch)
    assert result.smallest_curvature == pytest.approx(min(quotients), rel=1e-12)
    assert 1.0 <= result.smallest_curvature <= 50.0


def test_recomputing_keeps_the_reported_residual_true_in_float32():
    a, b = spd(200, condition=1e5, dtype=np.float32)
    wide = a.astype(np.float64)

    def gap(every):
        run = conjugate_gradient(operator(a), b, epsilon=0.0, max_iterations=1000, residual_every=every)
        true = np.linalg.norm(b - wide @ run.x)
        return abs(true - run.residual_norm) / np.linalg.norm(b), run

    drifted, plain = gap(0)
    fresh, refreshed = gap(50)
    assert fresh < drifted / 5
    assert plain.products == plain.iterations
    assert refreshed.products == refreshed.iterations + refreshed.iterations // 50
    assert plain.residual_drift is None
    assert refreshed.residual_drift > 1e-7


@pytest.mark.parametrize("every", [5, 2])
def test_the_drift_is_how_far_the_carried_residual_was_from_the_true_one(every):
    """A product that is wrong once, by a vector e, moves the carried residual by alpha*e until C6 puts it right."""
    a, b = spd(40, condition=1e4)
    wrong, calls, alphas = np.random.default_rng(7).standard_normal(40), 0, []

    def apply(v, out):
        nonlocal calls
        calls += 1
        out[:] = a @ v
        if calls == 1:
            out += wrong

    options = {"epsilon": 0.0, "residual_every": every}
    seen = conjugate_gradient(apply, b, max_iterations=5, on_iterate=lambda it: alphas.append(it.alpha), **options)
    expected = abs(alphas[0]) * np.linalg.norm(wrong) / np.linalg.norm(b)
    assert seen.residual_drift == pytest.approx(expected, rel=1e-9)  # the largest one stays
    assert seen.products == 5 + 5 // every
    if every == 5:
        assert np.linalg.norm(b - a @ seen.x) == pytest.approx(seen.residual_norm, rel=1e-12)


def test_a_run_that_ends_before_the_residual_is_computed_afresh_knows_of_no_drift():
    a, b = spd(40)
    assert conjugate_gradient(operator(a), b, max_iterations=4, residual_every=5).residual_drift is None


# the preconditioned residual, and what SciPy finds


def scaled_system():
    """A system whose residual's norms with and without the preconditioner are far apart."""
    a, b = spd(60, condition=10.0)
    scale = np.geomspace(1.0, 100.0, 60)
    a = scale[:, None] * a * scale
    return a, b, np.diag(a) ** 0.75


@pytest.mark.parametrize("warm", [False, True])
def test_the_residual_rule_follows_the_norm_of_the_preconditioner(warm):
    a, b, d = scaled_system()
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


def test_without_a_preconditioner_both_norms_are_the_same():
    a, b = spd(30)
    result = conjugate_gradient(operator(a), b, max_iterations=7)
    assert result.preconditioned_norm == result.residual_norm


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_every_iterate_is_scipys(warm, preconditioned):
    a, b, d = scaled_system() if preconditioned else (*spd(60), np.ones(60))
    x0 = np.random.default_rng(5).standard_normal(60) if warm else None
    m = diagonal_preconditioner(d, 1e-12, exponent=1.0) if preconditioned else None
    theirs = []
    scipy.sparse.linalg.cg(
        a, b, x0, rtol=0.0, maxiter=12, M=np.diag(1.0 / (d + 1e-12)), callback=lambda x: theirs.append(x.copy())
    )
    mine = []
    options = {"max_iterations": 12, "preconditioner": m, "on_iterate": lambda it: mine.append(it.x.copy())}
    conjugate_gradient(operator(a), b, x0, epsilon=0.0, **options)
    assert np.allclose(mine, theirs, rtol=1e-8, atol=1e-12)


def test_a_singular_consistent_system_gives_the_shortest_solution():
    rng = np.random.default_rng(4)
    factor = rng.standard_normal((12, 20))
    a = factor.T @ factor
    b = a @ rng.standard_normal(20)
    result = conjugate_gradient(operator(a), b, epsilon=0.0, residual_tolerance=1e-13)
    shortest = np.linalg.lstsq(a, b, rcond=1e-10)[0]
    assert np.linalg.norm(result.x - shortest) <= 1e-8 * np.linalg.norm(shortest)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_singular_system_without_solution_ends_where_curvature_is_zero_to_rounding(dtype):
    a, b = np.diag([2.0, 1.0, 0.0]), np.ones(3)
    result = conjugate_gradient(operator(a.astype(dtype)), b.astype(dtype), epsilon=0.0)
    assert (result.stop, result.iterations) == (CGStop.CURVATURE, 2)
    assert np.linalg.norm(result.x) < 10.0
    assert result.q < 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_preconditioner_that_is_not_finite_ends_the_run(bad):
    a, b = spd(10)
    with np.errstate(invalid="ignore"):
        result = conjugate_gradient(operator(a), b, preconditioner=lambda r, out: out.fill(bad))
    assert (result.stop, result.iterations) == (CGStop.NON_FINITE, 0)


def test_a_fresh_residual_is_the_true_one():
    a, b = spd(30)
    plain, fresh = (conjugate_gradient(operator(a), b, max_iterations=12, residual_every=every) for every in (0, 1))
    assert fresh.residual_norm == pytest.approx(np.linalg.norm(b - a @ fresh.x), rel=1e-13)
    assert np.allclose(fresh.q_history, plain.q_history, rtol=1e-12)


def test_scalars_are_summed_in_float64():
    a = np.full(1 << 20, 0.1, dtype=np.float32)
    assert dot(a, a) == pytest.approx(float(a[0]) ** 2 * a.size, rel=1e-13)
    assert norm(a) == pytest.approx(float(a[0]) * 1024.0, rel=1e-13)
    large = np.full(3, 1e30, dtype=np.float32)
    assert dot(large, large) == pytest.approx(3e60, rel=1e-6)


def test_a_preconditioner_saves_iterations_where_scales_differ():
    a, b = spd(100, condition=10.0)
    scale = np.geomspace(1.0, 100.0, 100)
    a = scale[:, None] * a * scale
    options = {"epsilon": 0.0, "max_iterations": 1000, "residual_tolerance": 1e-8}
    plain = conjugate_gradient(operator(a), b, **options)
    helped = conjugate_gradient(
        operator(a), b, preconditioner=diagonal_preconditioner(np.diag(a).copy(), 1e-9, exponent=1.0), **options
    )
    assert helped.iterations < plain.iterations / 4


def test_the_diagonal_preconditioner_divides_by_the_power_of_the_shifted_diagonal():
    out = np.empty(2)
    diagonal_preconditioner(np.array([15.0, 80.0]), 1.0)(np.array([8.0, 27.0]), out)
    assert np.allclose(out, [1.0, 1.0], rtol=1e-15)


def test_wrong_arguments_are_named():
    a, b = spd(4)
    apply = operator(a)
    for words, call in (
        ("x0 has shape", lambda: conjugate_gradient(apply, b, np.zeros(3))),
        ("b has shape", lambda: conjugate_gradient(apply, b[None])),
        ("b has type", lambda: conjugate_gradient(apply, np.arange(4))),
        ("max_iterations is -1", lambda: conjugate_gradient(apply, b, max_iterations=-1)),
        ("window is 0", lambda: conjugate_gradient(apply, b, window=0)),
        ("keep_ratio is 1", lambda: conjugate_gradient(apply, b, keep_ratio=1.0)),
        ("positive definite", lambda: conjugate_gradient(apply, b, preconditioner=lambda r, out: out.fill(0))),
        ("lambda_", lambda: diagonal_preconditioner(b, 0.0)),
    ):
        with pytest.raises(InputError, match=words):
            call()
