"""Commands under `mpiexec`: one rank speaks, and all end together."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from hfrnn.errors import InputError
from hfrnn.ranks.launched import launched

if TYPE_CHECKING:
    from hfrnn.ranks.one import Ranks

REPORT_SECONDS = 2.0
"""Seconds that rank 0 has to report an error of the arguments, before the end of another rank ends it."""

_streams: list[tuple[TextIO, TextIO]] = []
"""The standard streams of a rank that is silent."""


def silence_followers() -> None:
    """Let all ranks but rank 0 write nothing. A rank that reports an error speaks again."""
    if launched()[1] > 0:
        _silence()


def refuse_ranks(command: str | None) -> None:
    """Raise InputError if a launcher has started several ranks of a command that works in one process."""
    size, _ = launched()
    if size > 1 and command != "train":
        raise InputError(
            f"hfrnn {command} works in one process, and {size} ranks were started: start it without mpiexec"
        )


@contextlib.contextmanager
def launched_together() -> Iterator[Ranks]:
    """Yield the ranks that a launcher has started. An error ends all of them, and one rank reports it."""
    from hfrnn.ranks.mpi import launched_ranks

    ranks = launched_ranks()
    try:
        yield ranks
    except BaseException as error:
        if ranks.abort(error):
            _speak()
        else:
            _silence()
        raise


def wait_for_report(status: int) -> None:
    """Wait before a rank other than 0 ends with an error of the arguments, which rank 0 reports."""
    if status and launched()[1] > 0 and "mpi4py" not in sys.modules:
        time.sleep(REPORT_SECONDS)


def _silence() -> None:
    if not _streams:
        _streams.append((sys.stdout, sys.stderr))
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _speak() -> None:
    if _streams:
        sys.stdout, sys.stderr = _streams.pop()
