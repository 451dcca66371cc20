"""Small networks and batches in every situation that the engine knows, and everything that it computes on them.

Shared by the tests of the engine: on NumPy, on the strict fake device and on a GPU.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import hfrnn
from hfrnn.arrays.backend import Backend
from hfrnn.engine.plan import Keep, Plan

MU, LAMBDA = 0.7, 0.3
CARRIED_TIME = 3  # the integer of a carried state that has one
LOSSES = ("softmax", "class-softmax", "logistic", "squared")
CLASSES = [2, 0, 1, 0, 2, 2]  # of six symbols: class 1 has a single one, and no class stands together

SITUATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # name: arguments of the network, arguments of the batch
    "softmax": ({}, {}),
    "logistic": ({"loss": "logistic"}, {}),
    "squared": ({"loss": "squared", "l2": 0.3}, {}),
    "class-softmax": ({"loss": "class-softmax", "n_out": 6, "classes": CLASSES, "output_bias": True}, {"ragged": True}),
    "stack": ({"hidden": (3, 4)}, {"ragged": True}),
    "chain": ({"hidden": (3, 4, 2), "direct_input": False, "direct_output": False}, {"real": True, "ragged": True}),
    "embedding": ({"embedding": 3, "loss": "squared", "hidden": (3, 2)}, {"carried": True}),
    "real": ({"loss": "logistic"}, {"real": True, "carried": True, "ragged": True}),
    "carried": ({"output_bias": True, "bias": True}, {"carried": True}),
    "unbiased": ({"output_bias": False, "bias": False, "loss": "logistic"}, {"ragged": True}),
    "learned-state": ({"learn_initial_state": True, "hidden": (4, 3)}, {"ragged": True}),
    "learned-state-unused": ({"learn_initial_state": True}, {"carried": True}),
    "feedthrough": ({"feedthrough": True, "hidden": (4, 3), "loss": "squared"}, {"real": True, "ragged": True}),
    "one-step": ({}, {"T": 1, "carried": True}),
    "one-sequence": ({"loss": "squared"}, {"B": 1, "T": 4}),
    "many-symbols": ({"n_in": 520, "n_out": 3}, {"ragged": True}),
    "output-weights": ({"loss": "logistic", "hidden": (4, 3)}, {"ragged": True, "by_output": True}),
    "output-mask": ({"loss": "squared", "l2": 0.1}, {"by_output": True, "carried": True}),
}


SMALL: dict[str, dict[str, Any]] = {"scrn": {"context": 3}, "state-space": {"units": 5}}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    # name: architecture, arguments of the network; on two layers, mixed lengths and a carried state
    "rnn-logistic": ("rnn", {"activation": "logistic"}),
    "rnn-relu": ("rnn", {"activation": "relu"}),
    "order-1": ("hornn", {"order": 1}),
    "order-2-relu": ("hornn", {"order": 2, "activation": "relu"}),
    "order-9-logistic": ("hornn", {"order": 9, "activation": "logistic"}),
    "max-order-1": ("hornn-max", {"order": 1}),
    "max-order-2-logistic": ("hornn-max", {"order": 2, "activation": "logistic"}),
    "max-order-9-relu": ("hornn-max", {"order": 9, "activation": "relu"}),
    "fofe-order-2-relu": ("hornn-fofe", {"order": 2, "activation": "relu", "alpha": 0.9}),
    "fofe-order-9": ("hornn-fofe", {"order": 9}),
    "gated-order-1-logistic": ("hornn-gated", {"order": 1, "activation": "logistic"}),
    "gated-order-2-relu": ("hornn-gated", {"order": 2, "activation": "relu"}),
    "gated-order-9": ("hornn-gated", {"order": 9}),
    "leaky-logistic-slow": ("leaky", {"activation": "logistic", "leak": 0.03}),
    "leaky-relu-whole": ("leaky", {"activation": "relu", "leak": 1.0}),
    "leaky-relu-learned": ("leaky", {"activation": "relu", "learn_leak": True}),  # compiled; softplus is not
    "leaky-softplus-learned": ("leaky", {"activation": "softplus", "learn_leak": True}),
    "rate-logistic-slow": ("rate", {"activation": "logistic", "leak": 0.03}),
    "rate-relu-learned": ("rate", {"activation": "relu", "learn_leak": True}),
    "rate-softplus-whole": ("rate", {"activation": "softplus", "leak": 1.0}),
    "low-rank-relu-learned": ("low-rank", {"activation": "relu", "learn_leak": True, "rank": 3}),
    "low-rank-softplus-whole": ("low-rank", {"activation": "softplus", "leak": 1.0, "rank": 1}),
    "low-rank-logistic-slow": ("low-rank", {"activation": "logistic", "leak": 0.03}),
    "oscillators-fast": ("coupled-oscillator", {"dt": 0.5, "gamma": 0.3, "epsilon": 0.9}),
    "state-space-logistic": ("state-space", {"activation": "logistic", "units": 2}),
    "state-space-relu": ("state-space", {"activation": "relu"}),
    "state-space-softplus": ("state-space", {"activation": "softplus"}),
    "learned-alpha": ("scrn", {"learn_alpha": True, "alpha": 0.7}),
    "no-hidden": ("scrn", {"hidden": (0, 0), "learn_alpha": True}),
    "some-hidden": ("scrn", {"hidden": (0, 4)}),
    "no-candidate-bias": ("gru-torch", {"candidate_bias": False}),
    "no-context": ("scrn", {"context": 0, "learn_alpha": True}),
}


@dataclass(frozen=True)
class Case:
    """An architecture in a situation."""

    arch: str
    situation: str
    network: dict[str, Any] = field(compare=False)
    batch: dict[str, Any] = field(compare=False)

    @property
    def id(self) -> str:
        return f"{self.arch}-{self.situation}"

    def net(self, **changes: Any) -> hfrnn.Network:
        """The network, in float64 on NumPy unless said."""
        return hfrnn.Network(
            arch=self.arch, **{"dtype": "float64", **SMALL.get(self.arch, {}), **self.network, **changes}
        )

    def data(self) -> hfrnn.Batch:
        """The batch, on the host; the same at every call."""
        return random_batch(self.net(), np.random.default_rng(zlib.crc32(self.id.encode())), **self.batch)


def cases(*situations: str) -> list[Case]:
    """Every registered architecture in the named situations, or in all."""
    base = {"n_in": 5, "hidden": 4, "n_out": 4}
    made = [
        Case(arch, name, {**base, **SITUATIONS[name][0]}, SITUATIONS[name][1])
        for arch in hfrnn.architectures()
        for name in situations or SITUATIONS
    ]
    if not situations or "variants" in situations:
        made += [
            Case(arch, name, {**base, "hidden": (4, 3), **options}, {"ragged": True, "carried": True})
            for name, (arch, options) in VARIANTS.items()
        ]
    return made


def small_problem(
    dtype: str = "float64", arch: str = "mlstm", **arguments: Any
) -> tuple[hfrnn.Network, hfrnn.Batch, Any]:
    """Return a network, a batch and parameters."""
    net = hfrnn.Network(arch, n_in=5, hidden=6, n_out=5, dtype=dtype, **arguments)
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(5, size=(9, 4)), rng.integers(5, size=(9, 4)))
    return net, batch, net.init(seed=1, scale=0.5)


def random_batch(
    net: hfrnn.Network,
    rng: np.random.Generator,
    T: int = 7,
    B: int = 5,
    real: bool = False,
    ragged: bool = False,
    carried: bool = False,
    by_output: bool = False,
) -> hfrnn.Batch:
    """Random inputs and targets that fit; lengths, weights (some 0) and an initial state where asked."""
    inputs = rng.standard_normal((T, B, net.n_in)) if real else rng.integers(net.n_in, size=(T, B))
    targets = random_targets(net, rng, T, B)
    weights = lengths = state = None
    if ragged:
        lengths = rng.integers(1, T + 1, size=B)
        lengths[0] = T
        weights = np.where(rng.random((T, B)) < 0.7, rng.uniform(0.2, 2.0, (T, B)), 0.0)
        weights[0] = 1.5
    if by_output:
        weights = output_weights(rng, T, B, net.n_out)
    if carried:
        state = random_state(net, rng, B)
    return hfrnn.Batch(inputs, targets, weights, lengths, state)


def output_weights(rng: np.random.Generator, T: int, B: int, n_out: int) -> Any:
    """Random weights (T, B, n_out), many of them 0; the second step has none, but every output and sequence has."""
    weights = np.where(rng.random((T, B, n_out)) < 0.6, rng.uniform(0.2, 2.0, (T, B, n_out)), 0.0)
    weights[1:2] = 0.0
    weights[0] = rng.uniform(0.2, 2.0, (B, n_out))
    return weights


def random_targets(net: hfrnn.Network, rng: np.random.Generator, T: int, B: int) -> Any:
    if net.loss_name == "logistic":
        return rng.uniform(size=(T, B, net.n_out)).round(2)
    if net.loss_name == "squared":
        return rng.standard_normal((T, B, net.n_out))
    return rng.integers(net.n_out, size=(T, B))


def random_state(net: hfrnn.Network, rng: np.random.Generator, B: int) -> list[dict[str, Any]]:
    return [
        {name: CARRIED_TIME if isinstance(x, int) else 0.5 * rng.standard_normal(x.shape) for name, x in d.items()}
        for d in hfrnn.Network(**{**net.config, "dtype": "float64"}).zero_state(B)
    ]


def vectors(net: hfrnn.Network, batch: hfrnn.Batch, seed: int = 0) -> tuple[Any, Any, Any]:
    """Random theta, direction v and output direction u, on the host in float64."""
    rng = np.random.default_rng(seed)
    n = net.n_parameters
    return (
        0.5 * rng.standard_normal(n),
        rng.standard_normal(n),
        rng.standard_normal(batch.T * batch.B * net.head.n_outputs),
    )


def replace(batch: hfrnn.Batch, **changes: Any) -> hfrnn.Batch:
    """The batch with some of its parts changed."""
    parts = ("inputs", "targets", "weights", "lengths", "initial_state")
    return hfrnn.Batch(**{**{part: getattr(batch, part) for part in parts}, **changes})


def moved(batch: hfrnn.Batch, backend: Backend) -> hfrnn.Batch:
    """The batch with all of its arrays on the backend's device."""

    def move(x: Any) -> Any:
        return x if x is None or isinstance(x, int) else backend.asarray(x)

    state = batch.initial_state
    state = None if state is None else [{name: move(x) for name, x in layer.items()} for layer in state]
    return hfrnn.Batch(move(batch.inputs), move(batch.targets), move(batch.weights), move(batch.lengths), state)


