"""What keeps gradients and weights within bounds: the norm of a gradient, its entries, the weights into each unit.

All three write in place, on NumPy and CuPy arrays. A gradient that is not finite is refused, never clipped to
something that looks like one: an infinite entry says that a pass overflowed, and its sign is worth nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.cg import Array, norm
from hfrnn.optim.first_order import is_finite, require


def clip_norm(gradient: Array, bound: float, threads: int = 1) -> float:
    """Scale a gradient down to norm `bound` if it is longer.

    Arguments: `gradient` (n,), changed in place; `bound` > 0; `threads` that share the summing, and change no bit of
    it. Returns its norm before, summed in float64. Raises InputError for a bound out of range; NonFiniteError if that
    norm is not finite (nothing is changed then). Source: SPEC 7, [M].
    """
    require("The norm's bound", bound, bound > 0.0, "above 0")
    length = norm(gradient, threads)
    if not math.isfinite(length):
        raise _not_finite()
    if length > bound:
        gradient *= float(bound) / length
    return length


def clip_values(gradient: Array, bound: float) -> None:
    """Move every entry of a gradient that lies outside of -bound to bound to the nearer of the two.

    Arguments: `gradient` (n,), changed in place; `bound` > 0, 5 in [S]. Raises InputError for a bound out of range;
    NonFiniteError if the gradient is not finite (nothing is changed then). Source: SPEC 7, [S].
    """
    require("The values' bound", bound, bound > 0.0, "above 0")
    if not is_finite(gradient):
        raise _not_finite()
    gradient.clip(-float(bound), float(bound), out=gradient)


def max_norm(matrices: Sequence[Array], bound: float) -> None:
    """Shorten the vector of incoming weights of each unit to `bound` where it is longer.

    A unit is one column of pre-activations (one slot's column: each gate of a cell is a unit of its own). Its incoming
    weights are its columns in every matrix that is added up into it, taken together as one vector, biases not
    included: W_x, W_below and W_h of a plain RNN, and all N recurrent matrices of a HORNN. One call bounds the units
    that the same matrices feed; a call with one matrix bounds its columns by themselves.

    Arguments: `matrices`, views (..., n_k, H), n_k inputs to the same H units, changed in place; `bound` > 0 (the root
    of the constant c in [S thesis] 6.1.5, which bounds the squared norm and gives no value). Squares are summed in
    float64; a column within the bound keeps its bits. Raises InputError for a bound out of range or matrices of
    different width. Source: SPEC 7, [S thesis] 6.1.5.
    """
    require("The maximal norm", bound, bound > 0.0, "above 0")
    if any(len(W.shape) < 2 for W in matrices) or len({W.shape[-1] for W in matrices}) != 1:
        raise InputError(
            f"The matrices have shapes {', '.join(str(W.shape) for W in matrices) or '(none)'}, "
            "expected one or more (..., n, H) with the same H: give those that feed the same units."
        )
    square = sum((W * W).sum(axis=tuple(range(len(W.shape) - 1)), dtype="float64") for W in matrices)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = float(bound) / (square**0.5).clip(float(bound), None)  # (H,), 1 within the bound
    for W in matrices:
        W *= scale.astype(W.dtype)


def _not_finite() -> NonFiniteError:
    return NonFiniteError(
        "The gradient is not finite, expected finite numbers; nothing was changed: "
        "go back to the last good parameters with a smaller learning rate."
    )
