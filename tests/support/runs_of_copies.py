"""Run commands in a copy of the project, and what a mutant was tried with."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from support.mutants import Mutant

NUMBA_CACHE = "numba-cache"  # of each copy by itself: numba does not see that a function in another file has changed
MEMORY = 16 * 2**30  # bytes of address space for one mutant
PATIENCE = 10  # a command may take so many times its processor seconds where other work keeps the machine busy
LOOK = 2.0  # seconds between two looks at the processor time
TICKS = os.sysconf("SC_CLK_TCK")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of the tests of a copy of the project."""
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    path = os.pathsep.join([str(folder), str(folder / "tests")])
    own = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(folder / NUMBA_CACHE)}
    return os.environ | one_thread | own


def processor_seconds(session: int) -> float:
    """Return the processor time of the processes of a session, and of their children that have ended (Linux only)."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if values[3] == str(session):
            total += sum(map(int, values[11:15]))
    return total / TICKS


def wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit status; None after so many processor seconds, or where it waits for something else too long."""
    start = time.perf_counter()
    while time.perf_counter() - start < PATIENCE * seconds:
        try:
            return process.wait(LOOK)
        except subprocess.TimeoutExpired:
            if processor_seconds(process.pid) > seconds:
                break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return None


def run(command: tuple[str, ...], folder: Path, seconds: float, **more: str) -> tuple[int | None, str, float]:
    """Return a command's exit status (None: out of time), its output, and its seconds."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment(folder) | more,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        status = wait(process, seconds)
        output.seek(0)
        words = output.read().strip()
    return status, words, time.perf_counter() - start


@dataclass
class Trial:
    """What became of a mutant.

    tier, test : str
        The marker expression of the record, and the first test that noticed the mutant.
    tried, left : int
        Numbers of tests that ran until then, and that did not fit into the limit.
    """

    mutant: Mutant
    verdict: str = "not reached"
    tier: str = ""
    test: str = ""
    seconds: float = 0.0
    tried: int = 0
    left: int = 0

    def __str__(self) -> str:
        by = f"by {self.test}" if self.test else f"{self.tried} tests tried, {self.left} left"
        return f"{self.verdict:11} {self.seconds:5.1f} s  {self.mutant}\n    {by}"
