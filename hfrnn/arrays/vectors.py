"""Flat vectors: inner product, norm, finiteness and scaling, with the same bits whatever the number of threads."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hfrnn.arrays.blas import one_blas_thread
from hfrnn.arrays.threads import Threads

Vector: TypeAlias = npt.NDArray[Any]
"""A flat vector (n,) of whichever backend is in use."""
Apply: TypeAlias = Callable[[Vector, Vector], object]
"""A linear map: `apply(v, out)` writes its product with `v` (n,) into `out` (n,)."""

PIECE = 1 << 17
"""Elements that `dot` converts to float64 at a time; bounds its scratch memory."""


def dot(a: Vector, b: Vector, threads: int = 1) -> float:
    """Return the inner product of two vectors, summed in float64.

    The order of the additions depends neither on BLAS nor on the number of threads.

    Parameters
    ----------
    a, b : (n,) arrays
    threads : int
        Threads that share the work.

    Returns
    -------
    float
    """
    count = -(-a.shape[0] // PIECE)
    workers = max(1, min(threads, count))

    def sums_of(worker: int) -> list[float]:
        sums = []
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(worker * PIECE, a.shape[0], workers * PIECE):
                piece = a[start : start + PIECE].astype(np.float64)
                piece *= piece if a is b else b[start : start + PIECE]
                sums.append(piece.sum().item())
        return sums

    by_worker = [sums_of(0)] if workers == 1 else list(Threads(workers).ordered(sums_of, workers))
    return sum((by_worker[number % workers][number // workers] for number in range(count)), 0.0)


def norm(a: Vector, threads: int = 1) -> float:
    """Return the Euclidean norm of a vector (n,), summed in float64 as `dot` does."""
    return math.sqrt(dot(a, a, threads))


def is_finite(x: Vector) -> bool:
    """Return whether every entry of an array is finite, without allocating memory."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(x, np.ndarray) and x.ndim == 1 and math.isfinite(np.dot(x, x)):
            return True  # one pass; the squares of large finite numbers may overflow
    return 0 in x.shape or (math.isfinite(x.max().item()) and math.isfinite(x.min().item()))  # both keep a NaN


def scaled(x: Vector, factor: float, out: Vector) -> None:
    """Write `factor * x` into `out`; both (n,)."""
    on_host = isinstance(x, np.ndarray)
    if on_host:
        np.multiply(x, factor, out=out)
    else:
        out[:] = x
        out *= factor


def eigenvectors(A: Vector) -> Vector:
    """Return the eigenvectors of a symmetric matrix (m, m) as columns, computed in float64.

    The bits do not depend on the number of BLAS threads.
    """
    with one_blas_thread():
        vectors: Vector = _linalg(A).eigh(A.astype(np.float64))[1]
    return vectors.astype(A.dtype, order="C")


def orthonormal(A: Vector) -> Vector:
    """Return the orthonormal matrix Q (m, m) of A = Q * triangle.

    The bits do not depend on the number of BLAS threads.
    """
    with one_blas_thread():
        Q: Vector = _linalg(A).qr(A)[0]
    return Q


def _linalg(A: Vector) -> Any:
    """Return the module `linalg` of the library of an array."""
    on_host = isinstance(A, np.ndarray)
    return np.linalg if on_host else importlib.import_module(type(A).__module__.partition(".")[0]).linalg