def everything(
    net: hfrnn.Network,
    batch: hfrnn.Batch,
    theta: Any,
    v: Any,
    u: Any,
    *,
    plan: Plan | None = None,
    threads: int | None = 1,
    **objective: Any,
) -> dict[str, Any]:
    """All that the engine computes, by name, as NumPy arrays and floats."""
    backend = net.backend
    theta, v, u = (backend.asarray(x, dtype=net.dtype) for x in (theta, v, u))
    f = hfrnn.Objective(net, batch, threads=threads, plan=plan, **objective)
    loss, gradient = f.loss_and_gradient(theta)
    results: dict[str, Any] = {"loss": f.loss(theta), "loss of the gradient": loss, "gradient": gradient}
    results["G"] = f.gauss_newton(theta) @ v
    for metric in net.metrics:
        results[f"G {metric}"] = f.gauss_newton(theta, structural=MU, tikhonov=LAMBDA, metric=metric) @ v
    jacobian = f.jacobian(theta)
    results["J v"], results["J' u"] = jacobian.matvec(v), jacobian.rmatvec(u)
    results["H"] = f.hessian(theta) @ backend.asarray(v, dtype="float64")
    results["logits"], state = net.run(theta, batch)
    for l, layer in enumerate(state):
        results.update({f"state {l} {name}": value for name, value in layer.items()})
    if net.head.probabilistic:
        results["log p"] = net.log_probabilities(theta, batch)
    return {name: x if isinstance(x, (int, float)) else backend.to_host(x) for name, x in results.items()}


