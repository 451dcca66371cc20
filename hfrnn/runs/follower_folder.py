"""The run folder as a rank sees it that does not write: the folder may lie on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hfrnn.arrays.backend import HostArray
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.lock import FolderLock
from hfrnn.runs.metrics import Record


class UnwrittenFolder(RunFolder):
    """A run folder that another rank writes. It only remembers the description of the last state.

    Parameters
    ----------
    path : path
        Need not exist.
    saved : dict, optional
        The description of the state that the run resumes from.
    """

    def __init__(self, path: str | Path, saved: dict[str, Any] | None = None) -> None:
        self.path = Path(path)
        self.lock: FolderLock = _NoLock(self.path)
        self._saved = saved or {}

    def save(self, arrays: dict[str, HostArray], meta: dict[str, Any], best: bool, keep: int = 0) -> None:
        self._saved = meta

    def restore(self, name: str) -> tuple[dict[str, HostArray], dict[str, Any]]:
        return {}, self._saved

    def append(self, record: Record) -> None:
        """Do nothing: the other rank appends it."""

    def delete_summary(self) -> None:
        """Do nothing: the other rank deletes it."""

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Do nothing: the other rank writes it."""


class _NoLock(FolderLock):
    """A lock that is not taken."""

    def acquire(self) -> None:
        """Do nothing."""

    def check(self) -> None:
        """Do nothing."""
