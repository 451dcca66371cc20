"""Linear operators for SciPy and cupyx that can write a product into an existing array."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array, as_array
from hfrnn.arrays.backend import Array, Backend
from hfrnn.arrays.vectors import unshared
from hfrnn.checks import shown
from hfrnn.choices import PRECISIONS
from hfrnn.engine.tensor_operator import TensorOperator, VectorLayout
from hfrnn.errors import InputError


def check_output(backend: Backend, name: str, out: Array, shape: tuple[int, ...], dtype: Any) -> None:
    """Raise InputError unless `out` is a contiguous, writable array of this shape and type."""
    fits = isinstance(out, backend.xp.ndarray) and not isinstance(out, np.ma.MaskedArray)
    if not fits or out.shape != shape or out.dtype != dtype:
        raise InputError(f"{name} is {shown(out)}: give an array of shape {shape} and type {dtype}")
    if not (out.flags.c_contiguous and getattr(out.flags, "writeable", True)):
        raise InputError(f"{name} is read-only or not contiguous: give a contiguous array that can be written to")


class _Products:
    """The transpose, and products with several vectors, for the class of a library that has its own way for both."""

    shape: tuple[int, int]
    dtype: Any
    _backend: Backend
    _apply: Any
    _apply_adjoint: Any
    _several: Any
    _several_adjoints: Any
    _name: str
    _precision: str

    def _transpose(self) -> Any:
        """Return A', which checks its arguments as A does; a symmetric operator is its own transpose."""
        if self._apply_adjoint is self._apply:
            return self
        own: Any = type(self)
        functions = self._apply_adjoint, self._apply, f"transposed {self._name}"
        found = own(self._backend, self.shape[::-1], self.dtype, *functions, self._several_adjoints, self._several)
        found._precision = self._precision
        return found

    _adjoint = _transpose

    def _matmat(self, V: Array) -> Array:
        if self._several is None or not self._together(V):
            return super()._matmat(V)  # type: ignore[misc]
        return self._products(self.shape[0], self._several, V)

    def _rmatmat(self, U: Array) -> Array:
        if self._several_adjoints is None or not self._together(U):
            return super()._rmatmat(U)  # type: ignore[misc]
        return self._products(self.shape[1], self._several_adjoints, U)

    def _together(self, V: Array) -> bool:
        """Return whether these columns can be multiplied together; one after another raises the errors."""
        return isinstance(V, self._backend.xp.ndarray) and V.shape[1] > 1 and V.dtype.kind in "fiub"

    def _products(self, size: int, function: Callable[[Array, Array], None], V: Array) -> Array:
        """Return the products with the columns of V (n, k), which `function` takes as rows."""
        out = self._backend.empty((V.shape[1], size), self.dtype)
        function(self._backend.asarray(V.T, dtype=self.dtype), out)
        return self._backend.asarray(out.T)


@cache
def _operator_class(base: Any) -> Any:
    class Operator(_Products, base):  # type: ignore[misc]
        """A LinearOperator that can write a product into an existing array."""

        def __init__(
            self, backend: Backend, shape: tuple[int, int], dtype: Any, apply: Any, adjoint: Any, name: str,
            several: Any, several_adjoints: Any,
        ) -> None:  # fmt: skip
            super().__init__(dtype, shape)
            self._several, self._several_adjoints = several, several_adjoints
            self._name, self.tikhonov = name, 0.0
            self._backend, self._apply, self._apply_adjoint = backend, apply, adjoint
            self._precision = PRECISIONS[0]

        def __repr__(self) -> str:
            return f"<{self._name} {self.shape[0]:,} x {self.shape[1]:,}, {self.dtype}>"

        @property
        def precision(self) -> str:
            """Precision of the matrix products: "float32", the full one of the data type, or "tf32" on a GPU."""
            return self._precision

        @precision.setter
        def precision(self, value: str) -> None:
            self._backend.check_precision(value, self.dtype)
            self._precision = value

        def apply(self, v: Array, out: Array) -> Array:
            """Write A v to `out` and return it. Later calls reuse the buffers of the first."""
            check_output(self._backend, "out", out, (self.shape[0],), self.dtype)
            v = self._vector(v, self.shape[1])
            with self._backend.products_in(self._precision):
                self._apply(unshared(self._backend.xp, v, out), out)
            return out

        def to_torch(self, layout: VectorLayout | None = None) -> TensorOperator:
            """Return this operator for PyTorch's tensors, in the order of theta or of a `hfrnn.interop.TorchLayout`.

            With a layout and Tikhonov damping, lambda*I has the size of the layout: the matrix is P' G P + lambda*I.
            """
            if self._apply_adjoint is not self._apply:
                raise InputError("a Jacobian has no form for tensors: use to_torch of gauss_newton or hessian")
            return TensorOperator(self, self._backend, layout)

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise InputError(
                "an operator cannot be pickled or copied, because it holds the buffers of its objective: pickle the "
                "network, the batch and theta, and make the operator again"
            )

        def _product(self, size: int, function: Callable[[Array, Array], None], v: Array) -> Array:
            out = self._backend.empty((size,), self.dtype)
            with self._backend.products_in(self._precision):
                function(self._vector(v.reshape(-1), v.size), out)
            return out

        def _vector(self, v: Array, size: int) -> Array:
            """Return a vector of the type of this operator. Its entries may be infinite: CG notices that itself."""
            if getattr(getattr(v, "dtype", None), "kind", "") == "c":
                raise InputError("v is complex: multiply the real and the imaginary part, one after the other")
            found = array("v", v, (size,), "fiub", backend=self._backend)
            return self._backend.asarray(found, dtype=self.dtype)

        def __matmul__(self, other: Any) -> Any:
            if not isinstance(other, base):
                other = as_array("v", other, self._backend)
                array("v", other, (self.shape[1],) if other.ndim == 1 else (self.shape[1], None), "fciub")
                if other.ndim == 2 and not other.shape[1]:
                    return self._backend.empty((self.shape[0], 0), self.dtype)  # SciPy cannot join no columns
            return super().__matmul__(other)

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
    name: str = "operator",
    several: Callable[[Array, Array], None] | None = None,
    several_adjoints: Callable[[Array, Array], None] | None = None,
) -> Any:
    """Return a LinearOperator of the backend's library, with a method `apply(v, out)`.

    `apply(v, out)` writes A v to `out`, and `adjoint(u, out)` writes A' u; without it the operator is symmetric.
    `several(V, out)` does what `apply` does for each row of V, faster than one after another, and `several_adjoints`
    does the same for `adjoint`.
    Arguments are contiguous arrays of type `dtype` that do not overlap. `name` is what a person calls the operator.
    """
    operator_class: Any = _operator_class(backend.linear_operator_base())  # type: ignore[arg-type]
    several_adjoints = several_adjoints if adjoint else several
    return operator_class(backend, shape, dtype, apply, adjoint or apply, name, several, several_adjoints)
