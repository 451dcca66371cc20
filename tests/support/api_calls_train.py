"""Small valid calls of `TrainConfig` and `train` (in the folder of bad_input)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import hfrnn
from hfrnn.kernels.registry import kernel_options
from hfrnn.runs.config import all_options
from hfrnn.runs.options import run_options

from .api_calls import Call
from .api_calls_runs import MORE_PATHS, costly
from .wrong_values import Kind, any_string, choice, count, flag, nothing, number, path

NUMBERED_STRINGS = ("checkpoint", "memory", "unknown", "inputs", "targets")
"""Options that take strings, and whole numbers for their digits."""
PAIRED = ("min_count", "max_vocabulary", "rho_low", "rho_high")
"""Options that are valid with other options only."""
PATHS = ("text", "valid", "test", "out", "init_from")


def of_option(name: str) -> Kind:
    """The kind of an option of a run."""
    option = all_options()[name]
    if option.kind is bool:
        kind = flag()
    elif option.choices:
        kind = choice(*option.choices)
    elif option.kind is str:
        kind = any_string()
        if name in NUMBERED_STRINGS:
            kind = kind.but(dict.fromkeys(("0", "1", "-1", "NumPy's 1", "10**30", "-10**30", "10**5000"), None))
        if name in PATHS:
            kind = kind.but(dict.fromkeys(("empty string", "string with NUL", "string with escapes"), None))
    else:
        low = option.least if option.least is not None else option.above
        high = option.most if option.most is not None else option.below
        if option.kind is int:
            kind = count(-(2**63) if low is None else int(low))
        else:
            bounds = -np.inf if low is None else low, np.inf if high is None else high
            kind = number(*bounds, option.above is not None, option.below is not None)
            kind = kind.but({"10**30": False, "-10**30": False})
        if option.zero:
            kind = kind.but({"0": True, "end 0": True, "end 0.0": True, "below": None})
        if name in PAIRED:
            kind = costly(kind)
    if option.kind is str and option.default is None and name not in PATHS:
        kind = kind.but({"empty string": False})
    if option.named:
        kind = kind.but({"dict": None})  # numbers by name
    if option.many:
        kind = kind.but({"list of a number": option.kind is float})
    return kind.or_none()  # which stands for the default


TRAIN = {"text": "text.txt", "hidden": 4, "updates": 1, "out": "never"}


def train(**options: Any) -> Any:
    """Train with arguments of which one is wrong; the valid call is tried elsewhere."""
    same = options.keys() == TRAIN.keys() and all(options[name] is TRAIN[name] for name in TRAIN)
    return None if same else hfrnn.train(**options)


@functools.cache
def sequences() -> dict[str, Any]:
    return {"x": np.ones((5, 4, 2)), "y": np.ones((5, 4, 1))}


def train_on_arrays(**options: Any) -> Any:
    """Train on arrays in memory with arguments of which one is wrong; the valid call is tried elsewhere."""
    right = options.keys() == ARRAYS.keys() and options["data"] is sequences()
    return None if right else hfrnn.train(**options)


ARRAYS = {"data": sequences, "arch": "rnn", "hidden": 4, "updates": 1, "out": "never"}


CALLS: list[Call] = [
    Call(
        "train on arrays",
        train_on_arrays,
        ARRAYS,
        {
            "data": nothing()
            .but({"None": None})
            .plus(
                {
                    "x of a list": (lambda: {**sequences(), "x": [1.0]}, False),
                    "objects": (lambda: {**sequences(), "y": np.array([None])}, False),
                    "another name": (lambda: {**sequences(), "z": np.ones(3)}, False),
                    "no y": (lambda: {"x": np.ones((5, 4, 2))}, False),
                    "other lengths": (lambda: {**sequences(), "y": np.ones((4, 4, 1))}, False),
                }
            ),
            "batches": nothing().but({"None": None}),
            "valid": nothing().but({"None": None}),
        },
    ),
    Call(
        "TrainConfig",
        hfrnn.TrainConfig,
        {},
        {
            **{name: of_option(name) for name in run_options() if name != "excitatory_output"},
            "arch_options": nothing().or_none().but({"dict": None}),
        },
    ),
    Call(
        "TrainConfig with signs",
        hfrnn.TrainConfig,
        {"arch": "rnn", "excitatory": 0.8},
        {"excitatory_output": of_option("excitatory_output")},
    ),
    *(
        Call(
            f"TrainConfig of {arch}",
            hfrnn.TrainConfig,
            {"arch": arch},
            {name: of_option(name) for name in kernel_options(arch)},
        )
        for arch in hfrnn.architectures()
        if kernel_options(arch)
    ),
    Call(
        "train",
        train,
        TRAIN,
        {
            "config": nothing().but({"None": None}),
            "resume": path().but({"None": None}).plus(MORE_PATHS),
            "callbacks": nothing().but({"empty list": None}).plus({"a class": (lambda: [hfrnn.Callback], False)}),
            "text": path().but({"None": None}).plus(MORE_PATHS),
            "out": costly(of_option("out")),
            **{name: costly(of_option(name)) for name in ("hidden", "updates", "minutes", "optimizer", "seed", "l2")},
        },
    ),
]
