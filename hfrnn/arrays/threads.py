"""Run tasks on Python threads and collect their results in a fixed order.

NumPy releases the interpreter lock inside products and elementwise loops. So the shards of a batch run side by side on
Python threads, with BLAS limited to one thread. Neither the work of a shard nor the order of the additions depends on
the number of threads, so the bits of the result do not either.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import TypeVar
from weakref import WeakSet

from hfrnn.arrays.blas import one_blas_thread
from hfrnn.checks import count

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


def _after_fork() -> None:
    """Make new threads and free locks: only the calling thread of the parent process exists in the child."""
    _executor.cache_clear()
    for lock in list(_call_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork)


def default_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """Workers that run numbered tasks and yield their results in order.

    Parameters
    ----------
    threads : int, optional
        Number of workers, the calling thread included. By default one for each processor.
    most : int, optional
        Upper bound on the number of workers.

    Raises
    ------
    InputError
        `threads` is below 1.
    """

    def __init__(self, threads: int | None = None, most: int | None = None) -> None:
        chosen: int = count("threads", threads, 1, or_none=True) or default_threads()
        self.threads = chosen if most is None else min(chosen, most)

    def ordered(self, task: Callable[[int], Result], count: int) -> Iterator[Result]:
        """Yield task(0), ..., task(count-1), in this order.

        At any time at most `threads` tasks have started and not yet been yielded. Tasks whose numbers agree modulo
        `threads` therefore never run at the same time and may share buffers. The caller has finished with a result
        when it asks for the next one. The calling thread runs every `threads`-th task itself, because it is awake and
        has a processor already. What the caller has set with `np.errstate` holds for all tasks.

        Parameters
        ----------
        task : callable
            Takes the number of the task.
        count : int
            Number of tasks.

        Yields
        ------
        object
            What the task returned.
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
