"""The small random networks and batches on which the derivatives of an architecture are checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.data.scaling import Scaling
from hfrnn.engine.batch import Batch
from hfrnn.engine.closed_loop import ClosedLoop
from hfrnn.engine.heads.heads import losses
from hfrnn.engine.network import Network

CARRIED_TIME = 3
"""The time `t` of a carried state that has one; at the next step not all modules of a clockwork network are active."""

SMALL: dict[str, dict[str, Any]] = {"scrn": {"context": 2}, "state-space": {"units": 4}}
"""Options that make the networks of an architecture small."""
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "fnn": ({"order": 1}, {"order": 7, "activation": "logistic"}),
    "fofe-fnn": ({"codes": 2, "alpha": 0.9}, {"codes": 7, "activation": "logistic"}),
    "gated-feedback": ({"sublayers": 1}, {"sublayers": 2, "hidden": 4}),
    "gru-torch": ({"candidate_bias": False},),
    "hornn": ({"order": 1}, {"order": 7, "activation": "logistic"}),
    "hornn-max": ({"order": 2, "activation": "logistic"}, {"order": 7}),
    "hornn-fofe": ({"order": 2, "alpha": 0.9}, {"order": 7, "activation": "logistic"}),
    "hornn-gated": ({"order": 1, "activation": "logistic"},),
    "low-rank": ({"rank": 1, "activation": "softplus", "learn_leak": True}, {"rank": 4, "activation": "logistic"}),
    "coupled-oscillator": ({"dt": 0.5, "gamma": 0.3, "epsilon": 0.9},),
    "leaky": ({"activation": "logistic"}, {"activation": "softplus", "learn_leak": True}, {"activation": "relu"}),
    "rate": ({"activation": "logistic", "leak": 1.0}, {"activation": "softplus", "learn_leak": True}),
    "scrn": ({"learn_alpha": True}, {"learn_alpha": True, "alpha": 0.3, "hidden": 0}, {"context": 0}),
    "state-space": ({"activation": "logistic", "units": 1}, {"activation": "softplus"}, {"activation": "relu"}),
}
"""Further options that are checked on two layers, besides the defaults."""
_LOOP_UNITS = Scaling(np.array([0.5, 0.0, -1.0, 0.0]), np.array([2.0, 1.0, 0.5, 1.0]), np.ones(3), np.full(3, 1.5))


@dataclass(frozen=True)
class Case:
    """A network with weights and a batch, on which the checks run."""

    name: str
    net: Network
    theta: HostArray
    batch: Batch
    closed_loop: ClosedLoop | None = None


def cases_of(arch: str, seed: int) -> Iterator[Case]:
    """Yield every loss on one layer, a stack, from learned and carried states, with mixed lengths; then others."""
    rng = np.random.Generator(np.random.PCG64(seed))
    situations: dict[str, dict[str, Any]] = {
        "one layer": {},
        "stacked": {"hidden": (3, 2)},
        "lengths and weights": {"hidden": (2, 2), "mixed": True, "learn_initial_state": True},
        "recordings": {"hidden": (2, 2), "recordings": 3},
        "carried state": {"carried": True},
    }
    for loss in losses():
        for name, options in situations.items():
            yield _case(f"{loss}, {name}", arch, loss, rng, **options)
    yield _case(
        "softmax, probabilities as targets, label smoothing", arch, "softmax", rng, soft=True, label_smoothing=0.3
    )
    yield _case("no direct connections", arch, "softmax", rng, hidden=(2, 3), direct=False)
    yield _case("embedding", arch, "softmax", rng, embedding=2)
    yield _case("feedthrough, embedding", arch, "class-softmax", rng, embedding=2, mixed=True, feedthrough=True)
    yield _case("feedthrough, real inputs", arch, "squared", rng, real=True, hidden=(2, 2), feedthrough=True)
    yield _case("real inputs", arch, "squared", rng, real=True, bias=True)
    yield _case("one step, one sequence", arch, "softmax", rng, T=1, B=1, carried=True)
    for loss in ("logistic", "squared", "gaussian"):
        yield _case(f"{loss}, weights of outputs", arch, loss, rng, hidden=(2, 2), mixed=True, by_output=True)
    for options in VARIANTS.get(arch, ()):
        name = ", ".join(f"{option} {value}" for option, value in options.items())
        stacked = {**options, "hidden": 2 * (options.get("hidden", 2),)}
        yield _case(name, arch, "softmax", rng, mixed=True, carried=True, **stacked)
    loops: dict[str, dict[str, Any]] = {
        "closed loop": {"hidden": (2, 2)},
        "closed loop, lengths, feedthrough": {"mixed": True, "feedthrough": True},
    }
    for name, more in loops.items():
        case = _case(name, arch, "squared", rng, real=True, **more)
        loop = ClosedLoop(0.7, [2, None, 0], _LOOP_UNITS, seed=seed)
        yield replace(case, theta=case.theta / 2, closed_loop=loop)  # small weights: fed-back outputs saturate no unit


def _case(
    name: str,
    arch: str,
    loss: str,
    rng: np.random.Generator,
    *,
    hidden: int | tuple[int, ...] = 3,
    T: int = 5,
    B: int = 2,
    direct: bool = True,
    mixed: bool = False,
    by_output: bool = False,
    carried: bool = False,
    embedding: int | None = None,
    real: bool = False,
    bias: bool | None = None,
    soft: bool = False,
    **options: Any,
) -> Case:
    """Return a case with a random network and a random batch."""
    n_in, n_out = 4, 3
    net = Network(
        arch, n_in, hidden, n_out, loss, dtype="float64", embedding=embedding, bias=bias, output_bias=True,
        direct_input=direct, direct_output=direct, l2=0.01, classes=(1, 0, 1) if loss == "class-softmax" else None,
        **{**SMALL.get(arch, {}), **options},
    )  # fmt: skip
    theta = 0.5 * rng.standard_normal(net.n_parameters)
    symbols = rng.permutation(np.arange(T * B) % n_in).reshape(T, B)
    inputs = rng.standard_normal((T, B, n_in)) if real else symbols
    targets: dict[str, Any] = {
        "softmax": rng.integers(0, n_out, (T, B)),
        "logistic": rng.random((T, B, n_out)),
        "squared": rng.standard_normal((T, B, n_out)),
        "poisson": rng.integers(0, 4, (T, B, n_out)).astype(float),
    }
    weights = rng.random((T, B)) * (rng.random((T, B)) < 0.8) + np.eye(T, B) if mixed else None
    if by_output:
        weights = rng.random((T, B, n_out)) * (rng.random((T, B, n_out)) < 0.6) + np.eye(T, n_out)[:, None]
    lengths = np.array([T, *rng.integers(2, T, B - 1)]) if mixed else None
    state: Any = None
    if carried:
        shapes = [layer.kernel.state_shapes(B) for layer in net.layers]
        state = [
            {key: 0.5 * rng.standard_normal(shape) if shape else CARRIED_TIME for key, shape in layer.items()}
            for layer in shapes
        ]
    if net.recordings:
        state = np.array([net.recordings - 1, -1])[:B]
    default = targets.get(loss.removeprefix("class-"), targets["squared"])
    if soft:
        default = rng.random((T, B, n_out))
        default /= default.sum(axis=2, keepdims=True)
    return Case(name, net, theta, Batch(inputs, default, weights, lengths, state))
