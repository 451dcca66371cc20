"""Spectrum, posterior and influence of networks with absent weights, by brute force on the weights that exist."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call

import hfrnn
from hfrnn.analysis.run_objective import load_objective

DELTA, S2 = 0.7, 0.3


@dataclass
class Case:
    """A network with a mask, its objective and constraints, and the numbers of the weights that exist."""

    objective: hfrnn.Objective
    constrained: hfrnn.ConstrainedObjective
    theta: Any
    there: Any

    def operator(self, matrix: str) -> Any:
        objective = self.objective
        return objective.hessian(self.theta) if matrix == "hessian" else objective.gauss_newton(self.theta)

    @property
    def G(self) -> Any:
        return (self.operator("gauss-newton") @ np.eye(len(self.theta)))[np.ix_(self.there, self.there)]


@pytest.fixture
def case() -> Case:
    rng = np.random.default_rng(3)
    net = hfrnn.Network("rnn", n_in=2, hidden=4, n_out=2, loss="squared", dtype="float64", l2=0.05)
    constraints = hfrnn.Constraints(net, {"layer0.W_h": np.tri(4), "layer0.W_x": rng.integers(0, 2, (2, 4))})
    batch = hfrnn.Batch(rng.normal(size=(5, 6, 2)), rng.normal(size=(5, 6, 2)))
    objective = hfrnn.Objective(net, batch)
    theta = constraints.weights(net.init(seed=1))
    there = np.flatnonzero(~constraints.absent)
    assert there.size < len(theta)
    return Case(objective, hfrnn.ConstrainedObjective(objective, constraints), theta, there)


@pytest.mark.parametrize("matrix", ["gauss-newton", "hessian"])
def test_the_spectrum_is_that_of_the_weights_that_exist(case: Case, matrix: str) -> None:
    n = len(case.theta)
    values = np.linalg.eigvalsh((case.operator(matrix) @ np.eye(n))[np.ix_(case.there, case.there)])
    found = hfrnn.spectrum(case.constrained, case.theta, matrix, count=3, vectors=3, steps=n, tolerance=1e-10)
    assert found.size == case.there.size
    np.testing.assert_allclose(found.largest, values[::-1][:3], rtol=1e-8)
    if matrix == "hessian":
        np.testing.assert_allclose(found.smallest, values[:3], rtol=1e-8)
    assert found.nodes.max() == pytest.approx(values[-1], rel=1e-6)


@pytest.mark.parametrize("structure", ["dense", "low-rank"])
def test_absent_weights_have_no_posterior(case: Case, structure: str) -> None:
    given = {"prior_precision": DELTA, "noise_variance": S2, "structure": structure, "rank": len(case.theta)}
    found, eye = hfrnn.laplace(case.constrained, case.theta, **given), np.eye(case.there.size)
    P = case.objective.total_weight / S2 * (case.G - case.objective.net.l2 * eye) + DELTA * eye
    J = (case.objective.jacobian(case.theta) @ np.eye(len(case.theta)))[:, case.there]
    variances = np.einsum("ij,jk,ik->i", J, np.linalg.inv(P), J)
    np.testing.assert_allclose(found.predict(case.objective.batch).variances.reshape(-1), variances, rtol=1e-7)
    evidence = found.log_likelihood - 0.5 * (
        DELTA * case.theta @ case.theta + np.linalg.slogdet(P)[1] - case.there.size * np.log(DELTA)
    )
    assert found.log_marginal_likelihood == pytest.approx(evidence, rel=1e-9)
    for method, count in (("factorization", 400), ("cg", 60)):
        drawn = found.sample(count, method=method, tolerance=1e-10)
        assert (np.delete(drawn, case.there, axis=1) == 0).all()
        spread = drawn[:, case.there].var(axis=0) / np.diag(np.linalg.inv(P))
        limit = 6 / count**0.5
        assert 1 - limit < spread.min() < spread.max() < 1 + limit


@pytest.mark.parametrize(("matrix", "solver"), [("gauss-newton", "cg"), ("hessian", "cg"), ("hessian", "dense")])
def test_the_influence_is_that_on_the_weights_that_exist(case: Case, matrix: str, solver: str) -> None:
    n, net = len(case.theta), case.objective.net
    A = (case.operator(matrix) @ np.eye(n) + 2.0 * np.eye(n))[np.ix_(case.there, case.there)]
    rows = case.objective.per_sequence_gradients(case.theta)[:, case.there]
    F = case.objective.loss_and_gradient(case.theta)[1] - net.l2 * case.theta
    expected = rows @ np.linalg.solve(A, F[case.there]) / case.objective.total_weight
    options = {"damping": 2.0, "matrix": matrix, "solver": solver, "tolerance": 1e-12}
    found = hfrnn.influence(case.constrained, case.theta, case.objective.batch, **options)
    np.testing.assert_allclose(found.scores[0], expected, rtol=1e-8)
    without = hfrnn.influence(case.objective, case.theta, case.objective.batch, **options)
    assert abs(without.scores[0] - expected).max() > 1e-3 * abs(expected).max()


def test_the_bounds_of_the_hessian_are_infinite_for_a_sequence_without_weight_too(case: Case) -> None:
    weights = np.ones((5, 6))
    weights[:, 2] = 0.0
    batch = case.objective.batch
    objective = hfrnn.Objective(case.objective.net, hfrnn.Batch(batch.inputs, batch.targets, weights))
    found = hfrnn.influence(objective, case.theta, batch, damping=3.0, matrix="hessian")
    assert (found.bounds == np.inf).all()
    assert found.scores[0, 2] == 0.0


def test_signs_have_a_spectrum_and_no_such_approximation(case: Case) -> None:
    signs = hfrnn.Constraints(case.objective.net, signs={"output.W_y0": np.ones((4, 2))})
    variables = signs.variables(signs.initial(case.theta))
    constrained = hfrnn.ConstrainedObjective(case.objective, signs)
    for function, more in ((hfrnn.laplace, ()), (hfrnn.influence, (case.objective.batch,))):
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
