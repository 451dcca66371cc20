"""A device that is not there: arrays that never turn into NumPy arrays or Python numbers by themselves.

`FakeArray` holds a NumPy array and offers only what the engine uses and CuPy has. It refuses what CuPy refuses (host
conversion, mixing with NumPy arrays) and what CuPy allows but waits for the device (`bool`, `int`, `float`, iteration);
`item`, `tolist` and `asnumpy` are the explicit ways. New memory holds NaN, so that a buffer read before it is written
shows. `calls` collects every function and method used, with the arguments' number and names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hfrnn.arrays import gpu
from hfrnn.arrays.backend import Backend, CupyBackend, _makers

Call = tuple[str, str, int, frozenset[str], str]
calls: set[Call] = set()
"""("function", "method" or "attribute"; name; number of positional arguments, without self; names of keywords; type
characters of a function's positional arguments, "." for what is no device array)."""

counts: Counter[str] = Counter()
"""Number of calls of each function and method, by name."""

SCALARS = (bool, int, float, complex)


def _record(kind: str, name: str, arguments: int = 0, keywords: Any = (), types: str = "") -> None:
    calls.add((kind, name, arguments, frozenset(keywords), types))
    if kind != "attribute":
        counts[name] += 1


def _refuse(what: str) -> Callable[..., Any]:
    def refuse(self: Any, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError(f"implicit host conversion of a device array: {what}")

    return refuse


def _operand(x: Any) -> Any:
    """The NumPy array of a device array, or a Python number."""
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
        _record("method", name, 1)
        return FakeArray(getattr(np.asarray(self._host), name)(_operand(other)))

    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: FakeArray, other: Any) -> FakeArray:
        _record("method", name, 1)
        result = getattr(self._host, name)(_operand(other))
        assert result is self._host
        return self

    return method


def _method(name: str) -> Callable[..., Any]:
    def method(self: FakeArray, *arguments: Any, **keywords: Any) -> FakeArray:
        _record("method", name, len(arguments), keywords)
        result = getattr(self._host, name)(*arguments, **{key: _unwrapped(x) for key, x in keywords.items()})
        return keywords["out"] if "out" in keywords else FakeArray(result)  # type: ignore[no-any-return]

    return method


def _explicit(name: str) -> Callable[..., Any]:
    def method(self: FakeArray) -> Any:
        _record("method", name)
        return getattr(self._host, name)()

    return method


def _attribute(name: str, array: bool) -> property:
    def get(self: FakeArray) -> Any:
        _record("attribute", name)
        value = getattr(self._host, name)
        return FakeArray(value) if array else value

    return property(get)


class FakeArray:
    """An array on the fake device."""

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
    T, real, imag = (_attribute(n, True) for n in ("T", "real", "imag"))
    item, tolist = _explicit("item"), _explicit("tolist")
    sum, max, min, all, reshape, swapaxes, astype, copy, view = (
        _method(n) for n in ("sum", "max", "min", "all", "reshape", "swapaxes", "astype", "copy", "view")
    )

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, key: Any) -> FakeArray:
        _record("method", "__getitem__", 1)
        return FakeArray(self._host[_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        _record("method", "__setitem__", 2)
        self._host[_key(key)] = _operand(value)

    def __neg__(self) -> FakeArray:
        _record("method", "__neg__")
        return FakeArray(-self._host)

    __eq__, __ne__ = _binary("__eq__"), _binary("__ne__")  # type: ignore[assignment]


for _name in ("add", "sub", "mul", "truediv", "matmul", "and", "or", "xor", "rshift", "lt", "le", "gt", "ge"):
    setattr(FakeArray, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ("add", "sub", "mul", "truediv", "matmul"):
    setattr(FakeArray, f"__r{_name}__", _binary(f"__r{_name}__"))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(FakeArray, f"__i{_name}__", _in_place(f"__i{_name}__"))


def _check_not_host(value: Any) -> None:
    if isinstance(value, np.ndarray | np.generic):
        raise TypeError("a NumPy array was given to a function of the device")


def _unwrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_unwrapped(part) for part in value)
    _check_not_host(value)
    return value._host if isinstance(value, FakeArray) else value


class _Stream:
    def synchronize(self) -> None:
        _record("function", "cuda.Stream.synchronize", 1)  # self counts: it is looked up on the class


class _Runtime:
    TOTAL = 8 * 2**30

    def memGetInfo(self) -> tuple[int, int]:
        """Free and total bytes."""
        _record("function", "cuda.runtime.memGetInfo")
        return 5 * 2**30, self.TOTAL


class _Pool:
    def free_bytes(self) -> int:
        _record("function", "cuda.MemoryPool.free_bytes", 1)
        return 2**30


class _Cuda:
    def __init__(self) -> None:
        self.runtime = _Runtime()

    def get_current_stream(self) -> _Stream:
        _record("function", "cuda.get_current_stream")
        return _Stream()


class Namespace:
    """The functions of the device's array library that the engine may use, and no others."""

    ndarray = FakeArray
    CREATES = ("zeros", "ones", "full", "arange")
    COMPUTES = (
        "ascontiguousarray", "where", "exp", "expm1", "log", "log1p", "tanh", "arctanh", "matmul", "multiply",
        "subtract", "concatenate", "take", "sqrt",
    )  # fmt: skip

    def __init__(self) -> None:
        self.cuda = _Cuda()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self.CREATES + self.COMPUTES:
            raise AttributeError(f"the fake device has no function {name}")

        def function(*arguments: Any, **keywords: Any) -> Any:
            types = "".join(x.dtype.char if isinstance(x, FakeArray) else "." for x in arguments)
            _record("function", name, len(arguments), keywords, types)
            if name == "take" and keywords["out"].dtype != arguments[0].dtype:
                raise TypeError("take writes into an array of the same type only")
            result = getattr(np, name)(
                *(_unwrapped(x) for x in arguments), **{key: _unwrapped(x) for key, x in keywords.items()}
            )
            return keywords["out"] if "out" in keywords else FakeArray(result)

        return function

    def empty(self, shape: Any, dtype: Any = float) -> FakeArray:
        _record("function", "empty", 1, {"dtype"})
        kind = np.dtype(dtype)
        return FakeArray(np.full(shape, np.nan if kind.kind in "fc" else -(10**6), kind))

    def get_default_memory_pool(self) -> _Pool:
        _record("function", "get_default_memory_pool")
        return _Pool()

    def may_share_memory(self, a: FakeArray, b: FakeArray) -> bool:
        _record("function", "may_share_memory", 2)
        return np.may_share_memory(_operand(a), _operand(b))

    def empty_like(self, prototype: FakeArray) -> FakeArray:
        _record("function", "empty_like", 1)
        return self.empty(prototype.shape, prototype.dtype)

    def asarray(self, values: Any, dtype: Any = None) -> FakeArray:
        """The explicit way onto the device: host arrays are copied, device arrays are not."""
        _record("function", "asarray", 1, {"dtype"})
        if isinstance(values, FakeArray):
            return FakeArray(np.asarray(values._host, dtype=dtype))
        return FakeArray(np.array(values, dtype=dtype))

    def asnumpy(self, a: FakeArray) -> Any:
        """The explicit way back."""
        _record("function", "asnumpy", 1)
        return np.array(_operand(a))


class FakeLinearOperator:
    """What the engine needs of cupyx's LinearOperator: it is built from (dtype, shape) and never converts."""

    def __init__(self, dtype: Any, shape: tuple[int, int]) -> None:
        self.dtype, self.shape = np.dtype(dtype), shape

    def matvec(self, x: FakeArray) -> FakeArray:
        assert isinstance(x, FakeArray)
        assert x.shape == (self.shape[1],)
        return self._matvec(x)  # type: ignore[attr-defined, no-any-return]

    __matmul__ = matvec

    def rmatvec(self, x: FakeArray) -> FakeArray:
        assert isinstance(x, FakeArray)
        assert x.shape == (self.shape[0],)
        return self._rmatvec(x)  # type: ignore[attr-defined, no-any-return]


class FakeBackend(CupyBackend):
    """The backend for CuPy, its own lines and all, with the fake device in CuPy's place."""

    def __init__(self) -> None:
        self.name = "fake"
        self.xp = Namespace()

    def add_product(self, x: FakeArray, da: FakeArray, grad: FakeArray, buffers: Any) -> None:
        """`cupy.cublas.gemm` with beta = 1, which takes no part in the record of names: its module loads cuBLAS."""
        target = _operand(grad)
        target += _operand(x).T @ _operand(da)

    def linear_operator_base(self) -> type[Any]:
        return FakeLinearOperator


class OutOfMemoryError(MemoryError):
    """In the place of cupy.cuda.memory.OutOfMemoryError."""


class HostAsDevice(CupyBackend):
    """The backend for CuPy on NumPy arrays: the plans and the order of sums of a device, without its strictness.

    Results can be compared with those of the strict device to the bit, and whole runs can be made on it.
    """

    FREE = 64 * 2**20
    CAPABILITY = 90
    precisions: ClassVar = ["float32"]
    """The precisions of the contexts `products_in` that are entered, from the outermost in."""

    def __init__(self) -> None:
        self.name, self.xp = "cupy", np
        self.memory_errors = (OutOfMemoryError,)

    @property
    def variants(self) -> str:
        return "numpy"  # the reference kernels

    def add_product(self, x: Any, da: Any, grad: Any, buffers: Any) -> None:
        grad += x.T @ da

    def compute_capability(self) -> int:
        return self.CAPABILITY

    @contextmanager
    def products_in(self, precision: str) -> Iterator[None]:
        self.precisions.append(precision)
        yield
        self.precisions.pop()

    def to_host(self, values: Any) -> Any:
        return np.asarray(values)

    def free_memory(self) -> int:
        return self.FREE

    def linear_operator_base(self) -> type[Any]:
        return Backend.linear_operator_base(self)

    def synchronize(self) -> None:
        pass


def register_device(monkeypatch: Any, name: str = "Fake GPU") -> None:
    """Let the backend "cupy" be `HostAsDevice` in a test, as if CuPy had found a GPU."""
    properties = SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda device: {"name": name.encode()})
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=properties))
    monkeypatch.setattr(gpu, "find_gpu", lambda: gpu.Found(cupy))
    monkeypatch.setitem(_makers, "cupy", HostAsDevice)
