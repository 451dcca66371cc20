"""Pointwise and product helpers that several kernels share. All of them run in place and on complex arrays."""

from __future__ import annotations

from typing import Any

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.kernels.base import Arrays, Tape

PIECE_BYTES = 2**20
"""About how much of a weight gradient is computed at a time before it is added."""


def sigmoid_(xp: Any, x: Array) -> None:
    """x <- sigma(x) = (tanh(x/2) + 1)/2 in place."""
    x *= 0.5
    xp.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def slope_of_tanh(xp: Any, h: Array, out: Array) -> Array:
    """out <- 1 - h*h, the slope of tanh where its value is h."""
    xp.multiply(h, h, out=out)
    xp.subtract(1.0, out, out=out)
    return out


def rows(x: Array) -> Array:
    """(K, B, n) as (K*B, n), a view."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def product(tape: Tape, x: Array, W: Array, out: Array) -> Array:
    """out <- x @ W over all steps at once: x (K, B, n), W (n, m), out (K, B, m)."""
    tape.xp.matmul(rows(x), W, out=rows(out))
    return out


def add_weight_gradient(tape: Tape, x: Array, da: Array, grad: Array) -> None:
    """grad <- grad + sum over steps and sequences of x.T @ da: x (K, B, n), da (K, B, m), grad (n, m)."""
    add_product(tape.xp, tape.shared, rows(x), rows(da), grad)


def add_product(xp: Any, scratch: Buffers, x: Array, da: Array, grad: Array) -> None:
    """grad (n, m) <- grad + x.T @ da, x (N, n), da (N, m): some columns at a time, added while in the cache."""
    if grad.strides[0] < grad.strides[1]:  # it lies column by column
        x, da, grad = da, x, grad.T
    m = grad.shape[1]
    width = -(-m // max(1, grad.nbytes // PIECE_BYTES))
    for start in range(0, m, width or 1):
        columns = slice(start, start + width)
        part = grad[:, columns]
        work = scratch.get("weight_gradient", part.shape)
        xp.matmul(x.T, da[:, columns], out=work)
        part += work


def transpose(p: Arrays, name: str) -> Array:
    """A block of the kernel's `transposed`, its last two axes exchanged: contiguous if the sweep prepared it."""
    prepared = p.get(f"{name}.T")
    return p[name].swapaxes(-1, -2) if prepared is None else prepared


def multiplied_rforward(xp: Any, Rxi: Array, recurrent: Array, U_m: Array, RU: Array, xi: Array, Rm: Array) -> None:
    """The tangent of m = U_m*xi, Rm <- RU_m*xi + U_m*(Rxi + recurrent), for one step; overwrites `recurrent`.

    All are (B, H) but RU (B, slots), which holds RU_m in its last H columns.
    """
    recurrent += Rxi
    recurrent *= U_m
    xp.multiply(RU[:, -Rm.shape[1] :], xi, out=Rm)
    Rm += recurrent


def multiplied_backward(xp: Any, dm: Array, U_m: Array, xi: Array, dxi: Array, dU: Array) -> None:
    """The adjoints of m = U_m*xi for one step: dxi <- dm*U_m (B, H), the last H columns of dU (B, slots) <- dm*xi."""
    xp.multiply(dm, U_m, out=dxi)
    xp.multiply(dm, xi, out=dU[:, -dm.shape[1] :])
