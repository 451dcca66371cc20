"""One way to add up what the shards of a batch give: on Python threads, in a fixed order.

NumPy lets go of the interpreter lock inside products and elementwise loops, so shards on Python threads with BLAS held
to one thread each run side by side. What a shard computes and the order of the additions do not depend on the number
of threads, so neither do the bits of the result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from hfrnn.errors import InputError

Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _executor(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="hfrnn")


def default_threads() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


class Threads:
    """Runs tasks on up to `threads` threads and yields their results in order.

    Parameters
    ----------
    threads : int, optional
        By default as many as the process has processors.
    most : int, optional
        A bound on the above.

    Raises
    ------
    InputError
        Fewer than one thread.
    """

    def __init__(self, threads: int | None = None, most: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise InputError(f"threads is {threads}: give a whole number, 1 or more")
        self.threads = threads or default_threads()
        if most is not None:
            self.threads = min(self.threads, most)

    def ordered(self, task: Callable[[int], Result], count: int) -> Iterator[Result]:
        """task(0), ..., task(count-1), in this order.

        At most `threads` tasks are begun and not yet yielded, so tasks whose numbers agree modulo `threads` never run
        at the same time and may share buffers; the caller is done with a result when it asks for the next. The calling
        thread takes every `threads`th task itself: it is awake, and on a processor of its own.
        """
        with one_blas_thread():
            if self.threads == 1 or count == 1:
                yield from map(task, range(count))
                return
            executor, lanes = _executor(self.threads - 1), self.threads
            begun = {number: executor.submit(task, number) for number in range(1, min(lanes, count))}
            try:
                for number in range(count):
                    yield begun.pop(number).result() if number % lanes else task(number)
                    if number % lanes and number + lanes < count:
                        begun[number + lanes] = executor.submit(task, number + lanes)
            finally:
                for future in begun.values():
                    future.cancel()
                for future in begun.values():
                    if not future.cancelled():
                        future.exception()
