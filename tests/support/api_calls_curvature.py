"""Calls of the public functions that use the curvature, predict or score, and the kinds of their arguments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import hfrnn
from hfrnn.choices import MATRICES
from hfrnn.data.scaling import Scaling

from .api_calls import ABOVE_0, STRENGTH, B, Call, N, T, batch, net, objective, real, squared, theta, tried
from .wrong_values import array, choice, count, function, instance, nothing


@functools.cache
def posterior() -> hfrnn.Laplace:
    return hfrnn.laplace(objective(), theta(), prior_precision=1.0)


@functools.cache
def density() -> hfrnn.Spectrum:
    return hfrnn.spectrum(objective(), theta(), count=1, vectors=1, steps=3)


@functools.cache
def values() -> hfrnn.Batch:
    return hfrnn.Batch(real(), real())


@functools.cache
def scaling() -> Scaling:
    return Scaling(np.zeros(3), np.full(3, 2.0), np.ones(3), np.full(3, 0.5))


def outputs() -> Any:
    return np.linspace(-1.0, 1.0, T * B * 3).reshape(T, B, 3)


def squared_theta() -> Any:
    return np.resize(theta(), squared().n_parameters)


def transpose_products(u: Any, out: Any = None) -> Any:
    return objective().sequence_jacobian(theta()).transpose_products(u, out)


KNOWN = {"objective": objective, "theta": theta}
OUT = array(lambda: np.zeros((B, N)), finite=False, lists=False, integers=False).or_none().but(
    {"read-only": False, "other byte order": False, "strided": None, "Fortran order": False}
)  # fmt: skip
TOLD = function(called=False).but({"class": None, "True": True, "False": True})
VARIANCE, DRAWS = nothing().or_none(), count(2).or_none()
PREDICTED = {"net": squared, "theta": squared_theta, "batch": values}
KINDS = {
    "net": instance(squared, values), "theta": array(squared_theta),
    "batch": instance(values, net).plus({"symbols": (batch, None)}), "scaling": instance(scaling, net).or_none(),
}  # fmt: skip
NAMES = nothing().or_none().plus({
    "right": (lambda: ["a", "b", "c"], True), "two": (lambda: ["a", "b"], False),
    "numbers": (lambda: [1, 2, 3], False),
})  # fmt: skip
LOOP = nothing().or_none().plus({
    "right": (lambda: [0, None, 2], True), "twice": (lambda: [1, 1, 2], False), "none": (lambda: [None] * 3, False),
    "outside": (lambda: [0, 1, 3], False), "an array": (lambda: np.array([2, 1, 0]), True),
})  # fmt: skip
AHEAD = nothing().plus({
    "right": (lambda: [2, 1], True), "zero steps": (lambda: [0], False), "far": (lambda: [T + 1], False),
})  # fmt: skip
STEPS = nothing().or_none().plus({"last": (lambda: [-1], True)}).but({"range": None})

CALLS: list[Call] = [
    tried(hfrnn.Objective.per_sequence_gradients, {"self": objective, "theta": theta}, out=OUT),
    tried(transpose_products, {"u": outputs}, out=OUT,
        u=array(outputs).but({"NaN inside": None, "infinity inside": None})),
    tried(hfrnn.dense_gauss_newton, KNOWN),
    tried(hfrnn.gauss_newton_diagonal, KNOWN, draws=DRAWS),
    tried(hfrnn.curvature_trace, KNOWN, products=count(4), matrix=choice(*MATRICES)),
    tried(hfrnn.influence, {**KNOWN, "validation": batch, "damping": 1.0}, validation=instance(batch, net),
        damping=ABOVE_0.but({"1e300": None}), matrix=choice("gauss-newton"), solver=choice("cg", "dense")),
    tried(hfrnn.laplace, {**KNOWN, "prior_precision": 1.0}, structure=choice("dense", "low-rank", "diagonal"),
        prior_precision=ABOVE_0, noise_variance=VARIANCE, rank=count(1), draws=DRAWS, progress=TOLD),
    tried(hfrnn.Laplace.predict, {"self": posterior, "batch": batch}, steps=STEPS),
    tried(hfrnn.Laplace.sample, {"self": posterior, "samples": 2}, samples=count(1),
        method=choice("factorization", "cg")),
    tried(hfrnn.Laplace.with_values, {"self": posterior, "prior_precision": 1.0}, prior_precision=ABOVE_0,
        noise_variance=VARIANCE),
    tried(hfrnn.spectrum, {**KNOWN, "count": 1, "vectors": 1, "steps": 3}, matrix=choice("gauss-newton", "hessian"),
        count=count(0), vectors=count(0).but({"1e300": None}), steps=count(1), progress=TOLD),
    tried(hfrnn.Spectrum.ranked, {"self": density, "rank": 1}, rank=count(1, N)),
    tried(hfrnn.predict, PREDICTED, **KINDS, estimate_state=count(1).or_none()),
    tried(hfrnn.score, PREDICTED, **KINDS, names=NAMES, estimate_state=count(1).or_none()),
    tried(hfrnn.free_run, {**PREDICTED, "steps": 2, "warm_up": 2}, **KINDS, steps=count(1), feedback=LOOP,
        warm_up=count(1, T).or_none(), estimate_state=count(1).or_none()),
    tried(hfrnn.score_free_run, PREDICTED, **KINDS, names=NAMES, feedback=LOOP, warm_up=count(1, T).or_none()),
    tried(hfrnn.score_ahead, {**PREDICTED, "ahead": [1, 2]}, **KINDS, ahead=AHEAD, names=NAMES, feedback=LOOP,
        warm_up=count(1, T - 1).or_none(), starts=count(1)),
    tried(hfrnn.estimate_initial_state, {**PREDICTED, "steps": 2}, **KINDS, steps=count(1), ridge=STRENGTH,
        tolerance=STRENGTH),
]  # fmt: skip
