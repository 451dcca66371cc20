"""Words as symbols: what stands between white space, `<eos>` for the end of a line, `<unk>` for rare words.

Every newline is one `<eos>`, so an empty line is an `<eos>` too: nothing is passed over, as in Mikolov's tools. A line
break is the newline alone; all else that Unicode counts as white space parts words. A text that spells out `<eos>` or
`<unk>` (the Penn Treebank does) means these very symbols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn.data.vocabulary import Text, Vocabulary, check_text
from hfrnn.errors import InputError

EOS, UNK = "<eos>", "<unk>"


def words_of(text: str) -> list[str]:
    """The words of a text in order, with an `<eos>` for every newline."""
    return text.replace("\n", f" {EOS} ").split()


def spelled(words: Iterable[str]) -> str:
    """The text of words: one space between two words, a newline for every `<eos>`."""
    text = " ".join("\n" if word == EOS else word for word in words)
    return text.replace(" \n", "\n").replace("\n ", "\n")


def broken(text: str, length: int) -> str:
    """The words of a text in lines of `length`, the last line perhaps shorter; the text's own lines are forgotten."""
    words = text.split()
    return "".join(" ".join(words[n : n + length]) + "\n" for n in range(0, len(words), length))


@dataclass(frozen=True)
class WordVocabulary(Vocabulary):
    """Words: symbol number i is `words[i]`, the most frequent in training first.

    Words that occur less often than `min_count` have no symbol of their own, nor have the rarest where there would be
    more than `max_size` symbols, `<eos>` and `<unk>` counted. Their place is taken by `<unk>`, which is there only if
    it took the place of a word or stood in the training text itself; words never seen become `<unk>` too. `<eos>` is
    never rare. Equally frequent words are in the order of their code points, `<eos>` and `<unk>` (with all that it
    stands for) included.

    Parameters
    ----------
    words : tuple of str

    Raises
    ------
    InputError
        No words, one that comes twice, or one that is empty or has white space in it.
    """

    words: tuple[str, ...]
    level: str = field(default="word", init=False)

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("a vocabulary needs at least one symbol; the text it was built from is empty")
        if not all(str.split(word) == [word] for word in self.words):
            raise InputError("the words of a vocabulary must not be empty or have white space in them")
        if len(set(self.words)) < len(self.words):
            raise InputError("a word comes twice in the vocabulary; each must have one number")

    @property
    def size(self) -> int:
        """The number of symbols, V."""
        return len(self.words)

    @property
    def stand_in(self) -> int | None:
        """The number of `<unk>`, None without it."""
        return self._numbers.get(UNK)

    def after_first(self, text: Text) -> bytes:
        """The bytes of a text behind its first word, with one space between words."""
        check_text(text, self.level)
        return spelled(self._split(text)[1:]).encode("utf-8", errors="surrogatepass")

    def decode(self, ids: ArrayLike) -> str:
        """The text of symbol numbers."""
        return spelled(self.words[i] for i in self._known(ids).tolist())

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @classmethod
    def _of(cls, text: Any, level: str, min_count: int, max_size: int | None) -> WordVocabulary:
        if min_count < 1:
            raise InputError(f"the least count of a word is {min_count}: give a whole number, 1 or more")
        if max_size is not None and max_size < 2:
            raise InputError(f"the vocabulary is to have at most {max_size} symbols: give a whole number, 2 or more")
        counts = Counter(words_of(text))
        special = {word: counts.pop(word, 0) for word in (EOS, UNK)}
        ranked = _ranked(counts)
        kept = [word for word in ranked if counts[word] >= min_count]
        if max_size is not None:
            room = max_size - (special[EOS] > 0)
            if len(kept) > room - (special[UNK] > 0 or len(kept) < len(ranked)):
                kept = kept[: room - 1]
        special[UNK] += sum(counts[word] for word in ranked[len(kept) :])
        found = {word: count for word, count in special.items() if count}
        return cls(tuple(_ranked(Counter({word: counts[word] for word in kept} | found))))

    @classmethod
    def _from_list(cls, level: str, symbols: Sequence[Any]) -> WordVocabulary:
        return cls(tuple(symbols))

    def _listed(self) -> list[Any]:
        return list(self.words)

    def _split(self, text: Any) -> list[str]:
        return words_of(text)

    def _look_up(self, symbols: Any) -> NDArray[np.int32]:
        return np.fromiter(map(self._numbers.get, symbols, repeat(-1)), np.int32, len(symbols))

    def _name(self, symbol: Any) -> str:
        return repr(symbol)


def _ranked(counts: Counter[str]) -> list[str]:
    """Words by falling count, equal ones in the order of their code points."""
    return sorted(counts, key=lambda word: (-counts[word], word))
