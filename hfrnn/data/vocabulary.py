"""Vocabularies: the symbols of a text and their numbers; symbols grouped into classes by frequency."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn import checks
from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import get_backend
from hfrnn.checks import count, shown
from hfrnn.data.text import LEVELS, CodeSymbols, Symbols, Text, WordSymbols, check_level, check_text
from hfrnn.errors import CheckpointError, InputError, Message
from hfrnn.files import DESCRIPTION, read_bytes, write_atomic
from hfrnn.wording import counted

FORMAT = "hfrnn-vocabulary"
VERSION = 1
SHOWN = 10
"""Unknown symbols that an error message names."""


@dataclass(frozen=True)
class Vocabulary:
    """The symbols that a network knows, in a fixed order. Make one with `build`, `load` or `from_json`.

    Examples
    --------
    >>> from hfrnn.data.vocabulary import Vocabulary
    >>> vocabulary = Vocabulary.build("hello", "char")
    >>> vocabulary
    <Vocabulary of 4 symbols, level char>
    >>> vocabulary.encode("hole").tolist()
    [1, 3, 2, 0]
    >>> vocabulary.decode([1, 0, 2, 2, 3])
    'hello'
    """

    symbols: Symbols

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.size:,} symbols, level {self.level}>"

    @staticmethod
    def build(text: Text, level: str, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """Return the vocabulary of a training text.

        Characters and bytes: all that occur, sorted by their codes. Words: sorted by falling count.

        Parameters
        ----------
        text : str for levels "char" and "word", bytes for level "byte"
            The training text.
        level : {"char", "byte", "word"}
        min_count : int, 1 or more
            Level "word" only: words that occur less often become `<unk>`.
        max_size : int, 2 or more, optional
            Level "word" only: the largest number of symbols, `<eos>` and `<unk>` included; the rarest words become
            `<unk>`.

        Returns
        -------
        Vocabulary

        Raises
        ------
        InputError
            The text is empty or has the wrong type, the level is unknown, or a number is out of its range.
        """
        check_level(level)
        check_text(text, level)
        min_count, max_size = count("min_count", min_count, 1), count("max_size", max_size, 2, or_none=True)
        if level == "word":
            return Vocabulary(WordSymbols.of_text(str(text), level, min_count, max_size))
        return Vocabulary(CodeSymbols.of_text(text, level, min_count, max_size))

    @property
    def level(self) -> str:
        """The level: "char", "byte" or "word"."""
        return self.symbols.level

    @property
    def size(self) -> int:
        """The number of symbols, V."""
        return self.symbols.size

    @property
    def stand_in(self) -> int | None:
        """The number of the symbol that replaces every unknown symbol (`<unk>`); None if there is no such symbol."""
        return self.symbols.stand_in

    def encode(self, text: Text, unknown: Text = "error") -> NDArray[np.int32]:
        """Return the numbers of a text's symbols.

        Parameters
        ----------
        text : str for levels "char" and "word", bytes for level "byte"
        unknown : str or bytes
            How to treat symbols outside the vocabulary: "error" refuses the text, "skip" drops them, and a known symbol
            (a character; a word; for bytes a single byte or ASCII character) replaces them. It is ignored if the
            vocabulary has a stand-in: then the stand-in replaces them.

        Returns
        -------
        ndarray (n,), int32
            Numbers in [0, V).

        Raises
        ------
        InputError
            The text has unknown symbols and they are refused, the replacement is not a known symbol, or the text has
            the wrong type.
        """
        check_text(text, self.level)
        replacement = self._replacement(unknown) if self.stand_in is None else self.stand_in
        symbols = self.symbols.split(text)
        numbers = self.symbols.look_up(symbols)
        missing = numbers < 0
        if replacement >= 0 or not missing.any():
            numbers[missing] = replacement
            return numbers
        if isinstance(unknown, str) and unknown == "skip":
            return numbers[~missing]
        raise InputError(self._unseen(Counter(compress(symbols, missing))))

    def count(self, text: Text) -> tuple[int, int]:
        """Return the number of symbols of a text, and how many of them are outside the vocabulary.

        Raises
        ------
        InputError
            The text has the wrong type.
        """
        check_text(text, self.level)
        numbers = self.symbols.look_up(self.symbols.split(text))
        return numbers.size, int((numbers < 0).sum())

    def after_first(self, text: Text) -> bytes:
        """Return the bytes of a text without its first symbol: characters as UTF-8, words with one space between them.

        Raises
        ------
        InputError
            The text has the wrong type.
        """
        check_text(text, self.level)
        return self.symbols.after_first(text)

    def decode(self, ids: ArrayLike) -> str:
        """Return the text of symbol numbers, for reading.

        Bytes are read as UTF-8, with U+FFFD in place of bytes that are not. Words have one space between them, and
        `<eos>` is a newline.

        Parameters
        ----------
        ids : array_like (n,) of integers in [0, V)

        Returns
        -------
        str

        Raises
        ------
        InputError
            A number is outside the vocabulary.
        """
        return self.symbols.decode(self._checked(ids))

    def decode_bytes(self, ids: ArrayLike) -> bytes:
        """Return the exact bytes of symbol numbers; characters and words as UTF-8.

        Parameters
        ----------
        ids : array_like (n,) of integers in [0, V)

        Returns
        -------
        bytes

        Raises
        ------
        InputError
            A number is outside the vocabulary.
        """
        return self.symbols.decode_bytes(self._checked(ids))

    def to_json(self) -> dict[str, Any]:
        """Return a readable description: level, size and the symbols in order (bytes as numbers, others as strings)."""
        content = {
            "format": FORMAT, "version": VERSION, "level": self.level, "size": self.size,
            "symbols": self.symbols.to_list(),
        }  # fmt: skip
        return content | {"sha256": _checksum(content)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Vocabulary:
        """Return the vocabulary that `to_json` described.

        Parameters
        ----------
        content : mapping
            The result of `to_json`.

        Raises
        ------
        CheckpointError
            The content is not a vocabulary, has a newer format, or was changed after it was written.
        """
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise CheckpointError("the content is not a vocabulary of hfrnn; give the vocabulary.json of a run")
        if content.get("version") != VERSION:
            raise CheckpointError(
                f"the vocabulary has format version {shown(content.get('version'))}, and this hfrnn reads version "
                f"{VERSION}; use the hfrnn that wrote it or a newer one"
            )
        try:
            if content["sha256"] != _checksum({key: value for key, value in content.items() if key != "sha256"}):
                raise ValueError("the checksum does not match")
            level, symbols = content["level"], content["symbols"]
            if not isinstance(symbols, list) or content["size"] != len(symbols):
                raise ValueError("its size is not that of its list of symbols")
            check_level(level)
            return Vocabulary((WordSymbols if level == "word" else CodeSymbols).from_list(level, symbols))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the vocabulary is damaged ({error}); restore it from a copy of the run") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as JSON; a failure leaves an older file unchanged.

        Raises
        ------
        StorageError
            The file cannot be written.
        """
        write_atomic(checks.path("path", path), json.dumps(self.to_json(), indent=1) + "\n")

    @staticmethod
    def load(path: str | os.PathLike[str], *, links: bool = True) -> Vocabulary:
        """Read a vocabulary that `save` wrote.

        Parameters
        ----------
        path : path
            A regular file of at most 64 MiB.
        links : bool
            Whether it may be a link to a file.

        Raises
        ------
        CheckpointError
            The file is missing, unreadable or damaged, or is not a vocabulary.
        InputError
            The path is none, or `links` is neither True nor False.
        """
        file, links = checks.path("path", path), checks.flag("links", links)
        try:
            return Vocabulary.from_json(json.loads(read_bytes(file, DESCRIPTION, links=links)))
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        except OSError as error:
            raise CheckpointError(f"cannot read the vocabulary {path}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"the vocabulary {path} is damaged: it is not JSON ({error})") from error

    def _replacement(self, unknown: Text) -> int:
        """Return the number of the symbol that replaces unknown symbols; -1 if none does."""
        if isinstance(unknown, str) and unknown in ("error", "skip"):
            return -1
        text = unknown.encode() if self.level == "byte" and isinstance(unknown, str) else unknown
        fits = isinstance(text, LEVELS[self.level])
        numbers = self.symbols.look_up(self.symbols.split(text)) if fits else np.zeros(0, np.int32)
        if numbers.size != 1 or numbers[0] < 0:
            raise InputError(
                f"unknown symbols cannot become {shown(unknown)}; give error, skip or one symbol of the vocabulary"
            )
        return int(numbers[0])

    def _unseen(self, counts: Counter[Any]) -> Message:
        """Return the message about unknown symbols, the most frequent first."""
        first = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:SHOWN]
        shown = ", ".join(f"{self.symbols.shown(symbol)} ({counted(counts[symbol], 'time')})" for symbol in first)
        more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
        return Message(
            "the text has {0} outside the vocabulary of {1}: {2}{3}; give {unknown:skip} to drop unknown symbols, or "
            "{unknown:SYMBOL} to replace them by a known one",
            counted(counts.total(), "symbol"), self.size, shown, more,
        )  # fmt: skip

    def _checked(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return symbol numbers (n,) after checking that the vocabulary has them."""
        if (isinstance(ids, list | tuple | range) and not ids) or (isinstance(ids, np.ndarray) and ids.size == 0):
            return np.zeros(0, dtype=np.int64)
        numbers = array("ids", ids, (None,), "iu", backend=get_backend("numpy"), advice="the symbol numbers")
        if numbers.min() < 0 or numbers.max() >= self.size:
            raise InputError(
                f"the symbol numbers in ids must lie in [0, {self.size}), but they reach from {numbers.min()} "
                f"to {numbers.max()}"
            )
        found: NDArray[np.int64] = numbers.astype(np.int64)
        return found


def frequency_classes(counts: ArrayLike, n_classes: int) -> NDArray[np.int64]:
    """Divide symbols into classes of about equal total frequency, for a class softmax.

    `counts` (V,) says how often each symbol occurs in the training text. Returns the class of each symbol, 0 to C - 1.

    Symbols are taken by falling count, those of equal count by their number, and fill class 0, then class 1, and so on.
    Class c ends with the symbol at which the counts so far reach (c + 1)/C of the total; the next symbol begins class
    c + 1, even if the counts already reach that class's share. Class C - 1 takes all remaining symbols. There are
    exactly C classes and none is empty: the r most frequent of V symbols have at least r/V of the total, so every class
    ends while enough symbols remain. [M] of docs/specification.md describes a class-based softmax.
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
    """Return the sha256 of a description; the order of its keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
