"""Named arrays that are allocated once and used again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hfrnn.arrays.backend import Array, Backend


class Buffers:
    """Named arrays that are allocated once and used again.

    A buffer has arbitrary contents when `get` returns it. They stay valid until the next `get` with the same name. A
    request for a larger size than before allocates new memory; every other request only makes a view.

    Parameters
    ----------
    backend : Backend
        Where the memory lies.
    dtype : dtype
        Type of the buffers, unless `get` is given another one.
    """

    def __init__(self, backend: Backend, dtype: Any) -> None:
        self.backend = backend
        self.dtype = np.dtype(dtype)
        self._flat: dict[tuple[str, Any], Array] = {}
        self._views: dict[tuple[str, Any], dict[tuple[int, ...], Array]] = {}  # of each buffer, by shape

    def get(self, name: str, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Return the buffer `name` as a C-contiguous array.

        Parameters
        ----------
        name : str
        shape : tuple of int
        dtype : dtype, optional
            By default the type of this object. The same name with another type is another buffer.

        Returns
        -------
        array
            Its contents are arbitrary.
        """
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
