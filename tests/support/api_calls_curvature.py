"""Small valid calls of the public functions that use the curvature, and the kinds of their arguments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import hfrnn
from hfrnn.choices import MATRICES

from .api_calls import SEED, THETA, B, Call, N, T, batch, net, objective, of, theta
from .wrong_values import array, choice, count, instance, nothing, number


@functools.cache
def posterior() -> hfrnn.Laplace:
    return hfrnn.laplace(objective(), theta(), prior_precision=1.0)


def outputs() -> Any:
    return np.linspace(-1.0, 1.0, T * B * 3).reshape(T, B, 3)


def out() -> Any:
    return np.zeros((B, N))


KNOWN = {"objective": objective, "theta": theta}
KINDS = {"objective": instance(objective, net), "theta": THETA}
OUT = array(out, finite=False, lists=False, integers=False).or_none().but(
    {"read-only": False, "other byte order": False, "strided": None, "Fortran order": False}
)  # fmt: skip
POSITIVE = number(0, open_low=True)

CALLS: list[Call] = [
    Call(
        "Objective.per_sequence_gradients",
        of("per_sequence_gradients"),
        {"self": objective, "theta": theta},
        {"theta": THETA, "out": OUT},
    ),
    Call(
        "SequenceJacobian.transpose_products",
        lambda u, out=None: objective().sequence_jacobian(theta()).transpose_products(u, out),
        {"u": outputs},
        {"u": array(outputs).but({"NaN inside": None, "infinity inside": None}), "out": OUT},
    ),
    Call("dense_gauss_newton", hfrnn.dense_gauss_newton, KNOWN, KINDS),
    Call(
        "gauss_newton_diagonal",
        hfrnn.gauss_newton_diagonal,
        KNOWN,
        {**KINDS, "draws": count(2).or_none(), "seed": SEED},
    ),
    Call(
        "curvature_trace",
        hfrnn.curvature_trace,
        KNOWN,
        {**KINDS, "products": count(4), "matrix": choice(*MATRICES), "seed": SEED},
    ),
    Call(
        "influence",
        hfrnn.influence,
        {**KNOWN, "validation": batch, "damping": 1.0},
        {
            **KINDS,
            "validation": instance(batch, net),
            "damping": POSITIVE.but({"1e300": None}),
            "matrix": choice("gauss-newton"),
            "solver": choice("cg", "dense"),
            "tolerance": number(0, 1, open_low=True, open_high=True),
            "max_iterations": count(1),
        },
    ),
    Call(
        "laplace",
        hfrnn.laplace,
        {**KNOWN, "prior_precision": 1.0},
        {
            **KINDS,
            "structure": choice("dense", "low-rank", "diagonal"),
            "prior_precision": POSITIVE,
            "noise_variance": nothing().or_none(),
            "rank": count(1),
            "draws": count(2).or_none(),
            "seed": SEED,
        },
    ),
    Call(
        "Laplace.predict",
        of("predict"),
        {"self": posterior, "batch": batch},
        {
            "batch": instance(batch, net),
            "steps": nothing().or_none().plus({"last": (lambda: [-1], True)}).but({"range": None}),
        },
    ),
    Call(
        "Laplace.sample",
        of("sample"),
        {"self": posterior, "samples": 2},
        {"samples": count(1), "seed": SEED, "method": choice("factorization", "cg")},
    ),
    Call(
        "Laplace.with_values",
        of("with_values"),
        {"self": posterior, "prior_precision": 1.0},
        {"prior_precision": POSITIVE, "noise_variance": nothing().or_none()},
    ),
]
