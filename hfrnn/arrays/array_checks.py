"""The check of arrays that a caller gives: type, shape and, if asked for, that all entries are finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, Backend
from hfrnn.checks import shown, subject, wrong
from hfrnn.errors import InputError, Message

KINDS = {
    "i": "integers",
    "iu": "integers",
    "f": "floating-point numbers",
    "fiu": "real numbers",
    "fiub": "numbers",
    "fciu": "numbers",
    "fciub": "numbers",
}
"""What NumPy's letters for the types of arrays mean in a message."""


def type_name(value: Any) -> Any:
    """Return the name of a type of numbers, such as "float32" for numpy.float32; return anything else unchanged."""
    return np.dtype(value).name if isinstance(value, type | np.dtype) else value


def array(
    name: str,
    value: Any,
    shape: tuple[int | None, ...],
    kinds: str = "fiu",
    *,
    backend: Backend | None = None,
    finite: bool = False,
    advice: str | Message = "",
) -> Array:
    """Return an array on the device of a backend, copied only if necessary, after checking it.

    Parameters
    ----------
    name : str
        Name of the argument in the message.
    value : object
        An array, or what NumPy turns into one: a list of numbers, a tensor in host memory. A mask is refused.
    shape : tuple of int or None
        None stands for any size.
    kinds : str
        NumPy's letters of the types that are allowed: "f" floating-point numbers, "i" and "u" integers.
    backend : Backend, optional
        Library of the array. By default that of the array itself, without a conversion.
    finite : bool
        Whether every entry must be finite. On a GPU this waits for the device.
    advice : str or Message
        What to do, at the end of the message.
    """
    from hfrnn.arrays.vectors import is_finite

    found = as_array(name, value, backend)
    more = Message(", {0}", advice) if advice else ""
    sizes = tuple(found.shape)
    fits = len(sizes) == len(shape) and all(each in (None, size) for each, size in zip(shape, sizes, strict=True))
    if not fits or found.dtype.kind not in kinds:
        wanted = ", ".join("n" if each is None else str(each) for each in shape)
        wanted += "," if len(shape) == 1 else ""
        has = f"has shape {sizes} and type {shown_type(found)}" if sizes else f"is {shown(value)}"
        raise InputError(Message(
            "{0} {1}: give an array ({2}) of {3}{4}", subject(name), has, wanted, KINDS.get(kinds, "numbers"), more
        ))  # fmt: skip
    if finite and found.dtype.kind in "fc" and not is_finite(found):
        raise InputError(Message("{0} holds NaN or infinity: give finite numbers{1}", subject(name), more))
    return found


def as_array(name: str, value: Any, backend: Backend | None = None) -> Array:
    """Return a value as an array of any shape and type; raise InputError if it is none or has a mask."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(Message(
            "{0} is a masked array, whose mask would be ignored: give a plain array, for example {1}.filled(0)",
            subject(name), name,
        ))  # fmt: skip
    if backend is None or (backend.on_host and isinstance(value, np.ndarray)):
        if is_array(value):
            return np.asarray(value) if isinstance(value, np.ndarray) else value
    elif is_array(value) or isinstance(value, list | tuple | range) or hasattr(value, "__array__"):
        try:
            return backend.xp.asarray(value)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            if getattr(value, "requires_grad", False) is True:
                raise InputError(Message(
                    "{0} is a tensor that requires a gradient: give an array of numbers, for example tensor.detach()",
                    subject(name),
                )) from error  # fmt: skip
            raise wrong(name, value, "give an array of numbers of one library") from error
    advice = ", for example tensor.detach().numpy()" if hasattr(value, "detach") else ""
    raise wrong(name, value, f"give an array of numbers{advice}")


def shown_type(value: Array) -> str:
    """Return the type of an array for a message."""
    return str(value.dtype) if value.dtype.names is None else "record"


def is_array(value: Any) -> bool:
    """Return whether a value is an array of NumPy or of a library like it, which has NumPy's types."""
    return (
        hasattr(value, "shape")
        and isinstance(getattr(value, "dtype", None), np.dtype)
        and hasattr(value, "__getitem__")
        and not hasattr(value, "nnz")
        and not isinstance(value, np.generic)
    )


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of a library whose types are not NumPy's, as a torch.Tensor is."""
    return hasattr(value, "__dlpack_device__") and not isinstance(getattr(value, "dtype", None), np.dtype)
