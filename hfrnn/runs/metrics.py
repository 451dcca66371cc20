"""metrics.jsonl, the log of a run: a line of JSON for every update, or for many small ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hfrnn.atomic import append_line, write_atomic
from hfrnn.errors import CheckpointError

Record = dict[str, Any]


def clock(seconds: float | None) -> str:
    """Return a number of seconds as 1:05 or 2:01:05; - for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Log:
    """The log in a file.

    Parameters
    ----------
    path : path
        It need not be there: then the log is empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Add a line."""
        append_line(self.path, json.dumps(record))

    def records(self) -> list[Record]:
        """The lines; a last one that is cut off is passed over.

        Raises
        ------
        CheckpointError
            The file is damaged in another way.
        """
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"cannot read {self.path} ({error.strerror}): restore it from a copy") from error
        records: list[Record] = []
        for number, line in enumerate(lines[:-1], 1):  # what follows the last newline is nothing, or was cut off
            try:
                records.append(json.loads(line))
                update = records[-1]["update"]
                fits = type(update) is int and update > (records[-2]["update"] if number > 1 else 0)
            except (ValueError, KeyError, TypeError, RecursionError):
                fits = False
            if not fits:
                raise CheckpointError(
                    f"{self.path} is damaged: line {number} is not that of a later update; restore it from a copy"
                )
        return records

    def until(self, update: int) -> list[Record]:
        """The lines up to that update.

        Raises
        ------
        CheckpointError
            The file is damaged, or ends before that update.
        """
        kept = [record for record in self.records() if record["update"] <= update]
        last = kept[-1]["update"] if kept else 0
        if last != update:
            raise CheckpointError(
                f"{self.path} is damaged: it ends at update {last}, and the checkpoint is of update {update}; "
                "restore it from a copy"
            )
        return kept

    def cut(self, update: int) -> None:
        """Drop what was written after that update, so that the log agrees with the checkpoint; raises as `until`."""
        content = "".join(json.dumps(record) + "\n" for record in self.until(update)).encode("utf-8")
        if self.path.is_file() and self.path.read_bytes() != content:
            write_atomic(self.path, content)
