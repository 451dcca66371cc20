"""Read a table (.csv, .tsv): one recording, with a row for each step and a column for each quantity."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_data import ArrayData, assembled
from hfrnn.data.array_files import file_content
from hfrnn.data.array_shapes import LARGEST
from hfrnn.data.windows import Windows, recording_parts
from hfrnn.errors import InputError, Message
from hfrnn.option import argument, near_hint
from hfrnn.wording import counted, one_line

DELIMITERS = (",", ";", "\t")
GAPS = ("", "nan", "na")
"""What the cell of a target that is not known may hold, in letters of any case."""
_SHOWN = 12  # most names of columns in a message


class NoColumnError(InputError):
    """A table lacks a column."""


class TableColumns(NamedTuple):
    """Columns of a table; numbers are 0 where a target is missing, that is, its cell is empty."""

    inputs: NDArray[np.float64]  # (rows, n_in)
    targets: NDArray[np.float64]  # (rows, n_out)
    missing: NDArray[np.bool_]  # (rows, n_out)
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    sha256: str


def load_table(
    path: str | os.PathLike[str], inputs: Sequence[str] | None, targets: Sequence[str] | None,
    windows: Windows | None = None, ahead: int | None = None, *, fractions: Sequence[float] | None = None,
    loss: str = "auto",
) -> ArrayData:  # fmt: skip
    """Load one recording from a table, in parts that are cut by time into windows.

    The table is a text in UTF-8 with a row for each step. Columns are separated by commas, semicolons or tabs: by what
    the first line has most of. The first line may name them. `inputs` and `targets` are names of columns, or numbers
    from 1. `ahead` is as in `rows_ahead`; `fractions` are the shares of the rows for training, validation and test.
    """
    columns = read_columns(path, inputs, targets)
    if not columns.target_names:
        raise InputError(Message("{0} is a table without {targets}: name the columns to predict", path))
    if loss == "softmax":
        raise InputError(
            Message("{loss} is softmax, and the targets of {0} are real columns: use squared or logistic", path)
        )
    shared = [name for name in columns.target_names if name in columns.input_names]
    ahead = rows_ahead(columns.input_names, columns.target_names, ahead)
    if ahead >= len(columns.inputs):
        held = counted(len(columns.inputs), "row")
        raise InputError(Message("{ahead} is {0}, and {1} has {2}: give a smaller number", ahead, path, held))
    if shared and ahead == 0:
        raise InputError(Message(
            "column {0} is an input and a target of the same step with {ahead:0}: give {ahead:1} or more", shared[0]
        ))  # fmt: skip
    windows = (windows or Windows())._replace(ahead=ahead)
    parts, notes = recording_parts(columns.inputs, columns.targets, columns.missing, windows, fractions, str(path))
    if ahead:
        notes = (f"inputs predict the targets {counted(ahead, 'row')} later", *notes)
    return assembled(
        parts, loss, Path(path).name, str(path), columns.sha256, notes=notes, input_names=columns.input_names,
        target_names=columns.target_names,
    )  # fmt: skip


def rows_ahead(input_names: Sequence[str], target_names: Sequence[str], ahead: int | None) -> int:
    """Return the rows from an input to its target: by default 1 if a column is an input and a target, else 0."""
    return int(any(name in input_names for name in target_names)) if ahead is None else ahead


def read_columns(
    path: str | os.PathLike[str], inputs: Sequence[str] | None, targets: Sequence[str] | None
) -> TableColumns:
    """Read some columns of a table as `load_table` does; without `targets`, the array of targets has no columns."""
    content = file_content(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: byte 0x{content[error.start]:02x} at offset {error.start} cannot be decoded; "
            "convert the file"
        ) from error
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        first = next((row for row in rows if row), None)
        if first is None:
            raise InputError(f"{path} has no rows: give a table of numbers")
        names = [cell.strip().removeprefix("#").strip() for cell in first]
        filled = [cell for cell in names if cell.lower() not in GAPS]
        plain = bool(filled) and all(_number(cell) is not None for cell in filled)
        note = _note(first, plain)
        chosen = {role: _numbers_of(given, names, plain, role, path, note) for role, given in
                  (("inputs", inputs), ("targets", targets))}  # fmt: skip
        wanted = [*chosen["inputs"], *chosen["targets"]]
        values, missing = array("d"), array("b")
        body = _Body(path, names, plain, wanted, len(chosen["inputs"]))
        if plain:
            body.add(first, rows.line_num, values, missing)
        empty = 0  # number of the last empty line
        for row in rows:
            if not row:
                empty = rows.line_num
            elif empty:
                raise InputError(
                    f"line {empty} of {path} is empty, and a row follows it: delete the line, or write its numbers"
                )
            else:
                body.add(row, rows.line_num, values, missing)
    except csv.Error as error:
        why = one_line(str(error))
        raise InputError(f"line {rows.line_num} of {path} is no row of a table ({why}): correct it") from error
    if not values:
        raise InputError(f"{path} has names of columns and no rows: give a table of numbers")
    found = np.frombuffer(values, dtype=np.float64).reshape(-1, len(wanted))
    gaps = np.frombuffer(missing, dtype=np.int8).astype(bool).reshape(-1, len(wanted))
    n_in = len(chosen["inputs"])
    shown = [str(n + 1) if plain else names[n] for n in wanted]
    return TableColumns(
        found[:, :n_in], found[:, n_in:], gaps[:, n_in:], tuple(shown[:n_in]), tuple(shown[n_in:]),
        hashlib.sha256(content).hexdigest(),
    )  # fmt: skip


class _Body:
    """The rows of a table below the names of its columns: adds their numbers to arrays."""

    def __init__(self, path: Any, names: list[str], plain: bool, wanted: list[int], n_in: int) -> None:
        self.path, self.names, self.plain, self.wanted, self.n_in = path, names, plain, wanted, n_in

    def add(self, row: list[str], line: int, values: array[float], missing: array[int]) -> None:
        """Add the numbers of a row."""
        if len(row) != len(self.names):
            raise InputError(
                f"line {line} of {self.path} has {counted(len(row), 'cell')}, and the first line has "
                f"{len(self.names)}: give each row as many"
            )
        for place, n in enumerate(self.wanted):
            cell = row[n].strip()
            is_gap = cell.lower() in GAPS and place >= self.n_in
            value = 0.0 if is_gap else _number(cell)
            if value is None or not abs(value) <= LARGEST:
                raise self._wrong(cell, line, n, value, is_target=place >= self.n_in)
            values.append(value)
            missing.append(is_gap)

    def _wrong(self, cell: str, line: int, n: int, value: float | None, *, is_target: bool) -> InputError:
        column = f"column {n + 1}" + ("" if self.plain else f" ({self.names[n]})")
        shown = one_line(cell[:40])
        if not cell:
            held, advice = "an empty cell", "give a number in every row of an input"
        elif value is None:
            held, advice = f"{shown!r}", "give numbers with a decimal point"
            advice += "; a target that is not known is an empty cell, nan or NA" if is_target else ""
        elif math.isfinite(value):
            held, advice = shown, f"give numbers of at most {LARGEST:g} in size"
        else:
            held, advice = shown, "give finite numbers; a target that is not known may be an empty cell, nan or NA"
        return InputError(f"line {line} of {self.path} holds {held} in {column}: {advice}")


def _number(cell: str) -> float | None:
    """Return the number in a cell; None if it holds something else. Infinities and NaN are numbers here."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _delimiter(text: str) -> str:
    """Return the separator that the first line with text has most of."""
    line = next((each for each in io.StringIO(text[: 2**20]) if each.strip()), "")
    return max(DELIMITERS, key=line.count)


