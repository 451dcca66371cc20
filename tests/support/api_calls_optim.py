"""Calls of the public functions of `hfrnn.optim`, and the kinds of their arguments."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import hfrnn
from hfrnn.choices import ADAPTED, DAMPINGS
from hfrnn.optim import cg
from hfrnn.optim.average import Average
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.first_order import SGD, AdamOptions, SGDOptions
from hfrnn.optim.muon import Muon, MuonOptions
from hfrnn.optim.schedules import Cosine, warm_up
from hfrnn.optim.soap import SOAP, SOAPOptions

from .api_calls import ABOVE_0, ANY_SIZE, CALLBACK, SIZES, Call, N, batch, declared, theta, tried, weights
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


def tikhonov() -> hfrnn.Damping:
    return hfrnn.Damping("tikhonov")


def optimizer() -> hfrnn.HessianFree:
    return hfrnn.HessianFree(tikhonov())


def average() -> Average:
    return Average(0.5)


def returned(right: Callable[[Any], Any], wrong: Mapping[str, Any]) -> Kind:
    """Functions that return a right or a wrong result; `right` computes the right one."""
    more: dict[str, tuple[Factory, bool | None]] = {
        f"returns {label}": (lambda result=result: lambda *at: result, False) for label, result in wrong.items()
    }
    return function().plus({"right": (lambda: right, True), **more})


NOT_A_NUMBER = {
    "None": None, "a string": "1", "an object": Odd(), "a complex number": 1j, "two numbers": np.ones(2),
    "a list": [1.0],
}  # fmt: skip
NOT_A_VECTOR = {
    "None": None, "a string": "x", "an object": Odd(), "a number": 1.0, "a list": [1.0] * N,
    "another size": np.ones(3), "strings": np.full(N, "x"), "complex numbers": np.ones(N, complex),
    "a masked array": np.ma.array(np.ones(N), mask=True),
}  # fmt: skip
OPERATORS = {
    f"a function of {label}": functools.partial(lambda found, v: found, found) for label, found in NOT_A_VECTOR.items()
}
FUNCTION, NONE = function().or_none(), nothing().or_none()
COMMON = {
    "damping": instance(tikhonov, hfrnn.HessianFreeOptions).or_none(),
    "rule": instance(hfrnn.LevenbergMarquardt, hfrnn.HessianFreeOptions).or_none(),
    "options": instance(hfrnn.HessianFreeOptions, hfrnn.LevenbergMarquardt).or_none(),
}
UNLIKE = array(theta, lists=False, integers=False)
DAMPING_STATE = {"kind": "tikhonov", "mu": 0.0, "lambda_": 1.0}
STATE = nothing().plus(
    {"right": (lambda: DAMPING_STATE, True), "without lambda_": (lambda: {"kind": "tikhonov", "mu": 0}, False)}
)
BLOCKS = [MatrixBlock(0, 2, 2)]

CALLS: list[Call] = [
    tried(hfrnn.Damping, {"kind": "tikhonov"}, kind=choice(*DAMPINGS), lambda_=number(1e-8, 1e8).or_none(), mu=None,
        adapt=choice(*ADAPTED).but({"mu": False}), least=None),
    Call(hfrnn.Damping, {}, {"mu": number(1e-8, 1e8).or_none()}, "with mu"),
    tried(hfrnn.Damping.scale, {"self": hfrnn.Damping, "factor": 1.5}, factor=ABOVE_0, lambda_factor=ABOVE_0.or_none()),
    tried(hfrnn.Damping.load_state_dict, {"self": tikhonov, "state": DAMPING_STATE}, state=STATE),
    tried(hfrnn.LevenbergMarquardt, {}, low=number(high=0.75), high=number(0.25)),
    tried(hfrnn.LevenbergMarquardt.factor, {"self": hfrnn.LevenbergMarquardt, "ratio": 0.5},
        ratio=number().but({"NaN": True, "inf": True, "-inf": True, "NumPy's NaN": True, "10**5000": None})),
    Call(hfrnn.HessianFreeOptions, {}, declared(hfrnn.HessianFreeOptions)),
    tried(hfrnn.HessianFree, {"damping": tikhonov}, **COMMON, lambda_rule=COMMON["rule"]),
    tried(hfrnn.HessianFree.update, {"self": optimizer, "gradient": quadratic, "theta": theta}, theta=ANY_SIZE,
        gradient=instance(quadratic, batch), curvature=instance(quadratic, batch).or_none(), separate=NONE,
        preconditioner=FUNCTION, on_cg=CALLBACK, should_stop=FUNCTION),
    tried(hfrnn.HessianFree.load_state_dict,
        {"self": optimizer,
         "state": {**DAMPING_STATE, "cg_solution": None, "failures": 0, "updates": 0, "steady": 0, "ended": None}},
        state=nothing()),
    tried(hfrnn.minimize,
        {
            "loss": lambda: lambda at: 0.5 * float(at @ at), "gradient": lambda: lambda at: at.copy(),
            "gauss_newton": lambda: gauss_newton, "theta": theta, "max_updates": 1,
        },
        loss=returned(lambda at: 0.5 * float(at @ at), NOT_A_NUMBER),
        gradient=returned(lambda at: at.copy(), NOT_A_VECTOR),
        gauss_newton=returned(gauss_newton, {"None": None, "a matrix": np.eye(N), **OPERATORS}),
        theta=ANY_SIZE, **COMMON, structural=NONE, squared_gradients=function(called=False).or_none(),
        preconditioner=FUNCTION, max_updates=count(0), gradient_tolerance=number(0), callback=CALLBACK),
    Call(hfrnn.minimize, {"loss": quadratic, "theta": theta, "max_updates": 1}, about="an objective",
        kinds={
            "theta": ANY_SIZE, "damping": COMMON["damping"],
            **dict.fromkeys(("gradient", "gauss_newton", "structural", "squared_gradients"), NONE),
        }),
    tried(cg.conjugate_gradient, {"apply": lambda: apply, "b": theta}, apply=function(),
        b=array(theta, lists=False, integers=False, finite=False).but(SIZES),
        x0=array(theta, lists=False, integers=False, finite=False).or_none(), max_iterations=count(0),
        epsilon=number(0), window=count(1), residual_tolerance=number(0).or_none(), residual_every=count(0),
        keep_ratio=number(1, open_low=True).or_none(), preconditioner=FUNCTION, on_iterate=FUNCTION),
    tried(cg.diagonal_preconditioner, {"diagonal": weights().reshape(-1), "lambda_": 1.0},
        diagonal=array(lambda: np.ones(5), lists=False, integers=False).but(SIZES), lambda_=ABOVE_0,
        exponent=number(0, 1)),
    tried(Average, {"decay": 0.5}, decay=number(0, 1, open_high=True)),
    tried(Average.add, {"self": average, "theta": theta}, theta=ANY_SIZE),
    tried(Average.load_state_dict, {"self": average, "state": {"average": None, "averaged": 0}},
        state=nothing().but({"dict": None})),
    *(tried(options, {}) for options in (SGDOptions, AdamOptions, SOAPOptions, MuonOptions)),
    tried(SOAP, {"blocks": BLOCKS}, blocks=None, options=instance(SOAPOptions, AdamOptions).or_none(), threads=None),
    tried(Muon, {"hidden": BLOCKS}, hidden=None, options=instance(MuonOptions, SOAPOptions).or_none(), threads=None),
    tried(Cosine, {"lr": 2.0}, lr=ABOVE_0, horizon=count(1).or_none(), least=number(0, 2)),
    tried(warm_up, {"update": 1, "updates": 2}, update=count(0), updates=count(0)),
    tried(SGD.step, {"self": SGD, "theta": theta, "gradient": theta, "lr": 0.1}, theta=UNLIKE, gradient=UNLIKE,
        lr=ABOVE_0.but({"1e300": None, "10**30": None}), out=None),
]  # fmt: skip
