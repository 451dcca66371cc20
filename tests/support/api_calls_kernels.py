"""Calls of the public functions for kernels and for PyTorch, and the kinds of their arguments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.data.kinds import KINDS
from hfrnn.interop import TorchLayout, from_torch, gradient_to_torch, to_torch
from hfrnn.kernels import registry
from hfrnn.losses import LOSSES
from hfrnn.runs.optimizers import OPTIMIZERS

from .api_calls import NETWORK, Call, tried
from .wrong_values import any_string, array, nothing, number


def state_dict() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"rnn.weight_ih_l0": (2, 3), "rnn.weight_hh_l0": (2, 2), "out.weight": (3, 2)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


@functools.cache
def torch_net() -> hfrnn.Network:
    return from_torch(state_dict(), activation="tanh")[0]


def vector() -> Any:
    """A vector for this network, which has no biases: PyTorch's vectors are as long as theta."""
    return from_torch(state_dict(), activation="tanh")[1]


def layout() -> TorchLayout:
    return TorchLayout(torch_net(), state_dict())


def register_kernel(name: Any, kernel: Any) -> None:
    """Register a kernel, and forget it again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_kernels", dict(registry._kernels))
        hfrnn.register_kernel(name, kernel)


def register_data(name: Any, kind: Any) -> None:
    hfrnn.register_data(name, kind)
    KINDS.forget(name)


def register_loss(name: Any, loss: Any) -> None:
    hfrnn.register_loss(name, loss)
    LOSSES.forget(name)


def register_optimizer(name: Any, optimizer: Any) -> None:
    hfrnn.register_optimizer(name, optimizer)
    OPTIMIZERS.forget(name)


class Unfinished(hfrnn.Kernel):
    """A kernel that is never run."""


class NoLoss(hfrnn.Loss):
    """A loss that is never used."""


class NoKind(hfrnn.DataKind):
    """A kind of data that is never used."""


class NoOptimizer(hfrnn.Optimizer):
    """An optimizer that is never used."""


CLASS, BOUND, TEXT, EMBEDDING = nothing().or_none(), number().or_none(), any_string(), nothing().or_none()
NAME = any_string().but(
    {"empty string": False, "string with NUL": False, "string with escapes": False, "long string": None}
)
MODEL = nothing().but({"dict": None})
KNOWN = {"net": torch_net, "like": state_dict}
ARGUMENTS = {"net": NETWORK.but({"right": None}), "like": MODEL, "embedding": EMBEDDING}
THERE = array(vector, lists=None, finite=False)
FLAT = array(vector, lists=None, finite=False, integers=False).but({"trailing axis": None})

CALLS: list[Call] = [
    tried(register_kernel, {"name": "tried", "kernel": lambda: Unfinished}, name=NAME, kernel=CLASS),
    tried(register_data, {"name": "tried", "kind": lambda: NoKind}, name=NAME, kind=None),
    tried(register_loss, {"name": "tried", "loss": lambda: NoLoss}, name=NAME, loss=None),
    tried(register_optimizer, {"name": "tried", "optimizer": lambda: NoOptimizer}, name=NAME, optimizer=None),
    tried(hfrnn.Option, {"name": "zoneout", "kind": lambda: float, "default": None, "help": "Probability."},
        name=NAME.but({"string of a number": False}), kind=nothing(),
        default=number().or_none().but({"10**30": False, "-10**30": False}), help=TEXT, least=BOUND, most=BOUND,
        above=BOUND, below=BOUND, unit=TEXT, zero=TEXT, otherwise=TEXT, choices=nothing().but({"empty list": None}),
        **dict.fromkeys(("digits", "named", "group", "needs", "shapes", "path", "presets", "several"))),
    tried(hfrnn.Slot, {"name": "a", "width": 2}),
    tried(from_torch, {"model": state_dict, "activation": "tanh"}, model=MODEL, embedding=EMBEDDING),
    tried(to_torch, {**KNOWN, "theta": vector}, **ARGUMENTS, theta=THERE),
    tried(gradient_to_torch, {**KNOWN, "gradient": vector}, **ARGUMENTS, gradient=THERE),
    tried(TorchLayout, KNOWN, **ARGUMENTS, trainable=None),
    tried(TorchLayout.direction, {"self": layout, "v": vector}, v=FLAT),
    tried(TorchLayout.gradient, {"self": layout, "g": vector}, g=FLAT),
    tried(TorchLayout.parameters, {"self": layout, "theta": vector}, theta=FLAT),
]  # fmt: skip
