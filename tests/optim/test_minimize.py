"""`minimize` on plain functions: known minima, quadratics, SciPy's answers, and each way to end."""

import doctest
import importlib

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse.linalg import aslinearoperator
from support.least_squares import exponentials, linear, rosenbrock, wavy

import hfrnn
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.damping import Damping, LevenbergMarquardt
from hfrnn.optim.hessian_free import HessianFreeOptions
from hfrnn.optim.minimize import Minimum, MinimumStop, minimize

QUICK = {"rule": LevenbergMarquardt(grow=4.0, shrink=0.1), "options": HessianFreeOptions(cg_epsilon=0.0)}


def functions(problem):
    """Loss, gradient and Gauss-Newton product of a least squares problem."""

    def gauss_newton(theta):
        j = problem.jacobian(theta)
        return lambda v: j.T @ (j @ v)

    return problem.value, lambda theta: problem.jacobian(theta).T @ problem.residual(theta), gauss_newton


@pytest.mark.parametrize(("problem", "start"), [
    (rosenbrock(), np.array([-1.2, 1.0])), (exponentials(), np.array([1.0, -1.0, 1.0, -0.5])),
    (exponentials(noise=0.01), np.array([1.5, -1.0, 1.0, -0.3])),
    (wavy(n=6, strength=1.0), np.zeros(6)), (linear()[0], np.ones(30)),
], ids=["rosenbrock", "exponentials", "noisy exponentials", "wavy", "linear"])  # fmt: skip
def test_the_answers_are_scipys(problem, start):
    found = minimize(*functions(problem), start, max_updates=500, gradient_tolerance=1e-12, **QUICK)
    theirs = scipy.optimize.least_squares(
        problem.residual, start, problem.jacobian, method="lm", ftol=1e-15, xtol=1e-15, gtol=1e-15
    )
    usual = minimize(*functions(problem), start, max_updates=300, **QUICK)
    assert (usual.stop, usual.success) == (MinimumStop.GRADIENT, True)
    assert usual.gradient_norm <= 1e-8
    assert found.loss == pytest.approx(theirs.cost, rel=1e-12, abs=1e-20)
    assert np.linalg.norm(found.theta - theirs.x) <= 1e-8 * np.linalg.norm(theirs.x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_convex_quadratic_is_solved_to_machine_precision(dtype):
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((25, 25)))
    a = ((basis * np.geomspace(1.0, 30.0, 25)) @ basis.T).astype(dtype)
    b = rng.standard_normal(25).astype(dtype)

    def loss(x):
        wide, x = a.astype(np.float64), x.astype(np.float64)
        return float(0.5 * x @ (wide @ x) - b @ x)

    found = minimize(
        loss, lambda x: a @ x - b, lambda x: lambda v: a @ v, np.zeros(25, dtype), max_updates=1,
        damping=Damping("none"), options=HessianFreeOptions(cg_epsilon=0.0, cg_iterations=200),
    )  # fmt: skip
    solution = np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    assert found.theta.dtype == dtype
    assert np.linalg.norm(found.theta - solution) <= 30.0 * np.finfo(dtype).eps * np.linalg.norm(solution)


def test_tikhonov_damping_adds_lambda():
    problem, a, y = linear()
    options = HessianFreeOptions(cg_epsilon=0.0, mu_growth=None)
    damping = Damping("tikhonov", lambda_=5.0)
    found = minimize(*functions(problem), np.zeros(30), damping=damping, options=options, max_updates=1)
    assert np.allclose(found.theta, np.linalg.solve(a.T @ a + 5.0 * np.eye(30), a.T @ y), rtol=1e-8)


def test_structural_damping_takes_its_matrix():
    value, gradient, product = functions(wavy(n=6))
    found = minimize(
        value, gradient, product, np.zeros(6), max_updates=1, damping=Damping("structural", mu=0.5, lambda_=0.0),
        structural=lambda theta: lambda v: np.arange(6) * v,
        options=HessianFreeOptions(cg_iterations=1, line_search_backtracks=0, armijo=0.0),
    )  # fmt: skip
    g = gradient(np.zeros(6))
    assert np.allclose(
        found.theta, -g * (g @ g) / (g @ product(np.zeros(6))(g) + 0.5 * g @ (np.arange(6) * g)), rtol=1e-12
    )


