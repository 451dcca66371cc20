"""Locks on open files: the operating system holds them, so a killed process leaves none behind."""

from __future__ import annotations

import errno
import sys
from typing import BinaryIO

HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""Error codes of `try_lock` if another process holds the lock. A file system without locks gives another code."""

if sys.platform == "win32":
    import msvcrt

    _FAR = 2**30  # other processes cannot read a locked byte, but they must read the beginning of the file

    def try_lock(file: BinaryIO) -> None:
        """Lock an open file until it is closed; raise OSError if that is not possible."""
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def try_lock(file: BinaryIO) -> None:
        """Lock an open file until it is closed; raise OSError if that is not possible."""
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
