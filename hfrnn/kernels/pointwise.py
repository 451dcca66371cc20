"""Elementwise operations and matrix products that several kernels share. All work in place, also on complex arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hfrnn.arrays.backend import Array, Backend, Buffers

if TYPE_CHECKING:
    from hfrnn.kernels.base import Arrays, Tape

BLOCK = 32
"""Number of rows in float32 that are added one after another."""


def sigmoid_(xp: Any, x: Array) -> None:
    """x <- sigma(x) = (tanh(x/2) + 1)/2, in place.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.kernels.pointwise import sigmoid_
    >>> x = np.array([-2.0, 0.0, 2.0])
    >>> sigmoid_(np, x)
    >>> x.round(3).tolist()
    [0.119, 0.5, 0.881]
    """
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
    """out <- 1 - h*h, the derivative of tanh where its value is h; return out.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.kernels.pointwise import slope_of_tanh
    >>> slope_of_tanh(np, np.array([0.0, 0.5]), out=np.empty(2)).tolist()
    [1.0, 0.75]
    """
    xp.multiply(h, h, out=out)
    xp.subtract(1.0, out, out=out)
    return out


def rows(x: Array) -> Array:
    """Return x (K, B, n) as (K*B, n): a view if its first two axes are contiguous, else a copy.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.kernels.pointwise import rows
    >>> rows(np.zeros((5, 4, 3))).shape
    (20, 3)
    """
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def product(tape: Tape, x: Array, W: Array, out: Array) -> Array:
    """out <- x @ W for all time steps at once: x (K, B, n), W (n, m), out (K, B, m); return out.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> from hfrnn.arrays.backend import get_backend
    >>> from hfrnn.arrays.backend import Buffers
    >>> backend = get_backend("numpy")
    >>> tape = hfrnn.Tape("layer0.", Buffers(backend, "float64"), Buffers(backend, "float64"))
    >>> from hfrnn.kernels.pointwise import product
    >>> x, W = np.ones((5, 4, 3)), np.ones((3, 2))
    >>> product(tape, x, W, out=np.empty((5, 4, 2)))[0, 0].tolist()
    [3.0, 3.0]
    """
    matrix_product(tape.xp, rows(x), W, rows(out))
    return out


def matrix_product(xp: Any, x: Array, W: Array, out: Array) -> None:
    """out <- x @ W: x (N, n), W (n, m), out (N, m). For n = 1, NumPy's `matmul` does not use BLAS; `dot` does.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.kernels.pointwise import matrix_product
    >>> out = np.empty((2, 3))
    >>> matrix_product(np, np.array([[1.0], [2.0]]), np.array([[1.0, 2.0, 3.0]]), out)
    >>> out.tolist()
    [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    """
    (xp.dot if x.shape[1] == 1 else xp.matmul)(x, W, out=out)


def add_weight_gradient(tape: Tape, x: Array, da: Array, grad: Array) -> None:
    """grad += sum over time steps and sequences of x.T @ da: x (K, B, n), da (K, B, m), grad (n, m).

    If grad is (n, m, P), the sequences are P parts of equal size, and each part is summed by itself.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> from hfrnn.arrays.backend import get_backend
    >>> from hfrnn.arrays.backend import Buffers
    >>> backend = get_backend("numpy")
    >>> tape = hfrnn.Tape("layer0.", Buffers(backend, "float64"), Buffers(backend, "float64"))
    >>> from hfrnn.kernels.pointwise import add_weight_gradient
    >>> grad = np.zeros((3, 2))
    >>> add_weight_gradient(tape, np.ones((5, 4, 3)), np.ones((5, 4, 2)), grad)
    >>> float(grad[0, 0])  # 5 steps of 4 sequences
    20.0
    """
    add_outer_products(tape.backend, x, da, grad, tape.shared)


def add_outer_products(backend: Backend, x: Array, da: Array, grad: Array, buffers: Buffers) -> None:
    """Do what `add_weight_gradient` does, with scratch arrays from `buffers`."""
    if grad.ndim == 2:
        backend.add_product(rows(x), rows(da), grad, buffers)
    else:
        parts = grad.shape[2]
        backend.add_products(_apart(x, parts), _apart(da, parts), grad.transpose(2, 0, 1), buffers)


def add_bias_gradient(da: Array, grad: Array) -> None:
    """grad += sum over steps and sequences of da (K, B, m), grad (m,); of each part by itself if grad is (m, P)."""
    grad += _sum_of_rows(rows(da)) if grad.ndim == 1 else _sum_of_rows(_apart(da, grad.shape[1])).T


def _sum_of_rows(x: Array) -> Array:
    """Return the sum of x (..., N, m) over N. Of many terms in float32, blocks of rows are added, then their sums.

    One after another, 2^20 terms in float32 would have an error of about 1e-5, and 2^25 ones are half of their sum.
    """
    *parts, N, m = x.shape
    if x.dtype != "float32" or N <= BLOCK:
        return x.sum(axis=-2)
    whole = N - N % BLOCK
    total = x[..., :whole, :].reshape(*parts, whole // BLOCK, BLOCK, m).sum(axis=-2).sum(axis=-2, dtype="float64")
    return total if whole == N else total + x[..., whole:, :].sum(axis=-2)


def _apart(x: Array, parts: int) -> Array:
    """Return x (K, B, n) as (parts, K * B/parts, n): B/parts sequences in a row are a part."""
    K, B, n = x.shape
    return x.reshape(K, parts, B // parts, n).swapaxes(0, 1).reshape(parts, K * B // parts, n)


def transpose(p: Arrays, name: str) -> Array:
    """Return p[name] with its last two axes exchanged; contiguous if it is among the `Kernel.transposed`.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.kernels.pointwise import transpose
    >>> transpose({"W_h": np.zeros((3, 12))}, "W_h").shape
    (12, 3)
    """
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
