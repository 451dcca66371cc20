"""Compiled building blocks: tanh and sigma of a number, and the decorators of loops."""

from __future__ import annotations

import math
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import njit, types
from numba.extending import overload

from hfrnn.arrays.backend import Array
from hfrnn.kernels.numba.cache import compiled

if llvm.llvm_version_info[0] >= 20:
    # One overlap check before the loop over sequences always fails, because the gates of a sequence lie between those
    # of its neighbours; then no loop is vectorised. A check for each sequence succeeds.
    llvm.set_option("", "-hoist-runtime-checks=false")

# x*P(x*x)/Q(x*x): least maximal relative error on [-9, 9] (2e-8, before rounding to single precision), beyond which
# tanh is 1 in single precision; by iteratively reweighted least squares
P = tuple(np.float32(c) for c in (9.99999979e-01, 1.33810254e-01, 3.49558786e-03, 2.06090784e-05, 1.33546566e-08))
Q = tuple(np.float32(c) for c in (1.0, 4.67143410e-01, 2.58769811e-02, 3.28563440e-04, 7.77655621e-07))
NINE, ONE, HALF, ZERO = np.float32(9), np.float32(1), np.float32(0.5), np.float32(0)  # exact in double precision too


def tanh(x: Any) -> Any:
    """tanh of a number; in single precision a rational function, which the compiler turns into vector instructions."""
    return math.tanh(x)


@overload(tanh, inline="always")
def _compiled_tanh(x: Any) -> Any:
    def single(x: Any) -> Any:
        x = min(max(x, -NINE), NINE)
        s = x * x
        p = (((P[4] * s + P[3]) * s + P[2]) * s + P[1]) * s + P[0]
        q = (((Q[4] * s + Q[3]) * s + Q[2]) * s + Q[1]) * s + Q[0]
        return min(max(x * p / q, -ONE), ONE)

    def double(x: Any) -> Any:
        return math.tanh(x)

    return single if x is types.float32 else double


compile_loop = compiled(fastmath={"contract"})
"""Compile a loop over time. Sums and products may be fused into one rounding; nothing else is reordered."""
compile_exact_loop = compiled()
"""Compile a loop over time that rounds every operation. A sum of two products, such as (1 - a)*h + a*g, can be fused in
two ways. A loop that runs with or without vector instructions, as the addresses of its arrays allow, may then choose
differently from call to call."""
compile_sums = compiled(fastmath={"contract", "reassoc", "nsz"})
"""Compile a loop whose inner loops may add in another order: sums over an axis become vector instructions. Nothing is
stored inside a sum, so the addresses of the arrays do not change its order."""
inlined = njit(inline="always", error_model="numpy")
"""Mark a part of such a loop, which is copied into it. A function that is called could be compiled twice, with other
roundings when the loop comes from numba's cache. Its arrays are indexed fully: views in inner loops cost time."""


@inlined
def sigma(x: Any) -> Any:
    return HALF * tanh(HALF * x) + HALF


TANH, LOGISTIC, RELU = range(3)
ACTIVATIONS = {"tanh": TANH, "logistic": LOGISTIC, "relu": RELU}
"""The activation functions of the loops that take one as a number. Softplus runs the reference."""


@inlined
def activate(kind: int, a: Any) -> Any:
    """Return f(a)."""
    if kind == TANH:
        return tanh(a)
    if kind == LOGISTIC:
        return sigma(a)
    return ZERO if a <= ZERO else a  # NaN stays NaN


@inlined
def slope_of(kind: int, h: Any) -> Any:
    """Return f'(a), computed from h = f(a)."""
    if kind == TANH:
        return ONE - h * h
    if kind == LOGISTIC:
        return h * (ONE - h)
    return ONE if h > ZERO else ZERO


def parts(x: Array, H: int) -> Array:
    """Return a view of x (..., n*H) as (..., n, H): one row for each slot or gate."""
    return x.reshape(*x.shape[:-1], x.shape[-1] // H, H)
