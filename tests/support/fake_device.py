"""A device that is not there: its library and its backends; its arrays are those of fake_array.py.

New memory holds NaN, so that a buffer read before it is written shows. The package of the fake is called `fake_cupy`,
as `library` in hfrnn/arrays/vectors.py finds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hfrnn.arrays import gpu
from hfrnn.arrays.backend import Backend, CupyBackend, _makers
from support.fake_array import (
    PACKAGE,
    Call,
    FakeArray,
    calls,
    counts,
    operand,
    record,
    transferred,
    transfers,
    unwrapped,
)

__all__ = ["Call", "FakeArray", "FakeBackend", "HostAsDevice", "calls", "counts", "register_device", "transfers"]


class _Linalg:
    def eigh(self, a: FakeArray) -> tuple[FakeArray, FakeArray]:
        record("function", "linalg.eigh", 1)
        values, vectors = np.linalg.eigh(_device_operand(a))
        return FakeArray(values), FakeArray(vectors)

    def qr(self, a: FakeArray) -> tuple[FakeArray, FakeArray]:
        record("function", "linalg.qr", 1)
        Q, R = np.linalg.qr(_device_operand(a))
        return FakeArray(Q), FakeArray(R)


def _device_operand(a: Any) -> Any:
    if not isinstance(a, FakeArray):
        raise TypeError(f"the device decomposes its own arrays, not a {type(a).__name__}")
    return a._host


class _Stream:
    ptr = 0

    def synchronize(self) -> None:
        record("function", "cuda.Stream.synchronize", 1)  # self counts: it is looked up on the class


class _Runtime:
    TOTAL = 8 * 2**30

    def memGetInfo(self) -> tuple[int, int]:
        record("function", "cuda.runtime.memGetInfo")
        return 5 * 2**30, self.TOTAL


class _Pool:
    def free_bytes(self) -> int:
        record("function", "cuda.MemoryPool.free_bytes", 1)
        return 2**30


class _Cuda:
    def __init__(self) -> None:
        self.runtime = _Runtime()

    def get_current_stream(self) -> _Stream:
        record("function", "cuda.get_current_stream")
        return _Stream()


class Namespace(ModuleType):
    """The functions of the device's array library that hfrnn may use, and no others."""

    ndarray = FakeArray = FakeArray
    CREATES = ("zeros", "ones", "full", "arange")
    COMPUTES = (
        "ascontiguousarray", "where", "exp", "expm1", "log", "log1p", "tanh", "arctanh", "matmul", "multiply",
        "subtract", "concatenate", "take", "sqrt", "square", "dot", "copysign", "signbit",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__(PACKAGE)
        self.cuda, self.linalg = _Cuda(), _Linalg()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self.CREATES + self.COMPUTES:
            raise AttributeError(f"the fake device has no function {name}")

        def function(*arguments: Any, **keywords: Any) -> Any:
            types = "".join(x.dtype.char if isinstance(x, FakeArray) else "." for x in arguments)
            record("function", name, len(arguments), keywords, types)
            if name == "take" and keywords["out"].dtype != arguments[0].dtype:
                raise TypeError("take writes into an array of the same type only")
            result = getattr(np, name)(
                *(unwrapped(x) for x in arguments), **{key: unwrapped(x) for key, x in keywords.items()}
            )
            return keywords["out"] if "out" in keywords else FakeArray(result)

        return function

    def empty(self, shape: Any, dtype: Any = float) -> FakeArray:
        record("function", "empty", 1, {"dtype"})
        kind = np.dtype(dtype)
        return FakeArray(np.full(shape, np.nan if kind.kind in "fc" else -(10**6), kind))

    def get_default_memory_pool(self) -> _Pool:
        record("function", "get_default_memory_pool")
        return _Pool()

    def copyto(self, dst: FakeArray, src: FakeArray, where: FakeArray) -> None:
        record("function", "copyto", 2, {"where"})
        np.copyto(dst._host, operand(src), where=operand(where))

    def may_share_memory(self, a: FakeArray, b: FakeArray) -> bool:
        record("function", "may_share_memory", 2)
        return np.may_share_memory(operand(a), operand(b))

    def empty_like(self, prototype: FakeArray) -> FakeArray:
        record("function", "empty_like", 1)
        return self.empty(prototype.shape, prototype.dtype)

    def asarray(self, values: Any, dtype: Any = None) -> FakeArray:
        """The explicit way onto the device: host arrays are copied, device arrays are not."""
        record("function", "asarray", 1, {"dtype"})
        if isinstance(values, FakeArray):
            return FakeArray(np.asarray(values._host, dtype=dtype))
        return FakeArray(np.array(values, dtype=dtype))

    def from_dlpack(self, array: Any) -> FakeArray:
        """The memory of a tensor of another library on the device, which is its attribute `memory` here."""
        record("function", "from_dlpack", 1)
        if not isinstance(getattr(array, "memory", None), FakeArray):
            raise ValueError("the device shares its own memory only")
        return array.memory

    def asnumpy(self, a: FakeArray) -> Any:
        record("function", "asnumpy", 1)
        transferred()
        return np.array(operand(a))


sys.modules[PACKAGE] = Namespace()


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
        self.xp = sys.modules[PACKAGE]

    def _add_gemm(self, x: FakeArray, da: FakeArray, grad: FakeArray) -> None:
        """`cupy.cublas.gemm` with beta = 1, which takes no part in the record of names: its module loads cuBLAS."""
        a, b, target = operand(x), operand(da), operand(grad)
        if not a.dtype == b.dtype == target.dtype:
            raise TypeError(f"cuBLAS takes one type, not {a.dtype}, {b.dtype} and {target.dtype}")
        if not (a.size and b.size):
            raise ValueError("cuBLAS takes no empty matrix")
        target += a.T @ b

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
