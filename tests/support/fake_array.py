"""The arrays of the device that is not there; see fake_device.py.

`FakeArray` holds a NumPy array and offers only what the engine uses and CuPy has. It refuses what CuPy refuses (host
conversion, mixing with NumPy arrays) and what CuPy allows but waits for the device (`bool`, `int`, `float`, iteration);
`item`, `tolist`, `get` and `asnumpy` are the explicit ways, and `transfers` lists each use of them. `calls` collects
every function and method used, with the arguments' number and names.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

Call = tuple[str, str, int, frozenset[str], str]
calls: set[Call] = set()
"""("function", "method" or "attribute"; name; number of positional arguments, without self; names of keywords; type
characters of a function's positional arguments, "." for what is no device array)."""

counts: Counter[str] = Counter()
"""Number of calls of each function and method, by name."""
transfers: list[str] = []
"""Where in hfrnn the host asked for the values of an array, and waited for the device: one entry for each time."""

SCALARS = (bool, int, float, complex)


def record(kind: str, name: str, arguments: int = 0, keywords: Any = (), types: str = "") -> None:
    calls.add((kind, name, arguments, frozenset(keywords), types))
    if kind != "attribute":
        counts[name] += 1


def _asks(file: str) -> bool:
    """Whether a file is one of hfrnn, but not the one that fetches for others."""
    return "/hfrnn/" in file and not file.endswith("/arrays/vectors.py")


def transferred() -> None:
    frame = sys._getframe(2)
    while frame.f_back is not None and not _asks(frame.f_code.co_filename.replace("\\", "/")):
        frame = frame.f_back
    transfers.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")


def _refuse(what: str) -> Callable[..., Any]:
    def refuse(self: Any, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError(f"implicit host conversion of a device array: {what}")

    return refuse


def operand(x: Any) -> Any:
    if isinstance(x, FakeArray):
        return x._host
    if type(x) in SCALARS:
        return x
    raise TypeError(f"a device array does not mix with {type(x).__name__}")


def _key(key: Any) -> Any:
    """An index of Python integers, slices, None, Ellipsis and integer device arrays."""
    if isinstance(key, tuple):
        return tuple(_key(part) for part in key)
    if key is None or key is Ellipsis or type(key) is int:
        return key
    if isinstance(key, slice):
        if not all(part is None or type(part) is int for part in (key.start, key.stop, key.step)):
            raise TypeError(f"a slice of {key} is not made of Python integers")
        return key
    if isinstance(key, FakeArray) and key.dtype.kind in "iu":
        return key._host
    raise TypeError(f"a device array cannot be indexed with {type(key).__name__}")


def _binary(name: str) -> Callable[..., Any]:
    def method(self: FakeArray, other: Any) -> FakeArray:
        record("method", name, 1)
        return FakeArray(getattr(np.asarray(self._host), name)(operand(other)))

    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: FakeArray, other: Any) -> FakeArray:
        record("method", name, 1)
        result = getattr(self._host, name)(operand(other))
        assert result is self._host
        return self

    return method


def _method(name: str) -> Callable[..., Any]:
    def method(self: FakeArray, *arguments: Any, **keywords: Any) -> FakeArray:
        record("method", name, len(arguments), keywords)
        result = getattr(self._host, name)(*arguments, **{key: unwrapped(x) for key, x in keywords.items()})
        return keywords["out"] if "out" in keywords else FakeArray(result)  # type: ignore[no-any-return]

    return method


def _explicit(name: str, of_numpy: str | None = None) -> Callable[..., Any]:
    def method(self: FakeArray) -> Any:
        record("method", name)
        transferred()
        return getattr(self._host, of_numpy or name)()

    return method


def _attribute(name: str, array: bool) -> property:
    def get(self: FakeArray) -> Any:
        record("attribute", name)
        value = getattr(self._host, name)
        return FakeArray(value) if array else value

    return property(get)


PACKAGE = "fake_cupy"


class FakeArray:
    __module__ = PACKAGE
    __slots__ = ("_host",)
    __array_ufunc__ = None  # NumPy's functions and operators refuse it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: Any) -> None:
        self._host = np.asarray(host)

    __array__ = _refuse("__array__")
    __float__, __int__, __index__, __complex__ = (_refuse(name) for name in ("float", "int", "index", "complex"))
    __bool__, __iter__, __contains__ = _refuse("bool"), _refuse("iteration"), _refuse("in")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise TypeError(f"the NumPy function {function.__name__} was called on a device array")

    shape, dtype, ndim, size, nbytes, strides, flags = (
        _attribute(n, False) for n in ("shape", "dtype", "ndim", "size", "nbytes", "strides", "flags")
    )
    argsort = _method("argsort")
    T, real, imag = (_attribute(n, True) for n in ("T", "real", "imag"))
    item, tolist, get = _explicit("item"), _explicit("tolist"), _explicit("get", "copy")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What tells a device array from others."""
        return {"shape": self._host.shape, "typestr": self._host.dtype.str, "version": 3}

    @property
    def data(self) -> SimpleNamespace:
        record("attribute", "data")
        return SimpleNamespace(ptr=self._host.ctypes.data)

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, key: Any) -> FakeArray:
        record("method", "__getitem__", 1)
        return FakeArray(self._host[_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        record("method", "__setitem__", 2)
        self._host[_key(key)] = operand(value)

    def __neg__(self) -> FakeArray:
        record("method", "__neg__")
        return FakeArray(-self._host)

    def __abs__(self) -> FakeArray:
        record("method", "__abs__")
        return FakeArray(abs(self._host))

    def fill(self, value: float) -> None:
        record("method", "fill", 1)
        self._host.fill(operand(value))

    def clip(self, low: float | None, high: float | None, out: FakeArray | None = None) -> FakeArray:
        record("method", "clip", 2, () if out is None else {"out"})
        found = self._host.clip(low, high, out=None if out is None else out._host)
        return FakeArray(found) if out is None else out

    __eq__, __ne__ = _binary("__eq__"), _binary("__ne__")  # type: ignore[assignment]


for _name in ("sum", "mean", "max", "min", "all"):
    setattr(FakeArray, _name, _method(_name))
for _name in ("reshape", "swapaxes", "transpose", "astype", "copy", "view", "repeat"):
    setattr(FakeArray, _name, _method(_name))
for _name in ("add", "sub", "mul", "truediv", "matmul", "and", "or", "xor", "rshift", "lt", "le", "gt", "ge", "pow"):
    setattr(FakeArray, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ("add", "sub", "mul", "truediv", "matmul"):
    setattr(FakeArray, f"__r{_name}__", _binary(f"__r{_name}__"))
for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(FakeArray, f"__i{_name}__", _in_place(f"__i{_name}__"))


def check_not_host(value: Any) -> None:
    if isinstance(value, np.ndarray | np.generic):
        raise TypeError("a NumPy array was given to a function of the device")


def unwrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(unwrapped(part) for part in value)
    check_not_host(value)
    return value._host if isinstance(value, FakeArray) else value
