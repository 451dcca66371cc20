"""Small valid calls of the public functions of `hfrnn.optim`, and the kinds of their arguments."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import hfrnn
from hfrnn.choices import ADAPTED, DAMPINGS, METRICS
from hfrnn.optim import cg
from hfrnn.optim.average import Average
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.first_order import SGD, AdamOptions, SGDOptions
from hfrnn.optim.muon import Muon, MuonOptions
from hfrnn.optim.schedules import Cosine, warm_up
from hfrnn.optim.soap import SOAP, SOAPOptions

from .api_calls import ANY_SIZE, FLAG, SIZES, Call, N, batch, of, theta, weights
from .wrong_values import Factory, Kind, Odd, array, choice, count, function, instance, nothing, number


def gauss_newton(at: Any) -> Any:
    return lambda v: v.copy()


def quadratic() -> Any:
    """An objective without a network: |theta|^2 / 2."""
    apply = types.SimpleNamespace(apply=lambda v, out: out.__setitem__(slice(None), v))
    return types.SimpleNamespace(
        loss=lambda at: 0.5 * float(at @ at),
        loss_and_gradient=lambda at: (0.5 * float(at @ at), at.copy()),
        gauss_newton=lambda at, structural=0.0, tikhonov=0.0, metric="hidden": apply,
    )


def apply(v: Any, out: Any) -> None:
    out[:] = v


HF_OPTIONS = {
    "cg_iterations": count(1),
    "noise_limit": number(0, open_low=True).or_none(),
    "cg_epsilon": number(0),
    "cg_window": count(1),
    "residual_tolerance": number(0).or_none(),
    "residual_every": count(0),
    "keep_ratio": number(1, open_low=True),
    "preconditioner": choice("none", "diagonal"),
    "preconditioner_exponent": number(0, 1),
    "preconditioner_shift": number(1e-30, 1e30).or_none(),
    "preconditioner_relative_shift": number(0),
    "warm_start": number(0, 1),
    "mu_growth": number(1, open_low=True).or_none(),
    "rho_model": choice("damped", "undamped"),
    "rho_objective": choice("gradient", "curvature", "separate"),
    "line_search": choice("armijo", "minimum"),
    "line_search_factor": number(0, 1, open_low=True, open_high=True),
    "line_search_backtracks": count(0),
    "armijo": number(0, 1, open_high=True),
    "tau": number(0, 1, open_low=True, open_high=True),
    "direction_backtracks": count(0),
    "idle_directions": count(0),
    "max_failures": count(1).or_none(),
}
DAMPING = instance(lambda: hfrnn.Damping("tikhonov"), hfrnn.HessianFreeOptions).or_none()
RULE = instance(hfrnn.LevenbergMarquardt, hfrnn.HessianFreeOptions).or_none()
OPTIONS = instance(hfrnn.HessianFreeOptions, hfrnn.LevenbergMarquardt).or_none()
SMALL = {"gradient": quadratic, "theta": theta, "self": lambda: hfrnn.HessianFree(hfrnn.Damping("tikhonov"))}


def constant(found: Any) -> Callable[[Any], Any]:
    """A function with one result."""
    return lambda v: found


def returned(right: Callable[[Any], Any], wrong: Mapping[str, Any]) -> Kind:
    """Functions that return a right or a wrong result; `right` computes the right one."""
    more: dict[str, tuple[Factory, bool | None]] = {
        f"returns {label}": (lambda result=result: lambda *at: result, False) for label, result in wrong.items()
    }
    return function().plus({"right": (lambda: right, True), **more})


NOT_A_NUMBER = {
    "None": None,
    "a string": "1",
    "an object": Odd(),
    "a complex number": 1j,
    "two numbers": np.ones(2),
    "a list": [1.0],
}
NOT_A_VECTOR = {
    "None": None,
    "a string": "x",
    "an object": Odd(),
    "a number": 1.0,
    "a list": [1.0] * N,
    "another size": np.ones(3),
    "strings": np.full(N, "x"),
    "complex numbers": np.ones(N, complex),
    "a masked array": np.ma.array(np.ones(N), mask=True),
}
MINIMIZE = {
    "loss": lambda: lambda at: 0.5 * float(at @ at),
    "gradient": lambda: lambda at: at.copy(),
    "gauss_newton": lambda: gauss_newton,
    "theta": theta,
    "max_updates": 1,
}
MINIMIZE_KINDS = {
    "loss": returned(lambda at: 0.5 * float(at @ at), NOT_A_NUMBER),
    "gradient": returned(lambda at: at.copy(), NOT_A_VECTOR),
    "gauss_newton": returned(
        gauss_newton,
        {
            "None": None,
            "a matrix": np.eye(N),
            **{f"a function of {label}": constant(found) for label, found in NOT_A_VECTOR.items()},
        },
    ),
    "theta": ANY_SIZE,
    "damping": DAMPING,
    "options": OPTIONS,
    "rule": RULE,
    "structural": nothing().or_none(),
    "squared_gradients": function(called=False).or_none(),
    "preconditioner": function().or_none(),
    "max_updates": count(0),
    "gradient_tolerance": number(0),
    "callback": function(called=False).but({"class": None}).or_none(),
}
SGD_KINDS = {"momentum": number(0, 1, open_high=True), "nesterov": FLAG, "decay": number(0)}
ADAM_KINDS = {
    "beta1": number(0, 1, open_high=True),
    "beta2": number(0, 1, open_high=True),
    "epsilon": number(0, open_low=True),
    "decay": number(0),
}
SOAP_KINDS = {**ADAM_KINDS, "factor_beta": number(0, 1, open_high=True), "every": count(1)}
MUON_KINDS = {**ADAM_KINDS, "momentum": number(0, 1, open_high=True)}
BLOCKS = [MatrixBlock(0, 2, 2)]
CG_KINDS = {
    "apply": function(),
    "b": array(theta, lists=False, integers=False, finite=False).but(SIZES),
    "x0": array(theta, lists=False, integers=False, finite=False).or_none(),
    "max_iterations": count(0),
    "epsilon": number(0),
    "window": count(1),
    "residual_tolerance": number(0).or_none(),
    "residual_every": count(0),
    "keep_ratio": number(1, open_low=True).or_none(),
    "preconditioner": function().or_none(),
    "on_iterate": function().or_none(),
}
DAMPING_STATE = {"kind": "tikhonov", "mu": 0.0, "lambda_": 1.0}
STATE = nothing().plus(
    {"right": (lambda: DAMPING_STATE, True), "without lambda_": (lambda: {"kind": "tikhonov", "mu": 0}, False)}
)

CALLS: list[Call] = [
    Call(
        "Damping",
        hfrnn.Damping,
        {"kind": "tikhonov"},
        {
            "kind": choice(*DAMPINGS),
            "lambda_": number(1e-8, 1e8).or_none(),
            "metric": choice(*METRICS),
            "adapt": choice(*ADAPTED).but({"mu": False}),
        },
    ),
    Call("Damping with mu", hfrnn.Damping, {}, {"mu": number(1e-8, 1e8).or_none()}),
    Call(
        "Damping.scale",
        of("scale"),
        {"self": hfrnn.Damping, "factor": 1.5},
        {
            "factor": number(0, open_low=True),
            "lambda_factor": number(0, open_low=True).or_none(),
        },
    ),
    Call(
        "Damping.load_state_dict",
        of("load_state_dict"),
        {"self": lambda: hfrnn.Damping("tikhonov"), "state": DAMPING_STATE},
        {"state": STATE},
    ),
    Call(
        "LevenbergMarquardt",
        hfrnn.LevenbergMarquardt,
        {},
        {
            "low": number(high=0.75),
            "high": number(0.25),
            "grow": number(1, open_low=True),
            "shrink": number(0, 1, open_low=True, open_high=True),
        },
    ),
    Call(
        "LevenbergMarquardt.factor",
        of("factor"),
        {"self": hfrnn.LevenbergMarquardt, "ratio": 0.5},
        {
            "ratio": number().but({"NaN": True, "inf": True, "-inf": True, "NumPy's NaN": True, "10**5000": None}),
        },
    ),
    Call("HessianFreeOptions", hfrnn.HessianFreeOptions, {}, HF_OPTIONS),
    Call(
        "HessianFree",
        hfrnn.HessianFree,
        {"damping": lambda: hfrnn.Damping("tikhonov")},
        {
            "damping": DAMPING,
            "options": OPTIONS,
            "rule": RULE,
            "lambda_rule": RULE,
        },
    ),
    Call(
        "HessianFree.update",
        of("update"),
        SMALL,
        {
            "theta": ANY_SIZE,
            "gradient": instance(quadratic, batch),
            "curvature": instance(quadratic, batch).or_none(),
            "separate": nothing().or_none(),
            "preconditioner": function().or_none(),
            "on_cg": function(called=False).but({"class": None}).or_none(),
            "should_stop": function().or_none(),
        },
    ),
    Call(
        "HessianFree.load_state_dict",
        of("load_state_dict"),
        {
            "self": lambda: hfrnn.HessianFree(hfrnn.Damping("tikhonov")),
            "state": {**DAMPING_STATE, "cg_solution": None, "failures": 0, "updates": 0, "ended": None},
        },
        {"state": nothing()},
    ),
    Call("minimize", hfrnn.minimize, MINIMIZE, MINIMIZE_KINDS),
    Call(
        "minimize an objective",
        hfrnn.minimize,
        {"loss": quadratic, "theta": theta, "max_updates": 1},
        {
            "theta": ANY_SIZE,
            "damping": DAMPING,
            "gradient": nothing().or_none(),
            "gauss_newton": nothing().or_none(),
            "structural": nothing().or_none(),
            "squared_gradients": nothing().or_none(),
        },
    ),
    Call("conjugate_gradient", cg.conjugate_gradient, {"apply": lambda: apply, "b": theta}, CG_KINDS),
    Call(
        "diagonal_preconditioner",
        cg.diagonal_preconditioner,
        {"diagonal": weights().reshape(-1), "lambda_": 1.0},
        {
            "diagonal": array(lambda: np.ones(5), lists=False, integers=False).but(SIZES),
            "lambda_": number(0, open_low=True),
            "exponent": number(0, 1),
        },
    ),
    Call("Average", Average, {"decay": 0.5}, {"decay": number(0, 1, open_high=True)}),
    Call(
        "Average.add",
        of("add"),
        {"self": lambda: Average(0.5), "theta": theta},
        {
            "theta": ANY_SIZE,
        },
    ),
    Call(
        "Average.load_state_dict",
        of("load_state_dict"),
        {"self": lambda: Average(0.5), "state": {"average": None, "averaged": 0}},
        {
            "state": nothing().but({"dict": None}),
        },
    ),
    Call("SGDOptions", SGDOptions, {}, SGD_KINDS),
    Call("AdamOptions", AdamOptions, {}, ADAM_KINDS),
    Call("SOAPOptions", SOAPOptions, {}, SOAP_KINDS),
    Call("MuonOptions", MuonOptions, {}, MUON_KINDS),
    Call("SOAP", SOAP, {"blocks": BLOCKS}, {"options": instance(SOAPOptions, AdamOptions).or_none()}),
    Call("Muon", Muon, {"hidden": BLOCKS}, {"options": instance(MuonOptions, SOAPOptions).or_none()}),
    Call(
        "Cosine",
        Cosine,
        {"lr": 2.0},
        {"lr": number(0, open_low=True), "horizon": count(1).or_none(), "least": number(0, 2)},
    ),
    Call("warm_up", warm_up, {"update": 1, "updates": 2}, {"update": count(0), "updates": count(0)}),
    Call(
        "SGD.step",
        of("step"),
        {"self": SGD, "theta": theta, "gradient": theta, "lr": 0.1},
        {
            "theta": array(theta, lists=False, integers=False),
            "gradient": array(theta, lists=False, integers=False),
            "lr": number(0, open_low=True).but({"1e300": None, "10**30": None}),
        },
    ),
]
