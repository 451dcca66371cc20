"""metrics.jsonl: one record of JSON on a line for every update of a run, or for an interval of many small updates."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import orjson

from hfrnn.errors import CheckpointError
from hfrnn.files import LOG, append_line, open_to_append, read_bytes, write_atomic

Record = dict[str, Any]
"""A record of metrics.jsonl: figures by name, None where a name does not apply."""
LARGEST = 1e300
"""Larger values in a log count as missing; sums of smaller ones do not overflow."""
MOST_UPDATES = 2**53
"""Programs that read numbers as floats cannot tell larger ones apart."""


def finite_number(value: object) -> float | int | None:
    """Return a value of a log unchanged if it is a finite number of at most LARGEST in size, else None."""
    return value if isinstance(value, int | float) and type(value) is not bool and abs(value) <= LARGEST else None


def _record(line: bytes) -> Any:
    """Return the value of a line of JSON, in a quarter of json's time unless it holds an infinite number."""
    try:
        return orjson.loads(line)
    except ValueError:
        return json.loads(line)


class MetricsFile:
    """Append records to metrics.jsonl and read them back. A missing file has no records."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Add a record at the end."""
        append_line(self.path, json.dumps(record))

    def records(self) -> list[Record]:
        """Return all records. An incomplete last line is ignored."""
        return self._parsed(self._content())

    def _parsed(self, content: bytes) -> list[Record]:
        """Return all records of a content."""
        records: list[Record] = []
        for row, line in enumerate(io.BytesIO(content), 1):
            if not line.endswith(b"\n"):  # an incomplete line
                break
            try:
                records.append(_record(line))
                update = records[-1]["update"]
                fits = type(update) is int and (records[-2]["update"] if row > 1 else 0) < update <= MOST_UPDATES
            except (ValueError, KeyError, TypeError, RecursionError):
                fits = False
            if not fits:
                raise CheckpointError(
                    f"{self.path} is damaged: line {row} is not the record of a later update; restore it from a copy"
                )
        return records

    def until(self, update: int) -> list[Record]:
        """Return the records up to an update, which must be the last one of them."""
        return self._until(update, self._content())

    def _until(self, update: int, content: bytes) -> list[Record]:
        kept = [record for record in self._parsed(content) if record["update"] <= update]
        last = kept[-1]["update"] if kept else 0
        if last != update:
            raise CheckpointError(
                f"{self.path} is damaged: it ends at update {last}, and the checkpoint is of update {update}; "
                "restore it from a copy"
            )
        return kept

    def cut(self, update: int) -> None:
        """Delete the records after an update, so that the file agrees with the checkpoint of that update."""
        content = self._content()
        kept = b"".join(io.BytesIO(content).readlines()[: len(self._until(update, content))])
        if kept != content:
            write_atomic(self.path, kept)

    def check(self) -> None:
        """Check that records can be appended: the file is no link, and no other file would change with it."""
        try:
            if os.path.lexists(self.path):
                open_to_append(self.path).close()
        except OSError as error:
            raise CheckpointError(f"cannot append to {self.path}: {error.strerror}") from error

    def _content(self) -> bytes:
        """Return the content of the file; nothing if there is none."""
        try:
            return read_bytes(self.path, LOG, links=False)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise CheckpointError(f"cannot read {self.path} ({error.strerror}): restore it from a copy") from error
