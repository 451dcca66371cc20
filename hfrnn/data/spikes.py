"""Count the spikes of units, or other events, in bins of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_files import check_size
from hfrnn.errors import InputError, Message
from hfrnn.wording import one_line

_MOST = 2.0**62  # bins; the size of more is no integer of the machine
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
    bins = int(min(np.floor((end - begin) / width + _ROUNDING), _MOST)) + 1
    check_size((bins, len(names)), 8, f"the bins of {one_line(source)}")
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
    return min(float(np.floor(float(times.min()) / width + _ROUNDING)) * width, 0.0)


# ---------------------------------------------------------------------- trials in memory


def binned_trials(given: Mapping[str, Any], width: float, source: str) -> dict[str, Any]:
    """Return arrays by name, with the events of each trial counted in bins.

    Parameters
    ----------
    given : mapping of str to object
        `x`, and perhaps `y`, hold a list for each trial, with an array of times for each unit, in seconds from the
        beginning of the trial. `valid_x` and so on are alike. If `y` has a target for each bin, the trial has as many
        bins; else all trials of a part end with its last event.
    width : float
        Seconds of a bin.
    source : str
        The data, for messages.

    Raises
    ------
    InputError
        `x` holds no times of events, a time is not finite, negative or after the last bin, or a trial has other units.
    """
    found = dict(given)
    for name in [each for each in given if isinstance(each, str) and each.rpartition("_")[2] == "x"]:
        other = f"{name[:-1]}y"
        events = {
            each: _trials(given[each], f"{each} of {source}") for each in (name, other) if _listed(given.get(each))
        }
        if name not in events:
            raise InputError(Message(
                "{bin} counts events, and {0} of {1} holds none: give a list for each trial, with an array of times "
                "for each unit", name, source,
            ))  # fmt: skip
        steps = _steps(None if other in events else given.get(other))
        if steps is None:
            last = max((t.max() for each in events.values() for trial in each for t in trial if t.size), default=0.0)
            steps = [int(_place(np.array([last]), 0.0, width)[0]) + 1] * len(events[name])
        for each, trials in events.items():
            if len(trials) != len(steps):
                raise InputError(
                    f"{each} of {source} holds {len(trials)} trials, and there are {len(steps)}: give as many"
                )
            found[each] = [_counts(trial, width, count, f"trial {n} (counted from 0) of {each} of {source}")
                           for n, (trial, count) in enumerate(zip(trials, steps, strict=True))]  # fmt: skip
    return found


def _listed(value: Any) -> bool:
    """Return whether a value is a list of lists: trials of units."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, list | tuple) for each in value)


def _trials(value: Sequence[Sequence[Any]], name: str) -> list[list[NDArray[np.float64]]]:
    """Return the times of each unit of each trial as arrays."""
    units = {len(trial) for trial in value}
    if len(units) > 1 or units == {0}:
        raise InputError(f"{name} holds trials of {min(units)} to {max(units)} units: give the times of the same units")
    found = []
    for n, trial in enumerate(value):
        try:
            times = [np.asarray(each, dtype=np.float64) for each in trial]
        except (TypeError, ValueError):
            times = [np.array([np.nan])]
        if any(each.ndim != 1 or not np.isfinite(each).all() or (each < 0).any() for each in times):
            raise InputError(
                f"trial {n} (counted from 0) of {name} holds other values than times: give an array of seconds, 0 or "
                "more, for each unit"
            )
        found.append(times)
    return found


def _steps(y: Any) -> list[int] | None:
    """Return how many steps the targets of each trial have; None if they have one target for each trial."""
    if isinstance(y, list | tuple) and y and all(getattr(each, "ndim", 0) > 0 for each in y):
        return [len(each) for each in y]
    whole = getattr(getattr(y, "dtype", None), "kind", "") in "iub"
    if getattr(y, "ndim", 0) == 3 or (getattr(y, "ndim", 0) == 2 and whole):
        return [y.shape[1]] * len(y)
    return None


def _counts(times: Sequence[NDArray[np.float64]], width: float, steps: int, name: str) -> NDArray[np.float64]:
    """Return the events of each unit in each bin of a trial, (steps, units)."""
    every = np.concatenate(times)
    if every.size and _place(np.array([every.max()]), 0.0, width)[0] >= steps:
        raise InputError(Message(
            "{0} has an event at {1:g} s, and its {2} bins end at {3:g} s: leave it out, or give more targets", name,
            every.max(), steps, steps * width,
        ))  # fmt: skip
    units = np.repeat(np.arange(len(times)), [each.size for each in times])
    return binned(every, units.tolist(), [str(n) for n in range(len(times))], width, 0.0, (steps - 0.5) * width, name)
