"""Texts of the three levels (characters, bytes, words) and the interface of their symbols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.checks import shown
from hfrnn.errors import InputError

Text = str | bytes

LEVELS = {"char": str, "byte": bytes, "word": str}
"""The levels, each with the Python type of its texts."""


def check_level(level: str) -> None:
    """Raise an error unless the level is known.

    Parameters
    ----------
    level : str

    Raises
    ------
    InputError
        The level is not one of "char", "byte" and "word".
    """
    if not isinstance(level, str) or level not in LEVELS:
        raise InputError(f"unknown level {shown(level)}; the level must be one of {', '.join(LEVELS)}")


def check_text(text: Text, level: str) -> None:
    """Raise an error unless a text has the type of its level.

    Parameters
    ----------
    text : str or bytes
    level : {"char", "byte", "word"}

    Raises
    ------
    InputError
        The text is bytes at level "char" or "word", or str at level "byte".
    """
    if not isinstance(text, LEVELS[level]):
        raise InputError(f"a text of level {level} must be {LEVELS[level].__name__}, not {type(text).__name__}")


class Symbols(ABC):
    """The symbols of one level in a fixed order; their numbers are 0 to `size` - 1.

    `hfrnn.data.vocabulary.Vocabulary` holds one of these and checks all arguments before they arrive here: texts have
    the type of the level, and symbol numbers lie in [0, size).
    """

    level: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of symbols, V."""

    @property
    def stand_in(self) -> int | None:
        """The number of the symbol that replaces every unknown symbol; None if there is no such symbol."""
        return None

    @abstractmethod
    def split(self, text: Any) -> Sequence[Any] | NDArray[Any]:
        """Return the symbols of a text in order, known or not."""

    @abstractmethod
    def look_up(self, symbols: Any) -> NDArray[np.int32]:
        """Return the number of each symbol, -1 for unknown symbols."""

    @abstractmethod
    def decode(self, numbers: NDArray[np.int64]) -> str:
        """Return the text of symbol numbers (n,)."""

    def decode_bytes(self, numbers: NDArray[np.int64]) -> bytes:
        """Return the exact bytes of symbol numbers (n,); characters and words as UTF-8."""
        return self.decode(numbers).encode("utf-8", errors="surrogatepass")

    @abstractmethod
    def after_first(self, text: Any) -> bytes:
        """Return the bytes of a text without its first symbol."""

    @abstractmethod
    def to_list(self) -> list[Any]:
        """Return the symbols as JSON stores them: bytes as numbers, all others as strings."""

    @abstractmethod
    def shown(self, symbol: Any) -> str:
        """Return a symbol as error messages show it."""

    def as_text(self, symbol: Text) -> Text | None:
        """Return a symbol that a caller named as a text of this level; None if its type does not fit."""
        return symbol if isinstance(symbol, LEVELS[self.level]) else None
