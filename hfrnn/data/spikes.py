"""Count the spikes of units, or other events, in bins of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_files import check_size
from hfrnn.errors import InputError, Message

_ROUNDING = 1e-9  # bins; a time that is a multiple of the bin belongs to the bin that begins there


def binned(
    times: NDArray[np.float64], units: Sequence[Any], names: Sequence[str], width: float, begin: float, end: float,
    source: str,
) -> NDArray[np.float64]:  # fmt: skip
    """Return how many events each unit has in each bin, (bins, units).

    Parameters
    ----------
    times : (events,) array
        In seconds.
    units : sequence
        The unit of each event.
    names : sequence of str
        The units that are counted, in the order of the columns.
    width : float
        Seconds of a bin.
    begin, end : float
        Where the first bin begins, and a time that the last bin contains.
    source : str
        The recording, for messages.
    """
    bins = int(_place(np.array([end]), begin, width)[0]) + 1
    check_size((bins, len(names)), 8, f"the bins of {source}")
    columns = {name: n for n, name in enumerate(names)}
    counted = np.array([str(unit) in columns for unit in units], dtype=bool)
    chosen = np.array([columns[str(unit)] for unit, known in zip(units, counted, strict=True) if known], dtype=np.int64)
    found = np.zeros((bins, len(names)))
    np.add.at(found, (_place(times[counted], begin, width), chosen), 1.0)
    return found


def _place(times: NDArray[np.float64], begin: float, width: float) -> NDArray[np.int64]:
    return np.floor((times - begin) / width + _ROUNDING).astype(np.int64)


def event_times(words: Sequence[Any], name: str) -> NDArray[np.float64]:
    """Return the times of events; raise InputError if one is no number."""
    try:
        found = np.array([float(str(each)) for each in words])
    except ValueError:
        found = np.array([np.nan])
    if not np.isfinite(found).all():
        raise InputError(
            Message("column {0} does not hold the time of an event in each row: give numbers, in seconds", name)
        )
    return found


def first_bin(times: NDArray[np.float64], width: float) -> float:
    """Return where the first bin begins: at 0, or at a multiple of the bin before the first negative time."""
    return min(float(np.floor(times.min() / width + _ROUNDING)) * width, 0.0)
