"""The symbols of a text and their numbers, at every level; symbols in classes by how often they are used."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn.atomic import write_atomic
from hfrnn.errors import CheckpointError, InputError

Text = str | bytes

FORMAT = "hfrnn-vocabulary"
VERSION = 1
LEVELS = {"char": str, "byte": bytes, "word": str}  # the type of a level's texts


def check_level(level: str) -> None:
    """Refuse a level that is not there.

    Raises
    ------
    InputError
        The level is none of "char", "byte" and "word".
    """
    if level not in LEVELS:
        raise InputError(f"unknown level {level!r}; the level must be one of {', '.join(LEVELS)}")


def check_text(text: Text, level: str) -> None:
    """Refuse a text of the wrong type.

    Raises
    ------
    InputError
        Bytes at level "char" or "word", or characters at level "byte".
    """
    if not isinstance(text, LEVELS[level]):
        raise InputError(f"a text of level {level} must be {LEVELS[level].__name__}, not {type(text).__name__}")


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 symbol`, `2 symbols`, `1,000 symbols`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Vocabulary(ABC):
    """The symbols that a network knows, in a fixed order. `build`, `load` and `from_json` make one of any level."""

    level: str

    @staticmethod
    def build(text: Text, level: str, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """The vocabulary of a training text.

        Characters and bytes: every one that occurs, sorted. Words: see `hfrnn.data.words.WordVocabulary`.

        Parameters
        ----------
        text : str for levels "char" and "word", bytes for level "byte"
            The training text.
        level : {"char", "byte", "word"}
        min_count : int, 1 or more
            Level "word" only: words that occur less often have no symbol of their own.
        max_size : int, 2 or more, optional
            Level "word" only: the most symbols that there may be, the most frequent words first.

        Raises
        ------
        InputError
            An empty text, an unknown level, a text of the wrong type, or a number out of its range.
        """
        check_level(level)
        check_text(text, level)
        return _class_of(level)._of(text, level, min_count, max_size)

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of symbols, V."""

    @property
    def stand_in(self) -> int | None:
        """The number of the symbol that the vocabulary itself has for all unknown ones; None without one."""
        return None

    def encode(self, text: Text, unknown: Text = "error") -> NDArray[np.int32]:
        """The numbers of a text's symbols.

        Parameters
        ----------
        text : str for levels "char" and "word", bytes for level "byte"
        unknown : str or bytes
            What becomes of symbols outside the vocabulary, unless it has a stand-in for them: "error" refuses the text,
            "skip" drops them, and one known symbol (a character; a word; for bytes a single byte or ASCII character)
            takes their place.

        Returns
        -------
        ndarray (n,), int32
            Numbers in [0, V).

        Raises
        ------
        InputError
            Unknown symbols where they are refused, a replacement that is no known symbol, or a text of the wrong type.
        """
        check_text(text, self.level)
        replacement = self._replacement(unknown) if self.stand_in is None else self.stand_in
        symbols = self._split(text)
        numbers = self._look_up(symbols)
        missing = numbers < 0
        if not missing.any():
            return numbers
        if replacement >= 0:
            numbers[missing] = replacement
            return numbers
        if unknown == "skip":
            return numbers[~missing]
        raise InputError(self._unseen(Counter(compress(symbols, missing))))

    def count(self, text: Text) -> tuple[int, int]:
        """How many symbols a text has, and how many of them are outside the vocabulary.

        Raises
        ------
        InputError
            A text of the wrong type.
        """
        check_text(text, self.level)
        numbers = self._look_up(self._split(text))
        return numbers.size, int((numbers < 0).sum())

    @abstractmethod
    def after_first(self, text: Text) -> bytes:
        """The bytes of a text behind its first symbol, characters as UTF-8; words with one space between them."""

    @abstractmethod
    def decode(self, ids: ArrayLike) -> str:
        """The text of symbol numbers, for reading; bytes are taken as UTF-8, with a mark where they are not.

        Words have one space between them, and `<eos>` is a newline.

        Parameters
        ----------
        ids : array_like (n,) of integers in [0, V)

        Returns
        -------
        str

        Raises
        ------
        InputError
            Numbers outside the vocabulary.
        """

    def decode_bytes(self, ids: ArrayLike) -> bytes:
        """The exact bytes of symbol numbers; characters and words as UTF-8.

        Parameters
        ----------
        ids : array_like (n,) of integers in [0, V)

        Returns
        -------
        bytes

        Raises
        ------
        InputError
            Numbers outside the vocabulary.
        """
        return self.decode(ids).encode("utf-8", errors="surrogatepass")

    def to_json(self) -> dict[str, Any]:
        """A readable description: level, size and the symbols in order (bytes as numbers, all others as strings)."""
        content = {
            "format": FORMAT, "version": VERSION, "level": self.level, "size": self.size, "symbols": self._listed(),
        }  # fmt: skip
        return content | {"sha256": _checksum(content)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary that `to_json` described.

        Parameters
        ----------
        content : mapping
            What `to_json` returned.

        Raises
        ------
        CheckpointError
            The content is not a vocabulary, is of a newer format, or is not as it was written.
        """
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise CheckpointError("this is not a vocabulary of hfrnn; give the vocabulary.json of a run")
        if content.get("version") != VERSION:
            raise CheckpointError(
                f"the vocabulary has format version {content.get('version')}, and this hfrnn reads version {VERSION}; "
                "use the hfrnn that wrote it or a newer one"
            )
        try:
            if content["sha256"] != _checksum({key: value for key, value in content.items() if key != "sha256"}):
                raise ValueError("the checksum does not match")
            if not isinstance(content["symbols"], list) or content["size"] != len(content["symbols"]):
                raise ValueError("its size is not that of its list of symbols")
            return _class_of(content["level"])._from_list(content["level"], content["symbols"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the vocabulary is damaged ({error}); restore it from a copy of the run") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as JSON, whole or not at all.

        Raises
        ------
        CheckpointError
            The file cannot be written.
        """
        write_atomic(path, json.dumps(self.to_json(), indent=1) + "\n")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Vocabulary:
        """Read a vocabulary that `save` wrote.

        Raises
        ------
        CheckpointError
            The file is missing, unreadable, damaged or something else.
        """
        try:
            return Vocabulary.from_json(json.loads(Path(path).read_bytes()))
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        except OSError as error:
            raise CheckpointError(f"cannot read the vocabulary {path}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"the vocabulary {path} is damaged: it is not JSON ({error})") from error

    @classmethod
    @abstractmethod
    def _of(cls, text: Any, level: str, min_count: int, max_size: int | None) -> Vocabulary:
        """As `build`, of a text of the right type."""

    @classmethod
    @abstractmethod
    def _from_list(cls, level: str, symbols: Sequence[Any]) -> Vocabulary:
        """The vocabulary of which `_listed` gave the symbols."""

    @abstractmethod
    def _listed(self) -> list[Any]:
        """The symbols as JSON holds them."""

    @abstractmethod
    def _split(self, text: Any) -> Sequence[Any] | NDArray[Any]:
        """The symbols of a text, known or not."""

    @abstractmethod
    def _look_up(self, symbols: Any) -> NDArray[np.int32]:
        """The number of every symbol; -1 for unknown ones."""

    @abstractmethod
    def _name(self, symbol: Any) -> str:
        """A symbol as messages show it."""

    def _single(self, symbol: Text) -> Text | None:
        """A symbol that a caller named, as a text of this level; None if it cannot be one."""
        return symbol if isinstance(symbol, LEVELS[self.level]) else None

    def _replacement(self, unknown: Text) -> int:
        """The number of the symbol that stands for unknown ones; -1 where none does."""
        if unknown in ("error", "skip"):
            return -1
        symbol = self._single(unknown)
        numbers = self._look_up(self._split(symbol)) if symbol is not None else np.zeros(0, np.int32)
        if numbers.size != 1 or numbers[0] < 0:
            raise InputError(
                f"unknown symbols cannot become {unknown!r}; give error, skip or one symbol of the vocabulary"
            )
        return int(numbers[0])

    def _unseen(self, counts: Counter[Any]) -> str:
        """The sentence about symbols that training never saw, the most frequent first."""
        first = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:10]
        shown = ", ".join(f"{self._name(symbol)} ({counted(counts[symbol], 'time')})" for symbol in first)
        more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
        return (
            f"the text has {counted(counts.total(), 'symbol')} outside of the {self.size} of the vocabulary: {shown}"
            f"{more}; give --unknown skip to drop what is unknown, or --unknown SYMBOL to map it to a known symbol"
        )

    def _known(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Symbol numbers, checked."""
        numbers = np.asarray(ids)
        if numbers.size == 0:
            return np.zeros(0, dtype=np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise InputError(f"symbol numbers must be a row of integers, not {numbers.dtype} of shape {numbers.shape}")
        if numbers.min() < 0 or numbers.max() >= self.size:
            raise InputError(
                f"symbol numbers must lie in [0, {self.size}), but they reach from {numbers.min()} to {numbers.max()}"
            )
        return numbers.astype(np.int64)


def _class_of(level: str) -> type[Vocabulary]:
    """The vocabularies of a level; they are imported when needed, as they build on this file."""
    check_level(level)
    from hfrnn.data.characters import CodeVocabulary
    from hfrnn.data.words import WordVocabulary

    return WordVocabulary if level == "word" else CodeVocabulary


def frequency_classes(counts: ArrayLike, n_classes: int) -> NDArray[np.int64]:
    """Classes of about equal use for a class softmax: symbols by falling frequency, cut at equal shares of all uses.

    Symbols go into class 0 from the most frequent down (of equally frequent ones the lower number first). Class c ends
    with the symbol at which the uses so far reach (c + 1)/C of all; the next symbol begins class c + 1, even where its
    share is reached already, and class C - 1 takes all that are left. So there are exactly C classes and none is empty:
    the r most frequent of V symbols have at least r/V of all uses, so each class ends while enough symbols are left.

    Parameters
    ----------
    counts : (V,) integers, 0 or more
        How often each symbol occurs in the training text.
    n_classes : int
        C, 1 to V.

    Returns
    -------
    (V,) integers
        The class of each symbol, 0 to C - 1.

    Raises
    ------
    InputError
        A count below 0, or C out of its range.

    Source: [M], class-based softmax.
    """
    uses = np.asarray(counts)
    if uses.ndim != 1 or uses.dtype.kind not in "iu" or (uses.size and uses.min() < 0):
        raise InputError("the counts of the symbols must be a row of whole numbers, 0 or more")
    if not 1 <= n_classes <= uses.size:
        raise InputError(f"{n_classes} classes were asked for: with {uses.size} symbols there are 1 to {uses.size}")
    classes = np.empty(uses.size, np.int64)
    total, so_far, c = int(uses.sum()), 0, 0
    for symbol in np.argsort(-uses.astype(np.int64), kind="stable").tolist():
        classes[symbol] = c
        so_far += int(uses[symbol])
        if c < n_classes - 1 and so_far * n_classes >= (c + 1) * total:
            c += 1
    return classes


def _checksum(content: dict[str, Any]) -> str:
    """The sha256 of a description, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
