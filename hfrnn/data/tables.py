"""Recordings from tables: a row for each step, a column for each quantity."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_data import ArrayData, assembled
from hfrnn.data.event_tables import read_events, unit_words, units_of
from hfrnn.data.recordings import Recording, Recordings, between_jumps, by_label, filled, growing_times
from hfrnn.data.sheets import Sheet, TableFormat, sheet_of
from hfrnn.data.splits import BY_ORDER, Split, parts_of_recordings
from hfrnn.data.windows import Signals, Windows, recording_parts
from hfrnn.errors import InputError, Message
from hfrnn.option import argument
from hfrnn.wording import counted, one_line

_RATES = 0.01  # relative difference of the steps of two recordings that have the same rate


def load_tables(
    parts: Mapping[str, tuple[Sequence[Any], TableFormat]], windows: Windows | None = None, ahead: int | None = None, *,
    fractions: Sequence[float] | None = None, loss: str = "auto", split: Split = BY_ORDER,
) -> tuple[ArrayData, dict[str, Recordings]]:  # fmt: skip
    """Load the recordings of tables, in parts that are cut into windows.

    Parameters
    ----------
    parts : mapping of str to (sequence of paths or DataFrames, TableFormat)
        The tables for training, and perhaps some for validation and for the test.
    windows : Windows, optional
    ahead : int, optional
        As in `rows_ahead`.
    fractions : sequence of three float, optional
        The shares of the rows of each recording for training, validation and test, without tables for validation.
    loss : str
    split : Split
        "random" puts whole recordings into parts.

    Returns
    -------
    ArrayData, and the recordings by part
    """
    found = _read_parts(parts)
    return _in_windows(found, _source(parts["train"][0]), windows, ahead, fractions, loss, split), found


def window_conditions(
    parts: Mapping[str, tuple[Sequence[Any], TableFormat]], part: str, windows: Windows, ahead: int | None = None, *,
    fractions: Sequence[float] | None = None, loss: str = "auto", split: Split = BY_ORDER,
) -> NDArray[Any]:  # fmt: skip
    """Return the condition of each target in the windows of a part, (steps, windows) strings, "" in the padding.

    The formats of `parts` name the column of the conditions; the other arguments are those of `load_tables`. The tables
    are cut as there, with the number of the condition as their only input.
    """
    found = _read_parts(parts)
    first = found["train"]
    shift = rows_ahead(first.input_names, first.target_names, ahead)
    of_rows = [each.conditions or [] for read in found.values() for each in read.found]
    names = ["", *dict.fromkeys(name for rows in of_rows for name in rows if name)]
    number = {name: n for n, name in enumerate(names)}

    def coded(each: Recording) -> Recording:
        of_targets = (each.conditions or [])[shift:] + [""] * shift
        return each._replace(inputs=np.array([[number[name]] for name in of_targets], np.float64))

    found = {name: read._replace(found=[coded(each) for each in read.found]) for name, read in found.items()}
    data = _in_windows(found, _source(parts["train"][0]), windows, shift, fractions, loss, split)
    numbers = data.parts[part].inputs[:, :, 0].astype(int)
    found_names: NDArray[Any] = np.array(names, dtype=object)[numbers]
    return found_names


def _read_parts(parts: Mapping[str, tuple[Sequence[Any], TableFormat]]) -> dict[str, Recordings]:
    """Return the recordings of each part; the units of the training part are the columns of the others too."""
    tables, form = parts["train"]
    first = read_tables(tables, form)
    others = {part: given for part, given in parts.items() if part != "train"}
    return {"train": first} | {
        part: read_tables(tables, form._replace(units=first.units)) for part, (tables, form) in others.items()
    }


def _in_windows(
    found: Mapping[str, Recordings], source: str, windows: Windows | None, ahead: int | None,
    fractions: Sequence[float] | None, loss: str, split: Split,
) -> ArrayData:  # fmt: skip
    """Return the recordings of each part, cut into windows; see `load_tables`."""
    first = found["train"]
    if not first.target_names:
        raise InputError(Message("{0} is a table without {targets}: name the columns to predict", source))
    if loss == "softmax":
        raise InputError(
            Message("{loss} is softmax, and the targets of {0} are real columns: use squared or logistic", source)
        )
    _check_alike(found)
    shared = [name for name in first.target_names if name in first.input_names]
    ahead = rows_ahead(first.input_names, first.target_names, ahead)
    longest = max(len(each.inputs) for each in first.found)
    if ahead >= longest:
        held = counted(longest, "row")
        raise InputError(Message("{ahead} is {0}, and {1} has {2}: give a smaller number", ahead, source, held))
    if shared and ahead == 0:
        raise InputError(Message(
            "column {0} is an input and a target of the same step with {ahead:0}: give {ahead:1} or more", shared[0]
        ))  # fmt: skip
    windows = (windows or Windows())._replace(ahead=ahead)
    signals = {
        part: [
            Signals(each.inputs, each.targets, each.missing, each.states)
            for each in read.found
            if len(each.inputs) > ahead
        ]
        for part, read in found.items()
    }
    divided, shares = parts_of_recordings(signals, split, fractions, source)
    cut = recording_parts(divided, windows, shares, source)
    notes = cut.notes
    if ahead:
        notes = (f"inputs predict the targets {counted(ahead, 'row')} later", *notes)
    notes = (*dict.fromkeys(note for read in found.values() for note in read.notes), *notes)
    digest = first.sha256
    if len(found) > 1:
        digest = hashlib.sha256(" ".join(read.sha256 for read in found.values()).encode()).hexdigest()
    return assembled(
        cut.parts, loss, Path(source).name, source, digest, notes=notes, cut=cut, input_names=first.input_names,
        target_names=first.target_names,
    )  # fmt: skip


def _source(tables: Sequence[Any]) -> str:
    """Return the tables in a few words, for messages."""
    first = tables[0] if isinstance(tables[0], str | os.PathLike) else "the DataFrame"
    return str(first) if len(tables) == 1 else f"{first} and {counted(len(tables) - 1, 'other table')}"


def _check_alike(found: Mapping[str, Recordings]) -> None:
    """Raise InputError if a part has another number of columns or another rate than the training part."""
    first = found["train"]
    for part, other in found.items():
        for role, one, two in (("inputs", first.input_names, other.input_names),
                               ("targets", first.target_names, other.target_names)):  # fmt: skip
            if len(one) != len(two):
                asked = argument(role if part == "train" else f"{part}_{role}")
                raise InputError(Message(
                    f"{asked} names {{0}}, and {argument(role)} {{1}}: name as many",
                    counted(len(two), "column"), len(one),
                ))  # fmt: skip
        check_rates([first.step, other.step], f"the {part} part")


def check_rates(steps: Sequence[float | None], name: str) -> None:
    """Raise InputError if the steps of some recordings differ."""
    known = [step for step in steps if step]
    for step in known[1:]:
        if abs(step - known[0]) > _RATES * known[0]:
            raise InputError(
                f"{name} has a step of {step:g} between two rows, and the first recording for training {known[0]:g}: "
                "resample them to one rate"
            )


def rows_ahead(input_names: Sequence[str], target_names: Sequence[str], ahead: int | None) -> int:
    """Return the rows from an input to its target: by default 1 if a column is an input and a target, else 0."""
    return int(any(name in input_names for name in target_names)) if ahead is None else ahead


def read_tables(tables: Sequence[Any], form: TableFormat) -> Recordings:
    """Read the recordings of paths or DataFrames with the same columns; see `read_table`."""
    if form.bin is not None and form.unit is not None and form.units is None and len(tables) > 1:
        form = form._replace(units=units_of([name for each in tables for name in unit_words(each, form)]))
    read = [read_table(table, form) for table in tables]
    for table, each in zip(tables[1:], read[1:], strict=True):
        if each.input_names != read[0].input_names or each.target_names != read[0].target_names:
            raise InputError(
                f"{_source([table])} calls its columns {', '.join((*each.input_names, *each.target_names))}, and "
                f"{_source(tables[:1])} {', '.join((*read[0].input_names, *read[0].target_names))}: give tables with "
                "the same names"
            )
        check_rates([read[0].step, each.step], _source([table]))
    recordings = [recording for each in read for recording in each.found]
    notes = list(dict.fromkeys(note for each in read for note in each.notes))
    if len(recordings) > 1:
        lengths = [len(each.inputs) for each in recordings]
        notes.insert(0, f"{counted(len(lengths), 'recording')} of {min(lengths):,} to {max(lengths):,} rows")
    digest = read[0].sha256
    if len(read) > 1:
        digest = hashlib.sha256(" ".join(each.sha256 for each in read).encode()).hexdigest()
    return read[0]._replace(
        found=recordings, sha256=digest, files=tuple(each.sha256 for each in read), notes=tuple(notes)
    )


def read_table(table: Any, form: TableFormat) -> Recordings:
    """Read the recordings of one table.

    Parameters
    ----------
    table : path or DataFrame
        A text: UTF-8, UTF-16 with a byte order mark, or Windows-1252; columns are separated by tabs, semicolons,
        bars, commas or blanks. The first line may name them. Or a Parquet or Excel file.
    form : TableFormat
        Without `targets`, the arrays of targets have no columns; for events, all units are targets then.
    """
    sheet = sheet_of(table, form)
    if form.bin is not None:
        return read_events(sheet, form, form.bin)
    inputs, targets = (sheet.numbers_of(given, form.asked.get(role, role)) for role, given in
                       (("inputs", form.inputs), ("targets", form.targets)))  # fmt: skip
    begins = [] if form.states is None else sheet.numbers_of(form.states, "initial_state")
    values = sheet.numbers([*inputs, *targets, *begins])
    named = {"recording": form.recording, "time": form.time, "by": form.by}
    labels, times, conditions = sheet.named_words(named).values()
    notes = list(sheet.notes)
    rows = slice(*form.rows)
    at = np.arange(len(values))[rows]
    if not len(at):
        raise InputError(f"{sheet.path} has {counted(len(values), 'row')}, and none of them was asked for")
    groups = [(str(sheet.path), at)] if labels is None else by_label(labels, at)
    found, steps, jumps, gaps = [], [], 0, 0
    for label, where in groups:
        pieces: Sequence[Any] = [where]
        stamps: Sequence[Any] = [None]
        if times is not None:
            moments = _times(times, form, sheet, where, label)
            cuts, step = between_jumps(moments)
            steps += [step] if step else []
            jumps += len(cuts)
            pieces, stamps = np.split(where, cuts), np.split(moments, cuts)
            check_rates(steps[:1] + steps[-1:], f"recording {label}")
        for n, (piece, own) in enumerate(zip(pieces, stamps, strict=True)):
            x = _without_gaps(values[piece, : len(inputs)], form.fill, sheet, piece, inputs)
            gaps += int(np.isnan(values[piece, : len(inputs)]).sum())
            y = values[piece, len(inputs) : len(inputs) + len(targets)]
            states = _states(values[piece, len(inputs) + len(targets) :], sheet, piece, begins)
            name = label if len(pieces) == 1 else f"{label} ({n + 1})"
            own_conditions = None if conditions is None else [str(conditions[row]) for row in piece]
            found.append(Recording(name, x, np.nan_to_num(y), np.isnan(y), own, own_conditions, states))
    if gaps:
        notes.append(f"{counted(gaps, 'gap')} of inputs filled ({form.fill})")
    if steps:
        notes.append(f"one row every {float(np.median(steps)):g} of {form.time}, in seconds if it holds dates")
    if jumps:
        notes.append(f"the time jumps at {counted(jumps, 'place')}: a new recording begins there")
    names = [sheet.shown(n) for n in (*inputs, *targets)]
    return Recordings(
        found, tuple(names[: len(inputs)]), tuple(names[len(inputs) :]), sheet.sha256, (sheet.sha256,),
        float(np.median(steps)) if steps else None, tuple(dict.fromkeys(notes)), tuple(sheet.repeated),
    )  # fmt: skip


def _times(
    words: Sequence[Any], form: TableFormat, sheet: Sheet, rows: NDArray[np.int64], label: str
) -> NDArray[np.float64]:
    """Return the times of the rows of a recording."""
    place, labelled = str(sheet.path), form.recording is not None
    if labelled:
        place = f"recording {one_line(label[:40])} (column {form.recording}) of {place}"
    return growing_times(
        [words[row] for row in rows], f"{form.time} in {place}", lambda n: sheet.line(int(rows[n])), labelled
    )


def _states(
    given: NDArray[np.float64], sheet: Sheet, rows: NDArray[Any], columns: Sequence[int]
) -> NDArray[np.float64] | None:
    """Return the states before the rows of a recording; the first must be known, and others are NaN if a part is."""
    if not columns:
        return None
    unknown = np.asarray(np.isnan(given).any(axis=1))
    if unknown[0]:
        column = columns[int(np.isnan(given[0]).argmax())]
        raise InputError(Message(
            "column {0} of {1} has no value in line {2}, the first one of a recording: give the state before it there, "
            "as {initial_state} says", sheet.short(column), sheet.path, sheet.line(int(rows[0])),
        ))  # fmt: skip
    return np.where(unknown[:, None], np.nan, given)


def _without_gaps(
    x: NDArray[np.float64], fill: str | None, sheet: Sheet, rows: NDArray[Any], inputs: Sequence[int]
) -> NDArray[np.float64]:
    """Return inputs without gaps; raise InputError unless `fill` says what to do."""
    if not np.isnan(x).any():
        return x
    row, column = (int(each) for each in np.argwhere(np.isnan(x))[0])
    if fill is None:
        raise sheet.gap(int(rows[row]), inputs[column])
    found = filled(x, fill)
    if found is None:
        raise InputError(Message(
            "column {0} of {1} begins with a gap, which {fill:previous} cannot fill: use {fill:linear}, or leave these "
            "rows out", sheet.short(inputs[column]), sheet.path,
        ))  # fmt: skip
    return found
