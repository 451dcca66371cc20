"""Compiled passes over flat vectors for first-order optimizers: each reads and writes every entry once.

The steps round every operation, in the order of their references, so they have the same bits: S1 to S3, A1 and A2 of
optim/first_order.py, and A1 of optim/average.py. The squares are added in another order than NumPy's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels.numba.pointwise import compile_exact_loop, compile_sums


@compile_exact_loop
def sgd(
    new: Array, theta: Array, gradient: Array, before: Array, after: Array, factor: Any, lr: Any, momentum: Any,
    kept: Any, nesterov: bool,
) -> bool:  # fmt: skip
    """Write a step of SGD with the gradient times `factor`; return whether all that was written is finite.

    `before` and `after` hold the momentum, and `kept` is the share of the weights that decay leaves.
    """
    wrong = 0
    for n in range(theta.shape[0]):
        change = gradient[n] * factor * lr
        M = before[n] * momentum - change  # S1
        w = theta[n] * kept
        w = w - change + M * momentum if nesterov else w + M  # S3, S2
        after[n] = M
        new[n] = w
        wrong |= (M - M) + (w - w) != 0  # NaN where one of them is not finite
    return wrong == 0


@compile_exact_loop
def adam(
    new: Array, theta: Array, gradient: Array, mean: Array, square: Array, new_mean: Array, new_square: Array,
    factor: Any, beta1: Any, rest1: Any, beta2: Any, rest2: Any, scale1: Any, scale2: Any, epsilon: Any, kept: Any,
) -> bool:  # fmt: skip
    """Write a step of Adam with the gradient times `factor`; return whether all that was written is finite.

    `rest1` and `rest2` are 1 - beta1 and 1 - beta2, `scale1` is lr / (1 - beta1^t), `scale2` is 1 / (1 - beta2^t), and
    `kept` is the share of the weights that decay leaves.
    """
    wrong = 0
    for n in range(theta.shape[0]):
        g = gradient[n] * factor
        m = mean[n] * beta1 + g * rest1  # A1
        v = square[n] * beta2 + g * g * rest2  # A1
        w = theta[n] * kept - m * scale1 / (math.sqrt(v * scale2) + epsilon)  # A2
        new_mean[n] = m
        new_square[n] = v
        new[n] = w
        wrong |= (m - m) + (v - v) + (w - w) != 0  # NaN where one of them is not finite
    return wrong == 0


@compile_exact_loop
def average(value: Array, theta: Array, share: Any) -> None:
    """Move a running average towards theta by this share of the distance."""
    for n in range(value.shape[0]):
        value[n] += (theta[n] - value[n]) * share  # A1


@compile_sums
def sums_of_squares(x: Array, length: int, sums: Array, first: int, step: int) -> None:
    """Write the sums of squares of the pieces first, first + step, ... of x, each of this length, to the same places.

    The order of the additions within a piece depends on its length only.
    """
    for k in range(first, sums.shape[0], step):
        piece, total = x[k * length : (k + 1) * length], 0.0
        for n in range(piece.shape[0]):
            value = np.float64(piece[n])
            total += value * value
        sums[k] = total