def _note(first: list[str], plain: bool) -> str:
    """Return what a message about the columns of a table says of its first line; "" if there is nothing to say."""
    if plain:
        return " (its first line holds numbers only, so it is data)"
    if first[0].lstrip().startswith("#"):
        return " (its first line is read as the names of the columns; comment lines are not read, so delete them)"
    return " (columns are separated by commas, semicolons or tabs)" if len(first) == 1 else ""


def _numbers_of(
    given: Sequence[str] | None, names: list[str], plain: bool, role: str, path: Any, note: str
) -> list[int]:
    """Return the numbers of columns, counted from 0, that were given by name or by number."""
    listed = [f"{n}" if plain else names[n - 1] or f"{n}" for n in range(1, len(names) + 1)]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    shown = ", ".join(one_line(each[:40]) for each in listed[:_SHOWN])
    has = f"{path} has {counted(len(names), 'column')}: {shown}{more}{note}"
    if given is None:
        if role == "targets":
            return []
        raise InputError(Message("{0}; name those to read with {inputs}, and those to predict with {targets}", has))
    found = []
    for name in map(str.strip, given):
        if not plain and names.count(name) > 1:
            raise InputError(Message(
                f"{{0}} has {{1}} columns named {{2!r}}: give {argument(role)} by number", path, names.count(name), name
            ))  # fmt: skip
        is_number = name.isascii() and name.isdecimal() and len(name) < 9 and 1 <= int(name) <= len(names)
        if not plain and name in names:
            n = names.index(name)
            if is_number and n != int(name) - 1:
                raise InputError(Message(
                    f"{argument(role)} has {{0!r}}, the number of a column of {{1}}, and the name of another one in "
                    "the first line, {2}: give the file a first line with other names", name, path, shown,
                ))  # fmt: skip
            found.append(n)
        elif is_number:
            found.append(int(name) - 1)
        else:
            hint = "" if plain else _comma_hint(name, names) or near_hint(name, names)
            raise NoColumnError(Message(
                f"{argument(role)} has {{0!r}}, which is no column{{1}}: {{2}}", one_line(name[:80]), hint, has
            ))  # fmt: skip
    if len(set(found)) < len(found):
        twice = next(n for n in found if found.count(n) > 1)
        raise InputError(Message(f"{argument(role)} has column {{0}} twice: give each column once", listed[twice]))
    return found


def _comma_hint(piece: str, names: list[str]) -> str:
    """Return the hint that a column has a comma in its name, if the piece of a name is a part of one; else nothing."""
    for n, name in enumerate(names, 1):
        if "," in name and piece in map(str.strip, name.split(",")):
            return f" (column {n} is {one_line(name[:40])!r}: give a column with a comma in its name by number)"
    return ""
