"""Tables: one or more recordings, with a row for each step."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.data.kinds.data_kind import Reading
from hfrnn.data.kinds.memory import TABLES, Frames
from hfrnn.data.kinds.number_sequences import (
    BIN,
    CLOSED_LOOP,
    CUT,
    DIVIDED,
    EACH_STATE,
    INITIAL_STATE,
    INPUTS,
    LOSS,
    OF_PARTS,
    OTHER_PARTS,
    RECORDINGS,
    ROWS,
    STANDARDIZE,
    TARGETS,
    TEST,
    VALID,
    NumberSequences,
    first_states,
    one_or_all,
    parts_of_their_own,
    reading_of,
    recording,
    slice_of,
    split_of,
    windows_of,
)
from hfrnn.errors import InputError, Message
from hfrnn.option import Need, Option, argument, listed

if TYPE_CHECKING:
    from hfrnn.data.recordings import Recordings
    from hfrnn.data.sheets import TableFormat

SUFFIXES = (".csv", ".tsv", ".dat", ".parquet", ".xlsx")
"""Suffixes of tables. A text file may be a table too, if it is given as `data`."""

AHEAD = Option(
    "ahead", int, None, "Rows from an input to the target that it predicts.", least=0, group="Data",
    otherwise="1 if a column is an input and a target, else 0",
)  # fmt: skip


def _no_bins(chosen: Any) -> Message | None:
    return None if chosen.bin else Message("{bin} was not: it is for events that {bin} counts")


READING = (
    Option(
        "recording", str, None, "Column of a table that names the recording of each row, by name or by number from 1.",
        digits=True, group="Data",
    ),
    Option(
        "time", str, None,
        "Column with the time of each row, numbers or dates. A new recording begins where it jumps by more than 1.5 "
        "steps.",
        digits=True, group="Data",
    ),
    Option(
        "decimal", str, None, "Decimal mark of a table.", choices=(",", "."), otherwise="found in the table",
        group="Data",
    ),
    Option(
        "missing", str, None, "What else means a missing value in a table, such as -200,?,NULL.", many=True,
        digits=True, group="Data", otherwise="empty cells, nan and NA",
    ),
    Option("skip_rows", int, 0, "Lines of a table before its columns, which are not read.", least=0, group="Data"),
    Option(
        "fill", str, None,
        "What a missing input of a table becomes: the previous value, or one on the line between its neighbours.",
        choices=("previous", "linear"), otherwise="missing inputs are refused", group="Data",
    ),
    BIN,
    Option(
        "unit", str, None, "Column that names the unit of each event.", digits=True, group="Data",
        needs=(Need("bin", unless=_no_bins),),
    ),
)  # fmt: skip


class Table(NumberSequences):
    """Tables with a row for each step, which are cut into windows."""

    about = "a table"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    reads = (*SUFFIXES, ".txt")
    options = (
        *DIVIDED, INPUTS, TARGETS, INITIAL_STATE, EACH_STATE, *CUT, AHEAD, LOSS, STANDARDIZE, *CLOSED_LOOP, VALID,
        TEST, *READING, ROWS, *OF_PARTS
    )  # fmt: skip
    needed = ("inputs", "targets")
    several = True
    names_columns = True
    standardizes = True
    always_cut = True
    defaults = RECORDINGS
    suits = "tables and other recordings"
    recordings: dict[str, Recordings]
    """The recordings of each part."""

    @classmethod
    def recognises(cls, data: str) -> bool:
        """Return whether a value is a table or a text file by its suffix, or a folder with tables."""
        if data.lower().endswith((*cls.suffixes, ".txt")):
            return True
        return os.path.isdir(data) and bool(_in_folder(data))

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        found = super().resolved({**options, "data": ""})
        return {**found, **{name: one_or_all(_paths(options[name], name)) for name in ("data", *OTHER_PARTS)}}

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        return [Path(path) for name in ("data", *OTHER_PARTS) for path in _paths(options[name], name)]

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Frames | None = None) -> Table:
        from hfrnn.data.tables import load_tables, rows_ahead

        parts = cls.tables(options, given)
        tables = [table for part, _ in parts.values() for table in part]
        if options["skip_rows"] and not any(map(_has_lines, tables)):
            raise InputError(Message(
                "{skip_rows} is {0}, and only texts and Excel files have lines before their columns: leave it out",
                options["skip_rows"],
            ))  # fmt: skip
        data, found = load_tables(
            parts, windows_of(options), options["ahead"], fractions=options["fractions"], loss=options["loss"],
            split=split_of(options),
        )  # fmt: skip
        table = cls(options, data)
        table.ahead = rows_ahead(data.input_names, data.target_names, options["ahead"])
        table.recordings = found
        return table

    def hints(self) -> list[str | Message]:
        repeated = [each for read in self.recordings.values() for each in read.repeated]
        return [*dict.fromkeys(repeated), *super().hints()]

    @property
    def chosen(self) -> dict[str, Any]:
        """How recordings are cut, and the units of events: they are the columns of every other file."""
        events = self.recordings["train"].units is not None
        names = {"inputs": self.input_names, "targets": self.output_names} if events else {}
        return {**super().chosen, **names}

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of the data and of each file, and the step of the times."""
        step = self.recordings["train"].step
        files = " ".join(each for read in self.recordings.values() for each in read.files)
        return {**super().checksums, "files_sha256": files, **({} if step is None else {"step": repr(step)})}

    @classmethod
    def tables(cls, options: Mapping[str, Any], given: Frames | None) -> dict[str, tuple[Sequence[Any], TableFormat]]:
        """Return the tables of each part, and how to read them."""
        paths = _paths(options["data"], "data")
        texts = [each for each in paths if each.lower().endswith(".txt")]
        if texts and options["inputs"] is None and options["bin"] is None:
            raise InputError(Message(
                "{data} is {0}: to train on its text leave out {data}; to read it as a table, name its columns with "
                "{inputs} and {targets}", texts[0],
            ))  # fmt: skip
        parts: dict[str, tuple[Sequence[Any], TableFormat]] = {"train": (paths, _format(options))}
        for part in parts_of_their_own(options):
            parts[part] = _paths(options[part], part) or paths, _format(options, part)
        return parts

    @classmethod
    def window_conditions(cls, options: Mapping[str, Any], part: str, by: str) -> Any:
        """Return the condition of each target in the windows of a part, from a column: (steps, windows) strings."""
        from hfrnn.data.tables import window_conditions

        parts = {name: (paths, form._replace(by=by)) for name, (paths, form) in cls.tables(options, None).items()}
        return window_conditions(
            parts, part, windows_of(options), options["ahead"], fractions=options["fractions"], loss=options["loss"],
            split=split_of(options),
        )  # fmt: skip

    @classmethod
    def read_file(cls, options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
        """Return the recordings of a table, which are not cut into windows."""
        from hfrnn.data.sheets import NoColumnError
        from hfrnn.data.tables import read_table, rows_ahead

        note: str | Message = ""
        form = _format(options)._replace(by=options.get("by"))
        if form.inputs is not None and form.targets is not None:
            form = form._replace(units=(*form.inputs, *form.targets))
        try:
            read = read_table(path, form)
        except NoColumnError as error:
            read, note = read_table(path, form._replace(targets=None)), Message("{0}", error)
        names = read.target_names or tuple(options["targets"] or ())
        ahead = rows_ahead(read.input_names, names, options["ahead"])
        burn_in = options["burn_in"] or 0
        more: dict[str, Any] = {
            "input_names": read.input_names, "output_names": names, "ahead": ahead, "note": note, "burn_in": burn_in,
            "step": read.step, "notes": () if read.units is None else read.notes,
        }  # fmt: skip
        found = [
            recording(each.inputs, None if note else each.targets, each.missing, ahead, burn_in) for each in read.found
        ]
        more["initial_state"] = first_states([each.states for each in read.found])
        if form.by is not None:
            more["conditions"] = _conditions([each.conditions or [] for each in read.found], ahead)
        return reading_of(Path(path).name, found, read.found[0].times, **more)


class TablesInMemory(Table):
    """DataFrames that a Python program has given to `hfrnn.train`."""

    about = "tables in memory"
    suffixes: ClassVar[tuple[str, ...]] = ()
    in_memory = True

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (TABLES,)

    @classmethod
    def recognises(cls, data: str) -> bool:
        return data == TABLES

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().resolved({**options, "data": None, "valid": None, "test": None}), "data": TABLES}

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        return []

    @classmethod
    def tables(cls, options: Mapping[str, Any], given: Frames | None) -> dict[str, tuple[Sequence[Any], TableFormat]]:
        if given is None:
            raise InputError(
                "the data of the run were tables in the memory of a Python program: use them there; to resume it, "
                "hfrnn.train(resume=..., data=...)"
            )
        named = {**options, "data": "data", "valid": None, "test": None}
        parts = {part: (given.data, form) for part, (_, form) in super().tables(named, None).items()}
        for part in OTHER_PARTS:
            if (tables := getattr(given, part)) is not None:
                parts[part] = tables, _format(options, part)
        return parts


