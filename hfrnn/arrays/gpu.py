"""Whether CuPy can compute on a GPU here, what GPU it is, and whether numba can compile loops."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from hfrnn.errors import EnvironmentWarning, InputError, Message, MissingExtraError, how_to_install

MISSING = "CuPy is not installed"
DRIVERS = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
"""Names of the library of the NVIDIA driver."""
TF32_CAPABILITY = 80
"""Smallest compute capability of a GPU with TF32, times 10."""
TF32_MATH = 3
"""The math mode CUBLAS_TF32_TENSOR_OP_MATH of cuBLAS, for which CuPy has no name."""


class Found(NamedTuple):
    """CuPy with a GPU that it can use, or a few words that say why there is none."""

    cupy: Any
    why: str = ""


def find_gpu() -> Found:
    """Look for a GPU that CuPy can use. Where there is one, the first call takes longer than the others."""
    if importlib.util.find_spec("cupy") is None:
        return Found(None, MISSING)
    return _try_cupy() if _driver_loads() else Found(None, "there is no NVIDIA driver")


@cache
def _try_cupy() -> Found:
    """Import CuPy and compute a product, which needs the libraries of CUDA that CuPy does not load before."""
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() == 0:
            return Found(None, "there is no GPU")
        trial = cupy.ones((2, 2), dtype="float32")
        (trial @ trial).sum().item()
    except Exception as error:  # CuPy and the loader have many kinds of errors
        reason = " ".join(str(error).split())
        return Found(None, f"CuPy cannot use the GPU ({type(error).__name__}: {reason})")
    return Found(cupy)


def _driver_loads() -> bool:
    """Return whether the library of the NVIDIA driver can be loaded."""
    for name in DRIVERS:
        try:
            ctypes.CDLL(name)
            return True
        except OSError:
            pass
    return False


def gpu_name(cupy: Any) -> str:
    """Return the name of the GPU that CuPy computes on."""
    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"]
    return str(name.decode() if isinstance(name, bytes) else name)


def describe_gpu(cupy: Any) -> str:
    """Return the name of the GPU, its memory, and the versions of CUDA of its driver and of CuPy."""
    runtime = cupy.cuda.runtime
    free, total = (size / 2**30 for size in runtime.memGetInfo())
    driver, own = (f"{n // 1000}.{n % 1000 // 10}" for n in (runtime.driverGetVersion(), runtime.runtimeGetVersion()))
    return f"{gpu_name(cupy)}, {free:.1f} of {total:.1f} GiB free, driver for CUDA {driver}, CUDA runtime {own}"


def check_tf32(capability: int, dtype: np.dtype[Any]) -> None:
    """Raise InputError unless a GPU of this compute capability, times 10, has products of this type in TF32."""
    if dtype != np.float32:
        raise InputError(Message("{precision!s} is 'tf32', and {dtype!s} is {0}: use {dtype:float32}", dtype))
    if capability < TF32_CAPABILITY:
        raise InputError(Message(
            "{precision!s} is 'tf32', and the GPU has the compute capability {0}: use a GPU with {1} or more, or "
            "{precision:float32}", capability / 10, TF32_CAPABILITY / 10,
        ))  # fmt: skip


@cache
def ignore_tf32_of_environment() -> None:
    """Switch TF32 off again, with a warning, if CUPY_TF32 turns it on for all of CuPy's products.

    CuPy reads this variable before its first product of the process. The setting of CuPy holds for all its arrays.
    """
    if os.environ.get("CUPY_TF32", "0") == "0":
        return
    from cupy._core import _routines_linalg as linalg

    linalg.set_compute_type(np.float32, linalg.COMPUTE_TYPE_DEFAULT)
    warnings.warn(
        "CUPY_TF32 is set, but hfrnn turns TF32 off for CuPy's products in this process, so that results do not "
        "depend on the variable: unset it, and for TF32 in curvature products use precision 'tf32'",
        EnvironmentWarning, stacklevel=2,
    )  # fmt: skip


@contextmanager
def products_in_tf32() -> Iterator[None]:
    """Compute the matrix products of float32 arrays in TF32 within the context.

    CuPy's own products go by a type that all threads share. `cupy.cublas.gemm` goes by the mode of a handle of cuBLAS,
    of which each thread has its own.
    """
    from cupy._core import _routines_linalg as linalg
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    handle = device.get_cublas_handle()
    kind, mode = linalg.get_compute_type(np.float32), cublas.getMathMode(handle)
    linalg.set_compute_type(np.float32, linalg.COMPUTE_TYPE_TF32)
    cublas.setMathMode(handle, TF32_MATH)
    try:
        yield
    finally:
        cublas.setMathMode(handle, mode)
        linalg.set_compute_type(np.float32, kind)


# ------------------------------------------------------------------ numba


NUMBA_MISSING = "numba is not installed"


def why_no_numba() -> str:
    """Return why numba cannot be used; "" if it can."""
    if importlib.util.find_spec("numba") is None:
        return NUMBA_MISSING
    try:
        import numba  # noqa: F401
    except ImportError as error:  # it does not go with this NumPy, for example
        return f"numba cannot be imported ({' '.join(str(error).split())})"
    return ""


def check_numba() -> None:
    """Raise MissingExtraError if numba cannot be used."""
    why = why_no_numba()
    if why == NUMBA_MISSING:
        raise MissingExtraError(f"backend 'numba' needs numba: {how_to_install('fast')}, or use 'numpy'")
    if why:
        raise MissingExtraError(f"{why}: install versions of numba and NumPy that go together, or use 'numpy'")
