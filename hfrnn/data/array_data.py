"""Arrays of sequences from a file or from memory: their shapes, masks, lengths, parts, and the loss that fits them.

x                 (sequences, steps, n_in) real values, or (sequences, steps) integer symbols
y                 (sequences, steps, n_out) real values
                  (sequences, n_out) or (sequences,) real values: only the last step of a sequence is scored
                  (sequences, steps) or (sequences,) integer classes: softmax, at every or at the last step
mask              (sequences, steps) or (sequences, steps, n_out): weights, 0 or more, 0 where nothing is scored
lengths           (sequences,): the steps of each sequence; later ones are padding
valid_x, ...      the same for validation, and test_x, ... for the test

From memory, x, y and mask may also be lists with an array for each sequence, (steps, n_in) and so on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.arrays.array_checks import as_array, is_array
from hfrnn.arrays.backend import host_copy
from hfrnn.checks import near_hint, shown
from hfrnn.data.array_files import check_type
from hfrnn.data.array_parts import check_filled, check_sequences, counted_from_zero, piece_signals, pieces_of
from hfrnn.data.array_shapes import ArrayFormat, UncheckedPart, arranged, joined, stacked
from hfrnn.data.held import LISTED, Content
from hfrnn.data.named_arrays import (
    NAMES,
    PREFIXES,
    ROLES,
    ArrayNames,
    FileArrays,
    holds_trials,
    read_file_arrays,
    together,
)
from hfrnn.data.ragged import RaggedPool, first_rows
from hfrnn.data.spikes import binned_trials
from hfrnn.data.splits import BY_ORDER, Split, own_test_error, part_ranges, parts_of_recordings
from hfrnn.data.windows import Cut, Signals, Windows, recording_parts
from hfrnn.errors import InputError, Message
from hfrnn.losses import LOSSES
from hfrnn.wording import counted, left_out_note, one_line, some_of

FEW_SYMBOLS = 2**16  # symbols below it may have any gaps


@dataclass(frozen=True, eq=False)
class ArrayData:
    """Sequences of a file or from memory, in their parts, without padding and not scaled.

    `source` is the path of the file, for messages; `sha256` the hash of the file, or of the arrays. Only columns of a
    table have names. `reason` says why the loss was chosen, `notes` what a person should know about the data.
    """

    name: str
    source: str
    sha256: str
    train: RaggedPool
    valid: RaggedPool | None
    test: RaggedPool | None
    loss: str
    input_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # the hash of each file
    first_class: int = 0  # the number of the first class in the file
    trials: bool = False  # whether the inputs were a list of trials in a file
    left_out: int = 0  # sequences without a scored step, which are in no part
    cut: Cut | None = None  # how recordings were cut into windows

    @property
    def burn_in(self) -> int:
        """Steps at the beginning of each window that are not scored."""
        return 0 if self.cut is None else self.cut.burn_in

    @property
    def parts(self) -> dict[str, RaggedPool]:
        """The parts that there are, by name."""
        return {name: part for name in PREFIXES if (part := getattr(self, name)) is not None}

    @property
    def symbols(self) -> bool:
        """Whether the inputs are symbols."""
        return self.train.symbols

    @property
    def n_in(self) -> int:
        """The number of inputs of a step, or of symbols: the largest one of all parts, and 0."""
        return _size(part.x for part in self.parts.values())

    @property
    def n_out(self) -> int:
        """The number of outputs: of real targets of a step, or of classes."""
        return _size(part.y for part in self.parts.values())


def _size(arrays: Any) -> int:
    found = list(arrays)
    return int(found[0].shape[1]) if found[0].ndim == 2 else max(int(each.max()) for each in found) + 1


class Files(NamedTuple):
    """The files of one part, and which arrays and rows of them are read."""

    paths: Sequence[str]
    names: ArrayNames = ArrayNames()
    rows: tuple[int | None, int | None] = (None, None)  # of a recording, counted from 0


def load_files(parts: Mapping[str, Files], *, windows: Windows | None = None, **how: Any) -> ArrayData:
    """Load sequences, or recordings, from files of arrays.

    Parameters
    ----------
    parts : mapping of str to Files
        The files for training, and perhaps some for validation and for the test. The sequences of several files are
        put together.
    windows : Windows, optional
        As in `from_arrays`; each file is one recording then, and each trial.
    **how
        The other arguments of `from_arrays`.

    Raises
    ------
    InputError
        A file cannot be read, lacks an array, or the arrays do not fit.
    """
    shared = {part: {*files.paths} & {*parts["train"].paths} for part, files in parts.items()}
    read = {part: [read_file_arrays(path, files.names._replace(beside=path in shared[part]), windows is not None)
                   for path in files.paths] for part, files in parts.items()}  # fmt: skip
    first = read["train"][0]
    every = [file for files in read.values() for file in files]
    digest = every[0].sha256
    if len(every) > 1:
        digest = hashlib.sha256(" ".join(file.sha256 for file in every).encode()).hexdigest()
    others = [name for name in first.others if not name.startswith("#")]
    data = from_arrays(
        read, Path(first.source).name, first.source, digest, windows=windows,
        rows={part: files.rows for part, files in parts.items()}, **how,
    )  # fmt: skip
    hashes = tuple(each for file in every for each in file.hashes)
    notes = (*data.notes, f"not read: {some_of([*map(one_line, others)], LISTED)}") if others else data.notes
    return replace(data, notes=notes, files=hashes)


def from_memory(
    arrays: Mapping[str, Any], *, name: str = "data", bin: float | None = None, **how: Any
) -> ArrayData:  # fmt: skip
    """Return data of arrays in memory, by their names. Other arguments and errors are those of `from_arrays`.

    With `bin`, `x` holds the times of events of each trial and unit, which are counted in bins of so many seconds.
    """
    if not isinstance(arrays, Mapping) or not all(isinstance(each, str) for each in arrays):
        raise InputError(f"{name} is no table of arrays by name: give a dict with arrays {', '.join(NAMES[:4])}, ...")
    arrays = arrays if bin is None else binned_trials(arrays, bin, name)
    listed = frozenset(
        each for each, value in arrays.items()
        if isinstance(value, list | tuple) and value and all(map(is_array, value))
    )  # fmt: skip
    read: dict[str, Content] = {}
    digest = hashlib.sha256()
    for each, value in sorted(arrays.items()):
        if each not in NAMES:
            raise InputError(f"{name} has an array {shown(each)}{near_hint(each, NAMES)}: use {', '.join(NAMES)}")
        if value is None:
            continue
        what = f"{each} of {name}"
        found = [_on_host(what, one) for one in (value if each in listed else [value])]
        several = each in listed and how.get("windows") is not None  # recordings, also of one length
        read[each] = whole = found if several else stacked(found) if each in listed else found[0]
        digest.update(f"{each} ".encode())
        for one in whole if isinstance(whole, list) else [whole]:
            digest.update(f"{one.dtype.str} {one.shape} ".encode())
            digest.update(one.reshape(-1).view(np.uint8).data)
    held = ", ".join(read) or "nothing"
    lacks = {role: Message(f"{{0}} has no array {role}: it holds {{1}}; name it {role}", name, held)
             for role in ("x", "y") if role not in read}  # fmt: skip
    file = FileArrays(read, name, digest.hexdigest(), lacks=lacks, trials=False, listed=listed)
    return from_arrays({"train": [file]}, "arrays" if name == "data" else name, name, file.sha256, **how)


def _on_host(what: str, value: Any) -> NDArray[Any]:
    """Return an array in memory as a C-contiguous array of numbers on the host."""
    found = np.ascontiguousarray(host_copy(as_array(what, value)))
    check_type(found.dtype, what)
    return found


def from_arrays(
    read: Mapping[str, Sequence[FileArrays]], name: str, source: str, sha256: str, *, time_first: bool = False,
    fractions: Sequence[float] | None = None, loss: str = "auto", windows: Windows | None = None,
    rows: Mapping[str, tuple[int | None, int | None]] | None = None, split: Split = BY_ORDER,
) -> ArrayData:  # fmt: skip
    """Return the data of the arrays above; raise InputError if they do not fit.

    `read` holds the files of each part that has some of its own. Those for training may hold the other parts too, as
    `valid_x` or `test_x`. With `windows`, `x` and `y` are recordings, (steps, n_in) and (steps, n_out), of which `rows`
    are read. `fractions` are the shares of the sequences for training, validation and test, if the data have no other
    parts, and `split` says in which order they are taken.
    """
    pieces = [piece for part, files in read.items() for file in files for piece in pieces_of(part, file, read)]
    if windows is not None and time_first:
        raise InputError(Message(
            "{window} cuts one recording, and {time_first:True} is for separate sequences: leave one of them out"
        ))  # fmt: skip
    notes: list[str] = []
    if windows is not None:
        signals: dict[str, list[Signals]] = {}
        for piece in pieces:
            found, turned = piece_signals(piece, (rows or {}).get(piece.part, (None, None)))
            signals.setdefault(piece.part, []).extend(found)
            notes += turned
        _check_columns([each for part in signals.values() for each in part], source)
        recordings, shares = parts_of_recordings(signals, split, fractions, source)
        cut = recording_parts(recordings, windows, shares, source)
        return assembled(cut.parts, loss, name, source, sha256, notes=(*dict.fromkeys(notes), *cut.notes), cut=cut)
    first, pieces = counted_from_zero(pieces, loss)
    of_parts: dict[str, list[UncheckedPart]] = {}
    for piece in pieces:
        arrays, more = together(piece.file, piece.prefix)
        notes += more
        check_filled({piece.prefix + role: each for role, each in arrays.items()}, piece.file.source)
        in_order = holds_trials(piece.file, piece.prefix) or f"{piece.prefix}x" in piece.file.listed
        layout = ArrayFormat(piece.file.source, time_first and not in_order, piece.file.matlab, loss)
        check_sequences(arrays, piece)
        made = arranged({role: arrays.get(role) for role in ROLES}, piece.prefix, layout)
        of_parts.setdefault(piece.part, []).append(made)
    parts, left_out = {}, 0
    for part, each in of_parts.items():
        parts[part], fewer = scored_part(_joined(each, source), f"the {part} part of {source}")
        left_out += fewer
    parts = _in_parts(parts, fractions, source, split)
    if first:
        notes.append("classes count from 1: class 1 is output 0; if they are numbers, use the squared loss")
    notes += [left_out_note(left_out)] if left_out else []
    return assembled(
        parts, loss, name, source, sha256, notes=tuple(dict.fromkeys(notes)), first_class=first, left_out=left_out,
        trials=any(holds_trials(piece.file, piece.prefix) for piece in pieces),
    )  # fmt: skip


def _check_columns(recordings: Sequence[Signals], source: str) -> None:
    """Raise InputError unless all recordings have as many inputs and as many targets."""
    for name in ("inputs", "targets"):
        shapes = sorted({getattr(each, name).shape[1:] for each in recordings})
        if len(shapes) > 1:
            one, other = (", ".join(["steps", *map(str, shape)]) for shape in (shapes[0], shapes[-1]))
            raise InputError(
                f"recordings of {source} have {name} of the shapes ({one}) and ({other}): give the same columns in all"
            )


def _joined(parts: Sequence[UncheckedPart], source: str) -> UncheckedPart:
    """Return the sequences of several files as one part."""
    for role in "xy":
        shapes = {getattr(part, role).shape[1:] for part in parts}
        if len(shapes) > 1:
            raise InputError(f"{role} differs between {source} and the files after it: give the same kind of sequences")
    found = joined(parts)
    assert found is not None
    return found


def assembled(
    parts: Mapping[str, UncheckedPart], loss: str, name: str, source: str, sha256: str, **more: Any
) -> ArrayData:
    """Return data with these parts, with the loss that was asked for or fits all of them; `more` are other fields."""
    found, reason = _chosen_loss(parts, loss, source)
    made: dict[str, RaggedPool] = {
        part: content.sequences(f"the {part} part of {source}") for part, content in parts.items()
    }
    first = made["train"]
    for part, other in made.items():
        for role, one, two in (("x", first.x, other.x), ("y", first.y, other.y)):
            if one.shape[1:] != two.shape[1:]:
                raise InputError(
                    f"{role} has {_kind(one)} and {PREFIXES[part]}{role} has {_kind(two)} in {source}: give the "
                    "same in both"
                )
    if found == "softmax" and not any(part.y.any() for part in made.values()):
        raise InputError(f"y of {source} holds only the class 0, so there is nothing to predict: give other classes")
    for role in "xy":
        _check_symbols(role, [getattr(part, role) for part in made.values()], source)
    return ArrayData(name, source, sha256, first, made.get("valid"), made.get("test"), found, reason=reason, **more)


def _check_symbols(role: str, parts: Sequence[NDArray[Any]], source: str) -> None:
    """Raise InputError if a symbol or class is far larger than the number of all symbols: no network could learn it."""
    if parts[0].ndim > 1:
        return
    largest, count = _size(parts) - 1, sum(each.size for each in parts)
    if largest >= max(count, FEW_SYMBOLS):
        raise InputError(
            f"{role} of {source} holds {largest:,}, and has only {count:,} symbols: number symbols and classes from 0 "
            "without large gaps, or give real values as floats"
        )


def _kind(values: NDArray[Any]) -> str:
    return "integers" if values.ndim == 1 else counted(values.shape[1], "real value") + " a step"


def _chosen_loss(parts: Mapping[str, UncheckedPart], loss: str, source: str) -> tuple[str, str]:
    """Return the loss that was asked for or fits the targets, and why."""
    if loss == "auto":
        if parts["train"].y.ndim == 1:
            return "softmax", "y holds classes"
        if all(part.bits for part in parts.values()):
            return "logistic", "all targets are 0 or 1"
        return "squared", "the targets are real numbers"
    if loss == "logistic" and not all(part.between for part in parts.values()):
        raise InputError(
            Message("{loss} is logistic, and y of {0} has targets outside 0 to 1: use {loss:squared}", source)
        )
    for part in parts.values():
        if part.y.ndim == 2 and (why := LOSSES[loss].why_not(np.where(part.scored & np.isfinite(part.y), part.y, 0))):
            raise InputError(Message("{loss} is {0}, and targets of {1} {2}", loss, source, why))
        if loss == "softmax" and part.y.ndim == 2 and not part.sums_to_1:
            raise InputError(Message(
                "{loss} is softmax, and rows of y of {0} are no probabilities: give numbers from 0 that sum to 1, or "
                "classes", source,
            ))  # fmt: skip
    return loss, "as given"


def _in_parts(
    given: dict[str, UncheckedPart], fractions: Sequence[float] | None, source: str, split: Split
) -> dict[str, UncheckedPart]:
    """Return the parts of sequences; those for training are cut if there are none for validation."""
    if "valid" not in given:
        whole, own = given["train"], {name: part for name, part in given.items() if name == "test"}
        if own and fractions is not None and fractions[2]:
            raise own_test_error(source, "sequences")
        edges = part_ranges(whole.lengths.size, fractions, source, "sequence")
        classes = _classes_of(whole, source) if split.how == "stratified" else None
        order = split.order(whole.lengths.size, classes)
        if order is not None:
            cut = {name: whole.taken(np.sort(order[a:b])) for name, (a, b) in edges.items() if b > a}
            return {**cut, **own}
        return {**{name: whole.columns(start, stop) for name, (start, stop) in edges.items() if stop > start}, **own}
    if fractions is not None or split.how != "order":
        last = list(given)[-1]
        option = "{fractions}" if fractions is not None else "{split}"
        raise InputError(Message(f"{{0}} has arrays for its {{1}} part: leave {option} out", source, last))
    return given


def _classes_of(part: UncheckedPart, source: str) -> NDArray[Any]:
    """Return the class of each sequence, (N,): the target of its last scored step."""
    if part.y.ndim > 1:
        raise InputError(Message(
            "{split:stratified} keeps the shares of classes, and the targets of {0} are no classes: use {split:random}",
            source,
        ))  # fmt: skip
    if part.last_only:
        return part.y
    rows = np.where(part.scored, np.arange(len(part.y)), -1)
    return np.asarray(part.y[np.maximum.reduceat(rows, first_rows(part.lengths))])


def scored_part(part: UncheckedPart, where: str) -> tuple[UncheckedPart, int]:
    """Return the sequences of a part with a scored step, and the number of the others; raise InputError without any."""
    found, left_out = part.scored_only()
    if not found.lengths.size:
        raise InputError(f"{where} has no scored step, its mask is 0 at all of them: give a mask that is above 0")
    return found, left_out
