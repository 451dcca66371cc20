"""An objective with constraints: its derivatives against dense matrices, and updates that respect the constraints."""

from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.errors import InputError
from hfrnn.optim.damping import Damping
from hfrnn.optim.hf_options import HessianFreeOptions
from hfrnn.optim.kronecker import kronecker
from hfrnn.optim.preconditioner import make_preconditioner

H = 6
SIGNS = np.array([1, 1, 1, -1, -1, 0])


class Case:
    """A small problem with a mask, and with signs if asked for."""

    def __init__(self, signs: bool = True, arch: str = "rnn", dtype: str = "float64", l2: float = 0.1) -> None:
        rng = np.random.default_rng(2)
        options = {"activation": "softplus"} if arch in ("leaky", "rate") else {}
        self.net = hfrnn.Network(arch, 3, H, 2, loss="squared", dtype=dtype, l2=l2, **options)
        given = {"layer0.W_h": SIGNS, "output.W_y0": -SIGNS} if signs else {}
        self.constraints = hfrnn.Constraints(self.net, {"layer0.W_h": rng.random((H, H)) < 0.5}, given)
        self.batch = hfrnn.Batch(rng.standard_normal((5, 20, 3)), rng.standard_normal((5, 20, 2)))
        self.v = self.constraints.variables(self.constraints.initial(self.net.init(seed=1, scale=0.4)))
        self.w = self.constraints.weights(self.v)
        self.plain = hfrnn.Objective(self.net, self.batch, threads=1)
        self.objective = hfrnn.ConstrainedObjective(self.plain, self.constraints)
        self.P = np.diag(1.0 - self.constraints.absent)
        slope = np.where(self.constraints.signs, 2 * self.constraints.signs * self.v, 1)
        self.D = self.P @ np.diag(slope)
        assert 0 < self.constraints.absent.mean() < 0.6


def dense(operator: Any) -> Any:
    return operator @ np.eye(operator.shape[1])


@pytest.fixture(params=[("rnn", False), ("rate", True), ("hornn", True)], ids=str)
def case(request):
    return Case(signs=request.param[1], arch=request.param[0])


def test_loss_and_gradient_are_those_of_the_weights(case):
    loss, gradient = case.objective.loss_and_gradient(case.v)
    expected, g = case.plain.loss_and_gradient(case.w)
    assert loss == case.objective.loss(case.v) == expected
    assert case.objective.penalty(case.v) == case.plain.penalty(case.w) > 0
    np.testing.assert_allclose(gradient, case.D @ g, rtol=1e-12, atol=1e-15)
    assert not gradient[case.constraints.absent].any()


def test_absent_weights_have_no_effect(case):
    moved = case.v + case.constraints.absent
    assert (
        case.objective.loss(moved) == case.objective.loss(case.v) != case.plain.loss(case.w + case.constraints.absent)
    )


def test_the_curvature_is_that_of_the_weights_between_slopes(case):
    G = dense(case.objective.gauss_newton(case.v, structural=0.3, tikhonov=0.2))
    expected = case.D @ dense(case.plain.gauss_newton(case.w, structural=0.3)) @ case.D + 0.2 * case.P
    np.testing.assert_allclose(G, expected, atol=1e-12 * abs(expected).max())
    np.testing.assert_allclose(G, G.T, atol=1e-12 * abs(G).max())


def test_the_hessian_is_the_derivative_of_the_gradient(case):
    Hessian = dense(case.objective.hessian(case.v))
    e = 1e-5 * np.eye(case.v.size)
    slope = [
        case.objective.loss_and_gradient(case.v + d)[1] - case.objective.loss_and_gradient(case.v - d)[1] for d in e
    ]
    np.testing.assert_allclose(Hessian, np.array(slope) / 2e-5, atol=1e-8 * abs(Hessian).max())
    np.testing.assert_allclose(Hessian, Hessian.T, atol=1e-12 * abs(Hessian).max())


