"""Loops of rnn and mlstm whose products are calls of BLAS, for the prototypes of fused_loops.py.

The equations are those of hfrnn/kernels/, under its numbers. The engine's own loops multiply by packed matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.kernels.numba.multiplied import copy_gates
from hfrnn.kernels.numba.pointwise import compile_loop, inlined

Array = Any


@inlined
def cell_rforward(
    t: int, Ra: Array, recurrent: Array, RU: Array, k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array
) -> None:
    """Rc (B, H) changes from that of step t-1 to that of step t; the tangent of a is Ra + recurrent + RU."""
    _, B, H = Rhs.shape
    for b in range(B):
        for j in range(H):
            Ri = k[t, b, 0, j] * (Ra[t, b, 0, j] + recurrent[b, 0, j] + RU[t, b, 0, j])
            Rf = k[t, b, 1, j] * (Ra[t, b, 1, j] + recurrent[b, 1, j] + RU[t, b, 1, j])
            Ro = k[t, b, 2, j] * (Ra[t, b, 2, j] + recurrent[b, 2, j] + RU[t, b, 2, j])
            Rg = k[t, b, 3, j] * (Ra[t, b, 3, j] + recurrent[b, 3, j] + RU[t, b, 3, j])
            R = f[t, b, j] * Rc[b, j] + Ri + Rf + Rg  # R1
            Rc[b, j] = R
            Rhs[t, b, j] = Ro + k_c[t, b, j] * R  # R2


@inlined
def cell_backward(t: int, dh: Array, dhs: Array, dc: Array, k: Array, f: Array, k_c: Array, da: Array) -> None:
    """dc (B, H) changes from the adjoint of c_t to that of c_{t-1}; the adjoint of h_t is dh (B, H) + dhs[t]."""
    B, H = dh.shape
    for b in range(B):
        for j in range(H):
            dh_t = dh[b, j] + dhs[t, b, j]
            dc_t = dc[b, j] + k_c[t, b, j] * dh_t  # B1
            da[t, b, 0, j] = k[t, b, 0, j] * dc_t  # B2
            da[t, b, 1, j] = k[t, b, 1, j] * dc_t  # B2
            da[t, b, 2, j] = k[t, b, 2, j] * dh_t  # B2
            da[t, b, 3, j] = k[t, b, 3, j] * dc_t  # B2
            dc[b, j] = dc_t * f[t, b, j]  # B4


@inlined
def multiplied_rforward(
    t: int, slot: int, RU: Array, Rxi: Array, recurrent: Array, U_m: Array, xi: Array, Rm: Array
) -> None:
    """Rm <- RU_m*xi + U_m*(Rxi + recurrent), of step t; recurrent and Rm are (B, H)."""
    _, B, H = xi.shape
    for b in range(B):
        for j in range(H):
            Rm[b, j] = RU[t, b, slot, j] * xi[t, b, j] + U_m[t, b, j] * (Rxi[t, b, j] + recurrent[b, j])


@inlined
def multiplied_backward(t: int, slot: int, dm: Array, U_m: Array, xi: Array, dxi: Array, dU: Array) -> None:
    """dxi[t] <- dm*U_m and the slot of dU[t] <- dm*xi; dm is (B, H)."""
    _, B, H = xi.shape
    for b in range(B):
        for j in range(H):
            dxi[t, b, j] = dm[b, j] * U_m[t, b, j]
            dU[t, b, slot, j] = dm[b, j] * xi[t, b, j]


@compile_loop
def mlstm_rforward(
    W_hm: Array, W_m: Array, Rh: Array, RU: Array, Rxi: Array, U_m: Array, xi: Array, Ra: Array,
    k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array, work: Array, Rm: Array, gates: Array, recurrent: Array,
) -> None:  # fmt: skip
    for t in range(Ra.shape[0]):
        np.dot(Rh if t == 0 else Rhs[t - 1], W_hm, work)  # R1
        multiplied_rforward(t, 4, RU, Rxi, work, U_m, xi, Rm)  # R2
        np.dot(Rm, W_m, gates)  # R3
        cell_rforward(t, Ra, recurrent, RU, k, f, k_c, Rc, Rhs)  # R4


@compile_loop
def mlstm_backward(
    W_hm_T: Array, W_m_T: Array, dhs: Array, U_m: Array, xi: Array, k: Array, f: Array, k_c: Array,
    dh: Array, dc: Array, das: Array, da: Array, dm: Array, dxi: Array, dU: Array,
) -> None:  # fmt: skip
    for t in range(dhs.shape[0] - 1, -1, -1):
        cell_backward(t, dh, dhs, dc, k, f, k_c, da)  # B1
        copy_gates(t, da, dU)
        np.dot(das[t], W_m_T, dm)  # B2
        multiplied_backward(t, 4, dm, U_m, xi, dxi, dU)  # B3
        np.dot(dxi[t], W_hm_T, dh)  # B4


@compile_loop
def rnn_rforward(W: Array, Rh: Array, Ra: Array, RU: Array, slope: Array, Rhs: Array, work: Array) -> None:
    K, B, H = RU.shape
    for t in range(K):
        np.dot(Rh if t == 0 else Rhs[t - 1], W, work)
        for b in range(B):
            for j in range(H):
                Rhs[t, b, j] = slope[t, b, j] * (Ra[t, b, j] + RU[t, b, j] + work[b, j])  # R1, R2


@compile_loop
def rnn_backward(W_T: Array, dhs: Array, slope: Array, dh: Array, dU: Array) -> None:
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                dU[t, b, j] = (dh[b, j] + dhs[t, b, j]) * slope[t, b, j]  # B1
        np.dot(dU[t], W_T, dh)  # B2
