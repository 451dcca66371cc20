"""Record an operation: arrays that note their calls, and the reading of loops that numba has compiled.

A compiled loop is read by running its Python source once for each step, with one entry instead of all entries of a
row. Then the compiled loop computes the result.
"""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any
from unittest import mock

import numpy as np
import recorder
from recorder import PRODUCTS, Log, Recorded, Total, address, layout, noted, plain, recorded, unknown

from hfrnn.arrays.backend import Backend

KNOWN_PACKAGES = {*sys.stdlib_module_names, "numpy", "numba", "llvmlite"}
"""Packages whose compiled functions may be called while an operation is recorded."""


class Every(int):
    """The index 0, where the loop would go over `length` entries of an axis from `start` on; n + index moves it."""

    start, length = 0, 0

    def entries(self) -> slice:
        """Return the entries of the axis."""
        return slice(self.start, self.start + self.length)

    def __radd__(self, other: int) -> Every:  # type: ignore[override, misc]
        return every(self.start + int(other), self.length)

    __add__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = None  # type: ignore[assignment]


def every(start: int, length: int) -> Every:
    """Return the index of `length` entries from `start` on."""
    found = Every(0)
    found.start, found.length = start, length
    return found


class Nest:
    """Loops over all entries of some rows within a compiled loop: one pass, which loads and stores each row once."""

    def __init__(self, name: str) -> None:
        self.name, self.depth = name, 0
        self.loads: dict[Any, np.ndarray] = {}
        self.stores: dict[Any, np.ndarray] = {}

    def _region(self, array: Recorded, index: Any) -> tuple[np.ndarray, bool, int]:
        """Return all entries that the loops index so; whether they are numbers, not arrays; and their first axes."""
        index = index if isinstance(index, tuple) else (index,)
        whole = (slice(None),) * array.lead + tuple(
            each.entries() if isinstance(each, Every) else each for each in index
        )
        lead = array.lead + sum(isinstance(each, Every) for each in index)
        scalar = len(whole) == array.ndim and not any(isinstance(each, slice) for each in index)
        return plain(array)[whole], scalar, lead

    def load(self, array: Recorded, index: Any) -> Any:
        region, scalar, lead = self._region(array, index)
        if not scalar:
            rest = region.view(Recorded)
            rest.lead = lead
            return rest
        key = address(region), region.shape, region.strides
        if key not in self.stores:
            self.loads[key] = np.atleast_1d(region)
        return array.dtype.type(0.5)

    def store(self, array: Recorded, index: Any) -> None:
        region, _, _ = self._region(array, index)
        self.stores[address(region), region.shape, region.strides] = np.atleast_1d(region)

    def finish(self) -> None:
        reads, writes = list(self.loads.values()), list(self.stores.values())
        Recorded.log.note(self.name, "loop", None, (*reads, *writes), {}, reads, writes)


class Reader:
    """Reads compiled loops while an operation is recorded."""

    def __init__(self) -> None:
        self._sources: dict[Any, Callable[..., Any]] = {}
        self._name = ""

    def over(self, *bounds: Any) -> Iterator[int]:
        """Do as `range`, but yield one index for all entries of a row."""
        if len(bounds) > 1 or not getattr(bounds[0], "entries", False):
            yield from range(*bounds)
            return
        if not bounds[0]:
            return
        nest = Recorded.nest = Recorded.nest or Nest(self._name)
        nest.depth += 1
        yield every(0, int(bounds[0]))
        nest.depth -= 1
        if not nest.depth:
            Recorded.nest = None
            nest.finish()

    def source(self, loop: Any) -> Callable[..., Any]:
        """Return the Python function of a compiled one, with `over` for `range`, and with products that are noted."""
        if loop not in self._sources:
            python, replaced = loop.py_func, {"range": self.over}
            for name in PRODUCTS:
                if name in python.__globals__:
                    replaced[name] = noted(name, python.__globals__[name])
            self._sources[loop] = FunctionType(python.__code__, {**python.__globals__, **replaced}, python.__name__)
        return self._sources[loop]

    def call(self, original: Any) -> Any:
        """Return what replaces the call of a compiled function."""

        def call(loop: Any, *arguments: Any) -> Any:
            name = loop.py_func.__name__
            if name in PRODUCTS:
                return noted(name, lambda *given: original(loop, *given))(*arguments)
            if Recorded.reading:
                return self.source(loop)(*arguments)
            if not (Recorded.log.on and any(isinstance(each, Recorded) for each in arguments)):
                return original(loop, *plain(arguments))
            returned = self._read(loop, arguments)
            return original(loop, *plain(arguments)) if Recorded.computes or returned is not None else None

        return call

    def _read(self, loop: Any, arguments: tuple[Any, ...]) -> Any:
        """Note what a compiled loop does, and return what its source returns."""
        name, log = loop.py_func.__name__, Recorded.log
        log.calls += 1
        if not log.details:
            return None
        key = loop, tuple(map(layout, arguments))
        log.loops.setdefault(key, Total(loop, plain(arguments), {})).count += 1
        Recorded.reading, self._name = True, name
        try:
            with np.errstate(all="ignore"):
                return self.source(loop)(*arguments)
        except (TypeError, ValueError, IndexError, AttributeError, NotImplementedError) as error:
            raise unknown(f"the compiled loop {name} cannot be read, because {error}: something is done") from error
        finally:
            Recorded.reading, Recorded.nest = False, None


