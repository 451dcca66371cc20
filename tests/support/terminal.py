"""A pseudo-terminal: what a command writes to it, byte for byte."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "hfrnn"]


def on_terminal(arguments: list[Any], columns: int = 80, code: int | None = 0, cwd: Path | None = None,
                **environment: str) -> bytes:  # fmt: skip
    """What a terminal gets from a command, whose exit code must be `code` unless that is None."""
    fcntl, pty, termios = (pytest.importorskip(name, exc_type=ImportError) for name in ("fcntl", "pty", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    names = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    started = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env={**names, "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(theirs)
    out = b""
    try:
        while part := os.read(ours, 65536):
            out += part
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    status = started.wait(timeout=60)
    assert code is None or status == code, out
    return out
