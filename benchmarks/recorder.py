"""Record what an operation does: its matrix products, its passes over arrays, and where their operands lay before.

Recorded arrays note every call that NumPy makes with them, and recording.py also reads compiled loops. So the record
follows the code when it changes.

A new kind of call is taught in one place: PRODUCTS and TAUGHT. Code that hands the memory of an array to a library is
refused until it is taught.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import click
import numpy as np

Arrays = list[np.ndarray]


def factors(rows: int, inner: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return factors of a product of these sizes, without memory of their own."""
    return np.broadcast_to(np.float32(0), (rows, inner)), np.broadcast_to(np.float32(0), (inner, columns))


PRODUCTS: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "matmul": lambda a, b, out=None, **_: (a, b, out),
    "dot": lambda a, b, out=None, **_: (a, b, out),
    # the compiled products of hfrnn/kernels/numba/products.py and narrow.py, with their terms side by side
    "affine": lambda t, U, first, n, x, W, m, y, V, l, z, Z, columns, out: (
        *factors(out.shape[0], n + m + l, columns), out),
    "packed_product": lambda x, W, columns, out: (*factors(out.shape[0], x.shape[1], columns), out),
    "adjoint_of_state": lambda t, dhs, l, z, Z, weights, Rhs, ds, W_T, out: (
        *factors(out.shape[0], l + (ds.shape[2] if t < z.shape[0] - 1 else 0), Rhs.shape[2]), out),
    "map_outputs": lambda t, Rh, h, W, V, work, Rz: (
        *factors(Rh.shape[0] if Rz.shape[0] else 0, 2 * h.shape[1], Rz.shape[2]), Rz),
    "add_block": lambda t, block, x, d, tiles: (
        *factors(x.shape[2] if tiles.shape[0] else 0, max(min(block, x.shape[0] - t), 0) * d.shape[1], d.shape[2]),
        tiles),
    "_multiply": lambda x, W, m, y, V, b, work, z: (*factors(x.shape[0], x.shape[1] + m, z.shape[1]), z),
    "_add_pieces": lambda x, d, out: (x.T, d, out),
}  # fmt: skip
"""The calls that multiply matrices, by the name of the function: how to read (a, b, out) from their arguments.

It may be a function of NumPy, one that a compiled loop calls, or one of those in TAUGHT.
"""
SIZED = {"affine", "packed_product", "adjoint_of_state", "map_outputs", "add_block", "_multiply", "_add_pieces"}
"""Those that are told sizes, or take packed matrices, so that they cannot run on arrays of one entry."""
OF_A_STEP = {"affine", "adjoint_of_state", "map_outputs", "add_block"}
"""Those whose first argument is the step."""
TAUGHT = {
    "scipy.sparse._sparsetools:csr_matvecs": "sums of rows",
    "hfrnn.kernels.numba.products:fill_panels": "packing",
    "hfrnn.kernels.numba.products:_add_tiles": "adding tiles",
}
"""Functions and methods that take an array without telling it, as `module:name`, and the names of what they do.

A name of PRODUCTS makes a call a matrix product, another name makes it a pass. What does not exist is left out.
"""
OUT_ARGUMENT = {"dot": 2, "copyto": 0, "sums of rows": 7, "packing": 1, "affine": 13, "packed_product": 3,
                "adjoint_of_state": 9, "map_outputs": 6, "add_block": 4, "adding tiles": 1, "_multiply": 7,
                "_add_pieces": 2}  # fmt: skip
"""Where functions take the array that they write, if it is not the keyword `out`."""
NO_WORK = {"empty_like", "may_share_memory", "shares_memory", "shape", "ndim"}
WORKING_METHODS = ("argsort", "astype", "copy", "cumsum", "dot", "fill", "flatten", "item", "nonzero", "ravel",
                   "repeat", "sort", "tolist")  # fmt: skip
"""Methods of an array that read it all without a call of NumPy that an array is told of."""
BLOCK = 2**14
"""Bytes of the blocks of memory whose last use is remembered."""


@dataclass(frozen=True)
class Call:
    """What calls with the same function and the same shapes, strides and types have in common."""

    name: str
    kind: str
    """`product`, `pass` (over arrays) or `loop` (a pass within a compiled loop)."""
    layout: tuple[Any, ...]
    """Shape, strides and type of every array, in order; other arguments as they are."""

    def shapes(self) -> str:
        """Return the shapes of the operands, as `128x256 @ 256x1024` for a product."""
        found = ["x".join(map(str, each[0])) for each in self.layout if isinstance(each, tuple)]
        return " @ ".join(found[:2]) if self.kind == "product" else ", ".join(found)


