"""The cells of one table: a text, a Parquet or Excel file, or a DataFrame.

pandas reads the numbers. Before that, every row of a text is checked for its number of cells: pandas fills short rows.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.checks import first_twice, near_hint
from hfrnn.data.array_files import check_size, file_content
from hfrnn.data.array_shapes import LARGEST
from hfrnn.data.table_text import (
    BLANK,
    Written,
    column_name,
    decoded,
    head_rows,
    how_written,
    is_number,
    ragged,
    units_note,
)
from hfrnn.errors import InputError, Message, MissingExtraError
from hfrnn.option import argument
from hfrnn.wording import counted, one_line, some_of

GAPS = ("", "nan", "na")
"""What the cell of a target that is not known may hold, in letters of any case."""
BINARY = (".parquet", ".xlsx")
"""Suffixes of tables that are no texts."""
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}([.,]\d{3})+")  # thousands in groups
_NO_NAMES = " (its first line holds numbers only, so it is data)"
_SHOWN = 12  # most names of columns in a message


class NoColumnError(InputError):
    """A table lacks a column."""


class TableFormat(NamedTuple):
    """Which columns of a table are read, by name or by number from 1, and how."""

    inputs: Sequence[str] | None
    targets: Sequence[str] | None = None
    recording: str | None = None  # the column that names the recording of a row
    time: str | None = None  # the column of times
    decimal: str | None = None  # the decimal mark; None to find it
    missing: Sequence[str] = ()  # further cells that mean a missing value
    skip_rows: int = 0  # lines of a text or an Excel file before the table
    fill: str | None = None  # what inputs with gaps become: "previous" or "linear"; None refuses them
    rows: tuple[int | None, int | None] = (None, None)  # the rows that are read, counted from 0
    bin: float | None = None  # seconds of a bin; the rows are then events, and `inputs` and `targets` name units
    unit: str | None = None  # the column that names the unit of an event
    units: Sequence[str] | None = None  # the units of the training part; None for that part, which has its own
    asked: Mapping[str, str] = {}  # the options that gave `inputs` and `targets`, if they are others
    by: str | None = None  # the column that names the condition of a row
    states: Sequence[str] | None = None  # the columns of the state before a row


class Sheet:
    """A table whose cells are not read yet."""

    path: Any
    names: tuple[str, ...]  # empty if the columns have none
    columns: int
    sha256: str
    notes: list[str]
    repeated: list[str]  # notes about names that stand twice
    hint: str = ""  # what messages about a column say of the first line

    def numbers(self, wanted: Sequence[int]) -> NDArray[np.float64]:
        """Return some columns, (rows, columns), with NaN where a value is missing."""
        raise NotImplementedError

    def words(self, columns: Sequence[int]) -> list[list[Any]]:
        """Return the cells of some columns."""
        raise NotImplementedError

    def named_words(self, names: Mapping[str, str | None]) -> dict[str, list[Any] | None]:
        """Return the cells of columns by the options that name them; None for an option that names none."""
        columns = {role: self.numbers_of([name], role)[0] for role, name in names.items() if name is not None}
        found = dict(zip(columns, self.words([*columns.values()]), strict=True)) if columns else {}
        return {role: found.get(role) for role in names}

    def line(self, row: int) -> int:
        """Return the line of a row, from 1."""
        raise NotImplementedError

    def gap(self, row: int, column: int) -> InputError:
        """Return the error about an input that is missing."""
        (cells,) = self.words([column])
        held = f"{one_line(cells[row][:40])!r}, a missing value," if cells[row] else "an empty cell"
        return InputError(Message(
            "line {0} of {1} holds {2} in column {3}: give a number in every row of an input, or train with {fill}, "
            "which fills gaps", self.line(row), self.path, held, self.described(column),
        ))  # fmt: skip

    def shown(self, column: int) -> str:
        """Return the name of a column; its number if it has none."""
        return self.names[column] if self.names and self.names[column] else str(column + 1)

    def short(self, column: int) -> str:
        """Return the beginning of the name of a column, for messages."""
        return one_line(self.shown(column)[:40])

    def described(self, column: int) -> str:
        """Return the number of a column, and its name."""
        return f"{column + 1}" + (f" ({self.short(column)})" if self.names else "")

    def named(self, names: Sequence[str], columns: int) -> tuple[str, ...]:
        """Return names of columns, all different: a repeated one gets a number, which a note says."""
        found: list[str] = []
        for name in [*names, *[""] * (columns - len(names))]:
            new, n = name, 0
            while new and new in found:
                n += 1
                new = f"{name}.{n}"
            if new != name:
                self.repeated.append(
                    f"two columns are named {one_line(name[:40])}: the later one is {one_line(new[:44])}"
                )
            found.append(new)
        return tuple(found)

    def numbers_of(self, given: Sequence[str] | None, role: str) -> list[int]:
        """Return the numbers of columns, counted from 0, that were given by name or by number."""
        names, plain = self.names, not self.names
        short = [self.short(n) for n in range(self.columns)]
        has = f"{self.path} has {counted(self.columns, 'column')}: {some_of(short, _SHOWN)}{self.hint}"
        if given is None:
            if role.endswith("targets"):
                return []
            raise InputError(Message("{0}; name those to read with {inputs}, and those to predict with {targets}", has))
        found = []
        for name in map(str.strip, map(str, given)):
            is_place = name.isascii() and name.isdecimal() and len(name) < 9 and 1 <= int(name) <= self.columns
            if not plain and name in names:
                n = names.index(name)
                if is_place and n != int(name) - 1:
                    raise InputError(Message(
                        f"{argument(role)} has {{0!r}}, the number of a column of {{1}}, and the name of another one "
                        "in the first line, {2}: give the file a first line with other names", name, self.path,
                        ", ".join(short[:_SHOWN]),
                    ))  # fmt: skip
                found.append(n)
            elif is_place:
                found.append(int(name) - 1)
            else:
                hint = "" if plain else _comma_hint(name, names) or near_hint(name, names)
                raise NoColumnError(Message(
                    f"{argument(role)} has {{0!r}}, which is no column{{1}}: {{2}}", one_line(name[:80]), hint, has
                ))  # fmt: skip
        if (twice := first_twice(found)) is not None:
            raise InputError(Message(f"{argument(role)} has column {{0}} twice: give each column once", short[twice]))
        return found


def _comma_hint(piece: str, names: Sequence[str]) -> str:
    """Return the hint that a column has a comma in its name, if the piece of a name is a part of one; else nothing."""
    for n, name in enumerate(names, 1):
        if "," in name and piece in map(str.strip, name.split(",")):
            return f" (column {n} is {one_line(name[:40])!r}: give a column with a comma in its name by number)"
    return ""


def sheet_of(table: Any, form: TableFormat) -> Sheet:
    """Return the cells of a path or a DataFrame."""
    if not isinstance(table, str | os.PathLike):
        return _Frame(table, "the DataFrame", form)
    content = file_content(table)
    if str(table).lower().endswith(BINARY):
        digest, excel = hashlib.sha256(content).hexdigest(), str(table).lower().endswith(".xlsx")
        return (_Excel if excel else _Frame)(_binary_frame(content, table, excel), table, form, digest)
    return _Text(content, table, form)


class _Text(Sheet):
    """A table that is a text."""

    def __init__(self, content: bytes, path: Any, form: TableFormat) -> None:
        self.path, self.sha256 = path, hashlib.sha256(content).hexdigest()
        self.text, notes = decoded(content, path)
        self.gaps = {*GAPS, *(each.strip().lower() for each in form.missing)}
        self.values_missing = {float(each) for each in form.missing if _float(each) is not None}
        try:
            self.written: Written = how_written(self.text, path, form.decimal, form.skip_rows)
        except csv.Error as error:
            raise self._no_row(error, 1) from error
        self.notes, self.repeated, self.columns = [*notes, *self.written.notes], [], self.written.columns
        self.names = self.named(self.written.names, self.columns) if self.written.names else ()
        self.hint = self._hint()
        self.count = self._checked_rows()

    def _hint(self) -> str:
        if not self.names:
            return _NO_NAMES
        first = next((line for line in io.StringIO(self.text) if line.strip()), "")
        if first.lstrip().startswith("#"):
            return " (its first line is read as the names of the columns; comment lines are not read, so delete them)"
        return " (columns are separated by tabs, semicolons, bars, commas or blanks)" if self.columns == 1 else ""

    def _no_row(self, error: csv.Error, line: int) -> InputError:
        why = one_line(str(error))
        return InputError(f"line {line} of {self.path} is no row of a table ({why}): correct it")

    def _body(self) -> Iterator[str]:
        """Return the lines of the rows."""
        stream = io.StringIO(self.text, newline="")
        for _ in range(self.written.begin):
            next(stream)
        return stream

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Return the last line, from 1, and the cells of each row."""
        lines = self._body()
        if self.written.separator == BLANK:
            yield from ((n, line.split()) for n, line in enumerate(lines, self.written.begin + 1))
            return
        reader = csv.reader(lines, delimiter=self.written.separator, skipinitialspace=True, strict=True)
        try:
            for row in reader:
                yield self.written.begin + reader.line_num, row
        except csv.Error as error:
            raise self._no_row(error, self.written.begin + reader.line_num) from error

    def _checked_rows(self) -> int:
        """Return the number of rows; raise InputError for a row with too many or too few cells, or an empty line."""
        count = empty = 0
        for line, row in self.rows():
            if not row or (self.columns > 1 and row == [""]):
                empty = line
            elif empty:
                raise InputError(
                    f"line {empty} of {self.path} is empty, and a row follows it: delete the line, or write its numbers"
                )
            elif len(row) != self.columns:
                raise ragged(row, line, self.path, len(self.written.names) or self.columns)
            else:
                count += 1
        if not count:
            raise InputError(f"{self.path} has names of columns and no rows: give a table of numbers")
        return count

    def line(self, row: int) -> int:
        return next(line for n, (line, _) in enumerate(self.rows()) if n == row)

    def _read(self, columns: Sequence[int]) -> Any:
        """Return some columns of numbers as pandas reads them."""
        import pandas

        separator = r"\s+" if self.written.separator == BLANK else self.written.separator
        return pandas.read_csv(
            io.StringIO("".join(self._body())), sep=separator, header=None, names=list(range(self.columns)),
            usecols=list(dict.fromkeys(columns)), dtype=np.float64, index_col=False, nrows=self.count,
            keep_default_na=False, na_values=sorted(self._missing_words()), decimal=self.written.decimal,
            skipinitialspace=True, **_exact(pandas.__version__),
        )  # fmt: skip

    def _missing_words(self) -> set[str]:
        """Return every way to write a missing value that pandas is to know."""
        return {
            form for gap in self.gaps for form in (gap, gap.upper(), gap.capitalize(), "NaN" if gap == "nan" else gap)
        }

    def numbers(self, wanted: Sequence[int]) -> NDArray[np.float64]:
        check_size((self.count, len(wanted)), 8, f"the table {self.path}")
        if self.written.thousands and any(self.written.thousands in line for line in self._body()):
            return self._one_by_one(wanted)
        try:
            frame = self._read(wanted)
        except (ValueError, OverflowError):
            return self._one_by_one(wanted)  # says which cell it is
        found = frame[list(wanted)].to_numpy(dtype=np.float64)
        if self.values_missing:
            found = np.where(np.isin(found, sorted(self.values_missing)), np.nan, found)
        return found if bool((np.isnan(found) | (np.abs(found) <= LARGEST)).all()) else self._one_by_one(wanted)

    def _one_by_one(self, wanted: Sequence[int]) -> NDArray[np.float64]:
        """Read the cells one by one; raise InputError for the first one that is no number."""
        found = np.empty((self.count, len(wanted)))
        rows = (item for item in self.rows() if item[1] and (self.columns == 1 or item[1] != [""]))
        for n, (line, row) in enumerate(rows):
            for place, column in enumerate(wanted):
                found[n, place] = self._number(row[column].strip(), line, column)
        return found

    def _number(self, cell: str, line: int, column: int) -> float:
        """Return the number in a cell, NaN if it is missing."""
        if cell.lower() in self.gaps:
            return math.nan
        decimal, thousands = self.written.decimal, self.written.thousands
        value = _float(_plain(cell, decimal, thousands)) if is_number(cell) else None
        if value is None:
            held, advice = (
                repr(one_line(cell[:40])),
                f"give numbers with a decimal {'comma' if decimal == ',' else 'point'}",
            )
            advice += "; cells that mean a missing value can be named with {missing}"
        elif value in self.values_missing:
            return math.nan
        elif abs(value) <= LARGEST:
            return value
        elif math.isfinite(value):
            held, advice = cell[:40], f"give numbers of at most {LARGEST:g} in size"
        else:
            held, advice = cell[:40], "give finite numbers; a target that is not known may be an empty cell, nan or NA"
        raise InputError(Message(
            f"line {{0}} of {{1}} holds {{2}} in column {{3}}: {advice}", line, self.path, held, self.described(column)
        ))  # fmt: skip

    def words(self, columns: Sequence[int]) -> list[list[Any]]:
        found: list[list[Any]] = [[] for _ in columns]
        for _, row in self.rows():
            if len(row) == self.columns:
                for cells_of, column in zip(found, columns, strict=True):
                    cells_of.append(row[column].strip())
        return found