def plans(T: int, B: int) -> dict[str, Plan]:
    """Every way to keep, each with segments that do not divide T where there can be any, in one shard or two."""
    two = (0, B // 2, B) if B > 1 else (0, B)
    return {
        "all": Plan((0, B), None, Keep.ALL),
        "all-3": Plan(two, 3, Keep.ALL),
        "states-2": Plan(two, 2, Keep.STATES),
        "nothing-3": Plan(two, 3, Keep.NOTHING),
        "nothing-1": Plan((0, B), 1, Keep.NOTHING),
        "nothing": Plan((0, B), None, Keep.NOTHING),
    }


def assert_same(actual: dict[str, Any], expected: dict[str, Any], rtol: float = 0.0, names: Any = None) -> None:
    """Agreement name by name, relative to the norm of what is expected; to the bit for rtol 0."""
    assert actual.keys() == expected.keys()
    for name in names or expected:
        x, y = np.asarray(actual[name]), np.asarray(expected[name])
        assert x.shape == y.shape, name
        assert np.isfinite(y).all(), name
        if rtol == 0:
            np.testing.assert_array_equal(x, y, err_msg=name)
        else:
            error, size = np.linalg.norm(x.astype(y.dtype) - y), np.linalg.norm(y)
            assert error <= rtol * size + 1e-300, f"{name}: error {error:.2e} on a norm of {size:.2e}"
