"""Compile loops with numba and keep them in its cache on disk, where there is one that can be read and written.

A cache that is damaged, or a folder that cannot be written to, costs time only: the loops are compiled again. numba
alone raises an error there: "cannot cache function" without a folder, UnpicklingError or EOFError for a file that was
cut off, ENOSPC without a file name on a full disk.

numba compiles a function again if its own file has changed. But a compiled loop also contains functions of other files,
or calls them by name. So here, if any file of this folder has changed, all loops are compiled again.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc

from hfrnn.errors import UncachedWarning

_reasons: list[str] = []
_FunctionCache: Any = FunctionCache  # without types


def why_uncached() -> str:
    """Return why compiled loops are not kept on disk; "" if they are."""
    return _reasons[0] if _reasons else ""


def _note(error: Exception) -> None:
    """Remember and tell, once, that compiled loops are not kept."""
    if not _reasons:
        full = isinstance(error, OSError) and error.strerror
        _reasons.append(str(full or "it finds no folder for them"))
        warnings.warn(
            f"numba cannot keep compiled loops on disk ({_reasons[0]}), so each process compiles them again: set "
            "NUMBA_CACHE_DIR to a folder that can be written to and has free space",
            UncachedWarning, stacklevel=3,
        )  # fmt: skip


FOLDER = Path(__file__).parent


def _stamp() -> list[tuple[str, int, int]]:
    """Return the name, size and time of each file that loops are compiled from."""
    found = [(path.name, path.stat()) for path in sorted(FOLDER.glob("*.py"))]
    return [(name, each.st_size, each.st_mtime_ns) for name, each in found]


class _Cache(_FunctionCache):  # type: ignore[misc]
    """numba's cache of one function; a file that cannot be read or written is as if there were none."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (self._cache_file._source_stamp, _stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged pickle raises errors of many kinds
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _note(error)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function when it is first called, without the interpreter lock."""

    def decorate(function: Callable[..., Any]) -> Any:
        loop = njit(nogil=True, error_model="numpy", **options)(function)
        if loop is not function:  # it is with NUMBA_DISABLE_JIT
            try:
                loop._cache = _Cache(function)
            except RuntimeError as error:  # no folder can be written to
                _note(error)
        return loop

    return decorate


def compiled_once(function: Callable[..., Any], signature: Any, name: str) -> Any:
    """Compile a function of pointers and numbers; return what loops call, under this name, instead of a copy of it."""
    found: Any = CFunc(function, (signature.args, signature.return_type), locals={}, options={"error_model": "numpy"})
    try:
        found._cache = _Cache(function)
    except RuntimeError as error:
        _note(error)
    found.compile()
    llvm.add_symbol(name, found.address)
    return found
