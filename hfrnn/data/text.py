"""Texts of the three levels (characters, bytes, words) and the interface of their symbols.

In a text of words, every newline is one `<eos>`, so an empty line is one `<eos>` too; no line is skipped, as in
Mikolov's tools. Only the newline ends a line; all other Unicode white space separates words. If a text spells out
`<eos>` or `<unk>` (the Penn Treebank does), these are the same symbols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.checks import shown
from hfrnn.errors import InputError

Text = str | bytes

LEVELS = {"char": str, "byte": bytes, "word": str}
"""The levels, each with the Python type of its texts."""


def check_level(level: str) -> None:
    """Raise InputError unless the level is known."""
    if not isinstance(level, str) or level not in LEVELS:
        raise InputError(f"unknown level {shown(level)}; the level must be one of {', '.join(LEVELS)}")


def check_text(text: Text, level: str) -> None:
    """Raise InputError unless a text has the type of its level."""
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


# ------------------------------------------------------------------ characters and bytes


CODES = {"char": 0x110000, "byte": 256}
"""All codes of a level are smaller than this number."""


@dataclass(frozen=True)
class CodeSymbols(Symbols):
    """Characters (Unicode code points) or bytes: symbol number i is `codes[i]`; codes are strictly increasing."""

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
        return len(self.codes)

    def split(self, text: Any) -> NDArray[Any]:
        return _codes(text)

    def look_up(self, symbols: Any) -> NDArray[np.int32]:
        numbers: NDArray[np.int32] = self._numbers.take(symbols, mode="clip")  # clip: the last entry of the table is -1
        return numbers

    def decode(self, numbers: NDArray[np.int64]) -> str:
        """Return the text of symbol numbers; bytes are read as UTF-8 with U+FFFD in place of what is not."""
        codes = np.asarray(self.codes)[numbers]
        if self.level == "byte":
            return codes.astype(np.uint8).tobytes().decode("utf-8", errors="replace")
        return codes.astype("<u4").tobytes().decode("utf-32-le", errors="surrogatepass")

    def decode_bytes(self, numbers: NDArray[np.int64]) -> bytes:
        if self.level == "byte":
            return np.asarray(self.codes)[numbers].astype(np.uint8).tobytes()
        return super().decode_bytes(numbers)

    def after_first(self, text: Any) -> bytes:
        return text[1:] if isinstance(text, bytes) else text[1:].encode("utf-8", errors="surrogatepass")

    def to_list(self) -> list[Any]:
        return [chr(code) for code in self.codes] if self.level == "char" else list(self.codes)

    def shown(self, symbol: Any) -> str:
        return repr(chr(symbol)) if self.level == "char" else f"0x{symbol:02x}"

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


# ------------------------------------------------------------------ words


EOS, UNK = "<eos>", "<unk>"


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, with an `<eos>` for every newline."""
    return text.replace("\n", f" {EOS} ").split()


def spelled(words: Iterable[str]) -> str:
    """Return the text of words: one space between two words, a newline for every `<eos>`."""
    text = " ".join("\n" if word == EOS else word for word in words)
    return text.replace(" \n", "\n").replace("\n ", "\n")


def broken(text: str, length: int) -> str:
    """Return the words of a text in lines of `length` words, the last one maybe shorter; its own lines do not count."""
    words = text.split()
    return "".join(" ".join(words[n : n + length]) + "\n" for n in range(0, len(words), length))


@dataclass(frozen=True)
class WordSymbols(Symbols):
    """Words: symbol number i is `words[i]`, the most frequent word of the training text first."""

    words: tuple[str, ...]
    level: str = field(default="word", init=False)

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("a vocabulary needs at least one symbol; the text it was built from is empty")
        if not all(str.split(word) == [word] for word in self.words):
            raise InputError("the words of a vocabulary must not be empty or contain white space")
        if len(set(self.words)) < len(self.words):
            raise InputError("a word comes twice in the vocabulary; each must have one number")

    @classmethod
    def of_text(cls, text: str, level: str, min_count: int, max_size: int | None) -> WordSymbols:
        """Return the frequent words of a training text; arguments as those of `Vocabulary.build`.

        A word gets no symbol of its own if it occurs less than `min_count` times. The rarest words are also dropped
        until there are at most `max_size` symbols, with `<eos>` and `<unk>` counted. `<unk>` replaces all dropped words
        and, later, words that never occurred in training. It is a symbol only if at least one word was dropped or if
        the training text itself contains it. `<eos>` is never dropped. Symbols are sorted by falling count, and by code
        points where counts are equal; the count of `<unk>` includes the words that it replaces.
        """
        counts = Counter(words_of(text))
        special = {word: counts.pop(word, 0) for word in (EOS, UNK)}
        ranked = _ranked(counts)
        kept = [word for word in ranked if counts[word] >= min_count]
        if max_size is not None:
            places = max_size - (special[EOS] > 0)
            if len(kept) > places - (special[UNK] > 0 or len(kept) < len(ranked)):
                kept = kept[: places - 1]
        special[UNK] += sum(counts[word] for word in ranked[len(kept) :])
        found = {word: count for word, count in special.items() if count}
        return cls(tuple(_ranked(Counter({word: counts[word] for word in kept} | found))))

    @classmethod
    def from_list(cls, level: str, symbols: Sequence[Any]) -> WordSymbols:
        """Return the symbols that `to_list` stored."""
        return cls(tuple(symbols))

    @property
    def size(self) -> int:
        return len(self.words)

    @property
    def stand_in(self) -> int | None:
        return self._numbers.get(UNK)

    def split(self, text: Any) -> list[str]:
        return words_of(text)

    def look_up(self, symbols: Any) -> NDArray[np.int32]:
        return np.fromiter(map(self._numbers.get, symbols, repeat(-1)), np.int32, len(symbols))

    def decode(self, numbers: NDArray[np.int64]) -> str:
        return spelled(self.words[i] for i in numbers.tolist())

    def after_first(self, text: Any) -> bytes:
        return spelled(words_of(text)[1:]).encode("utf-8", errors="surrogatepass")

    def to_list(self) -> list[Any]:
        return list(self.words)

    def shown(self, symbol: Any) -> str:
        return repr(symbol)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}


def _ranked(counts: Counter[str]) -> list[str]:
    """Return words sorted by falling count; words of equal count by their code points."""
    return sorted(counts, key=lambda word: (-counts[word], word))
