"""The BLAS libraries of this machine, and its rate of matrix products."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from hfrnn.arrays.backend import Backend, get_backend

PEAK_SIZES = (1024, 2048)
GPU_PEAK_SIZES = (8192,)
"""Sides of the square matrices whose product is timed."""


def blas_pools() -> list[dict[str, Any]]:
    """Return the loaded BLAS libraries, as threadpoolctl describes them."""
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def product_peak(threads: int, seconds: float, backend: Backend | None = None) -> float:
    """Measure the best rate of a large float32 matrix product, in FLOP/s.

    Parameters
    ----------
    threads : int
        Threads of NumPy's BLAS.
    seconds : float
        Time for each of a few sizes.
    backend : Backend, optional
        The backend of a GPU, to measure the GPU instead of NumPy.
    """
    on_gpu = backend is not None and not backend.on_host
    device, best = backend if backend is not None else get_backend("numpy"), 0.0
    for n in GPU_PEAK_SIZES if on_gpu else PEAK_SIZES:
        rng = np.random.default_rng(n)
        a, b = (device.asarray(rng.standard_normal((n, n), dtype=np.float32)) for _ in range(2))
        out = device.empty((n, n), "float32")
        with threadpool_limits(threads, user_api="blas"):
            start = time.perf_counter()
            while time.perf_counter() - start < seconds:
                begin = time.perf_counter()
                device.xp.matmul(a, b, out=out)
                device.synchronize()
                best = max(best, 2 * n**3 / (time.perf_counter() - begin))
    return best
