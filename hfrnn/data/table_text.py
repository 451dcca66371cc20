"""How a table is written as a text: its separator, its decimal mark, the names of its columns, a line of units."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from hfrnn.errors import InputError, Message
from hfrnn.wording import counted, one_line

SEPARATORS = ("\t", ";", "|", ",")
"""What may stand between two cells, the first one that the lines have; a comma may also be a decimal mark."""
BLANK = " "
"""The separator of columns that are separated by any number of blanks."""
_HEAD = 200  # lines that show how a table is written
_MOST_HEAD = 2**20  # characters of them
_NUMBER = re.compile(r"[-+]?(\d[\d.,]*|[.,]\d+)([eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+")
_WHOLE = re.compile(r"[-+]?\d+")


class Written(NamedTuple):
    """How a table is written."""

    separator: str
    decimal: str  # the decimal mark
    thousands: str  # what separates thousands; "" if nothing does
    names: tuple[str, ...]  # of the columns; empty if the first line holds numbers
    columns: int
    begin: int  # lines before the first row: those that are skipped, that of the names, and that of the units
    notes: tuple[str, ...]


def decoded(content: bytes, path: object) -> tuple[str, tuple[str, ...]]:
    """Return the text of a table, and notes: UTF-8, UTF-16 with a byte order mark, else Windows' code page 1252."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return content.decode("utf-16"), ()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path} begins like UTF-16, but cannot be decoded ({error.reason}): convert it"
            ) from error
    if b"\0" in content[:_HEAD]:
        raise InputError(f"{path} holds binary data: give a table as a text, with a row on each line")
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), ("its text is not UTF-8 and was read as Windows-1252",)


def how_written(text: str, path: object, decimal: str | None = None, skip: int = 0) -> Written:
    """Find out how a table is written.

    Parameters
    ----------
    text : str
    path : object
        The file, for messages.
    decimal : {",", "."}, optional
        The decimal mark; found in the text by default. The other character then separates thousands.
    skip : int
        Lines at the beginning that are not read.

    Raises
    ------
    InputError
        The table has no rows, or may be read in two ways.
    """
    lines = _head(text, skip)
    if not lines:
        raise InputError(f"{path} has no rows: give a table of numbers")
    separator = _separator(lines, decimal)
    rows = list(cells(lines, separator))
    first = [column_name(cell) for cell in rows[0]]
    named, has_units = head_rows(rows)
    names = tuple(first) if named else ()
    body = rows[1:] if named else rows
    begin = skip + _line_of(text, skip, 1 if named else 0)
    notes = []
    if has_units:
        notes.append(units_note(begin + 1, body[0]))
        begin, body = begin + 1, body[1:]
    columns = len(first)
    if body and all(len(row) == columns + 1 and not row[-1].strip() for row in body):
        columns += 1  # each row ends in a separator, and the line of names does not
    if decimal is None:
        _refuse_pairs(rows, not named, separator, path)
    mark, thousands = _decimal(body, path) if decimal is None else (decimal, ".,".replace(decimal, ""))
    return Written(separator, mark, thousands, names, columns, begin, tuple(notes))


def head_rows(rows: Sequence[Sequence[str]]) -> tuple[bool, bool]:
    """Return whether the first row holds the names of columns, and whether the next one holds their units."""
    first = [column_name(cell) for cell in rows[0]]
    if any(map(is_number, first)) and all(is_number(cell) or _is_gap(cell) for cell in first):
        return False, False
    return True, len(rows) > 2 and _are_units(rows[1]) and not _are_units(rows[2])


def units_note(line: int, units: Sequence[str]) -> str:
    """Return the note about a line of units."""
    found = ", ".join(one_line(cell.strip()[:20]) for cell in units if cell.strip())
    return f"line {line} of the table holds units ({found})"


