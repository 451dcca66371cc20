"""Arrays in the memory of a Python program: arrays by name, or a function that draws new sequences in every epoch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hfrnn.checks import shown
from hfrnn.choices import ARRAY_FILES
from hfrnn.data.kinds.arrays import TIME_FIRST, read_arrays
from hfrnn.data.kinds.data_kind import Reading, epoch_generator, refuse
from hfrnn.data.kinds.number_sequences import (
    BIN,
    CLOSED_LOOP,
    CUT,
    DIVIDED,
    EACH_STATE,
    LOSS,
    STANDARDIZE,
    NumberSequences,
    split_of,
    windows_of,
)
from hfrnn.errors import HfrnnWarning, InputError, Message
from hfrnn.wording import counted, left_out_note

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hfrnn.data.array_data import ArrayData
    from hfrnn.data.ragged import RaggedPool

ARRAYS, BATCHES, TABLES = "arrays", "batches", "tables"
"""Values of the option `data` for data in memory."""


class TimeMajor(dict[str, Any]):
    """Arrays by name that have the steps on their first axis, whatever the option `time_first` says."""


@dataclass(frozen=True, eq=False)
class Objects:
    """What a Python program has given: arrays by the names of `hfrnn.data.array_data`, or a function.

    `batches` returns new sequences by the same names, given a random generator; with it, `valid` holds those to
    validate on.
    """

    data: Mapping[str, Any] | None = None
    batches: Callable[[Any], Any] | None = None
    valid: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The value of the option `data`."""
        return ARRAYS if self.batches is None else BATCHES


@dataclass(frozen=True, eq=False)
class Frames:
    """The DataFrames of each part that a Python program has given."""

    data: Sequence[Any]
    valid: Sequence[Any] | None = None
    test: Sequence[Any] | None = None

    @property
    def name(self) -> str:
        """The value of the option `data`."""
        return TABLES


Given = Objects | Frames


class ArraysInMemory(NumberSequences):
    """Arrays that a Python program has given to `hfrnn.train`."""

    about = "arrays in memory"
    reads = ARRAY_FILES
    options = (*DIVIDED, EACH_STATE, *CUT, BIN, TIME_FIRST, LOSS, STANDARDIZE, *CLOSED_LOOP)
    in_memory = True

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (ARRAYS, BATCHES)

    @classmethod
    def keyword(cls, options: Mapping[str, Any]) -> str:
        return BATCHES if options["data"] == BATCHES else "data"

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        return []

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Objects | None = None) -> ArraysInMemory:
        from hfrnn.data.array_data import from_memory

        if given is None:
            raise InputError(
                f"the data of the run were {options['data']} in the memory of a Python program: use them there; to "
                f"resume it, hfrnn.train(resume=..., {cls.keyword(options)}=...)"
            )
        if given.batches is not None:
            return DrawnSequences.of(options, given)
        assert given.data is not None
        data = from_memory(
            given.data, time_first=options["time_first"], fractions=options["fractions"], loss=options["loss"],
            windows=None if options["window"] is None else windows_of(options), split=split_of(options),
            bin=options["bin"],
        )  # fmt: skip
        _warn_of(data.left_out)
        return cls(options, data)

    @classmethod
    def read_file(cls, options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
        return read_arrays(options, path, n_out, loss)


class DrawnSequences(ArraysInMemory):
    """Sequences that a function of a Python program draws anew in every epoch.

    `data` holds the sequences of the first epoch, and those for validation.
    """

    fresh = True

    def __init__(self, options: Mapping[str, Any], data: ArrayData, given: Objects) -> None:
        super().__init__(options, data)
        self._options, self._given = {**options, "loss": data.loss}, given
        self._given_sequences = data.train.sequences + data.left_out
        self.source = "the sequences of valid="

    @classmethod
    def of(cls, options: Mapping[str, Any], given: Objects) -> DrawnSequences:
        """Return the sequences of a function, after drawing those of the first epoch."""
        refuse(options, (*DIVIDED, EACH_STATE, *CUT, BIN), "batches= gives the sequences")
        first = _draw(given, options, 0)
        valid = _draw(given, options, -1) if given.valid is None else _read(given.valid, "valid", options)
        if valid.loss != first.loss and options["loss"] == "auto":
            first = replace(first, loss="squared", reason="the targets are real numbers")
        for name, one, other in (("x", first.train.x, valid.train.x), ("y", first.train.y, valid.train.y)):
            if one.shape[1:] != other.shape[1:]:
                raise InputError(
                    f"batches returned {name} with {_entries(one)}, and validation has {_entries(other)}: give the "
                    "same kind of sequences"
                )
        return cls(options, replace(first, valid=valid.train, sha256=valid.sha256), given)

    def pool(self, epoch: int) -> RaggedPool:
        if epoch == 0:
            return self._pool
        drawn = _draw(self._given, self._options, epoch)
        first, given, asked = self._pool, drawn.train.sequences + drawn.left_out, self._given_sequences
        for name, one, other in (("x", drawn.train.x, first.x), ("y", drawn.train.y, first.y)):
            if one.shape[1:] != other.shape[1:] or given != asked:
                raise InputError(
                    f"batches returned {name} of {counted(given, 'sequence')} with {_entries(one)}, and of "
                    f"{counted(asked, 'sequence')} with {_entries(other)} at the first call: return the same shapes at "
                    "every call, with lengths or a mask for shorter sequences"
                )
        for what, size, most in (("symbol", drawn.n_in, self.data.n_in), ("class", drawn.n_out, self.data.n_out)):
            if size > most:
                raise InputError(
                    f"batches returned the {what} {size - 1}, and {most - 1} was the largest at the first call: return "
                    "the largest one at the first call too"
                )
        return self._ready(drawn.train)

    def lines(self) -> list[str | Message]:
        first, *more = super().lines()
        return [str(first).replace("to train on", "in every epoch, drawn anew"), *more]


def _entries(values: NDArray[Any]) -> str:
    """Return what a step of some inputs or targets is."""
    return "an integer a step" if values.ndim == 1 else f"{counted(values.shape[1], 'number')} a step"


def _draw(given: Objects, options: Mapping[str, Any], epoch: int) -> ArrayData:
    """Return the sequences of an epoch, without a checksum; epoch -1 is validation, the same for every seed."""
    assert given.batches is not None
    return replace(_read(given.batches(epoch_generator(options["seed"], epoch)), "batches", options), sha256="")


def _read(given: Any, name: str, options: Mapping[str, Any]) -> ArrayData:
    """Return the sequences of arrays by name."""
    from hfrnn.data.array_data import from_memory

    if not isinstance(given, Mapping):
        raise InputError(f"{name} is {shown(given)}: return a dict of arrays x, y, mask, lengths, or a hfrnn.Batch")
    if parts := [each for each in given if isinstance(each, str) and each.startswith(("valid_", "test_"))]:
        raise InputError(f"{name} has {parts[0]}: return x, y, mask and lengths, and give the others as valid=")
    time_first = options["time_first"] or isinstance(given, TimeMajor)
    read = from_memory(given, time_first=time_first, fractions=(1.0, 0.0, 0.0), loss=options["loss"], name=name)
    _warn_of(read.left_out)
    return read


def _warn_of(left_out: int) -> None:
    """Warn of sequences without a scored step."""
    if left_out:
        warnings.warn(f"{left_out_note(left_out)}: their weights are all 0", HfrnnWarning, stacklevel=2)
