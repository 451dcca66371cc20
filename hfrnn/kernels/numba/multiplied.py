"""The compiled multiplicative units m = U_m * xi of the mlstm kinds, for one step; `slot` is that of U_m."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.numba.pointwise import inlined


@inlined
def multiplied_forward(t: int, U_m: Array, xi: Array, kept_U_m: Array, kept_xi: Array, m: Array) -> None:
    """m[t] <- U_m*xi; keep U_m and xi, both (B, at least H)."""
    _, B, H = m.shape
    for b in range(B):
        for j in range(H):
            u, x = U_m[b, j], xi[b, j]
            kept_U_m[t, b, j] = u
            kept_xi[t, b, j] = x
            m[t, b, j] = u * x


@inlined
def multiplied_rforward(t: int, RU_m: Array, Rxi: Array, U_m: Array, xi: Array, Rm: Array) -> None:
    """Rm (B, H) <- RU_m*xi + U_m*Rxi, of step t; RU_m and Rxi are (B, at least H)."""
    _, B, H = xi.shape
    for b in range(B):
        for j in range(H):
            Rm[b, j] = RU_m[b, j] * xi[t, b, j] + U_m[t, b, j] * Rxi[b, j]


@inlined
def multiplied_backward(t: int, s: int, slot: int, dm: Array, U_m: Array, xi: Array, dxi: Array, dU: Array) -> None:
    """dxi[s] <- dm*U_m and the slot of dU[s] <- dm*xi, of step t; dm is (B, at least H)."""
    _, B, H = xi.shape
    for b in range(B):
        for j in range(H):
            dxi[s, b, j] = dm[b, j] * U_m[t, b, j]
            dU[s, b, slot, j] = dm[b, j] * xi[t, b, j]


@inlined
def copy_gates(t: int, da: Array, dU: Array) -> None:
    """The first slots of dU[t] <- da[t]."""
    _, B, gates, H = da.shape
    for b in range(B):
        for n in range(gates):
            for j in range(H):
                dU[t, b, n, j] = da[t, b, n, j]
