"""Tensors of other libraries as arrays in the same memory, and back, by the DLPack protocol. None is imported here."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, Backend, get_backend
from hfrnn.checks import shown
from hfrnn.errors import InputError

ON_HOST = 1
"""The type that DLPack gives to a device whose memory the CPU can read directly."""
FAILURES = (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError)
"""What libraries raise for a tensor that they cannot share."""


def shared(name: str, tensor: Any, backend: Backend | None = None) -> Array:
    """Return an array in the memory of a tensor, which may require a gradient, without a copy.

    The array is by default NumPy's for a tensor in the memory of the host, else CuPy's. The tensor may not lie on
    another device than the backend, or have a type or storage that DLPack does not share (bfloat16, sparse).
    """
    tensor = _detached(tensor)
    try:
        on_host = int(tensor.__dlpack_device__()[0]) == ON_HOST
    except FAILURES as error:
        raise _refusal(name, tensor, error) from error
    backend = backend or get_backend("numpy" if on_host else "cupy")
    if on_host != backend.on_host:
        raise InputError(
            f"{name} is a tensor {'in the memory of the host' if on_host else 'on a GPU'}, and the backend of the "
            f"network is {backend.name!r}: move the tensor with its method to(), or choose the other backend"
        )
    try:
        found: Array = backend.xp.from_dlpack(tensor)
    except FAILURES as error:
        raise _refusal(name, tensor, error) from error
    return found


def shared_output(name: str, tensor: Any, backend: Backend) -> Array:
    """Return an array in the memory of a tensor, which can be written to; otherwise as `shared`."""
    found = shared(name, tensor, backend)
    if backend.on_host and not found.flags.writeable:  # NumPy before 2.1 returns arrays that can only be read
        found = np.asarray(_detached(tensor))
    return found


def tensor_like(tensor: Any, values: Array) -> Any:
    """Return a tensor of the library of another tensor in the memory of an array, without a copy."""
    for cls in type(tensor).__mro__:
        library = sys.modules.get(cls.__module__.partition(".")[0])
        if hasattr(library, "from_dlpack"):
            return library.from_dlpack(values)  # type: ignore[union-attr]
    raise InputError(f"a {type(tensor).__name__} is of a library without from_dlpack: give a torch.Tensor")


def _detached(tensor: Any) -> Any:
    """Return a tensor that requires no gradient, in the same memory."""
    return tensor.detach() if hasattr(tensor, "detach") else tensor


def _refusal(name: str, tensor: Any, error: Exception) -> InputError:
    reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    return InputError(f"{name} is {shown(tensor)}, which cannot be shared ({reason}): give float32, float64 or int64")
