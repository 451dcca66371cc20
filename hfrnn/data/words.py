"""Words as symbols: the text between white space, `<eos>` for the end of a line, `<unk>` for rare words.

Every newline is one `<eos>`, so an empty line is one `<eos>` too; no line is skipped, as in Mikolov's tools. Only the
newline ends a line; all other Unicode white space separates words. If a text spells out `<eos>` or `<unk>` (the Penn
Treebank does), these are the same symbols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.text import Symbols
from hfrnn.errors import InputError

EOS, UNK = "<eos>", "<unk>"


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, with an `<eos>` for every newline."""
    return text.replace("\n", f" {EOS} ").split()


def spelled(words: Iterable[str]) -> str:
    """Return the text of words: one space between two words, a newline for every `<eos>`."""
    text = " ".join("\n" if word == EOS else word for word in words)
    return text.replace(" \n", "\n").replace("\n ", "\n")


def broken(text: str, length: int) -> str:
    """Return the words of a text in lines of `length` words; the lines of the text itself are ignored.

    The last line may be shorter.
    """
    words = text.split()
    return "".join(" ".join(words[n : n + length]) + "\n" for n in range(0, len(words), length))


@dataclass(frozen=True)
class WordSymbols(Symbols):
    """Words: symbol number i is `words[i]`, the most frequent word of the training text first.

    Parameters
    ----------
    words : tuple of str

    Raises
    ------
    InputError
        There are no words, a word occurs twice, or a word is empty or contains white space.
    """

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

        Notes
        -----
        A word gets no symbol of its own if it occurs less than `min_count` times. The rarest words are also dropped
        until there are at most `max_size` symbols, with `<eos>` and `<unk>` counted. `<unk>` replaces all dropped words
        and, later, words that never occurred in training. It is a symbol only if at least one word was dropped or if
        the training text itself contains it. `<eos>` is never dropped. Symbols are sorted by falling count, and by code
        points where counts are equal; the count of `<unk>` includes the words that it replaces.
        """
        if min_count < 1:
            raise InputError(f"the least count of a word is {min_count}: give a whole number, 1 or more")
        if max_size is not None and max_size < 2:
            raise InputError(f"the vocabulary is to have at most {max_size} symbols: give a whole number, 2 or more")
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
        """The number of symbols, V."""
        return len(self.words)

    @property
    def stand_in(self) -> int | None:
        """The number of `<unk>`; None if it is not a symbol."""
        return self._numbers.get(UNK)

    def split(self, text: Any) -> list[str]:
        """Return the words of a text, with an `<eos>` for every newline."""
        return words_of(text)

    def look_up(self, symbols: Any) -> NDArray[np.int32]:
        """Return the number of each word, -1 for unknown words."""
        return np.fromiter(map(self._numbers.get, symbols, repeat(-1)), np.int32, len(symbols))

    def decode(self, numbers: NDArray[np.int64]) -> str:
        """Return the text of symbol numbers: one space between words, a newline for `<eos>`."""
        return spelled(self.words[i] for i in numbers.tolist())

    def after_first(self, text: Any) -> bytes:
        """Return the bytes of a text without its first word, as UTF-8 with one space between words."""
        return spelled(words_of(text)[1:]).encode("utf-8", errors="surrogatepass")

    def to_list(self) -> list[Any]:
        """Return the words."""
        return list(self.words)

    def shown(self, symbol: Any) -> str:
        """Return a word in quotation marks."""
        return repr(symbol)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}


def _ranked(counts: Counter[str]) -> list[str]:
    """Return words sorted by falling count; words of equal count by their code points."""
    return sorted(counts, key=lambda word: (-counts[word], word))
