"""Values and derivatives of six architectures against automatic differentiation, block by block and slot by slot."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install hfrnn[oracle]")

import hfrnn

from . import reference

RTOL = 1e-12
MU, LAMBDA = 3.0, 0.2
CHECKPOINTS = [None, 2]


@dataclass(frozen=True, eq=False)
class Case:
    """A network and the kind of batch it is tried on."""

    name: str
    arch: str
    loss: str
    network: dict[str, Any] = field(default_factory=dict)
    T: int = 5
    B: int = 3
    real: bool = False
    ragged: bool = False
    carried: bool = False
    vanishing: bool = False  # some parts of the derivatives are zero by right

    @property
    def id(self) -> str:
        activation = self.network.get("activation", "")
        return "-".join(filter(None, [self.arch, activation, self.name, self.loss]))


LOSSES = ["softmax", "logistic", "squared"]


def all_cases() -> list[Case]:
    """Every architecture in every situation and with every loss; in most situations the losses take turns."""
    cases = []
    inner = {"hidden": (4, 3), "direct_input": False}
    chain = inner | {"hidden": (3, 4, 3), "direct_output": False}
    for k, arch in enumerate(reference.SLOTS):
        loss = [LOSSES[(k + j) % 3] for j in range(3)]
        flipped = {"bias": arch in ("lstm-krause", "mlstm"), "output_bias": arch not in reference.OUTPUT_BIAS}
        cases += [Case("single", arch, each) for each in LOSSES]
        cases += [
            Case("stack", arch, loss[0], {"hidden": (4, 3)}),
            Case("embedding", arch, loss[1], {"embedding": 3, "l2": 0.3}),
            Case("real-input-carried", arch, loss[2], real=True, carried=True),
            Case("ragged", arch, loss[0], {"hidden": (3, 4) if k % 2 else (4,)}, ragged=True),
            Case("no-direct-input-carried", arch, loss[2], inner, real=True, carried=True),
            Case("no-direct-output", arch, loss[1], {"hidden": (4, 3), "direct_output": False, "embedding": 3}, T=4),
            Case("one-sequence-flipped-biases", arch, loss[2], flipped, B=1),
            Case("one-step-carried", arch, loss[1], T=1, carried=True),
        ]
    cases += [
        Case("one-step-from-zero", "mlstm", "softmax", T=1, vanishing=True),
        Case("chain", "mrnn", "softmax", chain, ragged=True),
        Case("large-vocabulary", "rnn", "softmax", {"n_in": 600}),
        Case("many-sequences", "mlstm", "softmax", {"embedding": 3}, B=17, ragged=True),
    ]
    for activation in ("logistic", "relu"):
        cases += [
            Case("single", "rnn", "softmax", {"activation": activation}, carried=True),
            Case("stack", "rnn", "squared", {"activation": activation, "hidden": (4, 3)}, ragged=True),
        ]
    return cases


CASES = all_cases()


@dataclass(frozen=True)
class Setting:
    """A case with its random numbers, the network and batch under test, and what the oracle says."""

    case: Case
    config: reference.Config
    data: reference.Data
    net: Any
    batch: Any
    theta: np.ndarray
    v: np.ndarray
    u: np.ndarray
    expected: dict[str, Any]

    def objective(self, checkpoint: int | None) -> Any:
        return hfrnn.Objective(self.net, self.batch, threads=1, checkpoint=checkpoint)


def random_batch(case: Case, config: reference.Config, rng: np.random.Generator) -> reference.Data:
    """Random inputs, targets and weights of the kind that the case asks for; what padding holds must not count."""
    T, B, n_out = case.T, case.B, config.n_out
    inputs = rng.normal(size=(T, B, config.n_in)) if case.real else rng.integers(config.n_in, size=(T, B))
    targets = {
        "softmax": rng.integers(n_out, size=(T, B)),
        "logistic": rng.uniform(size=(T, B, n_out)).round(2),
        "squared": rng.normal(size=(T, B, n_out)),
    }[case.loss]
    weights = lengths = state = None
    if case.ragged:
        lengths = np.array([T, 2, 3, *rng.integers(1, T + 1, B - 3)])
        weights = rng.uniform(0.2, 2.0, size=(T, B)) * (rng.uniform(size=(T, B)) < 0.7)
        weights[1] = 1.3
    if case.carried:
        names = reference.STATE[case.arch]
        state = [{name: 0.7 * rng.normal(size=(B, H)) for name in names} for H in config.hidden]
    return reference.Data(inputs, targets, weights, lengths, state)


@cache
def setting(case: Case) -> Setting:
    """Build a case once; the seed is the case's name."""
    rng = np.random.default_rng(zlib.crc32(case.id.encode()))
    arguments: dict[str, Any] = {"n_in": 5, "hidden": (4,), "n_out": 6, "loss": case.loss} | case.network
    config = reference.Config(case.arch, **arguments)
    data = random_batch(case, config, rng)
    net = hfrnn.Network(arch=case.arch, dtype="float64", **arguments)
    batch = hfrnn.Batch(data.inputs, data.targets, data.weights, data.lengths, data.initial_state)
    theta, v = 0.7 * rng.normal(size=net.n_parameters), rng.normal(size=net.n_parameters)
    u = rng.normal(size=(case.T, case.B, config.n_out)) * data.exists()[:, :, None]
    expected = reference.evaluate(dict(net.views(theta)), dict(net.views(v)), u, data, config)
    return Setting(case, config, data, net, batch, theta, v, u, expected)


