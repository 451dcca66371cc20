"""Characters and bytes as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.text import Symbols, Text
from hfrnn.errors import InputError

CODES = {"char": 0x110000, "byte": 256}
"""All codes of a level are smaller than this number."""


@dataclass(frozen=True)
class CodeSymbols(Symbols):
    """Characters (Unicode code points) or bytes: symbol number i is `codes[i]`.

    Parameters
    ----------
    level : {"char", "byte"}
    codes : tuple of int
        Code points or byte values, strictly increasing.

    Raises
    ------
    InputError
        There are no codes, or they are out of order or out of range.
    """

    level: str
    codes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.codes:
            raise InputError("a vocabulary needs at least one symbol; the text it was built from is empty")
        if not all(type(code) is int for code in self.codes):
            raise InputError(f"the codes of a {self.level} vocabulary must be whole numbers")
        ordered = all(a < b for a, b in zip(self.codes, self.codes[1:], strict=False))
        if not ordered or self.codes[0] < 0 or self.codes[-1] >= CODES[self.level]:
            raise InputError(f"the codes of a {self.level} vocabulary must increase from 0 to {CODES[self.level] - 1}")

    @classmethod
    def of_text(cls, text: Text, level: str, min_count: int, max_size: int | None) -> CodeSymbols:
        """Return all characters or bytes of a training text; arguments as those of `Vocabulary.build`."""
        if min_count != 1 or max_size is not None:
            raise InputError(f"a least count and a largest size are for words: leave them out at level {level}")
        return cls(level, tuple(np.flatnonzero(np.bincount(_codes(text))).tolist()))

    @classmethod
    def from_list(cls, level: str, symbols: Sequence[Any]) -> CodeSymbols:
        """Return the symbols that `to_list` stored."""
        return cls(level, tuple(symbols if level == "byte" else map(ord, symbols)))

    @property
    def size(self) -> int:
        """The number of symbols, V."""
        return len(self.codes)

    def split(self, text: Any) -> NDArray[Any]:
        """Return the codes of a text, (n,)."""
        return _codes(text)

    def look_up(self, symbols: Any) -> NDArray[np.int32]:
        """Return the number of each code, -1 for unknown codes."""
        numbers: NDArray[np.int32] = self._numbers.take(symbols, mode="clip")  # clip: the last entry of the table is -1
        return numbers

    def decode(self, numbers: NDArray[np.int64]) -> str:
        """Return the text of symbol numbers; bytes are read as UTF-8 with U+FFFD in place of what is not."""
        codes = np.asarray(self.codes)[numbers]
        if self.level == "byte":
            return codes.astype(np.uint8).tobytes().decode("utf-8", errors="replace")
        return codes.astype("<u4").tobytes().decode("utf-32-le", errors="surrogatepass")

    def decode_bytes(self, numbers: NDArray[np.int64]) -> bytes:
        """Return the exact bytes of symbol numbers; characters as UTF-8."""
        if self.level == "byte":
            return np.asarray(self.codes)[numbers].astype(np.uint8).tobytes()
        return super().decode_bytes(numbers)

    def after_first(self, text: Any) -> bytes:
        """Return the bytes of a text without its first symbol; characters as UTF-8."""
        return text[1:] if isinstance(text, bytes) else text[1:].encode("utf-8", errors="surrogatepass")

    def to_list(self) -> list[Any]:
        """Return a list: strings of length 1 for characters, integers for bytes."""
        return [chr(code) for code in self.codes] if self.level == "char" else list(self.codes)

    def shown(self, symbol: Any) -> str:
        """Return `'a'` for a character and `0x61` for a byte."""
        return repr(chr(symbol)) if self.level == "char" else f"0x{symbol:02x}"

    def as_text(self, symbol: Text) -> Text | None:
        """Return a symbol as a text of this level; at level "byte" a str is encoded as UTF-8."""
        return symbol.encode() if self.level == "byte" and isinstance(symbol, str) else super().as_text(symbol)

    @cached_property
    def _numbers(self) -> NDArray[np.int32]:
        """The number of every code from 0 to one past the largest known code; -1 for unknown codes."""
        table = np.full(self.codes[-1] + 2, -1, dtype=np.int32)
        table[list(self.codes)] = np.arange(self.size, dtype=np.int32)
        return table


def _codes(text: Text) -> NDArray[np.uint32] | NDArray[np.uint8]:
    """Return the code points or byte values of a text."""
    if isinstance(text, str):
        return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    return np.frombuffer(text, dtype=np.uint8)
