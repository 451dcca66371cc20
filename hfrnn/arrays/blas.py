"""BLAS, the library behind matrix products: its threads, its version and its peak rate on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

if TYPE_CHECKING:
    from hfrnn.arrays.backend import Backend

PEAK_SIZES = (1024, 2048)
"""Sides of the square matrices whose product is timed on a CPU."""
GPU_PEAK_SIZES = (8192,)
"""Sides of the square matrices whose product is timed on a GPU."""


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a `with` block."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


def blas_pools() -> list[dict[str, Any]]:
    """Return what threadpoolctl knows about each BLAS library that is loaded."""
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def product_peak(threads: int, seconds: float, backend: Backend) -> float:
    """Measure the highest rate of a large float32 matrix product.

    Parameters
    ----------
    threads : int
        BLAS threads; a GPU ignores them.
    seconds : float
        Time to spend on each matrix size.
    backend : Backend
        Backend whose product is measured.

    Returns
    -------
    float
        Rate in FLOP/s.
    """
    best = 0.0
    for n in PEAK_SIZES if backend.on_host else GPU_PEAK_SIZES:
        rng = np.random.default_rng(n)
        a, b = (backend.asarray(rng.standard_normal((n, n), dtype=np.float32)) for _ in range(2))
        out = backend.empty((n, n), "float32")
        with threadpool_limits(threads, user_api="blas"):
            start = time.perf_counter()
            while time.perf_counter() - start < seconds:
                begin = time.perf_counter()
                backend.xp.matmul(a, b, out=out)
                backend.synchronize()
                best = max(best, 2 * n**3 / (time.perf_counter() - begin))
    return best
