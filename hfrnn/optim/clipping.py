"""Bounds for the norm of a gradient, for its entries, and for the weights into each unit.

All functions work in place, on NumPy and CuPy arrays. A gradient that is not finite is refused instead of clipped: an
infinite entry means that a pass overflowed, and even its sign is meaningless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.arrays.vectors import Scalar, Vector, is_on_host, lazy_finite, lazy_norm, library, norm, of_type
from hfrnn.checks import POSITIVE, number
from hfrnn.errors import InputError, NonFiniteError


def clipping_factor(length: float, bound: float) -> float:
    """Return the factor that scales a gradient of this norm down to the norm `bound`; 1 if it is not longer."""
    if not math.isfinite(length):
        raise _not_finite()
    return float(bound) / length if length > bound else 1.0


def lazy_clip_norm(gradient: Vector, bound: float, threads: int = 1) -> Scalar:
    """Scale a gradient (n,) in place down to the Euclidean norm `bound` if it is longer; return its norm before that.

    The norm is summed in float64; the number of threads does not change it. A gradient that is not finite raises an
    error and stays as it is. On a device, nothing waits, and such a gradient becomes NaN, which the step of an
    optimizer notices. References: SPEC 7; [M].
    """
    number("bound", bound, POSITIVE)
    if is_on_host(gradient):
        length = norm(gradient, threads)
        if (factor := clipping_factor(length, bound)) < 1.0:
            gradient *= factor
        return length
    length, where = lazy_norm(gradient), library(gradient).where
    factor = where(length > float(bound), float(bound) / length, 1.0)
    gradient *= of_type(where(lazy_finite(length), factor, math.nan), gradient)
    return length


def lazy_clip_values(gradient: Vector, bound: float) -> None:
    """Limit every entry of a gradient (n,) in place to the interval from -bound to bound (SPEC 7; [S]).

    A gradient that is not finite is treated as by `lazy_clip_norm`.
    """
    number("bound", bound, POSITIVE)
    finite = lazy_finite(gradient)
    if finite is False:
        raise _not_finite()
    gradient.clip(-float(bound), float(bound), out=gradient)
    if finite is not True:
        gradient *= of_type(library(gradient).where(finite, 1.0, math.nan), gradient)


def max_norm(matrices: Sequence[Array], bound: float) -> None:
    """Scale the incoming weights of each unit in place down to the norm `bound` if they are longer (SPEC 7).

    A unit is one column of pre-activations; each gate of a cell is a unit of its own. Its incoming weights are its
    columns in all matrices whose products are added up in it, as one vector without the bias: W_x, W_below and W_h of a
    plain RNN. The matrices are views (..., n_k, H) from n_k inputs to the same H units. A column within the bound keeps
    its bits. Squares are summed in float64. The constant c of [S thesis] 6.1.5, which has no value there, bounds the
    squared norm.
    """
    number("bound", bound, POSITIVE)
    if any(len(W.shape) < 2 for W in matrices) or len({W.shape[-1] for W in matrices}) != 1:
        raise InputError(
            f"The matrices have shapes {', '.join(str(W.shape) for W in matrices) or '(none)'}, "
            "expected one or more (..., n, H) with the same H: give the matrices that feed the same units."
        )
    square = sum(library(W).square(W, dtype="float64").sum(axis=tuple(range(len(W.shape) - 1))) for W in matrices)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = float(bound) / (square**0.5).clip(float(bound), None)  # (H,), 1 within the bound
        for W in matrices:
            W *= scale.astype(W.dtype)


def _not_finite() -> NonFiniteError:
    return NonFiniteError(
        "The gradient is not finite, expected finite numbers; nothing was changed: "
        "go back to the last good parameters with a smaller learning rate."
    )
