"""A lock that lets only one process at a time write to a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
from pathlib import Path
from typing import BinaryIO

from hfrnn.errors import InputError, StorageError
from hfrnn.files import HELD, open_to_append, try_lock

NAME = ".lock"
"""Name of the locked file in the folder. It holds the process id and the name of the machine."""
MOST_TRIES = 1000
"""How often to try a lock that its last holder removes at the same moment."""


class FolderLock:
    """The right to write to a folder, from `acquire` until `release` or the end of the process.

    The operating system holds the lock, so a killed process leaves only a file that locks nothing. On a file system
    without locks, `acquire` always succeeds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / NAME
        self._held: BinaryIO | None = None

    def acquire(self) -> None:
        """Take the lock; do nothing if this object holds it already. An InputError says which process holds it."""
        if self._held is not None:
            return
        for _ in range(MOST_TRIES):
            file = self._open()
            try:
                try_lock(file)
            except OSError as error:
                if error.errno in HELD:
                    holder = self._holder(file)
                    file.close()
                    raise InputError(
                        f"{self.folder} is in use by {holder}, which writes to it: wait until it ends, stop it, or use "
                        "another folder"
                    ) from error
            if self._names(file):
                self._held = file
                with contextlib.suppress(OSError):  # the content is only for error messages
                    file.truncate(0)
                    file.seek(0)
                    file.write(f"{os.getpid()} {platform.node()}\n".encode())
                return
            file.close()  # its last holder has removed it in the meantime
        raise StorageError(
            f"cannot lock {self._file}: the file system gives the file another number each time that it is opened; "
            "choose a folder on another disk"
        )

    def release(self) -> None:
        """Release the lock and delete its file; do nothing if the lock is not held."""
        if self._held is None:
            return
        if self._names(self._held):  # else the folder, or the lock in it, is another one by now
            try:
                self._file.unlink()
            except OSError:  # Windows deletes no open file, so not that of another holder either
                self._held.close()
                with contextlib.suppress(OSError):
                    self._file.unlink()
        self._held.close()
        self._held = None

    def check(self) -> None:
        """Raise StorageError before a write if the folder is no longer the one that was locked, unless none was."""
        if self._held is not None and not self._names(self._held):
            raise StorageError(
                f"the run folder {self.folder}, or the file {NAME} in it, was deleted, moved or replaced while the run "
                "wrote to it, so the last update is not saved: if the folder was moved, resume the run there; else "
                "start a new one"
            )

    def _open(self) -> BinaryIO:
        try:
            return open_to_append(self._file)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.EINVAL, errno.EISDIR):
                raise InputError(
                    f"{self._file} is not the lock of a run ({error.strerror}): delete it, unless you need it"
                ) from error
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise InputError(
                    f"{self.folder} cannot be written to ({error.strerror}): change its permissions, or copy it "
                    "to another place"
                ) from error
            raise StorageError(f"cannot write {self._file} ({error.strerror}): free some space") from error

    def _names(self, file: BinaryIO) -> bool:
        """Return whether an open file is the one that other processes find under the name of the lock."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.lstat(self._file))
        except OSError:
            return False

    def _holder(self, file: BinaryIO) -> str:
        """Return the holder of the lock in words, for error messages."""
        words: list[str] = []
        with contextlib.suppress(OSError):
            file.seek(0)
            words = file.read(300).decode(errors="replace").split()
        if not words:
            return "another process"
        elsewhere = len(words) > 1 and words[1] != platform.node()
        return f"process {words[0]}" + (f" on {words[1]}" if elsewhere else "")
