"""The symbols of a text and their numbers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn.errors import CheckpointError, InputError
from hfrnn.files import write_atomic

Text = str | bytes

FORMAT = "hfrnn-vocabulary"
VERSION = 1
LEVELS = {"char": (0x110000, "str"), "byte": (256, "bytes")}  # level: codes below, type of its texts


def check_level(level: str) -> None:
    """Refuse a level that is not there.

    Raises
    ------
    InputError
        The level is neither "char" nor "byte".
    """
    if level not in LEVELS:
        raise InputError(f"unknown level {level!r}; the level must be one of {', '.join(LEVELS)}")


@dataclass(frozen=True)
class Vocabulary:
    """The symbols that a network knows, in a fixed order: symbol number i is `codes[i]`.

    Parameters
    ----------
    level : {"char", "byte"}
        Whether a symbol is a character (one Unicode code point) or a byte.
    codes : tuple of int
        Code points or byte values, strictly increasing.

    Raises
    ------
    InputError
        An unknown level, no symbols, or symbols out of order or range.
    """

    level: str
    codes: tuple[int, ...]

    def __post_init__(self) -> None:
        check_level(self.level)
        if not self.codes:
            raise InputError("a vocabulary needs at least one symbol; the text it was built from is empty")
        ordered = all(a < b for a, b in zip(self.codes, self.codes[1:], strict=False))
        if not ordered or self.codes[0] < 0 or self.codes[-1] >= LEVELS[self.level][0]:
            raise InputError(
                f"the codes of a {self.level} vocabulary must increase from 0 to {LEVELS[self.level][0] - 1}"
            )

    @classmethod
    def build(cls, text: Text, level: str) -> Vocabulary:
        """The vocabulary of a training text: every symbol that occurs in it, sorted.

        Parameters
        ----------
        text : str for level "char", bytes for level "byte"
            The training text.
        level : {"char", "byte"}

        Raises
        ------
        InputError
            An empty text, an unknown level or a text of the wrong type.
        """
        codes = np.flatnonzero(np.bincount(_codes(text, level)))
        return cls(level, tuple(codes.tolist()))

    @property
    def size(self) -> int:
        """The number of symbols, V."""
        return len(self.codes)

    @cached_property
    def _numbers(self) -> NDArray[np.int32]:
        """The number of every code up to the largest known one and one more; -1 for unknown codes."""
        table = np.full(self.codes[-1] + 2, -1, dtype=np.int32)
        table[list(self.codes)] = np.arange(self.size, dtype=np.int32)
        return table

    def encode(self, text: Text, unknown: Text = "error") -> NDArray[np.int32]:
        """The numbers of a text's symbols.

        Parameters
        ----------
        text : str for level "char", bytes for level "byte"
        unknown : str or bytes
            What becomes of symbols outside the vocabulary: "error" refuses the text, "skip" drops them, and one known
            symbol (a character; for bytes a single byte or ASCII character) takes their place.

        Returns
        -------
        ndarray (n,), int32
            Numbers in [0, V).

        Raises
        ------
        InputError
            Unknown symbols where they are refused, a replacement that is no known symbol, or a text of the wrong type.
        """
        replacement = self._replacement(unknown)
        codes = _codes(text, self.level)
        numbers = self._numbers.take(codes, mode="clip")  # beyond the table: its last entry, -1
        missing = numbers < 0
        if not missing.any():
            return numbers
        if unknown == "error":
            raise InputError(self._unseen(codes[missing]))
        if unknown == "skip":
            return numbers[~missing]
        numbers[missing] = replacement
        return numbers

    def decode(self, ids: ArrayLike) -> str:
        """The text of symbol numbers, for reading; bytes are taken as UTF-8, with a mark where they are not.

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
        codes = self._known(ids)
        if self.level == "byte":
            return codes.astype(np.uint8).tobytes().decode("utf-8", errors="replace")
        return codes.astype("<u4").tobytes().decode("utf-32-le", errors="surrogatepass")

    def decode_bytes(self, ids: ArrayLike) -> bytes:
        """The exact bytes of symbol numbers; characters as UTF-8.

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
        if self.level == "byte":
            return self._known(ids).astype(np.uint8).tobytes()
        return self.decode(ids).encode("utf-8", errors="surrogatepass")

    def to_json(self) -> dict[str, Any]:
        """A readable description: level, size and the symbols in order (characters as strings, bytes as numbers)."""
        symbols: list[str] | list[int] = (
            [chr(code) for code in self.codes] if self.level == "char" else list(self.codes)
        )
        content = {"format": FORMAT, "version": VERSION, "level": self.level, "size": self.size, "symbols": symbols}
        return content | {"sha256": _checksum(content)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Vocabulary:
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
            symbols = content["symbols"]
            return cls(content["level"], tuple(symbols if content["level"] == "byte" else map(ord, symbols)))
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

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a vocabulary that `save` wrote.

        Raises
        ------
        CheckpointError
            The file is missing, unreadable, damaged or something else.
        """
        try:
            return cls.from_json(json.loads(Path(path).read_bytes()))
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        except OSError as error:
            raise CheckpointError(f"cannot read the vocabulary {path}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"the vocabulary {path} is damaged: it is not JSON ({error})") from error

    def _replacement(self, unknown: Text) -> int:
        """The number of the symbol that stands for unknown ones; -1 where none does."""
        if unknown in ("error", "skip"):
            return -1
        symbol: Text = unknown.encode() if self.level == "byte" and isinstance(unknown, str) else unknown
        if isinstance(symbol, str) == (self.level == "char") and len(symbol) == 1:
            number = int(self._numbers.take(_codes(symbol, self.level)[0], mode="clip"))
            if number >= 0:
                return number
        raise InputError(f"unknown symbols cannot become {unknown!r}; give error, skip or one symbol of the vocabulary")

    def _unseen(self, codes: NDArray[np.uint32] | NDArray[np.uint8]) -> str:
        """The sentence about symbols that training never saw, the most frequent first."""
        found, counts = np.unique(codes, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:10]
        names = [repr(chr(found[i])) if self.level == "char" else f"0x{found[i]:02x}" for i in order]
        shown = ", ".join(f"{name} ({counts[i]} times)" for name, i in zip(names, order, strict=True))
        more = f" and {len(found) - 10} more" if len(found) > 10 else ""
        return (
            f"the text has {len(codes)} symbols that the vocabulary of {self.size} lacks: {shown}{more}; "
            "drop them with --unknown skip or map them to a known symbol with --unknown SYMBOL"
        )

    def _known(self, ids: ArrayLike) -> NDArray[np.int64]:
        """The codes of symbol numbers, which are checked."""
        numbers = np.asarray(ids)
        if numbers.size == 0:
            return np.zeros(0, dtype=np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise InputError(f"symbol numbers must be a row of integers, not {numbers.dtype} of shape {numbers.shape}")
        if numbers.min() < 0 or numbers.max() >= self.size:
            raise InputError(
                f"symbol numbers must lie in [0, {self.size}), but they reach from {numbers.min()} to {numbers.max()}"
            )
        codes: NDArray[np.int64] = np.asarray(self.codes, dtype=np.int64)[numbers]
        return codes


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


def _codes(text: Text, level: str) -> NDArray[np.uint32] | NDArray[np.uint8]:
    """The code points or byte values of a text."""
    check_level(level)
    if level == "char" and isinstance(text, str):
        return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
    if level == "byte" and isinstance(text, bytes):
        return np.frombuffer(text, dtype=np.uint8)
    raise InputError(f"a text of level {level} must be {LEVELS[level][1]}, not {type(text).__name__}")


def _checksum(content: dict[str, Any]) -> str:
    """The sha256 of a description, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
