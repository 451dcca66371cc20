"""Linear operators of SciPy's and cupyx's kind whose products are written into a given array."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hfrnn.arrays.backend import Array, Backend


@cache
def _operator_class(base: Any) -> Any:
    class Operator(base):  # type: ignore[misc]
        """A LinearOperator whose products are written into a given array."""

        def __init__(self, backend: Backend, shape: tuple[int, int], dtype: Any, apply: Any, adjoint: Any) -> None:
            super().__init__(dtype, shape)
            self._backend, self._apply, self._apply_adjoint = backend, apply, adjoint

        def apply(self, v: Array, out: Array) -> Array:
            """out <- A v, without allocation beyond the first call; returns out."""
            self._apply(v, out)
            return out

        def _product(self, size: int, function: Callable[[Array, Array], None], v: Array) -> Array:
            out = self._backend.empty((size,), self.dtype)
            function(v.reshape(-1), out)
            return out

        def _matvec(self, v: Array) -> Array:
            return self._product(self.shape[0], self._apply, v)

        def _rmatvec(self, u: Array) -> Array:
            return self._product(self.shape[1], self._apply_adjoint, u)

    return Operator


def make_operator(
    backend: Backend,
    shape: tuple[int, int],
    dtype: Any,
    apply: Callable[[Array, Array], None],
    adjoint: Callable[[Array, Array], None] | None = None,
) -> Any:
    """A LinearOperator of the backend's library with `apply(v, out)`; symmetric unless `adjoint` is given."""
    operator_class: Any = _operator_class(backend.linear_operator_base())  # type: ignore[arg-type]
    return operator_class(backend, shape, dtype, apply, adjoint or apply)
