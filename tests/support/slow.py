"""Which cases of a large table run by default, and which only with `pytest -m slow`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow_unless(quick: Callable[..., bool], rows: Iterable[Any]) -> list[Any]:
    """Mark the rows of a table as slow where `quick` is false; it gets the values of a row as its arguments."""

    def marked(row: Any) -> Any:
        values = row.values if hasattr(row, "marks") else row if isinstance(row, tuple) else (row,)
        if quick(*values):
            return row
        if hasattr(row, "marks"):
            return pytest.param(*values, id=row.id, marks=[*row.marks, pytest.mark.slow])
        return pytest.param(*values, marks=pytest.mark.slow)

    return [marked(row) for row in rows]


def one_in(n: int, rows: Iterable[Any]) -> list[Any]:
    """Mark all rows of a table as slow but every n-th; n should not divide the size of a group of rows."""
    numbers = iter(range(10**9))
    return slow_unless(lambda *values: next(numbers) % n == 0, rows)
