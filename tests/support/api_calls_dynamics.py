"""Calls of the functions of `hfrnn.dynamics`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hfrnn import dynamics
from hfrnn.data.scaling import Scaling

from .api_calls import SEED, B, Call, T, batch, real, squared, theta, tried
from .api_calls_curvature import LOOP
from .wrong_values import array, costly, count, instance, nothing, number


def state() -> Any:
    return np.linspace(-0.5, 0.5, B * 2).reshape(B, 2)


def states() -> Any:
    return [{"h": state()}]


def one_input() -> Any:
    return np.linspace(-1.0, 1.0, 3)


@functools.cache
def scaling() -> Scaling:
    return Scaling(np.zeros(3), np.ones(3), np.zeros(3), np.ones(3))


@functools.cache
def found() -> dynamics.FixedPoints:
    return dynamics.fixed_points(squared(), theta(), one_input(), state())


@functools.cache
def trajectories() -> dynamics.Trajectories:
    return dynamics.trajectories(squared(), theta(), batch(), {"side": ["a", "b"]})


NET = instance(squared, batch)
KNOWN = {"net": squared, "theta": theta}
INTEGERS = {"0": None, "1": None, "NumPy's 1": None, "array without axes": None, "integers": None}  # symbols
STATE = array(state, lists=False).but({"one entry less": True, "no entries": None, "one axis more": True}).plus({
    "dicts": (states, True), "dicts without h": (lambda: [{"c": state()}], False),
    "two layers": (lambda: [*states(), *states()], False), "a list of numbers": (lambda: [[0.0, 0.0]], False),
})  # fmt: skip
ONE = array(one_input).but(INTEGERS)
SERIES = array(real).but({"integers": None, "one entry less": True})
SCALING = instance(scaling, squared).or_none()
CHANGES = array(state).but({"one entry less": True, "one axis more": True})
CONDITIONS = nothing().or_none().but({"dict": False}).plus({
    "right": (lambda: {"side": ["a", "b"]}, True), "one value": (lambda: {"side": ["a"]}, False),
    "no list": (lambda: {"side": 1}, False), "a number as name": (lambda: {1: ["a", "b"]}, False),
})  # fmt: skip

CALLS: list[Call] = [
    tried(dynamics.to_vectors, {"net": squared, "state": states}, net=NET, state=STATE),
    tried(dynamics.to_state, {"net": squared, "vectors": state}, net=NET,
        vectors=array(state).but({"one entry less": True})),
    tried(dynamics.step_jacobian, {**KNOWN, "inputs": one_input, "state": state}, net=NET, inputs=ONE, state=STATE),
    tried(dynamics.fixed_points, {**KNOWN, "inputs": one_input, "starts": state}, net=NET, inputs=ONE, starts=STATE,
        tolerance=number(0, open_low=True), slow=costly(number(0, open_low=True)).or_none(), distance=number(0),
        iterations=count(1)),
    tried(dynamics.FixedPoints.linearized, {"self": found, "p": 0}, p=count(0, 0)),
    tried(dynamics.lyapunov, {**KNOWN, "inputs": real, "state": state}, net=NET, inputs=SERIES,
        state=STATE.but({"one entry less": False}).or_none(), k=count(1, 2).or_none(),
        free_steps=costly(count(1)).or_none(), scaling=SCALING, washout=count(0, T - 1).or_none(), seed=SEED,
        feedback=LOOP.but({"right": False})),  # not all inputs are fed back
    tried(dynamics.trajectories, {**KNOWN, "batch": batch}, net=NET, conditions=CONDITIONS, scaling=SCALING),
    tried(dynamics.Trajectories.means, {"self": trajectories, "condition": "side"}, condition=nothing()),
    tried(dynamics.Trajectories.components, {"self": trajectories}, k=count(1, 2).or_none()),
    tried(dynamics.perturb, {**KNOWN, "inputs": real, "state": state, "changes": state}, net=NET, inputs=SERIES,
        state=STATE.but({"one entry less": False}), changes=CHANGES, scaling=SCALING),
]  # fmt: skip