def _exact(version: str) -> dict[str, Any]:
    """Return what asks pandas for the nearest float64; it reads numbers so by itself from 3.1 on."""
    newer = tuple(map(int, version.split(".")[:2])) >= (3, 1)
    return {} if newer else {"float_precision": "round_trip"}


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _plain(cell: str, decimal: str, thousands: str) -> str:
    """Return a number as Python writes it; nothing if its other mark is not between groups of three digits."""
    whole, mark, rest = cell.partition(decimal)
    other = ".,".replace(decimal, "")
    if other in cell:
        if not thousands or other in rest or not _GROUPED.fullmatch(whole):
            return ""
        whole = whole.replace(other, "")
    return whole + ("." if mark else "") + rest


def frame_of(columns: Mapping[str, NDArray[Any]]) -> Any:
    """Return a DataFrame of columns by name, (rows,) each."""
    import pandas

    return pandas.DataFrame(dict(columns))


class _Frame(Sheet):
    """A DataFrame."""

    def __init__(self, frame: Any, path: Any, form: TableFormat, sha256: str = "") -> None:
        import pandas

        if not isinstance(frame, pandas.DataFrame):
            convert = getattr(frame, "to_dataframe", None)  # an xarray Dataset
            if convert is None:
                kind = type(frame).__name__
                raise InputError(f"the data hold a {kind}: give a path, a DataFrame or an xarray Dataset")
            frame = convert().reset_index()
        if not len(frame) or not len(frame.columns):
            raise InputError(f"{path} has no rows: give a table of numbers")
        self.frame, self.path, self.columns = frame, path, len(frame.columns)
        self.notes, self.repeated = [], []
        self.names = self.named([str(each).strip() for each in frame.columns], self.columns)
        self.gaps = {each.strip().lower() for each in form.missing}
        self.values_missing = sorted({float(each) for each in form.missing if _float(each) is not None})
        self.sha256 = sha256 or self._digest(pandas)

    def _digest(self, pandas: Any) -> str:
        frame = self.frame.reset_index(drop=True)
        try:
            rows = pandas.util.hash_pandas_object(frame).to_numpy()
        except TypeError:  # a cell cannot be hashed, such as a list: hash the texts of cells
            frame = frame.apply(lambda column: column.map(str) if column.dtype == object else column)
            rows = pandas.util.hash_pandas_object(frame).to_numpy()
        return hashlib.sha256(repr(self.names).encode() + rows.tobytes()).hexdigest()

    def line(self, row: int) -> int:
        return row + 1

    def gap(self, row: int, column: int) -> InputError:
        return InputError(Message(
            "row {0} (counted from 0) of {1} has no number in column {2}: give a number in every row of an input, or "
            "train with {fill}, which fills gaps", row, self.path, self.described(column),
        ))  # fmt: skip

    def numbers(self, wanted: Sequence[int]) -> NDArray[np.float64]:
        import pandas

        check_size((len(self.frame), len(wanted)), 8, f"the table {self.path}")
        found = np.empty((len(self.frame), len(wanted)))
        for place, column in enumerate(wanted):
            values = self.frame.iloc[:, column]
            if values.dtype.kind not in "fiub":
                cells = [np.nan if str(each).strip().lower() in self.gaps else each for each in values]
                given = pandas.Series(cells, dtype=object)  # dates as such: of their own type, pandas makes numbers
                values = pandas.to_numeric(given, errors="coerce")
                unread = values.isna().to_numpy() & ~given.isna().to_numpy()
                wrong = np.flatnonzero(unread | np.array([np.iscomplexobj(each) for each in cells]))
                if wrong.size:
                    held = repr(one_line(str(given.iloc[int(wrong[0])])[:40]))
                    raise InputError(
                        f"row {int(wrong[0])} (counted from 0) of {self.path} holds {held} in column "
                        f"{self.described(column)}: give numbers"
                    )
            found[:, place] = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if self.values_missing:
            found[np.isin(found, self.values_missing)] = np.nan
        large = np.argwhere(~(np.isnan(found) | (np.abs(found) <= LARGEST)))
        if large.size:
            row, place = (int(each) for each in large[0])
            raise InputError(
                f"row {row} (counted from 0) of {self.path} holds {found[row, place]:g} in column "
                f"{self.described(wanted[place])}: give finite numbers of at most {LARGEST:g} in size"
            )
        return found

    def words(self, columns: Sequence[int]) -> list[list[Any]]:
        found = [self.frame.iloc[:, column].astype(object) for column in columns]
        return [list(each.where(each.notna(), "")) for each in found]  # a missing cell is empty, as in a text


