"""NumPy or CuPy behind one small interface: the array namespace, named reusable buffers, and what differs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse.linalg

from hfrnn.errors import InputError, MissingExtraError
from hfrnn.names import AUTO, BACKENDS

Array: TypeAlias = Any
"""An array of whichever backend is in use."""


class Backend:
    """An array namespace `xp` with the operations in which array libraries differ.

    Parameters
    ----------
    name : str
        What the user asked for, `"numpy"` or `"cupy"`.
    xp : module
        The array namespace, called only through functions that NumPy and CuPy share.
    """

    on_host = True
    """Whether arrays are NumPy's, in the memory of the host."""

    def __init__(self, name: str, xp: Any) -> None:
        self.name = name
        self.xp = xp

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of arbitrary contents."""
        return self.xp.empty(shape, dtype=dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of zeros."""
        return self.xp.zeros(shape, dtype=dtype)

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        """`values` as a C-contiguous array on this backend's device, copied only where it must be."""
        return self.xp.ascontiguousarray(self.xp.asarray(values, dtype=dtype))

    def to_host(self, values: Array) -> np.ndarray[Any, Any]:
        """`values` as a NumPy array."""
        return np.asarray(values)

    def take_rows(self, table: Array, index: Array, out: Array) -> None:
        """`out[...] = table[index]`: table (V, S), index integers in 0..V-1 (not checked), out index.shape + (S,)."""
        np.take(table, index, axis=0, out=out, mode="clip")

    def add_rows(self, out: Array, index: Array, rows: Array, buffers: Buffers | None = None) -> None:
        """Scatter-add: `out[index[n]] += rows[n]` for every n, repeated indices included, in a fixed order.

        Parameters
        ----------
        out : (V, S) array, added to in place
        index : (N,) integer array, N >= 1
        rows : (N, S) array
        buffers : Buffers, optional
            Where two arrays (N, S) are taken from.
        """
        buffers = buffers or Buffers(self, rows.dtype)
        order = np.argsort(index, kind="stable")
        gathered = np.take(rows, order, axis=0, out=buffers.get("sorted_rows", rows.shape), mode="clip")
        ordered = index[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1))
        sums = buffers.get("row_sums", rows.shape)[: starts.size]
        np.add.reduceat(gathered, starts, axis=0, out=sums)
        out[ordered[starts]] += sums

    def sums_of_pieces(self, x: Array, starts: Array, owner: Array) -> Array:
        """The sum of each of N neighbouring pieces of a vector, (N,).

        Parameters
        ----------
        x : (n,) array
        starts : (N,) integer array
            Where each piece starts; none is empty, and the first starts at 0.
        owner : (n,) integer array
            The piece of each entry.
        """
        return np.add.reduceat(x, starts)

    def tops_of_pieces(self, x: Array, starts: Array, owner: Array) -> Array:
        """The greatest real part in each of N neighbouring pieces, (N,); arguments as for `sums_of_pieces`."""
        return np.maximum.reduceat(x.real, starts)

    def linear_operator_base(self) -> type[Any]:
        """The class `LinearOperator` of this backend's sparse linear algebra."""
        return scipy.sparse.linalg.LinearOperator  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it (nothing to wait for on a CPU)."""


class NumbaBackend(Backend):
    """NumPy, for kernels whose time loops numba compiles."""

    def __init__(self) -> None:
        try:
            import numba  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(
                "backend 'numba' needs numba: install the extra fast (pip install 'hfrnn[fast]'), or use 'numpy'"
            ) from error
        super().__init__("numba", np)


class CupyBackend(Backend):
    """Arrays on an NVIDIA GPU."""

    on_host = False

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError as error:
            raise MissingExtraError(
                "backend 'cupy' needs CuPy: install the extra cuda12 or cuda13 "
                "(pip install 'hfrnn[cuda13]'), or use backend 'numpy'"
            ) from error
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as error:
            raise MissingExtraError(
                f"backend 'cupy' found no usable GPU ({type(error).__name__}): install an NVIDIA driver and the extra "
                "that fits it (cuda12 or cuda13), or use backend 'numpy'"
            ) from error
        if count == 0:
            raise MissingExtraError(
                "backend 'cupy' found no GPU: use backend 'numpy', or install the extra cuda12 or cuda13 on a machine "
                "with one"
            )
        super().__init__("cupy", cupy)

    def to_host(self, values: Array) -> np.ndarray[Any, Any]:
        host: np.ndarray[Any, Any] = self.xp.asnumpy(values)
        return host

    def take_rows(self, table: Array, index: Array, out: Array) -> None:
        self.xp.take(table, index, axis=0, out=out)

    def add_rows(self, out: Array, index: Array, rows: Array, buffers: Buffers | None = None) -> None:
        """As on a CPU, but the GPU's atomic additions come in any order: the last bits may differ between runs."""
        parts = [(out.real, rows.real), (out.imag, rows.imag)] if out.dtype.kind == "c" else [(out, rows)]
        for sums, values in parts:  # the GPU has no atomic addition of complex numbers
            self.xp.add.at(sums, index, values)

    def sums_of_pieces(self, x: Array, starts: Array, owner: Array) -> Array:
        """As on a CPU, but added in any order."""
        sums = self.xp.zeros(starts.shape, dtype=x.dtype)
        self.add_rows(sums, owner, x)
        return sums

    def tops_of_pieces(self, x: Array, starts: Array, owner: Array) -> Array:
        tops = self.xp.full(starts.shape, -math.inf, dtype=x.real.dtype)
        self.xp.maximum.at(tops, owner, x.real)
        return tops

    def linear_operator_base(self) -> type[Any]:
        from cupyx.scipy.sparse.linalg import LinearOperator

        return LinearOperator  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        self.xp.cuda.get_current_stream().synchronize()


