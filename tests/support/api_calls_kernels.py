"""Small valid calls of the public functions for kernels and for PyTorch, and the kinds of their arguments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import hfrnn
from hfrnn.choices import DTYPES
from hfrnn.interop import TorchLayout, from_torch, gradient_to_torch, to_torch

from .api_calls import FLAG, NETWORK, Call, of
from .wrong_values import any_string, array, choice, count, nothing, number


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


BOUND = number().or_none()
KERNEL_OPTION = {"name": "zoneout", "kind": lambda: float, "default": None, "help": "Probability."}


def registered(name: Any, kernel: Any) -> None:
    """Register a kernel, and forget it again."""
    from hfrnn.kernels import registry

    before = dict(registry._kernels)
    try:
        hfrnn.register_kernel(name, kernel)
    finally:
        registry._kernels.clear()
        registry._kernels.update(before)


class Unfinished(hfrnn.Kernel):
    """A kernel that is never run."""


CALLS: list[Call] = [
    Call(
        "register_kernel",
        registered,
        {"name": "tried", "kernel": lambda: Unfinished},
        {
            "name": any_string().but(
                {"empty string": False, "string with NUL": False, "string with escapes": False, "long string": None}
            ),
            "kernel": nothing().or_none(),
        },
    ),
    Call(
        "Option",
        hfrnn.Option,
        KERNEL_OPTION,
        {
            "name": any_string().but(
                {
                    "empty string": False,
                    "string of a number": False,
                    "string with NUL": False,
                    "string with escapes": False,
                    "long string": None,
                }
            ),
            "kind": nothing(),
            "default": number().or_none().but({"10**30": False, "-10**30": False}),
            "help": any_string(),
            "many": FLAG,
            "least": BOUND,
            "most": BOUND,
            "above": BOUND,
            "below": BOUND,
            "unit": any_string(),
            "zero": any_string(),
            "otherwise": any_string(),
            "optional": FLAG,
            "choices": nothing().but({"empty list": None}),
        },
    ),
    Call(
        "Slot",
        hfrnn.Slot,
        {"name": "a", "width": 2},
        {
            "name": any_string(),
            "width": count(0),
            "bias": FLAG,
            "below": FLAG,
            "input": FLAG,
        },
    ),
    Call(
        "from_torch",
        from_torch,
        {"model": state_dict, "activation": "tanh"},
        {
            "model": nothing().but({"dict": None}),
            "embedding": nothing().or_none(),
            "loss": choice("softmax", "logistic", "squared"),
            "l2": number(0),
            "dtype": choice(*DTYPES),
        },
    ),
    *(
        Call(
            name,
            function_,
            {"net": torch_net, argument: lambda: from_torch(state_dict(), activation="tanh")[1], "like": state_dict},
            {
                "net": NETWORK.but({"right": None}),
                "like": nothing().but({"dict": None}),
                "embedding": nothing().or_none(),
                argument: array(lambda: from_torch(state_dict(), activation="tanh")[1], lists=None, finite=False),
            },
        )
        for name, function_, argument in (
            ("to_torch", to_torch, "theta"),
            ("gradient_to_torch", gradient_to_torch, "gradient"),
        )
    ),
    Call(
        "TorchLayout",
        TorchLayout,
        {"net": torch_net, "like": state_dict},
        {"net": NETWORK.but({"right": None}), "like": nothing().but({"dict": None}), "embedding": nothing().or_none()},
    ),
    *(
        Call(
            f"TorchLayout.{method}",
            of(method),
            {"self": lambda: TorchLayout(torch_net(), state_dict()), argument: vector},
            {argument: array(vector, lists=None, finite=False, integers=False).but({"trailing axis": None})},
        )
        for method, argument in (("direction", "v"), ("gradient", "g"), ("parameters", "theta"))
    ),
]
