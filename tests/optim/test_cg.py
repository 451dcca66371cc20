"""Conjugate gradient against dense solves, SciPy and its quadratic; what it reports."""

import numpy as np
import pytest
import scipy.sparse.linalg
from support.linear_systems import EXACT, badly_scaled, operator, quadratic, spd

from hfrnn.errors import InputError
from hfrnn.optim.cg import TOGETHER, CGStop, conjugate_gradient, conjugate_gradients, diagonal_preconditioner


@pytest.mark.parametrize(("warm", "preconditioned", "dtype"), [
    (False, False, np.float64), (True, True, np.float64), (False, True, np.float32), (True, False, np.float32),
])  # fmt: skip
def test_solution_agrees_with_a_dense_solve_to_condition_times_machine_precision(warm, preconditioned, dtype):
    a, b = spd(40, condition=100.0, dtype=dtype)
    x0 = np.random.default_rng(1).standard_normal(40).astype(dtype) if warm else None
    m = diagonal_preconditioner(np.diag(a).copy(), 0.1) if preconditioned else None
    result = conjugate_gradient(operator(a), b, x0, preconditioner=m, **EXACT)
    solution = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    assert result.stop is CGStop.RESIDUAL
    assert result.x.dtype == dtype
    assert np.linalg.norm(result.x - solution) <= 100.0 * np.finfo(dtype).eps * np.linalg.norm(solution)


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
    kept = [1, 2, 3, 4, 5, 7, 9, 11, 14, 18, 24, 30]
    result = conjugate_gradient(operator(a), b, max_iterations=30, epsilon=0.0)
    assert [entry[0] for entry in result.iterates] == kept
    assert result.iterates[-1][2] is result.x
    for iteration, _, x in result.iterates:
        shorter = conjugate_gradient(operator(a), b, max_iterations=iteration, epsilon=0.0)
        assert np.array_equal(shorter.x, x)
        assert [entry[0] for entry in shorter.iterates] == kept[: kept.index(iteration) + 1]
    last = conjugate_gradient(operator(a), b, max_iterations=8, epsilon=0.0, keep_ratio=None)
    assert [entry[0] for entry in last.iterates] == [8]


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
    assert conjugate_gradient(operator(a), b, max_iterations=every - 1, **options).residual_drift is None


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_every_iterate_is_scipys(warm, preconditioned):
    a, b, d = badly_scaled() if preconditioned else (*spd(60), np.ones(60))
    x0 = np.random.default_rng(5).standard_normal(60) if warm else None
    m = diagonal_preconditioner(d, 1e-12, exponent=1.0) if preconditioned else None
    mine, theirs = [], []
    options = {"max_iterations": 12, "preconditioner": m, "on_iterate": lambda it: mine.append(it.x.copy())}
    conjugate_gradient(operator(a), b, x0, epsilon=0.0, **options)  # first: it must not write to b or x0
    scipy.sparse.linalg.cg(
        a, b, x0, rtol=0.0, maxiter=12, M=np.diag(1.0 / (d + 1e-12)), callback=lambda x: theirs.append(x.copy())
    )
    assert np.allclose(mine, theirs, rtol=1e-8, atol=1e-12)


def test_wrong_arguments_are_named():
    a, b = spd(4)
    apply = operator(a)
    for words, call in (
        ("x0 has shape", lambda: conjugate_gradient(apply, b, np.zeros(3))),
        ("b has shape", lambda: conjugate_gradient(apply, b[None])),
        ("b has shape .* and type int", lambda: conjugate_gradient(apply, np.arange(4))),
        ("positive definite", lambda: conjugate_gradient(apply, b, preconditioner=lambda r, out: out.fill(0))),
    ):
        with pytest.raises(InputError, match=words):
            call()


# ---------------------------------------------------------------------- with a preconditioner
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


def test_several_systems_have_the_bits_of_single_ones_and_give_their_place_to_the_next():
    a, _ = spd(40, condition=1e3, dtype=np.float32)
    rng, calls = np.random.default_rng(4), []
    eigenvectors = np.linalg.eigh(a)[1].T.astype(np.float32)
    sides = [eigenvectors[k] if k % 3 == 0 else rng.standard_normal(40, dtype=np.float32) for k in range(40)]
    sides[7][:], sides[8][0], more = 0.0, np.nan, {"residual_tolerance": 1e-4, "residual_every": 5}

    def products(vectors):
        calls.append(len(vectors))
        return [a @ v for v in vectors]

    found = dict(conjugate_gradients(products, sides, max_iterations=30, **more))
    expected = [conjugate_gradient(operator(a), b, max_iterations=30, epsilon=0.0, **more) for b in sides]
    for j, each in enumerate(expected):
        assert (found[j].stop, found[j].q_history) == (each.stop, each.q_history)
        assert found[j].residual_drift == each.residual_drift
        np.testing.assert_array_equal([x for *_, x in found[j].iterates], [x for *_, x in each.iterates])
    assert {each.stop for each in expected} == {CGStop.RESIDUAL, CGStop.MAX_ITERATIONS, CGStop.NON_FINITE}
    assert max(calls) == TOGETHER
    assert sum(calls) == sum(each.products for each in expected)
