"""Real processes of the command line, and when they have come so far that a signal reaches them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TINY = ["--hidden", "4", "--sequence-length", "10", "--gradient-symbols", "300", "--backend", "numpy"]
"""Flags of a run whose updates take a moment."""


def start(folder: Path, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a command in a folder; it handles signals when this returns."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    options["env"] = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    started = subprocess.Popen([sys.executable, "-m", "hfrnn", *map(str, arguments)], cwd=folder, **options)
    if Path("/proc/self/status").is_file():
        wait_until(lambda: _handles_signals(started.pid), started)
    else:
        time.sleep(1.0)
    return started


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until a condition holds or the process has ended, for a minute at most."""
    deadline = time.monotonic() + 60
    while not condition() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)


def ended(process: subprocess.Popen[str], *numbers: int, gap: float = 0.0) -> tuple[int, str]:
    """Send signals with pauses between them; return the exit status and what the process wrote to stderr."""
    for number in numbers:
        process.send_signal(number)
        time.sleep(gap)
    try:
        _, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # it prints where its threads are
        raise AssertionError(f"the process does not end: {process.communicate()[1]}") from None
    return process.returncode, err


def _handles_signals(pid: int) -> bool:
    """Return whether a process of Linux has handlers of all signals; that of SIGHUP is the last one."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGHUP - 1) & 1)