def assert_close(actual: np.ndarray, expected: np.ndarray, what: str, vanishing: bool = False) -> None:
    """Agreement relative to the norm of the expected block, which must not be nothing itself, except where it may."""
    size = np.linalg.norm(expected)
    assert np.shape(actual) == np.shape(expected), what
    assert size > 1e-6 or (vanishing and size == 0), f"{what}: the oracle's own block is trivial"
    error = np.linalg.norm(actual - expected)
    assert error <= (RTOL * size or 1e-15), f"{what}: error {error:.2e} on a norm of {size:.2e}"


def assert_blocks(s: Setting, actual: np.ndarray, expected: Mapping[str, np.ndarray]) -> None:
    """Agreement of every slot of every parameter block by itself."""
    views = s.net.views(np.asarray(actual))
    assert set(views) == set(expected)
    for name, block in expected.items():
        mine, theirs = reference.parts(name, views[name], s.config), reference.parts(name, block, s.config)
        for part, value in theirs.items():
            assert_close(mine[part], value, part, s.case.vanishing)


def plus(s: Setting, **factors: float) -> dict[str, np.ndarray]:
    """G v and damping terms, times their factors."""
    terms = s.expected | {"v": s.net.views(s.v)}
    return {
        name: block + sum(factor * terms[term][name] for term, factor in factors.items())
        for name, block in s.expected["G"].items()
    }


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
every_checkpoint = pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=["kept", "segments"])


@every_case
def test_parameters_have_the_names_and_shapes_of_the_contract(case: Case) -> None:
    s = setting(case)
    assert {name: view.shape for name, view in s.net.views(s.theta).items()} == reference.shapes(s.config)


@every_case
def test_logits_agree_on_every_step_that_exists(case: Case) -> None:
    s = setting(case)
    logits, _ = s.net.run(s.theta, s.batch)
    exists = s.data.exists() > 0
    assert logits.shape == s.expected["logits"].shape
    assert_close(logits[exists], s.expected["logits"][exists], "logits")


@pytest.mark.parametrize("case", [case for case in CASES if not case.ragged], ids=lambda case: case.id)
def test_final_state_agrees_layer_by_layer(case: Case) -> None:
    s = setting(case)
    _, final = s.net.run(s.theta, s.batch)
    assert len(final) == len(s.config.hidden)
    for layer, (mine, theirs) in enumerate(zip(final, s.expected["state"], strict=True)):
        for name, value in theirs.items():
            assert_close(mine[name], value, f"state {name} of layer {layer}")