def test_the_jacobian_is_that_of_the_logits_and_its_adjoint_fits(case):
    J = case.objective.jacobian(case.v)
    np.testing.assert_allclose(dense(J), dense(case.plain.jacobian(case.w)) @ case.D, atol=1e-12)
    u = np.random.default_rng(0).standard_normal(J.shape[0])
    np.testing.assert_allclose(J.rmatvec(u), dense(J).T @ u, atol=1e-11)


def test_squares_and_parts_of_the_gradient_are_those_of_the_variables(case):
    parts = case.objective.part_gradients(case.v, 20)
    np.testing.assert_allclose(parts, case.plain.part_gradients(case.w, 20) @ case.D, atol=1e-15)
    np.testing.assert_allclose(case.objective.squared_gradients(case.v), (parts**2).sum(0), rtol=1e-10, atol=1e-18)
    assert case.objective.total_weight == case.plain.total_weight


def test_the_kronecker_preconditioner_stays_among_the_weights_that_exist(case):
    options = HessianFreeOptions(preconditioner="kronecker", preconditioner_shift=0.1, preconditioner_parts=4)
    made = make_preconditioner(case.v, case.objective, Damping("tikhonov"), options, None).apply
    assert made is not None
    n = case.v.size
    M, whole = np.empty((n, n)), np.empty((n, n))
    full = kronecker(case.objective.matrix_blocks, case.objective.part_gradients(case.v, 4)).preconditioner(0.1)
    for column, e in enumerate(case.P):
        made(e, M[column])
        full(e, whole[column])
    np.testing.assert_allclose(M, case.P @ whole @ case.P, atol=1e-12 * abs(M).max())
    assert abs(whole - case.P @ whole @ case.P).max() > 1e-4 * abs(M).max()
    exists = ~case.constraints.absent
    assert np.linalg.eigvalsh(M[exists][:, exists]).min() > 0


def test_no_bit_depends_on_the_number_of_threads():
    case = Case(dtype="float32")
    shared = hfrnn.ConstrainedObjective(hfrnn.Objective(case.net, case.batch, threads=3), case.constraints)
    assert len(shared.objective.plan.shards) > 2
    for name in ("loss_and_gradient", "part_gradients"):
        one, other = (getattr(objective, name)(case.v) for objective in (case.objective, shared))
        np.testing.assert_array_equal(one[-1], other[-1])
    one, other = (objective.gauss_newton(case.v, 0.1, 0.1) @ case.v for objective in (case.objective, shared))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("kind", "preconditioner", "signs"),
    [
        ("structural+tikhonov", "none", True), ("structural+tikhonov", "diagonal", False),
        ("structural+tikhonov", "kronecker", True), ("line-search", "kronecker", False),
        ("line-search", "diagonal", True),
    ],
)  # fmt: skip
def test_hessian_free_updates_lower_the_loss_and_respect_constraints(kind, preconditioner, signs):
    case = Case(signs, dtype="float32", l2=1e-3)
    options = HessianFreeOptions(
        preconditioner=preconditioner, preconditioner_shift=None if preconditioner == "none" else 0.01
    )
    optimizer, v, losses = hfrnn.HessianFree(hfrnn.Damping(kind), options), case.v, []
    for _ in range(5):
        update = optimizer.update(v, case.objective)
        v = update.theta
        losses.append(update.loss)
        assert not v[case.constraints.absent].view("uint32").any()
        assert case.constraints.allows(case.constraints.weights(v))
    assert losses[-1] < 0.9 * case.objective.loss(case.v)
    assert losses == sorted(losses, reverse=True)


def test_constraints_of_another_network_are_refused():
    other = hfrnn.Constraints(hfrnn.Network("rnn", 3, H + 1, 2))
    with pytest.raises(InputError, match="the constraints are of another network than the objective"):
        hfrnn.ConstrainedObjective(Case().plain, other)
