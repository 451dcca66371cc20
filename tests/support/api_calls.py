"""Small valid calls of the public functions for networks and their curvature, and the kinds of their arguments.

`api_calls_constraints.py`, `api_calls_optim.py` and others have those of other parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import hfrnn
from hfrnn.choices import DTYPES, INITIALIZERS, METRICS

from .wrong_values import (
    Kind,
    array,
    choice,
    count,
    flag,
    instance,
    nothing,
    number,
    string,
)

N, T, B = 18, 4, 2
"""Weights of `net()`, steps and sequences of `batch()`."""


@dataclass(frozen=True)
class Call:
    """A public function with a valid call, and the kinds of its arguments.

    Attributes
    ----------
    name : str
    function : callable
        Called with keywords.
    base : dict
        The arguments of a valid call: values, or factories (callables without arguments).
    kinds : dict
        The kind of every argument that is tried, by name.
    """

    name: str
    function: Callable[..., object]
    base: Mapping[str, Any]
    kinds: Mapping[str, Kind]

    def run(self, **changed: Any) -> object:
        """Make the call with some arguments changed."""
        base = {name: make() if callable(make) else make for name, make in self.base.items()}
        return self.function(**{**base, **changed})


@functools.cache
def net() -> hfrnn.Network:
    return hfrnn.Network("rnn", 3, 2, 3, dtype="float64")


@functools.cache
def squared() -> hfrnn.Network:
    return hfrnn.Network("rnn", 3, 2, 3, loss="squared", dtype="float64")


def theta() -> Any:
    return np.linspace(-1.0, 1.0, N) + 0.01


def symbols() -> Any:
    return np.arange(T * B).reshape(T, B) % 3


def real() -> Any:
    return np.linspace(-1.0, 1.0, T * B * 3).reshape(T, B, 3)


def weights() -> Any:
    return np.linspace(0.5, 1.5, T * B).reshape(T, B)


@functools.cache
def batch() -> hfrnn.Batch:
    return hfrnn.Batch(symbols(), symbols())


@functools.cache
def objective() -> hfrnn.Objective:
    return hfrnn.Objective(net(), batch(), threads=1)


def of(name: str) -> Callable[..., Any]:
    """A method of an object, as a function of `self` and keywords."""
    return lambda self, **arguments: getattr(self, name)(**arguments)


THETA = array(theta)
SIZES: dict[str, bool | None] = {"one entry less": True, "no entries": None, "empty array": None}
ANY_SIZE = array(theta, lists=False, integers=False).but(SIZES)
FLAG, SEED = flag(), count(0).but({"10**30": None})
NETWORK = instance(net, batch)
BATCH = instance(batch, net)
STRENGTH = number(0)
NETWORK_KINDS = {
    "arch": string("rnn").but({"string": False}),
    "n_in": count(1),
    "n_out": count(1),
    "hidden": count(1).plus(
        {
            "a stack": (lambda: (2, 3), True),
            "a list": (lambda: [2], True),
            "numbers of NumPy": (lambda: np.array([2, 3]), True),
            "a stack of strings": (lambda: ("2", "3"), False),
            "a stack with 0": (lambda: (2, 0), False),
            "a stack with 1.5": (lambda: (2, 1.5), False),
            "a stack in a stack": (lambda: ((2,), 3), False),
        }
    ),
    "loss": choice("softmax", "logistic", "squared"),
    "dtype": choice(*DTYPES).plus({"NumPy's type": (lambda: np.float32, True)}),
    "backend": choice("numpy", "auto"),
    "embedding": count(1).or_none(),
    "bias": FLAG.or_none(),
    "output_bias": FLAG.or_none(),
    "direct_input": FLAG,
    "direct_output": FLAG,
    "learn_initial_state": FLAG,
    "l2": number(0),
    "activation": choice("tanh", "logistic", "relu").or_none(),
}


def vector_calls(kind: str, make: Callable[[], Any], rows: int) -> list[Call]:
    """The calls of an operator with `rows` rows."""

    def vector(size: int) -> Callable[[], Any]:
        return lambda: np.linspace(-1.0, 1.0, size)

    def out(size: int) -> Kind:
        outputs = array(lambda: np.zeros(size), finite=False, lists=False, integers=False)
        return outputs.but({"read-only": False, "other byte order": False, "strided": None})

    given = array(vector(N)).but({"NaN inside": None, "infinity inside": None})  # CG notices them itself
    calls = [
        Call(
            f"{kind}.apply",
            of("apply"),
            {"self": make, "v": vector(N), "out": vector(rows)},
            {"v": given, "out": out(rows)},
        ),
    ]
    return calls


CALLS: list[Call] = [
    Call("Network", hfrnn.Network, {"arch": "rnn", "n_in": 3, "hidden": 2, "n_out": 3}, NETWORK_KINDS),
    Call(
        "Network of classes",
        hfrnn.Network,
        {"arch": "rnn", "n_in": 3, "hidden": 2, "n_out": 3, "loss": "class-softmax", "classes": 2},
        {
            "classes": count(1, 3).plus(
                {
                    "of each": (lambda: [0, 1, 0], True),
                    "strings": (lambda: ["0", "1", "0"], False),
                    "a gap": (lambda: [0, 2, 0], False),
                    "masked": (lambda: np.ma.array([0, 1, 0], mask=True), False),
                }
            )
        },
    ),
    Call(
        "Network of scrn",
        hfrnn.Network,
        {"arch": "scrn", "n_in": 3, "hidden": 2, "n_out": 3},
        {"alpha": number(0, 1).or_none(), "context": count(0).or_none(), "learn_alpha": FLAG.or_none()},
    ),
    Call(
        "Network of leaky",
        hfrnn.Network,
        {"arch": "leaky", "n_in": 3, "hidden": 2, "n_out": 3},
        {
            "activation": choice("tanh", "logistic", "relu", "softplus").or_none(),
            "leak": number(0, 1, open_low=True).or_none(),
            "learn_leak": FLAG.or_none(),
        },
    ),
    Call(
        "Network of gru-torch",
        hfrnn.Network,
        {"arch": "gru-torch", "n_in": 3, "hidden": 2, "n_out": 3},
        {"candidate_bias": FLAG.or_none()},
    ),
    Call(
        "Network of hornn",
        hfrnn.Network,
        {"arch": "hornn", "n_in": 3, "hidden": 2, "n_out": 3},
        {"order": count(1).or_none()},
    ),
    Call(
        "Network of clockwork",
        hfrnn.Network,
        {"arch": "clockwork", "n_in": 3, "hidden": 2, "n_out": 3},
        {
            "periods": nothing()
            .or_none()
            .plus(
                {
                    "right": (lambda: (1, 2), True),
                    "with 0": (lambda: (0, 2), False),
                    "strings": (lambda: ("1", "2"), False),
                    "1.5": (lambda: (1.5, 2), False),
                }
            )
            .but({"array without axes": None, "1": None, "NumPy's 1": None})
        },
    ),
    Call(
        "Network.init",
        of("init"),
        {"self": net},
        {
            "seed": SEED,
            "initializer": choice(*INITIALIZERS),
            "spectral_radius": number(0, open_low=True),
            "scale": number(0),
            "W_x": number(0),
        },
    ),
    Call(
        "Network.views",
        of("views"),
        {"self": net, "theta": theta},
        {
            "theta": array(theta, finite=False, lists=False).but({"complex numbers": True}),
        },
    ),
    *(
        Call(
            f"Network.{name}", of(name), {"self": net, "theta": theta, "batch": batch}, {"theta": THETA, "batch": BATCH}
        )
        for name in (
            "run",
            "log_probabilities",
            "score",
            "loss",
            "loss_and_gradient",
            "gauss_newton",
            "hessian",
            "jacobian",
        )
    ),
    Call(
        "Network.run with states",
        of("run"),
        {"self": net, "theta": theta, "batch": batch, "states": True},
        {"states": FLAG},
    ),
    Call(
        "Batch",
        hfrnn.Batch,
        {"inputs": symbols, "targets": symbols},
        {
            "inputs": array(symbols, lists=False),
            "targets": array(symbols, lists=False).but({"real numbers": None, "trailing axis": None}).or_none(),
            "weights": array(weights, lists=False, bools=True).or_none(),
            "lengths": array(lambda: np.array([4, 2])).or_none(),
            "initial_state": nothing().or_none().but({"empty list": None}),
        },
    ),
    Call(
        "Batch of values",
        hfrnn.Batch,
        {"inputs": real, "targets": real},
        {
            "inputs": array(real, lists=False, integers=False, finite=False),
            "targets": array(real, lists=False, finite=False).but({"integers": None, "one axis more": None}).or_none(),
        },
    ),
    Call(
        "Network.loss of values",
        lambda inputs, targets: squared().loss(theta(), hfrnn.Batch(inputs, targets)),
        {"inputs": real, "targets": real},
        {
            "inputs": array(real, lists=False, integers=False),
            "targets": array(real, lists=False).but({"integers": None, "one axis more": None, "trailing axis": None}),
        },
    ),
    Call(
        "Batch.columns",
        of("columns"),
        {"self": batch, "start": 0, "stop": 2},
        {"start": count(0, 1), "stop": count(1, 2)},
    ),
    Call(
        "Objective",
        hfrnn.Objective,
        {"net": net, "batch": batch, "threads": 1},
        {
            "net": NETWORK,
            "batch": BATCH,
            "threads": count(1).or_none(),
            "shards": count(1).or_none(),
            "memory": count(1).or_none().but({"1": None, "NumPy's 1": None}),
            "checkpoint": count(1).or_none().plus({"sqrt": (lambda: "sqrt", True), "auto": (lambda: "auto", True)}),
            "plan": nothing().or_none(),
            "comm": nothing().or_none(),
            "like": instance(objective, net).or_none(),
            "noise": instance(lambda: hfrnn.StateNoise(0.1), net).or_none(),
        },
    ),
    Call(
        "StateNoise",
        hfrnn.StateNoise,
        {"scale": 0.1},
        {
            "scale": number(0),
            "seed": count(0),
            "draw": count(0),
            "sequences": array(lambda: np.array([4, 0])).but({"one entry less": True, "no entries": None}).or_none(),
        },
    ),
    *(
        Call(
            f"Objective.{name}",
            of(name),
            {"self": objective, "theta": theta},
            {
                "theta": THETA,
                "out": array(lambda: np.zeros(N), finite=False, lists=False, integers=False)
                .or_none()
                .but({"read-only": False, "other byte order": False, "strided": None}),
                "clip_error": number(0, open_low=True).or_none(),
            },
        )
        for name in ("loss_and_gradient", "data_loss_and_gradient")
    ),
    *(
        Call(f"Objective.{name}", of(name), {"self": objective, "theta": theta}, {"theta": THETA})
        for name in ("loss", "lazy_loss", "loss_and_logits", "squared_gradients", "hessian", "jacobian")
    ),
    Call(
        "Objective.gauss_newton",
        of("gauss_newton"),
        {"self": objective, "theta": theta},
        {
            "theta": THETA,
            "structural": STRENGTH,
            "tikhonov": STRENGTH,
            "metric": choice(*METRICS),
        },
    ),
    *vector_calls("G", lambda: objective().gauss_newton(theta()), N),
    *vector_calls("H", lambda: objective().hessian(theta()), N),
    *vector_calls("J", lambda: objective().jacobian(theta()), T * B * 3),
]
