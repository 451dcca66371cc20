"""Run tasks on Python threads, with BLAS limited to one thread, and collect their results in a fixed order.

NumPy releases the interpreter lock inside products and elementwise loops, so the shards of a batch run side by side.
Neither their work nor the order of the additions depends on the number of threads, so the bits of the result do not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import numpy as np
import threadpoolctl
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from hfrnn.checks import count

if TYPE_CHECKING:
    from hfrnn.arrays.backend import Backend

Result = TypeVar("Result")


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="hfrnn")


class CallLock:
    """A reentrant lock that is free again in a child process made by fork.

    Use it in a `with` statement. In the child, the threads of the parent do not exist and could never release it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _call_locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.RLock()


_call_locks: WeakSet[CallLock] = WeakSet()


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """Workers, the calling thread included, that run numbered tasks and yield their results in order.

    There are `threads` workers, by default one for each processor, and at most `most`.
    """

    def __init__(self, threads: int | None = None, most: int | None = None) -> None:
        chosen: int = count("threads", threads, 1, or_none=True) or default_threads()
        self.threads = chosen if most is None else min(chosen, most)

    def ordered(self, task: Callable[[int], Result], count: int) -> Iterator[Result]:
        """Yield task(0), ..., task(count-1), in this order.

        At any time at most `threads` tasks have started and not yet been yielded. Tasks whose numbers agree modulo
        `threads` therefore never run at the same time and may share buffers. The caller has finished with a result when
        it asks for the next one. The calling thread runs every `threads`-th task itself, because it is awake and has a
        processor already. What the caller has set with `np.errstate` holds for all tasks.
        """
        with one_blas_thread():
            if self.threads == 1 or count == 1:
                yield from map(task, range(count))
                return
            executor, workers = _executor(self.threads - 1), self.threads
            started = {
                number: executor.submit(copy_context().run, task, number) for number in range(1, min(workers, count))
            }
            try:
                for number in range(count):
                    yield started.pop(number).result() if number % workers else task(number)
                    if number % workers and number + workers < count:
                        started[number + workers] = executor.submit(copy_context().run, task, number + workers)
            finally:
                for future in started.values():
                    future.cancel()
                for future in started.values():
                    if not future.cancelled():
                        future.exception()

    def run(self, task: Callable[[int], object], count: int) -> None:
        """Run task(0), ..., task(count-1) as `ordered` does."""
        for _ in self.ordered(task, count):
            pass


# ------------------------------------------------------------------ the threads and the speed of BLAS


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
    with limit.lock:
        if not limit.users:
            _take_control()
            limit.active.enter_context(_controller().limit(limits=1, user_api="blas"))
        limit.users += 1
    try:
        yield
    finally:
        with limit.lock:
            limit.users -= 1
            if not limit.users:
                limit.restore()


def _after_fork() -> None:
    """Make new threads, locks and limits: only the calling thread of the parent process exists in the child."""
    global _limit
    _executor.cache_clear()
    for lock in list(_call_locks):
        lock.renew()
    _limit.restore()
    _limit = _Limit()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork)


def blas_pools() -> list[dict[str, Any]]:
    """Return what threadpoolctl knows about each BLAS library that is loaded."""
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def product_peak(threads: int, seconds: float, backend: Backend) -> float:
    """Return the highest rate of a large float32 matrix product in FLOP/s, measured for some seconds at each size.

    A GPU ignores the number of BLAS threads.
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
