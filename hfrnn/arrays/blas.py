"""BLAS, the library behind matrix products: its threads, its version and its peak rate on this machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import threadpoolctl
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


def _take_control() -> None:
    """Let the calling thread set the number of BLAS threads.

    From version 3.8 on, threadpoolctl ignores all Python threads but the one that called it first.
    """
    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


class _Limit:
    """The limit of one BLAS thread, which holds for the whole process, and how many callers need it now."""

    def __init__(self) -> None:
        self.lock, self.users, self.active = threading.Lock(), 0, ExitStack()

    def enter(self) -> None:
        """Set the limit for the first caller."""
        with self.lock:
            if not self.users:
                _take_control()
                self.active.enter_context(_controller().limit(limits=1, user_api="blas"))
            self.users += 1

    def leave(self) -> None:
        """Restore the earlier number of threads after the last caller."""
        with self.lock:
            self.users -= 1
            if not self.users:
                self.restore()

    def restore(self) -> None:
        """Restore the earlier number of threads."""
        _take_control()
        self.active.close()


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a `with` block.

    Python threads may be inside such blocks at the same time. The last one to leave restores the number of threads.
    """
    limit = _limit
    limit.enter()
    try:
        yield
    finally:
        limit.leave()


def _after_fork() -> None:
    """Forget the callers of the parent process: their threads do not exist in the child."""
    global _limit
    _limit.restore()
    _limit = _Limit()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork)


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