@dataclass
class Total:
    """The sum over calls that are alike, and one with the most operations of all, to repeat it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    most: float = 0.0
    count: int = 0
    flops: float = 0.0
    read: int = 0
    written: int = 0
    distances: Counter[int] = field(default_factory=Counter)
    """Bytes of operands, by the base-2 logarithm of the bytes of other memory that was used since their last use."""


class Log:
    """The calls since `start`, and the memory that they used; without `details`, only the number of calls."""

    def __init__(self, details: bool = True) -> None:
        self.on, self.details = False, details
        self.totals: dict[Call, Total] = {}
        self.loops: dict[Any, Total] = {}
        """The compiled loops, one entry for each loop and shapes, as they were called."""
        self.calls = 0
        """Calls that Python made: of NumPy, and of compiled loops."""
        self._blocks: dict[int, int] = {}
        self._last = np.zeros(1024, np.int64)
        self._clock = 0

    def start(self) -> None:
        """Forget all calls, but not the memory that they used."""
        self.totals, self.loops, self.calls, self.on = {}, {}, 0, True

    def note(
        self, name: str, kind: str, function: Any, arguments: tuple[Any, ...], options: dict[str, Any], reads: Arrays,
        writes: Arrays, flops: float = 0.0,
    ) -> None:  # fmt: skip
        """Add a call to the totals."""
        if not self.details:
            return
        alike = arguments[1:] if name.removeprefix("compiled ") in OF_A_STEP else arguments
        call = Call(name, kind, tuple(map(layout, alike)) + tuple(map(layout, options.values())))
        total = self.totals.setdefault(call, Total(function, arguments, options, flops))
        if flops > total.most:  # the last step leaves out the product with the step after it
            total.arguments, total.most = arguments, flops
        total.count += 1
        total.flops += flops
        for array in (*reads, *writes):
            total.distances[self._distance(array)] += array.nbytes
        total.read += sum(array.nbytes for array in reads)
        total.written += sum(array.nbytes for array in writes)

    def _distance(self, array: np.ndarray) -> int:
        """Return the base-2 logarithm of the bytes used since the last use of an array, and remember this use."""
        low, high = np.lib.array_utils.byte_bounds(array)
        known = self._blocks
        places = [known.setdefault(block, len(known)) for block in range(low // BLOCK, (high - 1) // BLOCK + 1)]
        while len(known) > self._last.size:
            self._last = np.concatenate([self._last, np.zeros_like(self._last)])
        before = self._last[places].min() if places else 0
        self._clock += 1
        self._last[places] = self._clock
        used = np.count_nonzero(self._last[: len(known)] > before)
        return int(used * BLOCK).bit_length()

    @property
    def flops(self) -> float:
        """Operations of all matrix products."""
        return sum(total.flops for total in self.totals.values())


def layout(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.strides, value.dtype.str
    if isinstance(value, tuple):
        return tuple(map(layout, value))
    return str(value) if isinstance(value, str | int | float | slice) else type(value).__name__


def plain(value: Any) -> Any:
    """Return recorded arrays, also within tuples and lists, as arrays of NumPy."""
    if isinstance(value, Recorded):
        return value.view(np.ndarray)
    return type(value)(map(plain, value)) if type(value) in (tuple, list) else value


def recorded(value: Any) -> Any:
    return value.view(Recorded) if type(value) is np.ndarray else value


def _arrays(values: Any) -> Arrays:
    return [each for each in values if isinstance(each, np.ndarray)]


def _flops(a: np.ndarray, b: np.ndarray) -> float:
    """Return the operations of a @ b, also of a stack of matrices."""
    columns = b.shape[-1] if b.ndim > 1 else 1
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return 2.0 * int(np.prod(stack)) * (a.shape[-2] if a.ndim > 1 else 1) * a.shape[-1] * columns


class Extent(int):
    """The length of an axis of a recorded array within a compiled loop; `entries` tells it from a number of steps."""

    entries = False


class Recorded(np.ndarray):
    """An array that notes every call with it."""

    log: ClassVar[Log] = Log()
    nest: ClassVar[Any] = None
    """The loop over entries that is being read."""
    reading: ClassVar[bool] = False
    """Whether the source of a compiled loop is being read."""
    inside: ClassVar[bool] = False
    """Whether a function runs that has been noted, so that what it calls is not."""
    computes: ClassVar[bool] = True
    """Whether matrix products and compiled loops compute their results, too; without them, recording is faster."""
    lead = 0
    """Number of first axes of which a loop takes every entry."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        if out is not None:
            options["out"] = plain(out)[0]
        return _noted(name, getattr(ufunc, method), plain(inputs), options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _noted(function.__name__, function, plain(args), {key: plain(each) for key, each in kwargs.items()})

    def __getitem__(self, index: Any) -> Any:
        if Recorded.nest is not None:
            return Recorded.nest.load(self, index)
        found = super().__getitem__(plain(index))
        if self.log.on and isinstance(found, np.ndarray) and _is_fancy(index):
            self.log.calls += 1
            arguments = plain(self), plain(index)
            self.log.note("getitem", "pass", _take, arguments, {}, [plain(found)], [plain(found)])
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        if Recorded.nest is not None:
            Recorded.nest.store(self, index)
            return
        own, index, value = plain(self), plain(index), plain(value)
        target = own[index]
        own[index] = value
        itself = isinstance(value, np.ndarray) and value.shape == target.shape and address(value) == address(target)
        if self.log.on and not (itself and not _is_fancy(index)):  # x[0] += 1 ends with x[0] = x[0], which does nothing
            self.log.calls += 1
            arguments = (target, ..., value) if not _is_fancy(index) else (own, index, value)
            self.log.note("setitem", "pass", _put, arguments, {}, _arrays([value]), _arrays([target]))

    @property
    def shape(self) -> Any:  # type: ignore[override]
        sizes = plain(self).shape
        if not Recorded.reading:
            return sizes
        extents = tuple(map(Extent, sizes))
        for axis, extent in enumerate(extents):
            extent.entries = axis > 0 or len(sizes) < 3
        return extents

    @property
    def ctypes(self) -> Any:
        raise unknown("an array's address was taken")

    @property
    def __array_interface__(self) -> Any:
        raise unknown("an array's address was taken")


def _working_method(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def call(self: Recorded, *arguments: Any, **options: Any) -> Any:
        return _noted(name, method, (plain(self), *plain(arguments)), options)

    return call


for _name in WORKING_METHODS:
    setattr(Recorded, _name, _working_method(_name))


def _noted(name: str, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a function with plain arrays, and add it to the log."""
    log, outs = Recorded.log, _arrays([options.get("out")])
    if not outs and name in OUT_ARGUMENT:
        outs = _arrays(arguments[OUT_ARGUMENT[name] :][:1])
    left_out = Recorded.reading or (bool(outs) and name in PRODUCTS and not Recorded.computes)
    result, Recorded.inside = None, True
    try:
        if not left_out:
            result = function(*arguments, **options)
    finally:
        Recorded.inside = False
    made = _arrays(result if isinstance(result, tuple) else [result])
    views = any(np.may_share_memory(each, other) for each in made for other in _arrays(arguments))
    if log.on and name not in NO_WORK and (outs or not views):
        log.calls += not Recorded.reading
        written = OUT_ARGUMENT.get(name)
        reads = _arrays(each for place, each in enumerate(arguments) if place != written)
        reads += _arrays(each for key, each in options.items() if key != "out")
        kind, flops = "pass", 0.0
        if name in PRODUCTS:
            kind, flops = "product", _flops(*PRODUCTS[name](*arguments, **options)[:2])
        shown = f"compiled {name}" if Recorded.reading else name
        log.note(shown, kind, function, arguments, options, reads, outs or made, flops)
    if outs and not Recorded.reading:
        return recorded(outs[0])
    return tuple(map(recorded, result)) if isinstance(result, tuple) else recorded(result)


def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that notes its calls under a name."""

    def call(*arguments: Any, **options: Any) -> Any:
        return _noted(name, function, plain(arguments), {key: plain(each) for key, each in options.items()})

    return call


def _is_fancy(index: Any) -> bool:
    return any(isinstance(each, np.ndarray | list) for each in (index if isinstance(index, tuple) else (index,)))


def address(array: Any) -> int:
    return int(np.lib.array_utils.byte_bounds(array)[0])


def _take(array: Any, index: Any) -> Any:
    return array[index]


def _put(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def unknown(what: str) -> click.ClickException:
    return click.ClickException(
        f"{what} by code that the recorder does not know: teach it the function that does this "
        "(PRODUCTS and TAUGHT in benchmarks/recorder.py)"
    )
