"""Curvature operators on the tensors of another library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hfrnn.arrays.array_checks import array, is_tensor
from hfrnn.arrays.backend import Array, Backend
from hfrnn.arrays.tensors import shared, shared_output, tensor_like
from hfrnn.checks import methods, shown
from hfrnn.errors import InputError


class VectorLayout(Protocol):
    """A linear map P from vectors (size,) in the order of another library to vectors in the order of theta."""

    size: int

    def direction(self, v: Array) -> Array:
        """Return P v; v is (size,) or (size, k)."""

    def gradient(self, g: Array) -> Array:
        """Return P' g; g is (n_parameters,) or (n_parameters, k)."""

    def split(self, vector: Any) -> dict[str, Any]:
        """Return the parts of a vector (size,) by name, as views."""

    def join(self, parts: Mapping[str, Any]) -> Array:
        """Return the vector (size,) with these parts."""

    def named(self, parts: Sequence[Any]) -> dict[str, Any]:
        """Return parts in the order of the layout by name."""


def vector_of(name: str, value: Any, size: int, backend: Backend) -> Array:
    """Return a tensor or array of one axis or two as an array (size,) or (size, k) of a backend."""
    found = shared(name, value, backend) if is_tensor(value) else value
    return array(name, found, (size,) if getattr(found, "ndim", 1) == 1 else (size, None), "f", backend=backend)


class TensorOperator:
    """A curvature operator A that takes and gives tensors, or P' A P in the order of another library's parameters.

    Attributes
    ----------
    shape : (int, int)
    dtype : data type of NumPy
        That of the products, whatever type the vectors have.

    Notes
    -----
    SciPy's functions take the operator too: `scipy.sparse.linalg.eigsh(G)`.

    With Tikhonov damping and a layout, the matrix is P' G P + lambda*I, with lambda on every parameter of the other
    library, and not P' (G + lambda*I) P.

    Without a layout, tensors of the operator's type and device are read and written where they are. A layout has to
    change the order of the entries, which makes one copy of the vector before a product and one after it.

    Examples
    --------
    >>> import torch
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> batch = hfrnn.Batch(torch.ones(5, 4, 2), torch.ones(5, 4, 1))
    >>> G = net.gauss_newton(net.init(seed=0), batch).to_torch()
    >>> G
    <<Gauss-Newton matrix 21 x 21, float32> for tensors>
    >>> (G @ torch.ones(net.n_parameters)).shape
    torch.Size([21])
    """

    def __init__(self, operator: Any, backend: Backend, layout: VectorLayout | None = None) -> None:
        self._operator, self._backend = operator, backend
        self._layout = methods("layout", layout, ("direction", "gradient", "split", "join", "named"), or_none=True)
        self._size: int = operator.shape[0] if layout is None else layout.size
        self.shape, self.dtype = (self._size, self._size), operator.dtype

    def __repr__(self) -> str:
        return f"<{self._operator!r} for tensors>"

    def __matmul__(self, v: Any) -> Any:
        """Return A v.

        Parameters
        ----------
        v : (n,) or (n, k) tensor or array, dict of name to tensor, or list or tuple of tensors
            A dict, list or tuple needs a layout: a dict has its names, a list or tuple its order.

        Returns
        -------
        tensor, array, dict, list or tuple
            As v. The tensors of a dict, list or tuple are views of one vector.
        """
        if isinstance(v, Mapping | list | tuple):
            return self._product_of_parts(v)
        found = self._product(vector_of("v", v, self._size, self._backend))
        return tensor_like(v, found) if is_tensor(v) else found

    def matvec(self, v: Array) -> Array:
        """Return A v for an array (n,), as SciPy asks for it; `rmatvec` and `matmat` are the same product."""
        found: Array = self @ v
        return found

    rmatvec = matmat = rmatmat = matvec

    def _product_of_parts(self, v: Any) -> Any:
        """Return the product with the parts of a vector, in their container."""
        kind = type(v).__name__ if isinstance(v, list | tuple) else "dict"
        if self._layout is None:
            raise InputError(f"v is a {kind}, and the operator has no names: use to_torch(layout), or give a tensor")
        named = v if isinstance(v, Mapping) else self._layout.named(v)
        like = next(iter(named.values()), None)
        if not is_tensor(like):
            raise InputError(f"v is a {kind} of {shown(like)}: give a {kind} of tensors, or one tensor or array")
        parts = self._layout.split(tensor_like(like, self._product(self._layout.join(named))))
        return parts if isinstance(v, Mapping) else type(v)(parts.values())

    def apply(self, v: Any, out: Any) -> Any:
        """Write A v to `out` and return it; both are tensors (n,) of the operator's type."""
        for name, given in (("v", v), ("out", out)):
            if not is_tensor(given):
                raise InputError(f"{name} is {shown(given)}: give a tensor, or use the operator without to_torch")
        target = shared_output("out", out, self._backend)
        if self._layout is None:
            self._operator.apply(vector_of("v", v, self._size, self._backend), target)
            self._backend.synchronize()
        elif target.shape != (self._size,) or target.dtype != self.dtype:
            raise InputError(f"out is {shown(out)}: give a tensor of shape {(self._size,)} and type {self.dtype}")
        else:
            target[...] = self._product(vector_of("v", v, self._size, self._backend))
        return out

    def _product(self, v: Array) -> Array:
        """Return A v when it is complete: the other library may use another stream of the device."""
        if self._layout is None:
            found = self._operator @ v
        else:
            moved = self._layout.direction(v)
            found = self._layout.gradient(self._operator @ moved)
            if self._operator.tikhonov:  # lambda*I in place of lambda*P'P
                found += self._operator.tikhonov * (v - self._layout.gradient(moved))
        self._backend.synchronize()
        return found
