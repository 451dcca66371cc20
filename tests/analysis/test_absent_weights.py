"""Spectrum, posterior and influence of networks with absent weights, by brute force on the weights that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call

import hfrnn
from hfrnn.analysis.run_objective import load_objective

DELTA, S2 = 0.7, 0.3


Case = tuple[hfrnn.Objective, hfrnn.ConstrainedObjective, Any, Any]


@pytest.fixture
def case() -> Case:
    """An objective, the same with some weights absent, such weights, and the numbers of those that exist."""
    rng = np.random.default_rng(3)
    net = hfrnn.Network("rnn", n_in=2, hidden=4, n_out=2, loss="squared", dtype="float64", l2=0.05)
    constraints = hfrnn.Constraints(net, {"layer0.W_h": np.tri(4), "layer0.W_x": rng.integers(0, 2, (2, 4))})
    objective = hfrnn.Objective(net, hfrnn.Batch(rng.normal(size=(5, 6, 2)), rng.normal(size=(5, 6, 2))))
    theta, there = constraints.weights(net.init(seed=1)), np.flatnonzero(~constraints.absent)
    assert there.size < len(theta)
    return objective, hfrnn.ConstrainedObjective(objective, constraints), theta, there


def block(case: Case, matrix: str = "gauss-newton") -> np.ndarray:
    """The dense matrix of the weights that exist."""
    objective, _, theta, there = case
    A = objective.hessian(theta) if matrix == "hessian" else objective.gauss_newton(theta)
    return (A @ np.eye(len(theta)))[np.ix_(there, there)]


@pytest.mark.parametrize("matrix", ["gauss-newton", "hessian"])
def test_the_spectrum_is_that_of_the_weights_that_exist(case: Case, matrix: str) -> None:
    _, constrained, theta, there = case
    values = np.linalg.eigvalsh(block(case, matrix))
    found = hfrnn.spectrum(constrained, theta, matrix, count=3, vectors=3, steps=len(theta), tolerance=1e-10)
    assert found.size == there.size
    np.testing.assert_allclose(found.largest, values[::-1][:3], rtol=1e-8)
    if matrix == "hessian":
        np.testing.assert_allclose(found.smallest, values[:3], rtol=1e-8)
    assert found.nodes.max() == pytest.approx(values[-1], rel=1e-6)


@pytest.mark.parametrize("structure", ["dense", "low-rank"])
def test_absent_weights_have_no_posterior(case: Case, structure: str) -> None:
    objective, constrained, theta, there = case
    given = {"prior_precision": DELTA, "noise_variance": S2, "structure": structure, "rank": len(theta)}
    found, eye = hfrnn.laplace(constrained, theta, **given), np.eye(there.size)
    P = objective.total_weight / S2 * (block(case) - objective.net.l2 * eye) + DELTA * eye
    J = (objective.jacobian(theta) @ np.eye(len(theta)))[:, there]
    variances = np.einsum("ij,jk,ik->i", J, np.linalg.inv(P), J)
    np.testing.assert_allclose(found.predict(objective.batch).variances.reshape(-1), variances, rtol=1e-7)
    penalty = DELTA * theta @ theta + np.linalg.slogdet(P)[1] - there.size * np.log(DELTA)
    assert found.log_marginal_likelihood == pytest.approx(found.log_likelihood - 0.5 * penalty, rel=1e-9)
    for method, count in (("factorization", 400), ("cg", 60)):
        drawn = found.sample(count, method=method, tolerance=1e-10)
        assert (np.delete(drawn, there, axis=1) == 0).all()
        spread, limit = drawn[:, there].var(axis=0) / np.diag(np.linalg.inv(P)), 6 / count**0.5
        assert 1 - limit < spread.min() < spread.max() < 1 + limit


@pytest.mark.parametrize(("matrix", "solver"), [("gauss-newton", "cg"), ("hessian", "cg"), ("hessian", "dense")])
def test_the_influence_is_that_on_the_weights_that_exist(case: Case, matrix: str, solver: str) -> None:
    objective, constrained, theta, there = case
    rows = objective.per_sequence_gradients(theta)[:, there]
    F = objective.loss_and_gradient(theta)[1] - objective.net.l2 * theta
    A = block(case, matrix) + 2.0 * np.eye(there.size)
    expected = rows @ np.linalg.solve(A, F[there]) / objective.total_weight
    options = {"damping": 2.0, "matrix": matrix, "solver": solver, "tolerance": 1e-12}
    found = hfrnn.influence(constrained, theta, objective.batch, **options)
    np.testing.assert_allclose(found.scores[0], expected, rtol=1e-8)
    without = hfrnn.influence(objective, theta, objective.batch, **options)
    assert abs(without.scores[0] - expected).max() > 1e-3 * abs(expected).max()


def test_the_bounds_of_the_hessian_are_infinite_for_a_sequence_without_weight_too(case: Case) -> None:
    net, batch, weights = case[0].net, case[0].batch, np.ones((5, 6))
    weights[:, 2] = 0.0
    objective = hfrnn.Objective(net, hfrnn.Batch(batch.inputs, batch.targets, weights))
    found = hfrnn.influence(objective, case[2], batch, damping=3.0, matrix="hessian")
    assert (found.bounds == np.inf).all()
    assert found.scores[0, 2] == 0.0


def test_signs_have_a_spectrum_and_no_such_approximation(case: Case) -> None:
    objective, _, theta, _ = case
    signs = hfrnn.Constraints(objective.net, signs={"output.W_y0": np.ones((4, 2))})
    variables, constrained = signs.variables(signs.initial(theta)), hfrnn.ConstrainedObjective(objective, signs)
    for function, more in ((hfrnn.laplace, ()), (hfrnn.influence, (objective.batch,))):
        with pytest.raises(hfrnn.InputError, match=r"^the constraints have signs: .* constraints.weights\(theta\)$"):
            function(constrained, variables, *more)
    found = hfrnn.spectrum(constrained, variables, count=2, vectors=0)
    G = constrained.gauss_newton(variables) @ np.eye(len(variables))
    np.testing.assert_allclose(found.largest, np.linalg.eigvalsh(G)[::-1][:2], rtol=1e-6)


@pytest.mark.parametrize("options", [{"density": 0.3}, {"excitatory": 0.5}])
def test_a_run_with_constraints_has_their_objective(tmp_path: Path, options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).normal(size=(20, 6, 2)).astype("float32")
    shared = {"arch": "rate", "activation": "relu", "hidden": 10, "updates": 1, "threads": 1, "backend": "numpy"}
    np.savez(tmp_path / "data.npz", x=x, y=x.cumsum(1)[:, :, :1])
    run = hfrnn.train(data=str(tmp_path / "data.npz"), **shared, **options, out=tmp_path / "file").folder
    objective, variables, _ = load_objective(str(run))
    assert isinstance(objective, hfrnn.ConstrainedObjective)
    net, theta, _ = hfrnn.load(run)
    np.testing.assert_allclose(objective.constraints.weights(variables), theta, rtol=1e-12)
    absent = int(objective.constraints.absent.sum())
    assert hfrnn.spectrum(objective, variables, count=1, vectors=0).size == net.n_parameters - absent
    assert "gauss-newton" in call("spectrum", run, "--count", 1, "--vectors", 0).stdout
