"""A folder that one process at a time writes to."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import sys
from pathlib import Path
from typing import BinaryIO

from hfrnn.errors import InputError, StorageError

NAME = ".lock"
"""The file in the folder that is locked; it holds the process id and the name of the machine."""

if sys.platform == "win32":
    import msvcrt

    _FAR = 2**30  # a locked byte cannot be read by others, and they are to read the beginning

    def _try_lock(file: BinaryIO) -> None:
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(file: BinaryIO) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderLock:
    """The right to write to a folder, from `acquire` until `release` or the end of the process, however that comes.

    The operating system holds the lock, so what a killed process leaves is only a file that locks nothing. A file
    system that has no locks goes without.

    Parameters
    ----------
    folder : path
        It must exist when the lock is acquired.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / NAME
        self._held: BinaryIO | None = None

    def acquire(self) -> None:
        """Take the lock; nothing happens if it is held already.

        Raises
        ------
        InputError
            Another process has it, which the message names, or the folder cannot be written to.
        StorageError
            There is no room for the file.
        """
        while self._held is None:
            file = self._open()
            try:
                _try_lock(file)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                    holder = self._holder(file)
                    file.close()
                    raise InputError(
                        f"{self.folder} is in use by {holder}, which writes to it: wait for its end or stop it, or use "
                        "another folder"
                    ) from error
            if self._is_current(file):
                self._held = file
                with contextlib.suppress(OSError):  # the lock counts, its content is for the message alone
                    file.truncate(0)
                    file.seek(0)
                    file.write(f"{os.getpid()} {platform.node()}\n".encode())
            else:  # its last holder removed it in between
                file.close()

    def release(self) -> None:
        """Give the lock back and take its file away; nothing happens if it is not held."""
        if self._held is None:
            return
        with contextlib.suppress(OSError):  # an open file cannot be removed everywhere; it locks nothing
            self._file.unlink()
        self._held.close()
        self._held = None

    def _open(self) -> BinaryIO:
        try:
            return open(self._file, "a+b", buffering=0)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise InputError(
                    f"{self.folder} cannot be written to ({error.strerror}): allow it, or copy the folder to where it "
                    "can be"
                ) from error
            raise StorageError(f"cannot write {self._file} ({error.strerror}): free some space") from error

    def _is_current(self, file: BinaryIO) -> bool:
        """Whether the locked file is the one that others will find."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self._file))
        except OSError:
            return False

    def _holder(self, file: BinaryIO) -> str:
        """Who has the lock, in words."""
        words: list[str] = []
        with contextlib.suppress(OSError):
            file.seek(0)
            words = file.read(300).decode(errors="replace").split()
        if not words:
            return "another process"
        elsewhere = len(words) > 1 and words[1] != platform.node()
        return f"process {words[0]}" + (f" on {words[1]}" if elsewhere else "")
