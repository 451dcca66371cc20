"""Pointwise and product helpers that several kernels share. All of them run in place and on complex arrays."""

from __future__ import annotations

from typing import Any

from hfrnn.backend import Array
from hfrnn.kernels.base import Tape


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
    work = tape.scratch("weight_gradient", *grad.shape)
    tape.xp.matmul(rows(x).T, rows(da), out=work)
    grad += work
