"""Small valid calls of constraints and of objectives under them, and the kinds of their arguments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import hfrnn
from hfrnn.choices import METRICS

from .api_calls import NETWORK, STRENGTH, THETA, Call, N, net, objective, of, theta
from .wrong_values import array, choice, instance, nothing, number


@functools.cache
def constraints() -> hfrnn.Constraints:
    """No weight is absent, and every weight from the first hidden unit to the others is 0 or more."""
    return hfrnn.Constraints(net(), {"layer0.W_h": np.ones((2, 2))}, {"layer0.W_h": [1, 0]})


@functools.cache
def constrained() -> hfrnn.ConstrainedObjective:
    return hfrnn.ConstrainedObjective(objective(), constraints())


def allowed() -> Any:
    return np.linspace(0.01, 1.0, N)


TABLE = (
    nothing()
    .or_none()
    .plus(
        {
            "a table": (lambda: {"layer0.W_h": np.ones((2, 2))}, True),
            "of a wrong name": (lambda: {"W_h": np.ones((2, 2))}, False),
        }
    )
)

BOUND = number(0, np.inf, True, True).plus(
    {
        "a table": (lambda: {"layer0.W_h": 2.0}, True),
        "a table of a wrong name": (lambda: {"W_h": 2.0}, False),
        "a table of a wrong number": (lambda: {"layer0.W_h": -2.0}, False),
    }
)

CALLS: list[Call] = [
    Call(
        "Constraints",
        hfrnn.Constraints,
        {"net": net},
        {"net": NETWORK, "masks": TABLE, "signs": TABLE},
    ),
    *(
        Call(f"Constraints.{name}", of(name), {"self": constraints, argument: allowed}, {argument: array(allowed)})
        for name, argument in (
            ("weights", "variables"),
            ("variables", "weights"),
            ("nearest", "weights"),
            ("allows", "weights"),
            ("initial", "theta"),
        )
    ),
    Call(
        "Constraints.variables of others",
        of("variables"),
        {"self": constraints, "weights": allowed},
        {"like": array(theta).or_none()},
    ),
    Call("MaxNorm", hfrnn.MaxNorm, {"net": net, "bound": 2.0}, {"net": NETWORK, "bound": BOUND}),
    Call(
        "MaxNorm.impose",
        of("impose"),
        {"self": lambda: hfrnn.MaxNorm(net(), 2.0), "theta": theta},
        {
            "theta": array(lambda: np.zeros(N), finite=False, lists=False, integers=False).but(
                {"read-only": False, "other byte order": False, "strided": False}
            )
        },
    ),
    Call(
        "ConstrainedObjective",
        hfrnn.ConstrainedObjective,
        {"objective": objective, "constraints": constraints},
        {"objective": instance(objective, net), "constraints": instance(constraints, net)},
    ),
    *(
        Call(f"ConstrainedObjective.{name}", of(name), {"self": constrained, "variables": theta}, {"variables": THETA})
        for name in (
            "loss",
            "penalty",
            "squared_gradients",
            "part_gradients",
            "hessian",
            "jacobian",
        )
    ),
    Call(
        "ConstrainedObjective.loss_and_gradient",
        of("loss_and_gradient"),
        {"self": constrained, "variables": theta},
        {"variables": THETA, "clip_error": number(0, open_low=True).or_none()},
    ),
    Call(
        "ConstrainedObjective.gauss_newton",
        of("gauss_newton"),
        {"self": constrained, "variables": theta},
        {"variables": THETA, "structural": STRENGTH, "tikhonov": STRENGTH, "metric": choice(*METRICS)},
    ),
]
