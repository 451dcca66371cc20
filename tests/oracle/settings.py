"""A case of the oracle's tests: a network and a kind of batch, its random numbers, and what the oracle says of it."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import hfrnn

from . import reference, sizes

RTOL, MU, LAMBDA = 1e-12, 3.0, 0.2
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
    by_output: bool = False  # every output has its own weight
    carried: bool = False
    soft: bool = False  # targets are probabilities of the symbols
    ties: bool = False
    vanishing: bool = False  # some parts of the derivatives are zero by right

    @property
    def id(self) -> str:
        return "-".join(filter(None, [self.arch, self.network.get("activation", ""), self.name, self.loss]))


LOSSES = ["softmax", "class-softmax", "logistic", "squared"]
SMALL = {"scrn": {"context": 2}, "clockwork": {"periods": (1, 2)}, "hierarchical": {"periods": (1, 2)}}
SMALL |= {"state-space": {"units": 4}, "coupled-oscillator": {"dt": 0.5, "gamma": 0.8, "epsilon": 0.6}}


@dataclass(frozen=True)
class Setting:
    """A case with its random numbers, the network and batch under test, and what the oracle says."""

    case: Case
    config: sizes.Config
    data: reference.Data
    net: Any
    batch: Any
    theta: np.ndarray
    v: np.ndarray
    u: np.ndarray
    expected: dict[str, Any]

    def objective(self, checkpoint: int | None) -> Any:
        return hfrnn.Objective(self.net, self.batch, threads=1, checkpoint=checkpoint)


def random_batch(case: Case, config: sizes.Config, rng: np.random.Generator) -> reference.Data:
    """Random inputs, targets and weights of the kind that the case asks for; what padding holds must not count."""
    T, B, n_out = case.T, case.B, config.n_out
    inputs = rng.normal(size=(T, B, config.n_in)) if case.real else rng.integers(config.n_in, size=(T, B))
    targets = {
        "softmax": rng.integers(n_out, size=(T, B)), "class-softmax": rng.integers(n_out, size=(T, B)),
        "logistic": rng.uniform(size=(T, B, n_out)).round(2), "squared": rng.normal(size=(T, B, n_out)),
        "gaussian": rng.normal(size=(T, B, n_out)), "poisson": 1.0 * rng.integers(4, size=(T, B, n_out)),
    }[case.loss]  # fmt: skip
    if case.soft:
        targets = rng.dirichlet(np.ones(n_out), size=(T, B))
    weights = lengths = state = None
    if case.ragged:
        lengths = np.array([T, 2, 3, *rng.integers(1, T + 1, B - 3)])
        weights = rng.uniform(0.2, 2.0, size=(T, B)) * (rng.uniform(size=(T, B)) < 0.7)
        weights[1] = 1.3
    if case.by_output:
        weights = rng.uniform(0.2, 2.0, size=(T, B, n_out)) * (rng.uniform(size=(T, B, n_out)) < 0.6)
        weights[1:2], weights[0, 0] = 0, np.arange(n_out)
    if case.carried:
        kinds = [config.state(layer, B) for layer in range(len(config.hidden))]
        time = 5 if T > 1 else 2 if "asleep" not in case.name else 3
        state = [
            {name: 0.7 * rng.normal(size=shape) if shape else time for name, shape in kind.items()} for kind in kinds
        ]
    return reference.Data(inputs, targets, weights, lengths, state)


def make_ties(case: Case, data: reference.Data, W: np.ndarray) -> None:
    """Let orders 1 and 2 tie at the first step for all units, or all orders at every step for unit 0, by weights 0."""
    if case.name == "ties-of-zero-weights":
        W[:, :, 0] = 0
    else:
        history = data.initial_state[0]["history"]
        W[:2] = np.round(4 * W[0]) / 4  # products of quarters are exact, so equal whatever the order of summation
        history[:2] = np.round(4 * history[0]) / 4


@cache
def setting(case: Case) -> Setting:
    """Build a case once; the seed is the case's name."""
    rng = np.random.default_rng(zlib.crc32(case.id.encode()))
    arguments: dict[str, Any] = {"n_in": 5, "hidden": (4,), "n_out": 6, "loss": case.loss}
    arguments |= {"classes": (1, 0, 2, 1, 1, 0)} if case.loss == "class-softmax" else {}
    arguments |= case.network
    config = sizes.Config(case.arch, **arguments)
    data = random_batch(case, config, rng)
    net = hfrnn.Network(arch=case.arch, dtype="float64", **arguments)
    batch = hfrnn.Batch(data.inputs, data.targets, data.weights, data.lengths, data.initial_state)
    theta, v = 0.7 * rng.normal(size=net.n_parameters), rng.normal(size=net.n_parameters)
    if case.ties:
        make_ties(case, data, net.views(theta)["layer0.W_h"])
    u = rng.normal(size=(case.T, case.B, config.n_classes() + config.outputs())) * data.exists()[:, :, None]
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
        mine, theirs = sizes.parts(name, views[name], s.config), sizes.parts(name, block, s.config)
        for part, value in theirs.items():
            assert_close(mine[part], value, part, s.case.vanishing or sizes.NEVER_READ in part)


def plus(s: Setting, **factors: float) -> dict[str, np.ndarray]:
    """G v and damping terms, times their factors."""
    terms = s.expected | {"v": s.net.views(s.v)}
    return {
        name: block + sum(factor * terms[term][name] for term, factor in factors.items())
        for name, block in s.expected["G"].items()
    }


def metrics(case: Case) -> list[str]:
    """Return every metric that an architecture has; the relu has no matching loss."""
    if case.arch not in sizes.ONE_PREACTIVATION:
        return ["hidden"]
    return ["hidden", "preactivation"] + ["matching"] * (case.network.get("activation") != "relu")
