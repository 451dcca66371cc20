"""What Windows does differently, on a system with /proc: open files can be neither replaced nor deleted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="there is no /proc to simulate Windows")


def is_open(path: str | os.PathLike[str]) -> bool:
    """Return whether this process has a file open."""
    found = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return any(os.path.exists(each) and os.path.samefile(each, path) for each in found)


def refuse_open_files(patch: pytest.MonkeyPatch) -> list[str]:
    """Let `os` refuse what Windows refuses; return the list to which the refused paths are added."""
    refused: list[str] = []

    def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*paths: Any, **named: Any) -> Any:
            for path in paths:
                if os.path.isfile(path) and is_open(path):
                    refused.append(Path(path).name)
                    error = PermissionError(13, "The process cannot access the file", os.fspath(path))
                    error.winerror = 32  # type: ignore[attr-defined,unused-ignore]
                    raise error
            return function(*paths, **named)

        return call

    for name in ("replace", "rename", "unlink", "remove"):
        patch.setattr(os, name, refusing(getattr(os, name)))
    return refused


ABSENT = {
    "os": ("O_CLOEXEC", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "geteuid", "getuid", "register_at_fork",
           "sched_getaffinity", "sysconf"),
    "signal": ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "pthread_sigmask"),
}  # fmt: skip
"""What the modules of Python lack on Windows, as far as its documentation says so."""
TICK = 1 / 64
"""Seconds between two values of `time.monotonic`."""


def become_windows() -> None:
    """Let this process look like one of Windows to modules of hfrnn that are imported from now on."""
    import fcntl
    import importlib
    import signal
    import sys
    import time
    import warnings
    from types import ModuleType

    real_open, real_time, real_lock = os.open, time.monotonic, fcntl.flock

    def locking(descriptor: int, mode: int, size: int) -> None:
        try:
            real_lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PermissionError(13, "Permission denied") from error

    def open_file(path: Any, *more: Any, **named: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real_open(path, *more, **named)

    for name, names in ABSENT.items():
        for each in names:
            delattr(importlib.import_module(name), each)
    for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
        sys.modules[name] = None  # type: ignore[assignment]
    console = ModuleType("msvcrt")
    vars(console).update(locking=locking, LK_NBLCK=2)
    sys.modules["msvcrt"], sys.platform = console, "win32"
    os.open, os.O_BINARY = open_file, 0  # type: ignore[assignment,attr-defined,unused-ignore]
    signal.SIGBREAK = signal.SIGTTIN  # type: ignore[attr-defined,unused-ignore]
    time.monotonic = lambda: real_time() // TICK * TICK
    refuse_open_files(pytest.MonkeyPatch())
    warnings.filterwarnings("error", category=EncodingWarning, module="hfrnn")
    for name in [name for name in sys.modules if name.partition(".")[0] == "hfrnn"]:
        del sys.modules[name]
