"""The compiled multiplicative units m = U_m * xi of mrnn and the mlstm kinds, for one step; `slot` is that of U_m."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.numba.pointwise import inlined


@inlined
def multiplied_forward(t: int, slot: int, U: Array, U_m: Array, xi: Array, m: Array) -> None:
    """m[t] <- U_m*xi[t], and U_m[t] <- the slot of U[t]."""
    _, B, H = xi.shape
    for b in range(B):
        for j in range(H):
            u = U[t, b, slot, j]
            U_m[t, b, j] = u
            m[t, b, j] = u * xi[t, b, j]


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


@inlined
def copy_gates(t: int, da: Array, dU: Array) -> None:
    """The first slots of dU[t] <- da[t]."""
    _, B, gates, H = da.shape
    for b in range(B):
        for n in range(gates):
            for j in range(H):
                dU[t, b, n, j] = da[t, b, n, j]