def cells(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    """Return the cells of each line; raise csv.Error if a line is no row of a table."""
    if separator == BLANK:
        return (line.split() for line in lines)
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number, with any decimal mark."""
    return _NUMBER.fullmatch(cell.strip()) is not None or _is_infinite(cell)


def _is_infinite(cell: str) -> bool:
    return cell.strip().lower().lstrip("+-") in ("inf", "infinity")


def _is_gap(cell: str) -> bool:
    return cell.strip().lower() in ("", "nan", "na")


def column_name(cell: str) -> str:
    """Return the name of a column without blanks around it and the mark of a comment."""
    return cell.strip().removeprefix("#").strip()


def _head(text: str, skip: int) -> list[str]:
    """Return the first lines with text, after those that are skipped."""
    stream = io.StringIO(text[:_MOST_HEAD], newline="")
    lines = [line for line in islice(stream, skip, skip + 2 * _HEAD) if line.strip()]
    whole = len(text) <= _MOST_HEAD or len(lines) <= 1
    return (lines if whole else lines[:-1])[:_HEAD]


def _line_of(text: str, skip: int, number: int) -> int:
    """Return how many lines, after those that are skipped, stand before the line of text with a number, from 0."""
    found = (n for n, line in enumerate(islice(io.StringIO(text, newline=""), skip, None)) if line.strip())
    before = next(islice(found, max(number - 1, 0), None), 0)
    return before + 1 if number else before


def _separator(lines: Sequence[str], decimal: str | None) -> str:
    """Return what separates cells: what the lines have, a comma last, because it may be a decimal mark."""
    for each in SEPARATORS[:-1]:
        if each in lines[0] and sum(each in line for line in lines) > len(lines) / 2:
            return each
    in_names = "," in lines[0]
    if in_names and not (decimal == "," and not any(map(str.isalpha, lines[0]))):
        return ","
    if not in_names and all(_NUMBER.fullmatch(line.strip()) for line in lines[1:]):
        return ";"  # one column, whose numbers may have decimal commas
    blank = [len(line.split()) for line in lines]
    if min(blank) > 1 and len(set(blank)) == 1:
        return BLANK
    return ";" if decimal == "," else ","


def _are_units(row: Sequence[str]) -> bool:
    """Return whether no cell of a row holds a number, and one holds something else."""
    return not any(map(is_number, row)) and not all(map(_is_gap, row))


def _decimal(rows: Sequence[Sequence[str]], path: object) -> tuple[str, str]:
    """Return the decimal mark and the mark of thousands of the cells that are numbers, where they show them."""
    found = [cell.strip() for row in rows for cell in row if "," in cell and _NUMBER.fullmatch(cell.strip())]
    both = next((cell for cell in found if "." in cell), None)
    if both is not None:
        return (",", ".") if both.rindex(",") > both.rindex(".") else (".", ",")
    if not found:
        return ".", ""
    points = any("." in cell for row in rows for cell in row if _NUMBER.fullmatch(cell.strip()))
    if all(_THOUSANDS.fullmatch(cell) for cell in found) and not any(
        cell.lstrip("+-").startswith("0") for cell in found
    ):
        if points or any(cell.count(",") > 1 for cell in found):
            return ".", ","
        raise InputError(Message(
            "{0} holds {1}, which may be {2} or {3}: say which with {decimal:,} or {decimal:.}", path, found[0],
            found[0].replace(",", "."), found[0].replace(",", ""),
        ))  # fmt: skip
    if points:
        telling = next((cell for cell in found if not _THOUSANDS.fullmatch(cell)), found[0])  # or one begins with 0
        raise InputError(Message(
            "{0} holds {1}, and other numbers with a point: say what the decimal mark is with {decimal:,} or "
            "{decimal:.}", path, telling,
        ))  # fmt: skip
    return ",", ""


def _refuse_pairs(rows: Sequence[Sequence[str]], plain: bool, separator: str, path: object) -> None:
    """Raise InputError if cells between commas may be the halves of numbers with decimal commas."""
    if separator != ",":
        return
    first, body = rows[0], rows[1:]
    if not plain and body and len(first) > 1 and all(len(row) == 2 * len(first) for row in body):
        raise InputError(Message(
            "{0} has {1} in its first line and {2} in the next: numbers with decimal commas need quotes, or another "
            "separator", path, counted(len(first), "cell"), len(body[0]),
        ))  # fmt: skip
    if not plain or len(first) % 2 or not all(_WHOLE.fullmatch(cell.strip()) for row in rows for cell in row):
        return
    pairs = [(one.strip(), other.strip()) for row in rows for one, other in zip(row[::2], row[1::2], strict=False)]
    signed = any(other[0] in "+-" for _, other in pairs)
    telling = any(one == "-0" or (len(other) > 1 and other[0] == "0") for one, other in pairs)
    if not signed and (len(first) == 2 or telling):
        one, other = pairs[0]
        raise InputError(Message(
            "each line of {0} may hold {1} or {2}, such as {3},{4}: say which with {decimal:,} or {decimal:.}, or give "
            "the columns names in the first line", path, _one_number(len(first) // 2),
            counted(len(first), "whole number"), one, other,
        ))  # fmt: skip


def _one_number(count: int) -> str:
    return f"{counted(count, 'number')} with a decimal comma"


def ragged(row: Sequence[Any], line: int, path: object, columns: int) -> InputError:
    """Return the error about a row with too many or too few cells."""
    return InputError(Message(
        "line {0} of {1} has {2}, and the first line has {3}: give each row as many, or leave out lines before the "
        "table with {skip_rows}", line, path, counted(len(row), "cell"), columns,
    ))  # fmt: skip
