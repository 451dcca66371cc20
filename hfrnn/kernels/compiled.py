"""The time loops of lstm, lstm-krause, mlstm and mlstm-standard, compiled by numba (backend `numba`).

The equations are those of cells.py, lstm.py and mlstm.py, under their numbers. A step is one or two matrix products
and one pass over its arrays; a segment is one call, which lets go of the interpreter lock, so that shards on several
threads never wait for each other. All arrays are C-contiguous; `a`, `U`, `k`, `Ra` and `dU` hold the gates i, f, o, g
side by side in their first 4H columns, and `U`, `RU` and `dU` of the multiplicative kinds the slot m in the last H.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from hfrnn.arrays.backend import Array

# x*P(x*x)/Q(x*x): least maximal relative error on [-9, 9] (2e-8, before rounding to single precision), beyond which
# tanh is 1 in single precision; by iteratively reweighted least squares
P = tuple(np.float32(c) for c in (9.99999979e-01, 1.33810254e-01, 3.49558786e-03, 2.06090784e-05, 1.33546566e-08))
Q = tuple(np.float32(c) for c in (1.0, 4.67143410e-01, 2.58769811e-02, 3.28563440e-04, 7.77655621e-07))
NINE, ONE, HALF = np.float32(9), np.float32(1), np.float32(0.5)  # exact in double precision too


def _tanh(x: Any) -> Any:
    """tanh of a number; in single precision a rational function, which the compiler turns into vector instructions."""
    return math.tanh(x)


@overload(_tanh, inline="always")
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


_compile = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
"""Sums and products may be fused into one rounding; nothing else is reordered."""


@_compile
def _sigma(x: Any) -> Any:
    return HALF * _tanh(HALF * x) + HALF


@_compile
def _gates(a: Array, b: int, H: int) -> tuple[Array, Array, Array, Array]:
    """The gates i, f, o and g of sequence b, each (H,)."""
    row = a[b]
    return row[:H], row[H : 2 * H], row[2 * H : 3 * H], row[3 * H : 4 * H]


@_compile
def _standard_cell(a: Array, U: Array, before: Array, c: Array, h: Array) -> None:
    """One step of the standard cell where nothing is recorded."""
    B, H = h.shape
    for b in range(B):
        a_i, a_f, a_o, a_g = _gates(a, b, H)
        U_i, U_f, U_o, U_g = _gates(U, b, H)
        c0, c1, h1 = before[b], c[b], h[b]
        for j in range(H):
            i, f, o = _sigma(a_i[j] + U_i[j]), _sigma(a_f[j] + U_f[j]), _sigma(a_o[j] + U_o[j])  # F1
            cj = f * c0[j] + i * _tanh(a_g[j] + U_g[j])  # F2, F3
            c1[j] = cj
            h1[j] = o * _tanh(cj)  # F4


@_compile
def _standard_linearized(a: Array, U: Array, before: Array, c: Array, h: Array, f_kept: Array, k_c: Array) -> None:
    """One step of the standard cell, whose coefficients k take the place of a."""
    B, H = h.shape
    for b in range(B):
        a_i, a_f, a_o, a_g = _gates(a, b, H)
        U_i, U_f, U_o, U_g = _gates(U, b, H)
        c0, c1, h1, fb, k = before[b], c[b], h[b], f_kept[b], k_c[b]
        for j in range(H):
            i, f, o = _sigma(a_i[j] + U_i[j]), _sigma(a_f[j] + U_f[j]), _sigma(a_o[j] + U_o[j])  # F1
            g = _tanh(a_g[j] + U_g[j])  # F2
            cj = f * c0[j] + i * g  # F3
            z = _tanh(cj)
            a_i[j] = g * i * (ONE - i)  # L1
            a_f[j] = c0[j] * f * (ONE - f)  # L2
            a_o[j] = z * o * (ONE - o)  # L3
            a_g[j] = i * (ONE - g * g)  # L4
            k[j] = o * (ONE - z * z)  # L5
            fb[j], c1[j], h1[j] = f, cj, o * z  # F4


@_compile
def _krause_cell(a: Array, U: Array, before: Array, c: Array, h: Array) -> None:
    """One step of Krause's cell where nothing is recorded."""
    B, H = h.shape
    for b in range(B):
        a_i, a_f, a_o, a_g = _gates(a, b, H)
        U_i, U_f, U_o, U_g = _gates(U, b, H)
        c0, c1, h1 = before[b], c[b], h[b]
        for j in range(H):
            i, f, o = _sigma(a_i[j] + U_i[j]), _sigma(a_f[j] + U_f[j]), _sigma(a_o[j] + U_o[j])  # F1
            cj = f * c0[j] + i * (a_g[j] + U_g[j])  # F2, F3
            c1[j] = cj
            h1[j] = _tanh(cj * o)  # F4


