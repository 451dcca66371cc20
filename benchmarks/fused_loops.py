"""Compiled prototypes for fused_passes.py: weight gradients inside backward loops, and products in one call.

The equations are those of hfrnn/kernels/, under its numbers; `compile_loop` and the steps are hfrnn's own.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from loops_on_blas import (
    cell_backward,
    mlstm_backward,
    mlstm_rforward,
    multiplied_backward,
    rnn_backward,
    rnn_rforward,
)
from numba import njit
from numba.extending import get_cython_function_address

from hfrnn.kernels.numba.multiplied import copy_gates

Array = Any
_sgemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(
    get_cython_function_address("scipy.linalg.cython_blas", "sgemm")  # the library that np.dot uses in compiled loops
)
loop = njit(nogil=True, error_model="numpy", fastmath={"contract"})
sums = njit(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


@njit(nogil=True)
def add_outer(x: Array, da: Array, grad: Array, letters: Array, integers: Array, factors: Array) -> None:
    """grad (n, m) += x.T @ da for x (N, n) and da (N, m), whose rows are contiguous, by BLAS."""
    integers[0], integers[1], integers[2] = da.shape[1], x.shape[1], x.shape[0]
    i, f, c = integers.ctypes.data, factors.ctypes.data, letters.ctypes.data
    m, n, k, one = i, i + 4, i + 8, f
    _sgemm(c, c + 1, m, n, k, one, da.ctypes.data, m, x.ctypes.data, n, one, grad.ctypes.data, m)


def blas_arguments() -> tuple[Array, Array, Array]:
    """Return the memory of the scalar arguments of `add_outer`."""
    return np.frombuffer(b"NT", np.uint8).copy(), np.zeros(3, np.int32), np.ones(1, np.float32)


@loop
def lstm_fused(
    n: int, W_T: Array, dhs: Array, k: Array, f: Array, k_c: Array, dh: Array, dc: Array, dU: Array, da: Array,
    hs: Array, grad: Array, letters: Array, integers: Array, factors: Array,
) -> None:  # fmt: skip
    """B1 to B3 of the lstm, with B3 after every n steps."""
    K, B, S = dU.shape
    H = hs.shape[2]
    last = K
    for t in range(K - 1, -1, -1):
        cell_backward(t, dh, dhs, dc, k, f, k_c, da)
        np.dot(dU[t], W_T, dh)
        if (K - t) % n == 0 or t == 0:
            N = (last - t) * B
            x, d = hs[t:last].reshape((N, H)), dU[t:last].reshape((N, S))
            add_outer(x, d, grad, letters, integers, factors)
            last = t


@loop
def mlstm_fused(
    n: int, W_hm_T: Array, W_m_T: Array, dhs: Array, U_m: Array, xi: Array, k: Array, f: Array, k_c: Array, dh: Array,
    dc: Array, das: Array, da: Array, dm: Array, dxi: Array, dU: Array, m: Array, hs: Array, grad_m: Array,
    grad_hm: Array, letters: Array, integers: Array, factors: Array,
) -> None:  # fmt: skip
    """B1 to B5 of the mlstm, with B5 after every n steps."""
    K, B, S = das.shape
    H = hs.shape[2]
    last = K
    for t in range(K - 1, -1, -1):
        cell_backward(t, dh, dhs, dc, k, f, k_c, da)
        copy_gates(t, da, dU)
        np.dot(das[t], W_m_T, dm)
        multiplied_backward(t, 4, dm, U_m, xi, dxi, dU)
        np.dot(dxi[t], W_hm_T, dh)
        if (K - t) % n == 0 or t == 0:
            N = (last - t) * B
            add_outer(m[t:last].reshape((N, H)), das[t:last].reshape((N, S)), grad_m, letters, integers, factors)
            add_outer(hs[t:last].reshape((N, H)), dxi[t:last].reshape((N, H)), grad_hm, letters, integers, factors)
            last = t


# ---------------------------------------------------------------------- a product of one segment in one call


@sums
def head(s: Array, Rz: Array, v_b: Array, scale: float) -> None:
    """Multiply the tangent Rz (N, V), to which the bias v_b is still to be added, by the scaled Hessian of softmax."""
    N, V = s.shape
    for n in range(N):
        mean = np.float32(0)
        for j in range(V):
            Rz[n, j] += v_b[j]
            mean += s[n, j] * Rz[n, j]
        for j in range(V):
            Rz[n, j] = s[n, j] * (Rz[n, j] - mean) * scale


@loop
def look_up(W: Array, symbols: Array, RU: Array) -> None:
    for n in range(symbols.shape[0]):
        for j in range(W.shape[1]):
            RU[n, j] = W[symbols[n], j]


@loop
def add_rows(dU: Array, symbols: Array, grad: Array) -> None:
    for n in range(symbols.shape[0]):
        row = symbols[n]
        for j in range(dU.shape[1]):
            grad[row, j] += dU[n, j]


@loop
def add_columns(dz: Array, grad: Array) -> None:
    for n in range(dz.shape[0]):
        for j in range(dz.shape[1]):
            grad[j] += dz[n, j]


@loop
def add_matrix(x: Array, y: Array) -> None:
    for n in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[n, j] += y[n, j]


@loop
def whole_head(
    hs: Array, Rhs: Array, s: Array, scale: float, mu: float, W_y: Array, W_yT: Array, v_y: Array, v_b: Array,
    Rz: Array, work: Array, dhs: Array, g_yT: Array, g_b: Array, letters: Array, integers: Array, factors: Array,
) -> None:  # fmt: skip
    """The curvature product of the output map with its weight gradients, and structural damping; rows are tokens."""
    np.dot(Rhs, W_y, Rz)
    np.dot(hs, v_y, work)
    add_matrix(Rz, work)
    head(s, Rz, v_b, scale)
    np.dot(Rz, W_yT, dhs)
    add_outer(Rz, hs, g_yT, letters, integers, factors)
    add_columns(Rz, g_b)
    for n in range(dhs.shape[0]):
        for j in range(dhs.shape[1]):
            dhs[n, j] += mu * Rhs[n, j]


@loop
def rnn_product(
    symbols: Array, hs: Array, slope: Array, s: Array, scale: float, mu: float, W: Array, W_T: Array, W_y: Array,
    W_yT: Array, v_x: Array, v_W: Array, v_y: Array, v_b: Array, RU: Array, Ra: Array, Rhs: Array, work: Array,
    Rz: Array, work_z: Array, dhs: Array, dU: Array, Rh: Array, dh: Array, g_x: Array, g_W: Array, g_yT: Array,
    g_b: Array, letters: Array, integers: Array, factors: Array,
) -> None:  # fmt: skip
    """R-forward, head, backward and weight gradients of an rnn without input bias, over one segment."""
    K, B, H = Rhs.shape
    N = K * B
    look_up(v_x, symbols, RU.reshape((N, H)))
    np.dot(hs[:K].reshape((N, H)), v_W, Ra.reshape((N, H)))
    Rh[...] = 0
    rnn_rforward(W, Rh, Ra, RU, slope, Rhs, work)
    V = s.shape[1]
    whole_head(
        hs[1:].reshape((N, H)), Rhs.reshape((N, H)), s, scale, mu, W_y, W_yT, v_y, v_b, Rz.reshape((N, V)),
        work_z.reshape((N, V)), dhs.reshape((N, H)), g_yT, g_b, letters, integers, factors,
    )  # fmt: skip
    dh[...] = 0
    rnn_backward(W_T, dhs, slope, dh, dU)
    add_outer(hs[:K].reshape((N, H)), dU.reshape((N, H)), g_W, letters, integers, factors)
    add_rows(dU.reshape((N, H)), symbols, g_x)


@loop
def mlstm_product(
    symbols: Array, hs: Array, m: Array, U_m: Array, xi: Array, k: Array, f: Array, k_c: Array, s: Array, scale: float,
    mu: float, W_hm: Array, W_m: Array, W_hm_T: Array, W_m_T: Array, W_y: Array, W_yT: Array, v_x: Array, v_hm: Array,
    v_m: Array, v_y: Array, v_b: Array, RU: Array, Rxi: Array, Ra: Array, Rc: Array, Rhs: Array, work: Array, Rm: Array,
    gates: Array, Rz: Array, work_z: Array, dhs: Array, das: Array, dm: Array, dxi: Array, dU: Array, Rh: Array,
    dh: Array, dc: Array, g_x: Array, g_hm: Array, g_m: Array, g_yT: Array, g_b: Array, letters: Array, integers: Array,
    factors: Array,
) -> None:  # fmt: skip
    """R-forward, head, backward and weight gradients of an mlstm, over one segment."""
    K, B, H = Rhs.shape
    N, V = K * B, s.shape[1]
    look_up(v_x, symbols, RU.reshape((N, 5 * H)))
    np.dot(hs[:K].reshape((N, H)), v_hm, Rxi.reshape((N, H)))
    np.dot(m.reshape((N, H)), v_m, Ra.reshape((N, 4 * H)))
    Rh[...] = 0
    Rc[...] = 0
    mlstm_rforward(
        W_hm, W_m, Rh, RU.reshape((K, B, 5, H)), Rxi, U_m, xi, Ra.reshape((K, B, 4, H)), k, f, k_c, Rc, Rhs, work, Rm,
        gates, gates.reshape((B, 4, H)),
    )  # fmt: skip
    whole_head(
        hs[1:].reshape((N, H)), Rhs.reshape((N, H)), s, scale, mu, W_y, W_yT, v_y, v_b, Rz.reshape((N, V)),
        work_z.reshape((N, V)), dhs.reshape((N, H)), g_yT, g_b, letters, integers, factors,
    )  # fmt: skip
    dh[...] = 0
    dc[...] = 0
    mlstm_backward(
        W_hm_T, W_m_T, dhs, U_m, xi, k, f, k_c, dh, dc, das, das.reshape((K, B, 4, H)), dm, dxi,
        dU.reshape((K, B, 5, H)),
    )  # fmt: skip
    add_outer(m.reshape((N, H)), das.reshape((N, 4 * H)), g_m, letters, integers, factors)
    add_outer(hs[:K].reshape((N, H)), dxi.reshape((N, H)), g_hm, letters, integers, factors)
    add_rows(dU.reshape((N, 5 * H)), symbols, g_x)
