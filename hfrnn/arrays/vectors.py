"""Flat vectors: inner product, norm, finiteness and scaling, with the same bits whatever the number of threads.

On a device, a Python number costs a transfer: the host waits until the device has computed it. The functions named
`lazy_...` therefore return a `Scalar`, which is a Python number on the host and stays on the device there. `fetch`
brings any number of scalars to the host in one transfer.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hfrnn.arrays.threads import Threads, one_blas_thread

Vector: TypeAlias = npt.NDArray[Any]
"""A flat vector (n,) of whichever backend is in use."""
Scalar: TypeAlias = Any
"""A Python number, or an array () on a device."""
Apply: TypeAlias = Callable[[Vector, Vector], object]
"""A linear map: `apply(v, out)` writes its product with `v` (n,) into `out` (n,)."""

HOST_PIECE = 1 << 17
"""Elements that `dot` converts to float64 at a time on the host; bounds its scratch memory."""
DEVICE_PIECE = 1 << 22
"""Elements that `dot` multiplies in float64 at a time on a device; bounds its scratch memory."""


def is_on_host(x: Any) -> bool:
    """Return whether an array is one of NumPy."""
    return isinstance(x, np.ndarray)


def library(x: Vector) -> Any:
    """Return the module that an array belongs to: NumPy, or CuPy."""
    return np if is_on_host(x) else importlib.import_module(type(x).__module__.partition(".")[0])


def fetch(*scalars: Scalar) -> list[float]:
    """Return scalars as Python numbers. All those on a device come in one transfer, as floats."""
    waiting = [each for each in scalars if not isinstance(each, Number)]
    if not waiting:
        return list(scalars)
    joined = library(waiting[0]).concatenate([each.reshape(1) for each in waiting])
    found = iter(joined.astype("float64", copy=False).tolist())
    return [each if isinstance(each, Number) else next(found) for each in scalars]  # type: ignore[misc]


def dot(a: Vector, b: Vector, threads: int = 1) -> float:
    """Return the inner product of two vectors (n,), summed in float64 by some threads of the host. A device waits.

    The order of the additions depends neither on BLAS nor on the number of threads.
    """
    return fetch(lazy_dot(a, b, threads))[0]


def lazy_dot(a: Vector, b: Vector, threads: int = 1) -> Scalar:
    """Return `dot` without waiting for a device."""
    if not is_on_host(a):
        return _device_dot(a, b)
    count = -(-a.shape[0] // HOST_PIECE)
    workers = max(1, min(threads, count))

    def sums_of(worker: int) -> list[float]:
        sums = []
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(worker * HOST_PIECE, a.shape[0], workers * HOST_PIECE):
                piece = a[start : start + HOST_PIECE].astype(np.float64)
                piece *= piece if a is b else b[start : start + HOST_PIECE]
                sums.append(piece.sum().item())
        return sums

    by_worker = [sums_of(0)] if workers == 1 else list(Threads(workers).ordered(sums_of, workers))
    return sum((by_worker[number % workers][number // workers] for number in range(count)), 0.0)


def _device_dot(a: Vector, b: Vector) -> Scalar:
    """Return an inner product on a device. CuPy's fast sums take one array, so the product is a kernel of its own."""
    xp, total = library(a), None
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, max(a.shape[0], 1), DEVICE_PIECE):
            part = slice(start, start + DEVICE_PIECE)
            piece = xp.multiply(a[part], b[part], dtype="float64").sum()
            total = piece if total is None else total + piece
    return total


def norm(a: Vector, threads: int = 1) -> float:
    """Return the Euclidean norm of a vector (n,), summed in float64 as `dot` does."""
    return math.sqrt(dot(a, a, threads))


def lazy_norm(a: Vector, threads: int = 1) -> Scalar:
    """Return `norm` without waiting for a device."""
    square = lazy_dot(a, a, threads)
    return math.sqrt(square) if isinstance(square, float) else library(a).sqrt(square)


def is_finite(x: Vector) -> bool:
    """Return whether every entry of an array is finite; on the host without allocating memory."""
    if not is_on_host(x):
        return bool(fetch(lazy_finite(x))[0])
    with np.errstate(over="ignore", invalid="ignore"):
        if x.ndim == 1 and math.isfinite(np.dot(x, x)):
            return True  # one pass; the squares of large finite numbers may overflow
    return 0 in x.shape or (math.isfinite(x.max().item()) and math.isfinite(x.min().item()))  # both keep a NaN


def lazy_finite(*arrays: Vector) -> Scalar:
    """Return whether every entry of some arrays is finite, without waiting for a device."""
    if all(map(is_on_host, arrays)):
        return all(is_finite(x) for x in arrays)
    with np.errstate(invalid="ignore"):
        return lazy_all([(x - x).sum() == 0 for x in arrays])  # 0, or NaN if an entry is not finite


def lazy_all(flags: Sequence[Scalar]) -> Scalar:
    """Return whether all flags are true, without waiting for a device; all of them lie on the same side."""
    if all(isinstance(each, bool) for each in flags):
        return all(flags)
    found = flags[0]
    for each in flags[1:]:
        found = found & each
    return found


def scaled(x: Vector, factor: Scalar, out: Vector) -> None:
    """Write `factor * x` into `out`; both (n,)."""
    library(x).multiply(x, of_type(factor, x), out=out)


def of_type(factor: Scalar, x: Vector) -> Scalar:
    """Return a factor for an array: rounded to its type, as the host rounds a Python number."""
    return factor if isinstance(factor, Number) else factor.astype(x.dtype)


def eigenvectors(A: Vector) -> Vector:
    """Return the eigenvectors of a symmetric matrix (m, m) as columns, computed in float64.

    The bits do not depend on the number of BLAS threads.
    """
    with one_blas_thread():
        vectors: Vector = library(A).linalg.eigh(A.astype(np.float64))[1]
    return vectors.astype(A.dtype, order="C")


def orthonormal(A: Vector) -> Vector:
    """Return the orthonormal matrix Q (m, m) of A = Q * triangle.

    The bits do not depend on the number of BLAS threads.
    """
    with one_blas_thread():
        Q: Vector = library(A).linalg.qr(A)[0]
    return Q


def unshared(xp: Any, x: Any, out: Any) -> Any:
    """Return the array x, or a copy of it if writing into the array `out` would change it; xp is their namespace."""
    return x.copy() if xp.may_share_memory(x, out) else x