def test_preconditioners_reach_every_update():
    called, options = [], HessianFreeOptions(preconditioner="diagonal")

    def by_hand(r, out):
        called.append("hand")
        out[:] = r

    def squares(theta):
        called.append("D")
        return np.ones(6)

    minimize(*functions(wavy(n=6)), np.zeros(6), preconditioner=by_hand, max_updates=1)
    minimize(*functions(wavy(n=6)), np.zeros(6), squared_gradients=squares, max_updates=1, options=options)
    assert called[0] == "hand"
    assert called.count("D") == 1


# ---------------------------------------------------------------------- an objective
def network_objective(**options):
    net = hfrnn.Network("lstm", n_in=3, hidden=4, n_out=3, loss="softmax", dtype="float64", **options)
    symbols = np.random.default_rng(0).integers(0, 3, (6, 5))
    return hfrnn.Objective(net, hfrnn.Batch(symbols[:-1], symbols[1:]), threads=1), net.init(0, scale=0.5)


def test_an_objective_gets_the_updates_of_hessian_free_with_structural_damping():
    objective, theta = network_objective()
    found = minimize(objective, theta=theta, max_updates=3)
    optimizer, expected = hfrnn.HessianFree(Damping("structural")), theta
    for _ in range(3):
        expected = optimizer.update(expected, objective).theta
    assert np.array_equal(found.theta, expected)
    assert found.loss == objective.loss(expected) < objective.loss(theta)
    without = minimize(objective, theta=theta, max_updates=3, damping=Damping("tikhonov"))
    assert not np.array_equal(without.theta, expected)


@pytest.mark.parametrize("preconditioner", ["diagonal", "kronecker"])
def test_an_objective_brings_what_preconditioners_need(preconditioner):
    objective, theta = network_objective()
    options = HessianFreeOptions(preconditioner=preconditioner)
    found = minimize(objective, theta=theta, max_updates=1, options=options)
    assert np.array_equal(found.theta, hfrnn.HessianFree(options=options).update(theta, objective).theta)


def test_the_gradient_of_an_objective_is_computed_once_at_each_point(monkeypatch):
    objective, theta = network_objective(l2=0.1)
    seen, compute = [], objective.loss_and_gradient
    monkeypatch.setattr(objective, "loss_and_gradient", lambda at: (seen.append(at.tobytes()), compute(at))[1])
    minimize(objective, theta=theta, max_updates=4)
    assert len(seen) == len(set(seen)) == 5


@pytest.mark.parametrize("argument", ["gradient", "gauss_newton", "structural", "squared_gradients"])
def test_an_objective_takes_no_functions_of_its_own(argument):
    objective, theta = network_objective()
    with pytest.raises(InputError, match=rf"^{argument} cannot be given with an objective, which has its own: call mi"):
        minimize(objective, theta=theta, **{argument: lambda at: at})


# ---------------------------------------------------------------------- how it ends
def test_the_minimum_has_the_type_of_theta():
    value, gradient, product = functions(rosenbrock())  # of float64
    found = minimize(value, gradient, product, np.array([-1.2, 1.0], "float32"), max_updates=3)
    assert found.theta.dtype == np.float32
    assert found.loss < value(np.array([-1.2, 1.0]))


def test_it_ends_at_the_start_where_the_gradient_is_small():
    found = minimize(*functions(rosenbrock()), np.array([1.0, 1.0]))
    assert (found.stop, found.updates, found.evaluations) == (MinimumStop.GRADIENT, 0, 0)
    assert np.array_equal(found.theta, [1.0, 1.0])


@pytest.mark.parametrize("most", [0, 3])
def test_it_ends_after_so_many_updates(most):
    seen = []
    found = minimize(*functions(rosenbrock()), np.array([-1.2, 1.0]), max_updates=most, callback=seen.append)
    assert (found.stop, found.success, found.updates) == (MinimumStop.UPDATES, False, most)
    assert found.products == sum(each.products for each in seen)
    assert found.evaluations == sum(each.evaluations for each in seen)
    assert found.cg_iterations == sum(each.cg_iterations for each in seen)
    assert len(seen) == most


