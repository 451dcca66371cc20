"""Read tables with a row for each spike of a unit, or another event: the events are counted in bins."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.checks import first_twice
from hfrnn.data.recordings import Recording, Recordings, by_label
from hfrnn.data.sheets import NoColumnError, Sheet, TableFormat, sheet_of
from hfrnn.data.spikes import binned, event_times, first_bin
from hfrnn.errors import InputError, Message
from hfrnn.option import argument
from hfrnn.wording import counted, one_line, some_of

_SHOWN = 12  # most names of units in a message

Events = tuple[NDArray[np.float64], list[str]]
"""Times in seconds, and the unit of each event."""


def read_events(sheet: Sheet, form: TableFormat, width: float) -> Recordings:
    """Read the recordings of a table of events, counted in bins of `width` seconds.

    All recordings begin with the same bin, and each ends with its last event. Without `inputs` or `targets`, these are
    all units: those of `form.units`, or else of the table.
    """
    _check_columns(sheet, form)
    words = sheet.named_words({"time": form.time, "unit": form.unit, "recording": form.recording})
    times, units = event_times(words["time"] or [], str(form.time)), [*map(str, words["unit"] or [])]
    own = units_of(units)
    known = own if form.units is None else tuple(form.units)
    inputs, targets = _columns(sheet, form, own, known)
    chosen = dict.fromkeys((*inputs, *targets))
    rows = np.arange(len(times))[slice(*form.rows)]
    if not len(rows):
        raise InputError(f"{sheet.path} has {counted(len(times), 'event')}, and none of them was asked for")
    read = units_of([units[row] for row in rows])
    if not chosen.keys() & set(read):
        raise InputError(
            f"{sheet.path} has no event of the units {_some_units([*chosen])} that are counted (it has "
            f"{_some_units(read)}): give a table with events of these units"
        )
    labels, begin = words["recording"], first_bin(times[rows], width)
    found, spans = list[Recording](), list[tuple[float, float]]()
    for label, of_label in [(str(sheet.path), rows)] if labels is None else by_label(labels, rows):
        events: Events = times[of_label], [units[row] for row in of_label]
        spans.append((float(events[0].min()), float(events[0].max())))
        x, y = (binned(*events, each, width, begin, spans[-1][1], label) for each in (inputs, targets))
        bins = np.asarray(begin + width * np.arange(len(x)))
        found.append(Recording(label, x, y, np.zeros(y.shape, dtype=bool), bins))
    kept = sum(units[row] in chosen for row in rows)
    notes = [f"{counted(kept, 'event')} of {counted(len(chosen.keys() & set(read)), 'unit')} in bins of {width:g} s"]
    if _one_after_another(spans):
        notes.append(
            f"the times of {sheet.path} go on from recording to recording, so each begins with empty bins until its "
            "first event: give times from the beginning of each recording"
        )
    if silent := [each for each in chosen if each not in read]:
        notes.append(f"{sheet.path} has no event of {_some_units(silent)}: zeros in each bin")
    if foreign := [each for each in read if each not in {*known, *chosen}]:
        notes.append(
            f"units that the network neither reads nor predicts are left out of {sheet.path}: {_some_units(foreign)}"
        )
    return Recordings(
        found, inputs, targets, sheet.sha256, (sheet.sha256,), width, tuple(notes), tuple(sheet.repeated), known
    )


def units_of(units: Collection[str]) -> tuple[str, ...]:
    """Return the different units of events in the order of the columns: numbers first, by size."""
    return tuple(
        sorted(set(units), key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
    )


def unit_words(table: Any, form: TableFormat) -> list[str]:
    """Return the unit of each event of a table."""
    return [*map(str, sheet_of(table, form).named_words({"unit": form.unit})["unit"] or [])]


def _check_columns(sheet: Sheet, form: TableFormat) -> None:
    """Raise InputError unless the columns of events are named, and no others."""
    of_rows = {"initial_state": form.states, "by": form.by, "fill": form.fill}
    if useless := next((name for name, value in of_rows.items() if value is not None), None):
        raise InputError(Message(
            f"{{bin}} counts the events of {{0}}, and {argument(useless)} is for the steps of a table: leave it out",
            sheet.path,
        ))  # fmt: skip
    if form.time is None or form.unit is None:
        missing = Message("{time}" if form.time is None else "{unit}")
        raise InputError(Message("{bin} counts events, and {0} was not given: name the column", missing))


def _columns(sheet: Sheet, form: TableFormat, own: Sequence[str], known: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the units that are inputs, and those that are targets. `own` are in the table, `known` in the run."""
    found = []
    for role, given in (("inputs", form.inputs), ("targets", form.targets)):
        asked = argument(form.asked.get(role, role))
        if unknown := next((each for each in given or () if each not in {*own, *known}), None):
            raise NoColumnError(Message(
                f"{asked} has {{0!r}}, which is no unit of {{1}}: it has {{2}}", unknown, sheet.path, _some_units(own)
            ))  # fmt: skip
        if (twice := first_twice(given or ())) is not None:
            raise InputError(Message(f"{asked} has unit {{0}} twice: give each unit once", one_line(twice[:40])))
        found.append(tuple(given or known))
    if any("" in names for names in found):  # no run can store it as the name of a column
        raise InputError(Message(
            "column {0} of {1} is empty in the row of an event: give each event a unit, or name the units to read with "
            "{inputs} and {targets}", form.unit, sheet.path,
        ))  # fmt: skip
    return found


def _one_after_another(spans: Sequence[tuple[float, float]]) -> bool:
    """Return whether there are several recordings, and each begins after the one before it has ended."""
    return len(spans) > 1 and all(later[0] > one[1] for one, later in itertools.pairwise(sorted(spans)))


def _some_units(units: Sequence[str]) -> str:
    """Return units for a message, the first ones if there are many."""
    return some_of([one_line(each[:40]) for each in units], _SHOWN)
