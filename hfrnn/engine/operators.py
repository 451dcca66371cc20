"""Linear operators for SciPy and cupyx that can write a product into an existing array."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hfrnn.arrays.backend import Array, Backend


@cache
def _operator_class(base: Any) -> Any:
    class Operator(base):  # type: ignore[misc]
        """A LinearOperator that can write a product into an existing array."""

        def __init__(self, backend: Backend, shape: tuple[int, int], dtype: Any, apply: Any, adjoint: Any) -> None:
            super().__init__(dtype, shape)
            self._backend, self._apply, self._apply_adjoint = backend, apply, adjoint

        def apply(self, v: Array, out: Array) -> Array:
            """Write A v to `out` and return it. Only the first call may allocate memory."""
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
    """Return a LinearOperator of the backend's library, with a method `apply(v, out)`.

    Parameters
    ----------
    backend : Backend
    shape : (int, int)
    dtype : data type
    apply : callable
        `apply(v, out)` writes A v to `out`.
    adjoint : callable, optional
        `adjoint(u, out)` writes the adjoint's product with u to `out`; by default the operator is symmetric.
    """
    operator_class: Any = _operator_class(backend.linear_operator_base())  # type: ignore[arg-type]
    return operator_class(backend, shape, dtype, apply, adjoint or apply)
