"""A table (.csv, .tsv): one recording, with a row for each step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfrnn.data.kinds.data_kind import Reading
from hfrnn.data.kinds.number_sequences import CUT, FRACTIONS, LOSS, STANDARDIZE, TARGETS, NumberSequences, recording
from hfrnn.errors import Message
from hfrnn.option import Option

if TYPE_CHECKING:
    from hfrnn.data.windows import Windows

INPUTS = Option(
    "inputs", str, None, "Columns of a table that the network reads, by name or by number from 1.", many=True,
    digits=True, group="Data",
)  # fmt: skip
AHEAD = Option(
    "ahead", int, None, "Rows from an input to the target that it predicts.", least=0, group="Data",
    otherwise="1 if a column is an input and a target, else 0",
)  # fmt: skip


class Table(NumberSequences):
    """A table with a row for each step, which is cut into windows."""

    about = "a table"
    suffixes = reads = (".csv", ".tsv")
    options = (FRACTIONS, INPUTS, TARGETS, *CUT, AHEAD, LOSS, STANDARDIZE)
    needed = ("inputs", "targets")
    names_columns = True
    standardizes = True

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        from hfrnn.data.windows import WINDOW as USUAL

        return {**super().resolved(options), "window": options["window"] or USUAL}

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> Table:
        from hfrnn.data.tables import load_table, rows_ahead

        data = load_table(
            options["data"], options["inputs"], options["targets"], _windows(options), options["ahead"],
            fractions=options["fractions"], loss=options["loss"],
        )  # fmt: skip
        table = cls(options, data)
        table.ahead = rows_ahead(data.input_names, data.target_names, options["ahead"])
        return table

    @classmethod
    def read_file(cls, options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
        """Return the recording of a table, which is not cut into windows."""
        from hfrnn.data.tables import NoColumnError, read_columns, rows_ahead

        note: str | Message = ""
        try:
            columns = read_columns(path, options["inputs"], options["targets"])
        except NoColumnError as error:
            columns, note = read_columns(path, options["inputs"], None), Message("{0}", error)
        names = columns.target_names or tuple(options["targets"] or ())
        ahead = rows_ahead(columns.input_names, names, options["ahead"])
        burn_in = _windows(options).checked()[2]
        targets = None if note else columns.targets
        return Reading(
            Path(path).name, *recording(columns.inputs, targets, columns.missing, ahead, burn_in), recording=True,
            input_names=columns.input_names, output_names=names, ahead=ahead, note=note, burn_in=burn_in,
        )  # fmt: skip


def _windows(options: Mapping[str, Any]) -> Windows:
    from hfrnn.data.windows import Windows

    return Windows(options["window"], options["stride"], options["burn_in"])
