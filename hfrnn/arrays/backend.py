"""NumPy, numba and CuPy behind one interface: array namespace, buffers, and the operations that differ."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from scipy.sparse._sparsetools import csr_matvecs

from hfrnn.arrays import gpu
from hfrnn.checks import choice, wrong
from hfrnn.choices import AUTO, BACKENDS, DEVICE_SHARE, HOST_MEMORY, PRECISIONS
from hfrnn.errors import InputError, Message, MissingExtraError, how_to_install

Array: TypeAlias = Any
"""An array of whichever backend is in use."""
HostArray: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array, in the memory of the host."""
PIECE_BYTES = 2**20
"""Approximate size of the part of a weight gradient that is computed at a time on a CPU before it is added."""
PRODUCT_ROWS, SUMMED_ROWS = 2**14, 2**8
"""How many terms in float32 one matrix product adds up, and how many rows are added one after another."""
Runs: TypeAlias = Sequence[tuple[slice, slice]]
"""Runs of neighbouring pieces of equal length: their numbers, and their entries."""


class Backend:
    """An array namespace `xp`, and the operations for which array libraries differ.

    Callers use only functions of `xp` that NumPy and CuPy share.
    """

    on_host = True
    """Whether arrays are NumPy arrays, in the memory of the host."""
    shared_memory = 0
    """Bytes of shared memory that a block of a CUDA function may have."""
    processors = 1
    """Number of processors of a device, each of which runs blocks of CUDA functions."""
    whole_segments: tuple[str, ...] = ("block", "grid")
    """Which CUDA functions may run all steps of a segment in one launch: those of single blocks, or of a whole grid."""
    memory_errors: tuple[type[Exception], ...] = ()
    """What a device raises when its memory is used up."""

    def __init__(self, name: str, xp: Any) -> None:
        self.name, self.xp = name, xp

    @property
    def variants(self) -> str:
        """Name under which the registry of kernels lists the variants for this backend."""
        return self.name

    @contextmanager
    def compiling(self, tell: Callable[[], object]) -> Iterator[None]:
        """Call a function within the context, once, when a routine is compiled rather than loaded from a cache."""
        yield

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return a new array with arbitrary contents."""
        return self.xp.empty(shape, dtype=dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return a new array of zeros."""
        return self.xp.zeros(shape, dtype=dtype)

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        """Return `values` as a C-contiguous array on the device of this backend; copy only if necessary."""
        return self.xp.ascontiguousarray(self.xp.asarray(values, dtype=dtype))

    def to_host(self, values: Array) -> HostArray:
        """Return `values` as a NumPy array."""
        return np.asarray(values)

    def take_rows(self, table: Array, index: Array, out: Array) -> None:
        """Write the rows `index` of a table (V, S) into `out` (*index.shape, S); row numbers are not checked."""
        np.take(table, index, axis=0, out=out, mode="clip")

    def row_groups(self, index: Array, count: int | None = None) -> RowSums | RowGroups:
        """Return the groups of rows with the same number, for `add_rows`, given the row numbers `index` (N,), N >= 1.

        With the number of rows of the table, a CPU adds to all of them, which is faster for small tables.
        """
        return row_sums(index, count)

    def add_rows(self, out: Array, groups: Any, rows: Array, buffers: Buffers | None = None) -> None:
        """Add `rows[n]`, of an array (N, S), to `out[index[n]]`, of a table (V, S), for every n in a fixed order.

        `groups` is what `row_groups(index)` returned.
        """
        groups.add_to(out, rows, buffers or Buffers(self, rows.dtype))

    def sums_of_pieces(self, x: Array, starts: Array, runs: Runs) -> Array:
        """Sum each of N neighbouring pieces of a vector in a fixed order, and return (N,).

        `starts` (N,) holds the index of each piece's first entry. The first piece starts at 0, and no piece is empty.
        """
        return np.add.reduceat(x, starts)

    def tops_of_pieces(self, x: Array, starts: Array, runs: Runs) -> Array:
        """Return the largest real part in each piece; the arguments are those of `sums_of_pieces`."""
        return np.maximum.reduceat(x.real, starts)

    def add_product(self, x: Array, da: Array, grad: Array, buffers: Buffers) -> None:
        """Add `x.T @ da` to `grad`, for x (N, n) and da (N, m), some columns at a time while they are in the cache."""
        if grad.strides[0] < grad.strides[1]:  # stored column by column
            x, da, grad = da, x, grad.T
        width = -(-grad.shape[1] // max(1, grad.nbytes // PIECE_BYTES))
        for start in range(0, grad.shape[1], width or 1):
            columns = slice(start, start + width)
            part = grad[:, columns]
            self._add_in_double(x, da[:, columns], part, buffers)

    def _add_in_double(self, x: Array, da: Array, grad: Array, buffers: Buffers) -> None:
        """Do what `add_product` does. The products of some rows each are added in float64, if there are many rows.

        BLAS adds the terms of a product in groups of a few hundred, one group after another: of 2^22 terms in float32,
        the last two digits are lost.
        """
        work = buffers.get("weight_gradient", grad.shape)
        if grad.dtype != "float32" or x.shape[0] <= PRODUCT_ROWS:
            self.xp.matmul(x.T, da, out=work)
            grad += work
            return
        total = buffers.get("weight_gradient", grad.shape, "float64")
        total[...] = 0
        for first in range(0, x.shape[0], PRODUCT_ROWS):
            some = slice(first, first + PRODUCT_ROWS)
            self.xp.matmul(x[some].T, da[some], out=work)
            total += work
        grad += total

    def add_products(self, x: Array, da: Array, grad: Array, buffers: Buffers) -> None:
        """Do what `add_product` does for each x (P, N, n), da (P, N, m) and grad (P, n, m)."""
        for each in zip(x, da, grad, strict=True):
            self.add_product(*each, buffers)

    def cuda_function(self, source: str, name: str, cooperative: bool = False) -> Callable[..., object]:
        """Return the function of this name in a CUDA source, for backends whose kernels are written in CUDA C.

        It takes the sizes of the grid and of a block, as tuples, the arguments, and `shared_mem` in bytes. The blocks
        of a cooperative function may wait for each other, so there may be no more than `resident_blocks`.
        """
        raise NotImplementedError(f"backend {self.name!r} has no CUDA functions")

    def resident_blocks(self, source: str, name: str, threads: int, shared_memory: int) -> int:
        """Return how many blocks of a cooperative CUDA function the device runs at the same time; 0 without a device.

        It follows from the registers of the compiled function, the threads of a block and its bytes of shared memory.
        """
        return 0

    def barriers(self, count: int) -> Array:
        """Return counters (count,) for barriers between blocks. They are 0 when new, and their users keep them."""
        raise NotImplementedError(f"backend {self.name!r} has no CUDA functions")

    def default_memory(self) -> int:
        """Return the default memory budget of an objective in bytes. A GPU is asked for its free memory."""
        return HOST_MEMORY

    def check_precision(self, precision: str, dtype: Any) -> None:
        """Raise InputError unless products of a data type can be computed in a precision, "float32" or "tf32"."""
        if choice("precision", precision, PRECISIONS) == "tf32":
            raise InputError(Message(
                "{precision!s} is 'tf32', and backend {0!r} runs on the CPU, which has no TF32: use {backend:cupy}, or "
                "{precision:float32}", self.name,
            ))  # fmt: skip

    @contextmanager
    def products_in(self, precision: str) -> Iterator[None]:
        """Compute matrix products within the context in a precision that `check_precision` accepts.

        On a GPU, this holds for all threads of the process.
        """
        yield

    def linear_operator_base(self) -> type[Any]:
        """Return the class `LinearOperator` of SciPy, or the one of CuPy."""
        return scipy.sparse.linalg.LinearOperator  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        """Wait until the device has finished its work. A CPU has nothing to wait for."""


class NumbaBackend(Backend):
    """NumPy, for kernels whose time loops numba compiles."""

    def __init__(self) -> None:
        gpu.check_numba()
        super().__init__("numba", np)

    @contextmanager
    def compiling(self, tell: Callable[[], object]) -> Iterator[None]:
        from numba.core import event

        class Once(event.Listener):
            told = False

            def on_start(self, event: Any) -> None:
                if not self.told:
                    self.told = True
                    tell()

            def on_end(self, event: Any) -> None:
                pass

        with event.install_listener("numba:compile", Once()):
            yield


class CupyBackend(Backend):
    """Arrays on an NVIDIA GPU."""

    on_host = False
    _functions: ClassVar[dict[tuple[int, str, str], Any]] = {}
    """The CUDA functions of all backends of the process, by device, source and name."""
    _barriers: ClassVar[dict[tuple[int, int], Array]] = {}
    """Counters for barriers, by device and stream: the functions of a stream run one after another."""

    def __init__(self) -> None:
        cupy, why = gpu.find_gpu()
        if why == gpu.MISSING:
            raise MissingExtraError(
                f"backend 'cupy' needs CuPy: {how_to_install('cuda12', 'cuda13')}, or use backend 'numpy'"
            )
        if why:
            raise MissingExtraError(
                f"backend 'cupy' found no usable GPU, because {why}: install an NVIDIA driver and the extra that fits "
                "it (cuda12 or cuda13), or use backend 'numpy'"
            )
        gpu.ignore_tf32_of_environment()
        super().__init__("cupy", cupy)
        self.memory_errors = (cupy.cuda.memory.OutOfMemoryError,)
        self._device = cupy.cuda.Device().id
        attributes = cupy.cuda.Device().attributes
        self.shared_memory = attributes["MaxSharedMemoryPerBlockOptin"]
        self.processors = attributes["MultiProcessorCount"]
        self._cooperates = bool(attributes.get("CooperativeLaunch"))

    def add_product(self, x: Array, da: Array, grad: Array, buffers: Buffers) -> None:
        """Add `x.T @ da` to `grad` in one product of cuBLAS, which takes one type and refuses empty arrays."""
        x, da = (each.astype(grad.dtype, copy=False) for each in (x, da))
        if grad.size and x.shape[0] > PRODUCT_ROWS and grad.dtype == "float32":
            self._add_in_double(x, da, grad, buffers)
        elif x.size and da.size:
            self._add_gemm(x, da, grad)

    def _add_gemm(self, x: Array, da: Array, grad: Array) -> None:
        importlib.import_module("cupy.cublas").gemm("T", "N", x, da, out=grad, alpha=1.0, beta=1.0)

    def add_products(self, x: Array, da: Array, grad: Array, buffers: Buffers) -> None:
        """Add all products at once: a device has a cost per call, and no cache to stay in."""
        grad += self.xp.matmul(x.swapaxes(1, 2), da)

    def cuda_function(self, source: str, name: str, cooperative: bool = False) -> Any:
        function = self._function(source, name)
        if not cooperative:
            return function
        # `RawModule(enable_cooperative_groups=True)` makes CuPy 14.0 link a library of the CUDA toolkit, which its
        # wheels do not bring; the sources need nothing of it
        return partial(function.kernel, enable_cooperative_groups=True)

    def _function(self, source: str, name: str) -> Any:
        key = (self._device, source, name)
        if key not in self._functions:
            function = self.xp.RawModule(code=source).get_function(name)
            function.max_dynamic_shared_size_bytes = self.shared_memory
            self._functions[key] = function
        return self._functions[key]

    def resident_blocks(self, source: str, name: str, threads: int, shared_memory: int) -> int:
        if not self._cooperates:
            return 0
        occupancy = self.xp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
        function = self._function(source, name)
        return int(occupancy(function.kernel.ptr, threads, shared_memory)) * self.processors

    def barriers(self, count: int) -> Array:
        key = (self._device, self.xp.cuda.get_current_stream().ptr)
        if key not in self._barriers or self._barriers[key].size < count:
            self._barriers[key] = self.zeros((count,), "uint32")
        return self._barriers[key]

    def to_host(self, values: Array) -> HostArray:
        host: HostArray = self.xp.asnumpy(values)
        return host

    def take_rows(self, table: Array, index: Array, out: Array) -> None:
        self.xp.take(table, index, axis=0, out=out)

    def row_groups(self, index: Array, count: int | None = None) -> RowGroups:
        """Return the groups as on a CPU, with additions that a GPU can do side by side. The host computes them."""
        host = group_rows(index if isinstance(index, np.ndarray) else self.to_host(index))
        pairs = pairs_of_places(host.starts, host.order.size)
        order, starts, *levels = (self.asarray(x, dtype="int32") for x in (host.order, host.starts, *pairs))
        return RowGroups(order, starts, self.asarray(host.numbers), tuple(levels))

    def add_rows(self, out: Array, groups: Any, rows: Array, buffers: Buffers | None = None) -> None:
        """Add rows without atomic additions: the rows of a group in the order of a binary tree."""
        xp, buffers = self.xp, buffers or Buffers(self, rows.dtype)
        sums, work = buffers.get("sorted_rows", rows.shape), buffers.get("row_sums", rows.shape)
        xp.take(rows, groups.order, axis=0, out=sums)
        for places in groups.pairs:
            count = places.shape[0] // 2
            left, right = work[:count], work[count : 2 * count]
            xp.take(sums, places, axis=0, out=work[: 2 * count])
            left += right
            sums[places[:count]] = left
        totals = work[: groups.starts.shape[0]]
        xp.take(sums, groups.starts, axis=0, out=totals)
        out[groups.numbers] += totals

    def sums_of_pieces(self, x: Array, starts: Array, runs: Runs) -> Array:
        sums = self.xp.empty(starts.shape, dtype=x.dtype)
        for pieces, entries in runs:
            x[entries].reshape(pieces.stop - pieces.start, -1).sum(axis=1, out=sums[pieces])
        return sums

    def tops_of_pieces(self, x: Array, starts: Array, runs: Runs) -> Array:
        tops = self.xp.empty(starts.shape, dtype=x.real.dtype)
        for pieces, entries in runs:
            x[entries].real.reshape(pieces.stop - pieces.start, -1).max(axis=1, out=tops[pieces])
        return tops

    def free_memory(self) -> int:
        """Return the bytes that are free on the device, with those that CuPy holds but does not use."""
        return int(self.xp.cuda.runtime.memGetInfo()[0] + self.xp.get_default_memory_pool().free_bytes())

    def default_memory(self) -> int:
        """Return a share of the free memory, in whole MiB."""
        return max(int(DEVICE_SHARE * self.free_memory()) >> 20, 1) << 20

    def compute_capability(self) -> int:
        """Return the compute capability of the GPU times 10."""
        return int(self.xp.cuda.Device().compute_capability)

    def check_precision(self, precision: str, dtype: Any) -> None:
        if choice("precision", precision, PRECISIONS) == "tf32":
            gpu.check_tf32(self.compute_capability(), np.dtype(dtype))

    @contextmanager
    def products_in(self, precision: str) -> Iterator[None]:
        with gpu.products_in_tf32() if precision == "tf32" else nullcontext():
            yield

    def linear_operator_base(self) -> type[Any]:
        from cupyx.scipy.sparse.linalg import LinearOperator

        return LinearOperator  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        self.xp.cuda.get_current_stream().synchronize()


def host_copy(value: Any) -> Any:
    """Return an array of a device as a NumPy array; return anything else unchanged."""
    return value.get() if hasattr(value, "__cuda_array_interface__") else value


_numpy = Backend("numpy", np)
_makers: dict[str, Callable[[], Backend]] = {"numpy": lambda: _numpy, "numba": NumbaBackend, "cupy": CupyBackend}


def get_backend(backend: str | Backend) -> Backend:
    """Return the backend of a name; raise MissingExtraError if numba, CuPy or a GPU is missing."""
    if isinstance(backend, Backend):
        return backend
    if not isinstance(backend, str) or backend not in _makers:
        raise wrong("backend", backend, f"use one of {', '.join((AUTO, *BACKENDS))}")
    return _makers[backend]()


# ------------------------------------------------------------------ named buffers


class Buffers:
    """Named arrays that are allocated once and used again.

    A buffer has arbitrary contents when `get` returns it. They stay valid until the next `get` with the same name. A
    request for a larger size than before allocates new memory; every other request only makes a view.
    """

    def __init__(self, backend: Backend, dtype: Any) -> None:
        self.backend = backend
        self.dtype = np.dtype(dtype)
        self._flat: dict[tuple[str, Any], Array] = {}
        self._views: dict[tuple[str, Any], dict[tuple[int, ...], Array]] = {}  # of each buffer, by shape

    def get(self, name: str, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Return the buffer `name` as a C-contiguous array. The same name with another type is another buffer."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        key = name, kind
        views = self._views.get(key)
        view = None if views is None else views.get(shape)
        if view is None:
            size = math.prod(shape)
            flat = self._flat.get(key)
            if views is None or flat is None or flat.shape[0] < size:
                flat = self._flat[key] = self.backend.empty((size,), kind)
                views = self._views[key] = {}
            view = views[shape] = flat[:size].reshape(shape)
        return view

    def sizes(self) -> dict[str, int]:
        """Return the number of bytes held under each name."""
        held: dict[str, int] = {}
        for (name, _), flat in self._flat.items():
            held[name] = held.get(name, 0) + flat.nbytes
        return held

    @property
    def nbytes(self) -> int:
        """Total number of bytes held."""
        return sum(self.sizes().values())


# ------------------------------------------------------------------ groups of rows


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of N rows, those with the same number, as one product with a sparse matrix on a CPU.

    The matrix (M, N) has a 1 in row m and column n if row n belongs to sum m. `numbers` are those of the M sums.
    """

    matrix: scipy.sparse.csr_array
    numbers: Any
    of_pieces: RowSums | None = None
    """Adds the sums of this object, which are those of pieces of long groups; `numbers` are then not used."""

    def add_to(self, out: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], buffers: Buffers) -> None:
        """Add the sums of rows (N, S) to their rows of a table, out (V, S). Both have the same type."""
        (count, N), S = self.matrix.shape, rows.shape[1]
        ones = self.matrix.data.astype(out.dtype, copy=False)
        if not rows.flags.c_contiguous:
            part, rows = rows, buffers.get("contiguous_rows", rows.shape)
            rows[...] = part
        whole = isinstance(self.numbers, slice)
        sums = out
        if self.of_pieces is not None:
            sums = np.zeros((count, S), out.dtype)  # few rows
        elif not (whole and out.flags.c_contiguous):
            most = count if whole else N  # the buffer is as large as any N rows need
            sums = buffers.get("row_sums", (most, S))[:count]
            sums[...] = 0
        # SciPy's product returns a new array; the compiled function behind it adds to one
        csr_matvecs(count, N, S, self.matrix.indptr, self.matrix.indices, ones, rows.reshape(-1), sums.reshape(-1))
        if self.of_pieces is not None:
            self.of_pieces.add_to(out, sums, buffers)
        elif sums is not out:
            out[self.numbers] += sums


def row_sums(index: np.ndarray[Any, Any], count: int | None = None) -> RowSums:
    """Return the sums of N rows, N >= 1, that have the numbers `index` (N,).

    With `count`, there is a sum for each number below it, also for those that no row has.
    """
    if count is None:
        groups = group_rows(index)
        order, ends, numbers = groups.order, np.append(groups.starts, index.size), groups.numbers
    else:
        order, numbers = _stable_order(index), slice(0, count)
        ends = np.concatenate(([0], np.cumsum(np.bincount(index, minlength=count))))
    lengths, of_pieces = np.diff(ends), None
    if lengths.max() > SUMMED_ROWS:
        pieces = -(-lengths // SUMMED_ROWS)
        groups_of = np.repeat(np.arange(lengths.size), pieces)
        first = np.repeat(np.cumsum(pieces) - pieces, pieces)
        ends = np.append(ends[groups_of] + SUMMED_ROWS * (np.arange(groups_of.size) - first), index.size)
        of_pieces = row_sums(groups_of if count is not None else numbers[groups_of], count)
    ones = np.ones(index.size, np.float32)
    matrix = scipy.sparse.csr_array((ones, order, ends), shape=(ends.size - 1, index.size))
    return RowSums(matrix, numbers, of_pieces)


@dataclass(frozen=True, eq=False)
class RowGroups:
    """N rows in groups on a GPU: those with the same number belong to one sum.

    `order` (N,) holds the rows, sorted by their number; those of a group keep their order. `starts` (M,) is the place
    of each group's first row among them, and `numbers` (M,) ascend. `pairs` are the additions of `pairs_of_places`.
    """

    order: Any
    starts: Any
    numbers: Any
    pairs: tuple[Any, ...] = ()


def _stable_order(index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the stable order of N numbers, N >= 1, from 0. NumPy sorts numbers of 16 bits three times as fast."""
    return np.argsort(index.astype(np.uint16) if index.max() < 2**16 else index, kind="stable")


def group_rows(index: np.ndarray[Any, Any]) -> RowGroups:
    """Return the groups of N rows, N >= 1, that have the numbers `index` (N,)."""
    order = _stable_order(index)
    ordered = index[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1))
    return RowGroups(order, starts, ordered[starts])


def pairs_of_places(starts: np.ndarray[Any, Any], size: int) -> list[np.ndarray[Any, Any]]:
    """Return the additions of a binary tree over each group of places, given the first place of each.

    Each array, one for each level of the tree, holds places to add to, and then as many places to add to them. No place
    is in an array twice, so the additions of an array may run at the same time. The first array adds the second place
    of a group to its first and the fourth to its third, the next one the third to the first, and so on.
    """
    counts = np.diff(starts, append=size)
    rank, count = np.arange(size) - np.repeat(starts, counts), np.repeat(counts, counts)
    places, step, levels = np.arange(size), 1, []
    while step < counts.max():
        places = places[rank[places] % (2 * step) == 0]
        left = places[rank[places] + step < count[places]]
        levels.append(np.concatenate((left, left + step)))
        step *= 2
    return levels