@_compile
def _krause_linearized(a: Array, U: Array, before: Array, c: Array, h: Array, f_kept: Array, k_c: Array) -> None:
    """One step of Krause's cell, whose coefficients k take the place of a."""
    B, H = h.shape
    for b in range(B):
        a_i, a_f, a_o, a_g = _gates(a, b, H)
        U_i, U_f, U_o, U_g = _gates(U, b, H)
        c0, c1, h1, fb, k = before[b], c[b], h[b], f_kept[b], k_c[b]
        for j in range(H):
            i, f, o = _sigma(a_i[j] + U_i[j]), _sigma(a_f[j] + U_f[j]), _sigma(a_o[j] + U_o[j])  # F1
            g = a_g[j] + U_g[j]  # F2
            cj = f * c0[j] + i * g  # F3
            hj = _tanh(cj * o)  # F4
            slope = ONE - hj * hj
            a_i[j] = g * i * (ONE - i)  # L1
            a_f[j] = c0[j] * f * (ONE - f)  # L2
            a_o[j] = cj * o * (ONE - o) * slope  # L3
            a_g[j] = i  # L4
            k[j] = o * slope  # L5
            fb[j], c1[j], h1[j] = f, cj, hj


@_compile
def _cell(krause: bool, t: int, U: Array, cs: Array, hs: Array, k: Array, f: Array, k_c: Array) -> None:
    """Step t of either cell; cs holds c_{t-1} and c_t in turn; k has one row where nothing is recorded."""
    before, c, h = cs[t % 2], cs[(t + 1) % 2], hs[t + 1]
    if k.shape[0] < U.shape[0]:
        if krause:
            _krause_cell(k[0], U[t], before, c, h)
        else:
            _standard_cell(k[0], U[t], before, c, h)
    elif krause:
        _krause_linearized(k[t], U[t], before, c, h, f[t], k_c[t])
    else:
        _standard_linearized(k[t], U[t], before, c, h, f[t], k_c[t])


@_compile
def _cell_rforward(
    Ra: Array, recurrent: Array, RU: Array, k: Array, f: Array, k_c: Array, Rc: Array, Rh: Array
) -> None:
    """One step: from the three parts of Ra, and Rc of the step before (overwritten), to Rc and Rh."""
    B, H = Rh.shape
    for b in range(B):
        x_i, x_f, x_o, x_g = _gates(Ra, b, H)
        y_i, y_f, y_o, y_g = _gates(recurrent, b, H)
        z_i, z_f, z_o, z_g = _gates(RU, b, H)
        k_i, k_f, k_o, k_g = _gates(k, b, H)
        fb, kc, Rcb, Rhb = f[b], k_c[b], Rc[b], Rh[b]
        for j in range(H):
            Ri, Rf = k_i[j] * (x_i[j] + y_i[j] + z_i[j]), k_f[j] * (x_f[j] + y_f[j] + z_f[j])
            Ro, Rg = k_o[j] * (x_o[j] + y_o[j] + z_o[j]), k_g[j] * (x_g[j] + y_g[j] + z_g[j])
            Rcj = fb[j] * Rcb[j] + Ri + Rf + Rg  # R1
            Rcb[j] = Rcj
            Rhb[j] = Ro + kc[j] * Rcj  # R2


@_compile
def _cell_backward(dh: Array, dhs: Array, dc: Array, k: Array, f: Array, k_c: Array, da: Array) -> None:
    """One step: from the two parts of dh, and dc's part from the step after (overwritten), to da."""
    B, H = dh.shape
    for b in range(B):
        k_i, k_f, k_o, k_g = _gates(k, b, H)
        d_i, d_f, d_o, d_g = _gates(da, b, H)
        dhb, dhsb, dcb, fb, kc = dh[b], dhs[b], dc[b], f[b], k_c[b]
        for j in range(H):
            dhj = dhb[j] + dhsb[j]
            dcj = dcb[j] + kc[j] * dhj  # B1
            d_i[j], d_f[j], d_o[j], d_g[j] = k_i[j] * dcj, k_f[j] * dcj, k_o[j] * dhj, k_g[j] * dcj  # B2
            dcb[j] = dcj * fb[j]  # B4