def test_the_callback_ends_it():
    found = minimize(*functions(rosenbrock()), np.array([-1.2, 1.0]), callback=lambda update: update.loss_after < 2.0)
    assert found.stop is MinimumStop.CALLBACK
    assert found.loss < 2.0


def test_it_ends_where_nothing_lowers_the_loss():
    """The gradient has the wrong sign, so every step goes uphill."""
    value, gradient, product = functions(wavy(n=6))
    options = HessianFreeOptions(max_failures=4)
    found = minimize(value, lambda theta: -gradient(theta), product, np.zeros(6), options=options)
    assert (found.stop, found.updates) == (MinimumStop.NO_PROGRESS, 4)
    assert np.array_equal(found.theta, np.zeros(6))


def test_the_gradient_is_computed_once_at_each_point_and_the_start_is_not_written():
    value, gradient, product = functions(rosenbrock())
    seen, start = [], np.array([-1.2, 1.0])
    minimize(value, lambda theta: (seen.append(theta.tobytes()), gradient(theta))[1], product, start, max_updates=9)
    assert len(set(seen)) == len(seen)
    assert np.array_equal(start, [-1.2, 1.0])


@pytest.mark.parametrize(("words", "arguments"), [
    ("structural is not given", {"damping": Damping("structural")}),
    ("damping has no mu", {"structural": lambda theta: lambda v: v}),
    ("max_updates is -1", {"max_updates": -1}),
    ("gradient_tolerance is nan", {"gradient_tolerance": float("nan")}),
])  # fmt: skip
def test_wrong_arguments_are_refused_by_name(words, arguments):
    with pytest.raises(InputError, match=words):
        minimize(*functions(rosenbrock()), np.array([-1.2, 1.0]), **arguments)


def test_the_example_in_its_documentation_runs():
    module = importlib.import_module("hfrnn.optim.minimize")  # the attribute of this name is the function
    failures, tried = doctest.testmod(module)
    assert (failures, tried > 5) == (0, True)
    assert Minimum is module.Minimum


def test_a_start_without_a_finite_loss_is_an_error_even_where_nothing_has_to_be_done():
    _, gradient, product = functions(rosenbrock())
    with pytest.raises(NonFiniteError, match="training loss"):
        minimize(lambda theta: float("nan"), gradient, product, np.array([-1.2, 1.0]))
    flat = {"gradient": lambda theta: 0.0 * theta, "gauss_newton": lambda theta: lambda v: v}
    with pytest.raises(NonFiniteError, match="training loss"):
        minimize(lambda theta: float("nan"), theta=np.zeros(2), **flat)
    with pytest.raises(NonFiniteError, match="training loss"):
        minimize(lambda theta: float("inf"), theta=np.zeros(2), max_updates=0, **flat)


class Quadratic:
    """theta' A theta / 2, with its matrix as an operator of SciPy, or as something else."""

    def __init__(self, matrix, as_operator):
        self.matrix, self.as_operator = matrix, as_operator

    def loss(self, theta):
        return float(theta @ self.matrix @ theta / 2)

    def loss_and_gradient(self, theta):
        return self.loss(theta), self.matrix @ theta

    def gauss_newton(self, theta, structural=0.0, tikhonov=0.0, metric="hidden"):
        return self.as_operator(self.matrix + tikhonov * np.eye(len(theta)))


def test_an_objective_may_return_an_operator_of_scipy():
    objective = Quadratic(np.diag([1.0, 5.0]), aslinearoperator)
    found = minimize(objective, theta=np.array([3.0, -2.0]), damping=Damping("tikhonov"))
    assert found.loss < 1e-12
    with pytest.raises(InputError, match=r"the result of gauss_newton is .*: give an object with the methods apply"):
        minimize(Quadratic(np.eye(2), lambda matrix: 3), theta=np.ones(2), damping=Damping("tikhonov"))