_numpy = Backend("numpy", np)
_makers: dict[str, Callable[[], Backend]] = {"numpy": lambda: _numpy, "numba": NumbaBackend, "cupy": CupyBackend}


def get_backend(backend: str | Backend) -> Backend:
    """The backend of that name, or the given one.

    Raises
    ------
    InputError
        The name is not known.
    MissingExtraError
        CuPy or a GPU is not there.
    """
    if isinstance(backend, Backend):
        return backend
    if backend not in _makers:
        raise InputError(f"backend {backend!r} is not known: use one of {', '.join((AUTO, *BACKENDS))}")
    return _makers[backend]()


class Buffers:
    """Named arrays that are allocated once and handed out again.

    A buffer's contents are arbitrary when it is handed out and live until the same name is asked for again. Asking
    for a larger size than before reallocates; every other request only makes a view.
    """

    def __init__(self, backend: Backend, dtype: Any) -> None:
        self.backend = backend
        self.dtype = np.dtype(dtype)
        self._flat: dict[tuple[str, Any], Array] = {}
        self._views: dict[tuple[str, Any, tuple[int, ...]], Array] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """The buffer `name` as an array of that shape, C-contiguous."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        view = self._views.get((name, kind, shape))
        if view is None:
            size = math.prod(shape)
            flat = self._flat.get((name, kind))
            if flat is None or flat.shape[0] < size:
                flat = self.backend.empty((size,), kind)
                self._flat[name, kind] = flat
                self._views = {key: old for key, old in self._views.items() if key[:2] != (name, kind)}
            view = flat[:size].reshape(shape)
            self._views[name, kind, shape] = view
        return view

    def sizes(self) -> dict[str, int]:
        """The bytes held under each name."""
        held: dict[str, int] = {}
        for (name, _), flat in self._flat.items():
            held[name] = held.get(name, 0) + flat.nbytes
        return held

    @property
    def nbytes(self) -> int:
        """The bytes held."""
        return sum(self.sizes().values())
