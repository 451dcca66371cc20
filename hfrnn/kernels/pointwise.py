"""Elementwise operations and matrix products that several kernels share. All work in place, also on complex arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hfrnn.arrays.backend import Array, Backend, Buffers

if TYPE_CHECKING:
    from hfrnn.kernels.base import Arrays, Tape


def sigmoid_(xp: Any, x: Array) -> None:
    """x <- sigma(x) = (tanh(x/2) + 1)/2, in place."""
    x *= 0.5
    xp.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def softplus_(xp: Any, x: Array) -> None:
    """x <- log(1 + e^x) = max(x, 0) + log(1 + z), z = e^-|x|, in place; the sign of x is that of its real part.

    It never overflows. log(1 + z) = 2 artanh(z/(2 + z)) keeps small values to full precision, on complex arrays too.
    """
    positive = xp.multiply(x, x.real > 0)
    x -= 2.0 * positive
    xp.exp(x, out=x)
    x /= x + 2.0
    xp.arctanh(x, out=x)
    x *= 2.0
    x += positive


def slope_of_tanh(xp: Any, h: Array, out: Array) -> Array:
    """out <- 1 - h*h, the derivative of tanh where its value is h; return out."""
    xp.multiply(h, h, out=out)
    xp.subtract(1.0, out, out=out)
    return out


def rows(x: Array) -> Array:
    """Return a view of x (K, B, n) as (K*B, n)."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def product(tape: Tape, x: Array, W: Array, out: Array) -> Array:
    """out <- x @ W for all time steps at once: x (K, B, n), W (n, m), out (K, B, m); return out."""
    tape.xp.matmul(rows(x), W, out=rows(out))
    return out


def add_weight_gradient(tape: Tape, x: Array, da: Array, grad: Array) -> None:
    """grad += sum over time steps and sequences of x.T @ da: x (K, B, n), da (K, B, m), grad (n, m).

    If grad is (n, m, B), each sequence is summed over time steps by itself.
    """
    add_outer_products(tape.backend, x, da, grad, tape.shared)


def add_outer_products(backend: Backend, x: Array, da: Array, grad: Array, buffers: Buffers) -> None:
    """Do what `add_weight_gradient` does, with scratch arrays from `buffers`."""
    if grad.ndim == 2:
        backend.add_product(rows(x), rows(da), grad, buffers)
    else:
        sums = grad.transpose(2, 0, 1)  # (B, n, m)
        sums += backend.xp.matmul(x.transpose(1, 2, 0), da.transpose(1, 0, 2))


def add_bias_gradient(da: Array, grad: Array) -> None:
    """grad += sum over time steps and sequences of da (K, B, m), grad (m,); over time steps only if grad is (m, B)."""
    grad += rows(da).sum(axis=0) if grad.ndim == 1 else da.sum(axis=0).T


def transpose(p: Arrays, name: str) -> Array:
    """Return p[name] with its last two axes exchanged; contiguous if it is among the `Kernel.transposed`."""
    prepared = p.get(f"{name}.T")
    return p[name].swapaxes(-1, -2) if prepared is None else prepared


def multiplied_rforward(xp: Any, Rxi: Array, recurrent: Array, U_m: Array, RU: Array, xi: Array, Rm: Array) -> None:
    """Rm <- RU_m*xi + U_m*(Rxi + recurrent), the tangent of m = U_m*xi for one step; overwrites `recurrent`.

    All arrays are (B, H), except RU (B, slots), which holds RU_m in its last H columns.
    """
    recurrent += Rxi
    recurrent *= U_m
    xp.multiply(RU[:, -Rm.shape[1] :], xi, out=Rm)
    Rm += recurrent


def multiplied_backward(xp: Any, dm: Array, U_m: Array, xi: Array, dxi: Array, dU: Array) -> None:
    """dxi <- dm*U_m (B, H), last H columns of dU (B, slots) <- dm*xi: the adjoints of m = U_m*xi for one step."""
    xp.multiply(dm, U_m, out=dxi)
    xp.multiply(dm, xi, out=dU[:, -dm.shape[1] :])
