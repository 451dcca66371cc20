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
