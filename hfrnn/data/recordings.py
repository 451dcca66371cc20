"""Split the rows of a table into recordings, by name and by time, and fill their gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.errors import InputError, Message

_JUMP = 1.5  # steps from one row to the next that begin a new recording


class Recording(NamedTuple):
    """One recording; numbers are 0 where a target is missing."""

    name: str
    inputs: NDArray[np.float64]  # (rows, n_in)
    targets: NDArray[np.float64]  # (rows, n_out)
    missing: NDArray[np.bool_]  # (rows, n_out)
    times: NDArray[np.float64] | None = None  # (rows,); for dates in seconds after the first one
    conditions: list[str] | None = None  # of the rows; None if no column names them
    states: NDArray[np.float64] | None = None  # (rows, n), before each row, NaN where unknown; None if not named


class Recordings(NamedTuple):
    """The recordings of a table or of several ones; numbers are 0 where a target is missing."""

    found: list[Recording]
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    sha256: str
    files: tuple[str, ...] = ()  # the hash of each table
    step: float | None = None  # between two rows, in seconds for dates; None without a column of times
    notes: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()  # notes about names of columns that stand twice
    units: tuple[str, ...] | None = None  # the known units of events, in their order; None without events


def by_label(labels: Sequence[Any], rows: NDArray[np.int64]) -> list[tuple[str, NDArray[np.int64]]]:
    """Return the rows of each recording, in the order in which their names appear."""
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(str(labels[row]), []).append(int(row))
    return [(name, np.array(each)) for name, each in found.items()]


def growing_times(
    words: Sequence[Any], name: str, line: Callable[[int], int], labelled: bool = False
) -> NDArray[np.float64]:
    """Return the times of a recording; dates become seconds after the first one.

    Parameters
    ----------
    words : sequence
        Numbers, dates, or texts of them.
    name : str
        The column and where it is, for messages.
    line : callable
        Returns the line of a row by its number, counted from 0, for messages.
    labelled : bool
        Whether a column names the recording; else its rows may be those of several ones.

    Raises
    ------
    InputError
        The times are neither numbers nor dates, or do not grow.
    """
    times = _numbers(words)
    if times is None:
        times = _dates(words, name)
    steps = np.diff(times)
    if len(steps) and (steps < 0).all():
        raise InputError(
            f"the times of {name} fall from row to row: turn the table round, so that the oldest row is first"
        )
    if not (steps > 0).all():
        n = int(np.argmin(steps > 0))
        advice = "sort the rows, and leave out repeated ones"
        if steps[n] < 0 and not labelled:
            advice = f"if the table holds several recordings, name their column with {{recording}}, else {advice}"
        raise InputError(Message(
            f"the time of {{0}} does not grow from line {{1}} to {{2}} ({{3}}, then {{4}}): {advice}", name, line(n),
            line(n + 1), words[n], words[n + 1],
        ))  # fmt: skip
    return times


def _numbers(words: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return times that are numbers; None if one is none."""
    try:
        found = np.array([float(str(each).replace(",", ".")) for each in words])
    except ValueError:
        return None
    return found if np.isfinite(found).all() else None


def _dates(words: Sequence[Any], name: str) -> NDArray[np.float64]:
    """Return dates in seconds; raise InputError if they are none, or may be read in two ways."""
    import warnings

    import pandas

    found: list[NDArray[np.float64]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in ({"format": "ISO8601"}, {"dayfirst": False}, {"dayfirst": True}):
            try:
                dates = pandas.to_datetime(pandas.Series(list(words)), utc=True, **form)
            except (ValueError, TypeError, OverflowError):
                continue
            if not dates.isna().any():
                since = (dates - dates.iloc[0]).dt.total_seconds().to_numpy(dtype=np.float64)
                if "format" in form:
                    return np.asarray(since, dtype=np.float64)
                found.append(since)
    growing = [each for each in found if (np.diff(each) > 0).all()] or found[:1]
    if not growing:
        raise InputError(
            f"the column {name} holds {words[0]!r}, which is neither a number nor a date: name another column"
        )
    if any(not np.array_equal(each, growing[0]) for each in growing[1:]):
        raise InputError(
            f"the dates of {name}, such as {words[0]}, may begin with the day or with the month: write "
            "them as 2024-12-31"
        )
    return np.asarray(growing[0], dtype=np.float64)


def between_jumps(times: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """Return the rows at which a new recording begins, because the time jumps before them, and the usual step."""
    steps = np.diff(times)
    if not len(steps):
        return np.zeros(0, dtype=np.int64), 0.0
    usual = float(np.median(steps))
    return np.flatnonzero(steps > _JUMP * usual) + 1, usual


def filled(values: NDArray[np.float64], how: str) -> NDArray[np.float64] | None:
    """Return columns whose gaps (NaN) hold the previous value, or values on a line between their neighbours.

    None if a column has no value before a gap for "previous", or none at all.
    """
    found, rows = values.copy(), np.arange(len(values))
    for column in found.T:
        known = ~np.isnan(column)
        if not known.any() or (how == "previous" and not known[0]):
            return None
        if how == "linear":
            column[:] = np.interp(rows, rows[known], column[known])
        else:
            column[:] = column[np.maximum.accumulate(np.where(known, rows, 0))]
    return found
