"""Short representations of objects, for notebooks and error messages: an array is shown by its type and shape."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
MOST = 60
"""Largest number of characters of a value."""
FEW = 4
"""Largest number of numbers of an array that are shown."""


def short(value: Any) -> str:
    """Return a value in a few words: `float32 (3, 4)` for an array, `0.1235` for a float, `{5 entries}` for a dict."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if value.ndim == 0 and hasattr(value, "item"):
            return short(value.item())
        if value.ndim == 1 and value.size <= FEW and value.dtype.kind in "iufb":
            return f"[{', '.join(short(each) for each in value.tolist())}]"
        return f"{value.dtype} {tuple(value.shape)}"
    if type(value) in (tuple, list) and value and all(isinstance(each, tuple | list | dict) for each in value):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value.value if isinstance(value, Enum) else value)
    if len(text) <= MOST and "\n" not in text:
        return text
    if isinstance(value, Mapping):
        return f"{{{len(value)} entries}}"
    if isinstance(value, str | bytes):
        return f"{value[: MOST // 2]!r}..."
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__


def brief(of: Class) -> Class:
    """Give a dataclass or a named tuple a representation on one line, with its arrays by type and shape."""
    names = of._fields if hasattr(of, "_fields") else None

    def __repr__(self: Any) -> str:
        fields = names or [each.name for each in self.__dataclass_fields__.values() if each.repr]
        values = ", ".join(f"{name}={short(getattr(self, name))}" for name in fields if not name.startswith("_"))
        return f"{type(self).__name__}({values})"

    of.__repr__ = __repr__  # type: ignore[assignment]
    return of