@every_checkpoint
@every_case
def test_loss_and_gradient_agree_block_by_block(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    objective = s.objective(checkpoint)
    loss, gradient = objective.loss_and_gradient(s.theta)
    for value in (loss, objective.loss(s.theta)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, s.expected["gradient"])


@every_case
def test_jacobian_agrees_from_both_sides(case: Case) -> None:
    s = setting(case)
    jacobian = s.objective(None).jacobian(s.theta)
    exists = s.data.exists() > 0
    Rz = (jacobian @ s.v).reshape(s.expected["Jv"].shape)
    assert_close(Rz[exists], s.expected["Jv"][exists], "J v")
    assert_blocks(s, jacobian.rmatvec(s.u.ravel()), s.expected["Jtu"])


@every_checkpoint
@every_case
def test_gauss_newton_product_agrees_block_by_block(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    assert_blocks(s, s.objective(checkpoint).gauss_newton(s.theta) @ s.v, s.expected["G"])


def metrics() -> list[Any]:
    """Every case under every metric that its architecture has; the relu has no matching loss."""
    pairs = []
    for case in CASES:
        names = ["hidden"]
        if case.arch in reference.ONE_PREACTIVATION:
            names += ["preactivation"] + ["matching"] * (case.network.get("activation") != "relu")
        pairs += [pytest.param(case, name, id=f"{case.id}-{name}") for name in names]
    return pairs


@every_checkpoint
@pytest.mark.parametrize(("case", "metric"), metrics())
def test_damped_product_agrees_under_every_metric(case: Case, metric: str, checkpoint: int | None) -> None:
    s = setting(case)
    G = s.objective(checkpoint).gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA, metric=metric)
    assert_blocks(s, G @ s.v, plus(s, **{metric: MU, "v": LAMBDA}))


@every_case
def test_damping_of_the_oracle_reaches_every_block_but_the_output(case: Case) -> None:
    s = setting(case)
    damping = "matching" if case.arch in reference.ONE_PREACTIVATION else "hidden"
    for name, block in s.expected[damping].items():
        for part, value in reference.parts(name, block, s.config).items():
            size = np.linalg.norm(value)
            assert (size == 0) if name.startswith("output.") else (size > 1e-6 or case.vanishing), part


@every_checkpoint
@every_case
def test_exact_hessian_product_agrees_block_by_block(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    assert_blocks(s, s.objective(checkpoint).hessian(s.theta) @ s.v, s.expected["hessian"])


@every_case
def test_the_network_itself_computes_the_same_on_one_shard(case: Case) -> None:
    s = setting(case)
    loss, gradient = s.net.loss_and_gradient(s.theta, s.batch)
    for value in (loss, s.net.loss(s.theta, s.batch)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, s.expected["gradient"])
    assert_blocks(s, s.net.gauss_newton(s.theta, s.batch) @ s.v, s.expected["G"])
    assert_blocks(s, s.net.hessian(s.theta, s.batch) @ s.v, s.expected["hessian"])


@every_checkpoint
@pytest.mark.parametrize("case", [case for case in CASES if case.name == "stack"], ids=lambda case: case.id)
def test_operators_of_one_objective_do_not_disturb_each_other(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    objective = s.objective(checkpoint)
    metric = "preactivation" if case.arch in reference.ONE_PREACTIVATION else "hidden"
    damped = objective.gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA, metric=metric)
    plain, elsewhere = objective.gauss_newton(s.theta), objective.gauss_newton(0.5 * s.theta)
    jacobian = objective.jacobian(s.theta)
    for _ in range(2):
        assert_blocks(s, damped @ s.v, plus(s, **{metric: MU, "v": LAMBDA}))
        assert_blocks(s, jacobian.rmatvec(s.u.ravel()), s.expected["Jtu"])
        elsewhere @ s.v
        assert_blocks(s, plain @ s.v, s.expected["G"])
        objective.loss(0.5 * s.theta)
        assert_blocks(s, objective.loss_and_gradient(s.theta)[1], s.expected["gradient"])


@pytest.mark.parametrize("case", [case for case in CASES if case.ragged], ids=lambda case: case.id)
def test_padding_is_never_looked_at(case: Case) -> None:
    s = setting(case)
    padding = s.data.exists() == 0
    inputs, targets, weights = (array.copy() for array in (s.data.inputs, s.data.targets, s.data.weights))
    inputs[padding], weights[padding] = -7, np.inf
    targets[padding] = -7 if targets.dtype.kind == "i" else np.nan
    objective = hfrnn.Objective(s.net, hfrnn.Batch(inputs, targets, weights, s.data.lengths), threads=1)
    assert_blocks(s, objective.loss_and_gradient(s.theta)[1], s.expected["gradient"])
    G = objective.gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA)
    assert_blocks(s, G @ s.v, plus(s, hidden=MU, v=LAMBDA))
