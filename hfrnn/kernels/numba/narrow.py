"""Compiled products with a few inputs or outputs: BLAS is made for larger matrices."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.kernels.numba.pointwise import compile_exact_loop
from hfrnn.kernels.numba.products import add_pieces, affine, pack
from hfrnn.kernels.numba.tiles import VECTOR_BYTES
from hfrnn.kernels.pointwise import rows

PIECE = 64
"""Rows that are multiplied at a time."""


@compile_exact_loop
def _multiply(x: Array, W: Array, m: int, y: Array, V: Array, b: Array, work: Array, z: Array) -> None:
    N, columns = z.shape
    none, absent = work[:0].reshape(0, 1, 1), work.reshape(1, *work.shape)
    for start in range(0, N, PIECE):
        stop = min(start + PIECE, N)
        part = work[: stop - start]
        affine(0, none, 0, W.shape[1], x[start:stop], W, m, y[start:stop], V, 0, absent, W, columns, part)
        for n in range(stop - start):
            for j in range(columns):
                z[start + n, j] = part[n, j] + b[j]


def serves(buffers: Buffers, few: int, many: int) -> bool:
    """Return whether these functions serve so many inputs or outputs, beside as many units or slots, in this type."""
    lanes = VECTOR_BYTES // buffers.dtype.itemsize
    return bool(buffers.dtype.kind == "f" and few <= lanes <= many)


def multiply(
    x: Array, W: Array, b: Array | None, z: Array, buffers: Buffers, y: Array | None = None, V: Array | None = None
) -> None:
    """z (K, B, m) <- x (K, B, n) @ W + b and, with y (K, B, l), + y @ V. b is (m,) or None."""
    left, m = pack(W, buffers, "narrow_factor"), 0
    right, second = left, x
    if y is not None:
        right, second, m = pack(V, buffers, "narrow_factor_2"), y, y.shape[2]
    zero = np.zeros(z.shape[2], z.dtype) if b is None else b
    work = buffers.get("narrow_product", (PIECE, left.shape[0] * left.shape[2]))
    _multiply(rows(x), left, m, rows(second), right, zero, work, rows(z))


def add_gradient(x: Array, d: Array, sums: Array) -> None:
    """sums (n, m) += sum over steps and sequences of x.T @ d: x (K, B, n) with a small n, d (K, B, m)."""
    add_pieces(rows(x), rows(d), sums)