# ---------------------------------------------------------------------- recording


class _RecordedArrays:
    """Makes recorded arrays; mixed into the class of a backend."""

    def empty(self, shape: Any, dtype: Any) -> Any:
        return recorded(super().empty(shape, dtype))  # type: ignore[misc]

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return recorded(super().zeros(shape, dtype))  # type: ignore[misc]

    def asarray(self, values: Any, dtype: Any = None) -> Any:
        return recorded(super().asarray(plain(values), dtype))  # type: ignore[misc]


def recording_backend(backend: Backend) -> Backend:
    """Return a copy of a backend whose arrays are recorded."""
    found = copy.copy(backend)
    found.__class__ = type("Recording", (_RecordedArrays, type(backend)), {})
    return found


def holders(place: str) -> list[tuple[Any, str, Any]]:
    """Return where a function named `module:name` is found: the holder, the attribute and the function.

    It is found in its class, or in all modules that have imported it.
    """
    module, _, path = place.partition(":")
    owner, (*classes, name) = sys.modules.get(module), path.split(".")
    for each in classes:
        owner = getattr(owner, each, None)
    function = getattr(owner, name, None)
    if function is None:
        return []
    if classes:
        return [(owner, name, function)]
    return [(each, name, function) for each in list(sys.modules.values()) if vars(each).get(name) is function]


def refuse_unknown(frame: Any, event: str, function: Any) -> None:
    """Raise ClickException if a compiled function of an unknown package is called, as a profile function of Python."""
    package = str(getattr(function, "__module__", None) or "").partition(".")[0] if event == "c_call" else ""
    if package and not Recorded.inside and package not in KNOWN_PACKAGES:
        raise unknown(f"{function.__module__}.{function.__name__} was called")


@contextmanager
def recording() -> Iterator[None]:
    """Let arrays note calls within the context, also of compiled loops and taught functions."""
    with ExitStack() as stack:
        if "numba" in sys.modules:
            dispatcher = importlib.import_module("numba.core.dispatcher").Dispatcher
            stack.enter_context(mock.patch.object(dispatcher, "__call__", Reader().call(dispatcher.__call__)))
        for place, name in recorder.TAUGHT.items():
            for holder, attribute, function in holders(place):
                stack.enter_context(mock.patch.object(holder, attribute, noted(name, function)))
        yield


def record(run: Callable[[], Any], computes: bool = True, details: bool = True) -> Log:
    """Return the log of a call of `run`, after another call, so that memory has been used before.

    The first call must not call compiled functions that the recorder does not know. Without `computes`, matrix products
    and compiled loops are noted but not computed, and arrays hold anything. Without `details`, the log only counts
    calls.
    """
    log = Recorded.log = Log(details)
    Recorded.computes = computes
    try:
        with recording(), np.errstate(all=None if computes else "ignore"):
            log.on = True
            sys.setprofile(refuse_unknown)
            run()
            sys.setprofile(None)
            log.start()
            run()
    finally:
        sys.setprofile(None)
        log.on, Recorded.computes = False, True
    return log
