"""Bounds for the norm of a gradient, for its entries, and for the weights into each unit.

All functions work in place, on NumPy and CuPy arrays. A gradient that is not finite is refused instead of clipped: an
infinite entry means that a pass overflowed, and even its sign is meaningless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.arrays.vectors import Scalar, Vector, is_finite, is_on_host, lazy_finite, lazy_norm, library, norm, of_type
from hfrnn.checks import POSITIVE, number
from hfrnn.errors import InputError, NonFiniteError


def clip_norm(gradient: Vector, bound: float, threads: int = 1) -> float:
    """Scale a gradient down to the norm `bound` if it is longer.

    Parameters
    ----------
    gradient : (n,) array
        Changed in place.
    bound : float
        Largest Euclidean norm, above 0.
    threads : int
        Threads that share the work; the result does not depend on them.

    Returns
    -------
    float
        Norm before scaling, summed in float64.

    Raises
    ------
    InputError
        The bound is out of range.
    NonFiniteError
        The norm is not finite. Nothing has changed then.

    References
    ----------
    SPEC 7; [M].
    """
    number("bound", bound, POSITIVE)
    length = norm(gradient, threads)
    if (factor := clipping_factor(length, bound)) < 1.0:
        gradient *= factor
    return length


def clipping_factor(length: float, bound: float) -> float:
    """Return the factor that scales a gradient of this norm down to the norm `bound`; 1 if it is not longer.

    Raises
    ------
    NonFiniteError
        The norm is not finite.
    """
    if not math.isfinite(length):
        raise _not_finite()
    return float(bound) / length if length > bound else 1.0


def lazy_clip_norm(gradient: Vector, bound: float, threads: int = 1) -> Scalar:
    """Do `clip_norm` without waiting for a device, where a gradient that is not finite becomes NaN instead of an error.

    The step of an optimizer notices the NaN.
    """
    if is_on_host(gradient):
        return clip_norm(gradient, bound, threads)
    number("bound", bound, POSITIVE)
    length, where = lazy_norm(gradient), library(gradient).where
    factor = where(length > float(bound), float(bound) / length, 1.0)
    gradient *= of_type(where(lazy_finite(length), factor, math.nan), gradient)
    return length


def lazy_clip_values(gradient: Vector, bound: float) -> None:
    """Do `clip_values` without waiting for a device, where a gradient that is not finite becomes NaN."""
    if is_on_host(gradient):
        clip_values(gradient, bound)
        return
    number("bound", bound, POSITIVE)
    factor = library(gradient).where(lazy_finite(gradient), 1.0, math.nan)
    gradient.clip(-float(bound), float(bound), out=gradient)
    gradient *= of_type(factor, gradient)


def clip_values(gradient: Vector, bound: float) -> None:
    """Limit every entry of a gradient to the interval from -bound to bound.

    Parameters
    ----------
    gradient : (n,) array
        Changed in place.
    bound : float
        Largest absolute value, above 0; 5 in [S].

    Raises
    ------
    InputError
        The bound is out of range.
    NonFiniteError
        The gradient is not finite. Nothing has changed then.

    References
    ----------
    SPEC 7; [S].
    """
    number("bound", bound, POSITIVE)
    if not is_finite(gradient):
        raise _not_finite()
    gradient.clip(-float(bound), float(bound), out=gradient)


def max_norm(matrices: Sequence[Array], bound: float) -> None:
    """Scale the incoming weights of each unit down to the norm `bound` if they are longer.

    A unit is one column of pre-activations; each gate of a cell is a unit of its own. The incoming weights of a unit
    are its columns in all matrices whose products are added up in it, as one vector without the bias. Examples: W_x,
    W_below and W_h of a plain RNN; all N recurrent matrices of a HORNN. Make one call for each group of units with the
    same matrices.

    Parameters
    ----------
    matrices : sequence of (..., n_k, H) arrays
        Views, from n_k inputs to the same H units; changed in place. A column within the bound keeps its bits.
    bound : float
        Largest Euclidean norm, above 0; squares are summed in float64. The constant c of [S thesis] 6.1.5, which has
        no value there, bounds the squared norm.

    Raises
    ------
    InputError
        The bound is out of range, or the matrices have different widths.

    References
    ----------
    SPEC 7; [S thesis] 6.1.5.
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
