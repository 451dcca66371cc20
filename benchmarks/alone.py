"""How long recorded calls take when they run alone, and how fast memory is at each size of a working set.

All times here are seconds of a thread on its processor: time in which it waits, also for other programs, does not
count.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from recorder import PRODUCTS, SIZED, TAUGHT, Call, Total

from hfrnn.arrays.threads import Threads

REPEATS = 3
"""Of these turns, the fastest counts: other programs can only make a call slower."""
OPERATIONS = 1e9
"""Operations of a compiled loop's products that are timed at once: Python's call takes longer than a small product."""
WORKING_SETS = range(17, 28)
"""Base-2 logarithms of the bytes for which the bandwidth is measured."""


class Stopwatch:
    """Times recorded calls alone; the same call is timed once.

    Parameters
    ----------
    seconds : float
        Least length of a turn.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._known: dict[Any, float] = {}
        self._without: dict[Any, Callable[..., Any]] = {}
        self._bandwidths: dict[int, dict[int, float]] = {}

    def call(self, call: Call, total: Total, threads: int) -> float:
        """Return the seconds of a call when so many threads make it at once, each with arrays of its own."""
        if (call, threads) not in self._known:
            spent = at_once([repeat(call, total) for _ in range(threads)], self.seconds)
            self._known[call, threads] = spent / times_of(call, total)
        return self._known[call, threads]

    def overhead(self, call: Call, total: Total) -> float:
        """Return the seconds of the same call with arrays of one entry; 0 if a library may ask for other arrays."""
        if call.name in TAUGHT.values() or call.name.removeprefix("compiled ") in SIZED:
            return 0.0
        if (call, "overhead") not in self._known:
            spent = at_once([repeat(call, total, one_entry)], self.seconds / 4)
            self._known[call, "overhead"] = spent / times_of(call, total)
        return self._known[call, "overhead"]

    def work(self, call: Call, total: Total, threads: int = 1) -> float:
        """Return the seconds of a call less those with arrays of one entry."""
        return max(self.call(call, total, threads) - self.overhead(call, total), 0.0)

    def loop(self, key: Any, total: Total) -> float:
        """Return the seconds of a compiled loop without its matrix products."""
        if key not in self._known:
            if total.function not in self._without:
                self._without[total.function] = without_products(total.function)
            loop, arguments = self._without[total.function], copied(total.arguments)
            self._known[key] = at_once([lambda: loop(*arguments)], self.seconds)
        return self._known[key]

    def memory(self, total: Total, threads: int) -> float:
        """Return the seconds that some calls need to read and write their operands in memory, on so many threads."""
        speed = self.bandwidths(threads)
        return sum(size / speed[min(max(bits, min(speed)), max(speed))] for bits, size in total.distances.items())

    def bandwidths(self, threads: int) -> dict[int, float]:
        """Return the bytes per second of one thread of several, by the logarithm of the bytes that each works on."""
        if threads not in self._bandwidths:
            self._bandwidths[threads] = {bits: bandwidth(2**bits, threads, self.seconds) for bits in WORKING_SETS}
        return self._bandwidths[threads]


def is_compiled(call: Call) -> bool:
    """Whether a compiled loop made a call."""
    return call.name.startswith("compiled ")


def times_of(call: Call, total: Total) -> int:
    """Return how many times a call is made at once."""
    return max(1, min(round(OPERATIONS / max(total.most, 1.0)), 10_000)) if is_compiled(call) else 1


def at_once(runs: list[Callable[[], Any]], seconds: float) -> float:
    """Return the processor seconds a call, the mean over threads that make their calls at the same time."""
    barrier = threading.Barrier(len(runs))

    def task(number: int) -> float:
        run, calls = runs[number], 0
        run()
        barrier.wait()
        start, processor = time.perf_counter(), time.thread_time()
        while not calls or time.perf_counter() - start < seconds:
            run()
            calls += 1
        return (time.thread_time() - processor) / calls

    turns = [list(Threads(len(runs)).ordered(task, len(runs))) for _ in range(REPEATS)]
    return sum(map(min, zip(*turns, strict=True))) / len(runs)


def repeat(call: Call, total: Total, make: Callable[[np.ndarray], np.ndarray] | None = None) -> Callable[[], Any]:
    """Return a function that makes a recorded call again, `times_of` it, with other arrays alike.

    The result goes elsewhere, so that the operands stay as they are.
    """
    arguments, options = copied(total.arguments, make), copied(total.options, make)
    if not is_compiled(call):
        return lambda: total.function(*arguments, **options)
    function, times = compiled_product(total.function), times_of(call, total)
    return lambda: function(times, *arguments)


def copied(value: Any, make: Callable[[np.ndarray], np.ndarray] | None = None) -> Any:
    """Return arguments with another array for every array, made by `make`, or else `alike`."""
    if isinstance(value, np.ndarray):
        return (make or alike)(value)
    if isinstance(value, dict):
        return {key: copied(each, make) for key, each in value.items()}
    return type(value)(copied(each, make) for each in value) if type(value) in (tuple, list) else value


def alike(array: np.ndarray) -> np.ndarray:
    """Return an array with the same strides and other numbers from 0.1 to 0.9; a copy if they are integers."""
    low, high = np.lib.array_utils.byte_bounds(array)
    memory = np.empty(high - low, np.uint8)
    first = array.__array_interface__["data"][0] - low
    found = np.ndarray(array.shape, array.dtype, memory, first, array.strides)
    found[...] = array if array.dtype.kind in "biu" else np.random.default_rng(0).uniform(0.1, 0.9, array.shape)
    return found


def one_entry(array: np.ndarray) -> np.ndarray:
    """Return an array of one entry with as many axes; of integers, which may be indices, the entry is 0."""
    ones = np.ones((1,) * array.ndim, array.dtype)
    return ones - 1 if array.dtype.kind in "iu" else ones


@functools.cache
def compiled_product(function: Any) -> Callable[..., Any]:
    """Return a function of Python that makes a product of a compiled loop some times, as a loop calls it."""
    import numba

    @numba.njit(nogil=True)
    def product(times: int, *operands: Any) -> None:
        for _ in range(times):
            function(*operands)

    return product


def without_products(loop: Any) -> Callable[..., Any]:
    """Return a compiled loop whose matrix products do nothing."""
    import numba

    @numba.njit
    def nothing(*arguments: Any) -> None:
        pass

    python, given = loop.py_func, loop.targetoptions
    options = {key: given[key] for key in ("nogil", "error_model", "fastmath") if key in given}
    arrays = ModuleType("numpy")
    vars(arrays).update({**vars(np), **dict.fromkeys(PRODUCTS, nothing)})
    replaced = {"np": arrays} | {name: nothing for name in PRODUCTS if name in python.__globals__}
    function = FunctionType(python.__code__, {**python.__globals__, **replaced}, python.__name__)
    return numba.njit(**options)(function)


def bandwidth(size: int, threads: int, seconds: float) -> float:
    """Return the bytes per second that each of so many threads reads and writes in arrays of `size` bytes in all."""

    def sums(entries: int) -> Callable[[], Any]:
        a, b, out = (np.ones(entries, np.float32) for _ in range(3))
        return lambda: np.add(a, b, out=out)

    entries = size // 12
    spent = at_once([sums(entries) for _ in range(threads)], seconds) - at_once([sums(1)], seconds / 4)
    return 12 * entries / max(spent, 1e-9)