class _Excel(_Frame):
    """A sheet of an Excel file. What stands above its rows is found as in a text."""

    def __init__(self, cells: Any, path: Any, form: TableFormat, sha256: str) -> None:
        cells = cells.iloc[form.skip_rows :]
        filled = cells.notna().any(axis=1).to_numpy()
        if not filled.any():
            raise InputError(f"{path} has no rows: give a table of numbers")
        first = int(np.argmax(filled))
        top = [["" if cell != cell else cell for cell in row] for row in cells.iloc[first : first + 3].to_numpy()]
        # a date or a truth value is no name, so it counts as a number
        named, has_units = head_rows([[cell if isinstance(cell, str) else "0" for cell in row] for row in top])
        super().__init__(cells.iloc[first + named + has_units :].infer_objects(), path, form, sha256)
        self.names = self.named([column_name(str(cell)) for cell in top[0]], self.columns) if named else ()
        self.hint = "" if named else _NO_NAMES
        if has_units:
            self.notes.append(units_note(form.skip_rows + first + 2, [*map(str, top[1])]))


def _binary_frame(content: bytes, path: Any, excel: bool) -> Any:
    """Return the table of a Parquet file, or all cells of an Excel file."""
    import pandas

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stream = io.BytesIO(content)
            return pandas.read_excel(stream, header=None, dtype=object) if excel else pandas.read_parquet(stream)
    except ImportError as error:
        package = "openpyxl" if excel else "pyarrow"
        raise MissingExtraError(f"{path} needs the package {package}: pip install {package}") from error
    except Exception as error:  # damage can surface anywhere in these packages
        kind = "Excel" if excel else "Parquet"
        raise InputError(f"{path} cannot be read as {kind} ({type(error).__name__}): save it again") from error