@_compile
def lstm_forward(krause: bool, W: Array, U: Array, cs: Array, hs: Array, k: Array, f: Array, k_c: Array) -> None:
    for t in range(U.shape[0]):
        np.dot(hs[t], W, k[t % k.shape[0]])  # F1
        _cell(krause, t, U, cs, hs, k, f, k_c)  # F2


@_compile
def lstm_rforward(
    W: Array, Rh: Array, Ra: Array, RU: Array, k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array, work: Array
) -> None:
    for t in range(Ra.shape[0]):
        np.dot(Rh if t == 0 else Rhs[t - 1], W, work)  # R1
        _cell_rforward(Ra[t], work, RU[t], k[t], f[t], k_c[t], Rc, Rhs[t])  # R2


@_compile
def lstm_backward(W_T: Array, dhs: Array, k: Array, f: Array, k_c: Array, dh: Array, dc: Array, dU: Array) -> None:
    for t in range(dhs.shape[0] - 1, -1, -1):
        _cell_backward(dh, dhs[t], dc, k[t], f[t], k_c[t], dU[t])  # B1
        np.dot(dU[t], W_T, dh)  # B2


@_compile
def mlstm_forward(
    krause: bool, W_hm: Array, W_m: Array, U: Array, U_m: Array, xi: Array, m: Array,
    cs: Array, hs: Array, k: Array, f: Array, k_c: Array,
) -> None:  # fmt: skip
    K, B, H = xi.shape
    for t in range(K):
        np.dot(hs[t], W_hm, xi[t])  # F1
        for b in range(B):
            u, kept, x, product = U[t, b, 4 * H :], U_m[t, b], xi[t, b], m[t, b]
            for j in range(H):
                kept[j] = u[j]
                product[j] = u[j] * x[j]  # F2
        np.dot(m[t], W_m, k[t % k.shape[0]])  # F3
        _cell(krause, t, U, cs, hs, k, f, k_c)  # F4


@_compile
def mlstm_rforward(
    W_hm: Array, W_m: Array, Rh: Array, RU: Array, Rxi: Array, U_m: Array, xi: Array, Ra: Array,
    k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array, work: Array, Rm: Array, recurrent: Array,
) -> None:  # fmt: skip
    K, B, H = xi.shape
    for t in range(K):
        np.dot(Rh if t == 0 else Rhs[t - 1], W_hm, work)  # R1
        for b in range(B):
            Ru, u, x, Rx, y, product = RU[t, b, 4 * H :], U_m[t, b], xi[t, b], Rxi[t, b], work[b], Rm[b]
            for j in range(H):
                product[j] = Ru[j] * x[j] + u[j] * (Rx[j] + y[j])  # R2
        np.dot(Rm, W_m, recurrent)  # R3
        _cell_rforward(Ra[t], recurrent, RU[t], k[t], f[t], k_c[t], Rc, Rhs[t])  # R4


@_compile
def mlstm_backward(
    W_hm_T: Array, W_m_T: Array, dhs: Array, U_m: Array, xi: Array, k: Array, f: Array, k_c: Array,
    dh: Array, dc: Array, da: Array, dm: Array, dxi: Array, dU: Array,
) -> None:  # fmt: skip
    K, B, H = xi.shape
    for t in range(K - 1, -1, -1):
        _cell_backward(dh, dhs[t], dc, k[t], f[t], k_c[t], da[t])  # B1
        np.dot(da[t], W_m_T, dm)  # B2
        for b in range(B):
            adjoint, u, x, d, du = dm[b], U_m[t, b], xi[t, b], dxi[t, b], dU[t, b]
            du[: 4 * H] = da[t, b]
            d_m = du[4 * H :]
            for j in range(H):
                d[j], d_m[j] = adjoint[j] * u[j], adjoint[j] * x[j]  # B3
        np.dot(dxi[t], W_hm_T, dh)  # B4
