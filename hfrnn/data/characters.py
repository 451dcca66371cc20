"""Characters and bytes as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn.data.vocabulary import Text, Vocabulary
from hfrnn.errors import InputError

CODES = {"char": 0x110000, "byte": 256}  # the codes of a level are below this


@dataclass(frozen=True)
class CodeVocabulary(Vocabulary):
    """Characters (Unicode code points) or bytes: symbol number i is `codes[i]`.

    Parameters
    ----------
    level : {"char", "byte"}
    codes : tuple of int
        Code points or byte values, strictly increasing.

    Raises
    ------
    InputError
        No symbols, or symbols out of order or range.
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

    @property
    def size(self) -> int:
        """The number of symbols, V."""
        return len(self.codes)

    def after_first(self, text: Text) -> bytes:
        """The bytes of a text behind its first symbol."""
        return text[1:] if isinstance(text, bytes) else text[1:].encode("utf-8", errors="surrogatepass")

    def decode(self, ids: ArrayLike) -> str:
        """The text of symbol numbers."""
        codes = np.asarray(self.codes)[self._known(ids)]
        if self.level == "byte":
            return codes.astype(np.uint8).tobytes().decode("utf-8", errors="replace")
        return codes.astype("<u4").tobytes().decode("utf-32-le", errors="surrogatepass")

    def decode_bytes(self, ids: ArrayLike) -> bytes:
        """The exact bytes of symbol numbers."""
        if self.level == "byte":
            return np.asarray(self.codes)[self._known(ids)].astype(np.uint8).tobytes()
        return super().decode_bytes(ids)

    @cached_property
    def _numbers(self) -> NDArray[np.int32]:
        """The number of every code up to the largest known one and one more; -1 for unknown codes."""
        table = np.full(self.codes[-1] + 2, -1, dtype=np.int32)
        table[list(self.codes)] = np.arange(self.size, dtype=np.int32)
        return table

    @classmethod
    def _of(cls, text: Any, level: str, min_count: int, max_size: int | None) -> CodeVocabulary:
        if min_count != 1 or max_size is not None:
            raise InputError(f"a least count and a largest size are for words: leave them out at level {level}")
        return cls(level, tuple(np.flatnonzero(np.bincount(_codes(text))).tolist()))

    @classmethod
    def _from_list(cls, level: str, symbols: Sequence[Any]) -> CodeVocabulary:
        return cls(level, tuple(symbols if level == "byte" else map(ord, symbols)))

    def _listed(self) -> list[Any]:
        return [chr(code) for code in self.codes] if self.level == "char" else list(self.codes)

    def _split(self, text: Any) -> NDArray[Any]:
        return _codes(text)

    def _look_up(self, symbols: Any) -> NDArray[np.int32]:
        numbers: NDArray[np.int32] = self._numbers.take(symbols, mode="clip")  # beyond the table: its last entry, -1
        return numbers

    def _name(self, symbol: Any) -> str:
        return repr(chr(symbol)) if self.level == "char" else f"0x{symbol:02x}"

    def _single(self, symbol: Text) -> Text | None:
        return symbol.encode() if self.level == "byte" and isinstance(symbol, str) else super()._single(symbol)


def _codes(text: Text) -> NDArray[np.uint32] | NDArray[np.uint8]:
    """The code points or byte values of a text."""
    if isinstance(text, str):
        return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    return np.frombuffer(text, dtype=np.uint8)