def _conditions(rows: Sequence[Sequence[str]], ahead: int) -> Any:
    """Return the condition of each target, (steps, recordings) strings, "" after the end of a recording."""
    import numpy as np

    found = np.full((max(map(len, rows)), len(rows)), "", dtype=object)
    for n, names in enumerate(rows):
        found[: max(len(names) - ahead, 0), n] = names[ahead:]
    return found


def _has_lines(table: Any) -> bool:
    """Return whether a table may have lines before its columns: a text or an Excel file."""
    return isinstance(table, str) and not table.lower().endswith(".parquet")


def _paths(given: Any, name: str) -> tuple[str, ...]:
    """Return the absolute paths of tables, with the files of folders and patterns."""
    found: list[str] = []
    for each in listed(given):
        more = [each]
        if os.path.isdir(each):
            more = _in_folder(each)
        elif glob.has_magic(each) and not os.path.exists(each):
            more = sorted(glob.glob(each))
        if not more:
            folder = os.path.isdir(each)
            reason = (
                "the folder holds no table: give another one"
                if folder
                else "there is no such table: give another pattern"
            )
            raise InputError(Message(f"{argument(name)} is {{0}}, and {reason}", each))
        found += map(os.path.abspath, more)
    return tuple(found)


def _in_folder(path: str) -> list[str]:
    """Return the tables in a folder, by name."""
    return sorted(os.path.join(path, name) for name in os.listdir(path)
                  if name.lower().endswith(SUFFIXES) and not name.startswith("."))  # fmt: skip


def _format(options: Mapping[str, Any], part: str = "") -> TableFormat:
    """Return how the tables of a part are read: as those for training, with names of columns and rows of its own."""
    from hfrnn.data.sheets import TableFormat

    own = {name: options[f"{part}_{name}" if part else name] for name in ("inputs", "targets", "rows")}
    inputs, targets = (own[name] or options[name] for name in ("inputs", "targets"))
    rows = slice_of(own["rows"], f"{part}_rows" if part else "rows")
    same = {name: options[name] for name in ("recording", "time", "decimal", "skip_rows", "fill", "bin", "unit")}
    asked = {name: f"{part}_{name}" for name in own if part and own[name] is not None}
    return TableFormat(
        inputs,
        targets,
        rows=rows,
        asked=asked,
        missing=options["missing"] or (),
        states=options["initial_state"],
        **same,
    )
