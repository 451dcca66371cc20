"""The compiled step of both memory cells: the equations of kernels/cells.py, under its numbers.

The gates i, f, o, g of step t and sequence b are `k[t, b, 0]` to `k[t, b, 3]`, each (H,); U, RU, Ra and da likewise.
cs holds c_{t-1} and c_t in turn, and hs[t] is h_{t-1}. `standard_step` and `krause_step` compute a step where nothing
is recorded: k has one row then. `standard_linearized` and `krause_linearized` also compute its coefficients, in place
of a.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.numba.pointwise import ONE, inlined, sigma, tanh


@inlined
def standard_step(t: int, a: Array, cs: Array, hs: Array) -> None:
    _, B, H = hs.shape
    old, new = t % 2, (t + 1) % 2
    for b in range(B):
        for j in range(H):
            i, f = sigma(a[b, j]), sigma(a[b, H + j])  # F1
            o, g = sigma(a[b, 2 * H + j]), tanh(a[b, 3 * H + j])  # F1, F2
            c = f * cs[old, b, j] + i * g  # F3
            cs[new, b, j] = c
            hs[t + 1, b, j] = o * tanh(c)  # F4


@inlined
def standard_linearized(t: int, a: Array, cs: Array, hs: Array, k: Array, f_kept: Array, k_c: Array) -> None:
    _, B, H = hs.shape
    old, new = t % 2, (t + 1) % 2
    for b in range(B):
        for j in range(H):
            i, f = sigma(a[b, j]), sigma(a[b, H + j])  # F1
            o, g = sigma(a[b, 2 * H + j]), tanh(a[b, 3 * H + j])  # F1, F2
            before = cs[old, b, j]
            c = f * before + i * g  # F3
            z = tanh(c)
            k[t, b, 0, j] = g * i * (ONE - i)  # L1
            k[t, b, 1, j] = before * f * (ONE - f)  # L2
            k[t, b, 2, j] = z * o * (ONE - o)  # L3
            k[t, b, 3, j] = i * (ONE - g * g)  # L4
            k_c[t, b, j] = o * (ONE - z * z)  # L5
            f_kept[t, b, j] = f
            cs[new, b, j] = c
            hs[t + 1, b, j] = o * z  # F4


@inlined
def krause_step(t: int, a: Array, cs: Array, hs: Array) -> None:
    _, B, H = hs.shape
    old, new = t % 2, (t + 1) % 2
    for b in range(B):
        for j in range(H):
            i, f = sigma(a[b, j]), sigma(a[b, H + j])  # F1
            o, g = sigma(a[b, 2 * H + j]), a[b, 3 * H + j]  # F1, F2
            c = f * cs[old, b, j] + i * g  # F3
            cs[new, b, j] = c
            hs[t + 1, b, j] = tanh(c * o)  # F4


@inlined
def krause_linearized(t: int, a: Array, cs: Array, hs: Array, k: Array, f_kept: Array, k_c: Array) -> None:
    _, B, H = hs.shape
    old, new = t % 2, (t + 1) % 2
    for b in range(B):
        for j in range(H):
            i, f = sigma(a[b, j]), sigma(a[b, H + j])  # F1
            o, g = sigma(a[b, 2 * H + j]), a[b, 3 * H + j]  # F1, F2
            before = cs[old, b, j]
            c = f * before + i * g  # F3
            h = tanh(c * o)  # F4
            slope = ONE - h * h
            k[t, b, 0, j] = g * i * (ONE - i)  # L1
            k[t, b, 1, j] = before * f * (ONE - f)  # L2
            k[t, b, 2, j] = c * o * (ONE - o) * slope  # L3
            k[t, b, 3, j] = i  # L4
            k_c[t, b, j] = o * slope  # L5
            f_kept[t, b, j] = f
            cs[new, b, j] = c
            hs[t + 1, b, j] = h


@inlined
def cell_rforward(t: int, Ra: Array, k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array) -> None:
    """Rc (B, H) changes from that of step t-1 to that of step t; Ra (B, at least 4H) is the tangent of a."""
    _, B, H = Rhs.shape
    for b in range(B):
        for j in range(H):
            Ri = k[t, b, 0, j] * Ra[b, j]
            Rf = k[t, b, 1, j] * Ra[b, H + j]
            Ro = k[t, b, 2, j] * Ra[b, 2 * H + j]
            Rg = k[t, b, 3, j] * Ra[b, 3 * H + j]
            R = f[t, b, j] * Rc[b, j] + Ri + Rf + Rg  # R1
            Rc[b, j] = R
            Rhs[t, b, j] = Ro + k_c[t, b, j] * R  # R2


@inlined
def cell_backward(t: int, s: int, dh: Array, dc: Array, k: Array, f: Array, k_c: Array, da: Array) -> None:
    """dc (B, H) changes from the adjoint of c_t to that of c_{t-1}; the adjoint of h_t is dh (B, at least H).

    da holds the adjoints of the gates of step t at s.
    """
    B, H = dc.shape
    for b in range(B):
        for j in range(H):
            dh_t = dh[b, j]
            dc_t = dc[b, j] + k_c[t, b, j] * dh_t  # B1
            da[s, b, 0, j] = k[t, b, 0, j] * dc_t  # B2
            da[s, b, 1, j] = k[t, b, 1, j] * dc_t  # B2
            da[s, b, 2, j] = k[t, b, 2, j] * dh_t  # B2
            da[s, b, 3, j] = k[t, b, 3, j] * dc_t  # B2
            dc[b, j] = dc_t * f[t, b, j]  # B4
