"""Open files that others may have made, write files atomically, and lock them.

A run folder may come from somebody else. If its metrics.jsonl were a link to another file, a run would write to that
file. So the files of a run are opened with `links=False`. The folder itself may be a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NoReturn

from hfrnn.errors import StorageError, reason_of

CONFIGURATION = 2**20
"""Most bytes of a TOML file with options."""
DESCRIPTION = 2**26
"""Most bytes of a vocabulary, of a summary, and of the header of a checkpoint."""
LOG = 2**29
"""Most bytes of metrics.jsonl."""
TEXT_SHARE = 16
"""A text may be as large as the memory divided by this: its symbols and their numbers take about 12 times as much."""
CHECKPOINT_SHARE = 4
"""A checkpoint may be as large as the memory divided by this."""

_KINDS = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)  # fmt: skip
_NAME_OF_ANOTHER = 0x20000000
"""Bit of the reparse tags of Windows that links and junctions have, but not files of OneDrive."""
BUSY_SECONDS = 3.0
"""Seconds for which `replace` waits for another program to close a file."""
_BUSY = (5, 32, 33)
"""Error codes of Windows: access denied, sharing violation, lock violation."""


def open_to_read(path: str | os.PathLike[str], *, links: bool = True) -> BinaryIO:
    """Open a regular file to read its bytes, without ever waiting for a writer; it is a link only if `links` allows it.

    Raises
    ------
    OSError
        There is no such file, it cannot be read, is not a regular file, or is a link that is not allowed; `strerror`
        says which.
    ValueError
        The path holds a NUL character.
    """
    return os.fdopen(_open(path, os.O_RDONLY, links), "rb")


def open_to_append(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file of a run to read it and to write at its end, without a buffer; make it if there is none.

    Raises the errors of `open_to_read` with `links=False`, and OSError if the file has a second name (a hard link).
    """
    descriptor = _open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, False)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "it is a hard link, so another file would change with it; replace it by a copy")
    return os.fdopen(descriptor, "a+b", buffering=0)


def read_bytes(path: str | os.PathLike[str], most: int, *, links: bool = True) -> bytes:
    """Return the content of a regular file; raises the errors of `open_to_read`, and OSError above `most` bytes."""
    with open_to_read(path, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > most else file.read(size + 1)
        if len(content) > size:  # a file that grows, or of /proc, says another size
            content += file.read(most + 1 - len(content))
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"it has {max(size, len(content)):,} bytes, and at most {most:,} are read")
    return content


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a regular file and no link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def memory_share(divisor: int) -> int:
    """Return a share of the memory that this machine, or the container of this process, has, in bytes."""
    total = 2**34
    with contextlib.suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(ValueError, OSError):
            total = min(total, int(Path(limit).read_text("ascii")))
    return total // divisor


def _open(path: str | os.PathLike[str], flags: int, links: bool) -> int:
    """Return the descriptor of a regular file; raises the errors of `open_to_read`."""
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY", *(() if links else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    try:
        if not links and not hasattr(os, "O_NOFOLLOW"):
            _refuse_link(path)
        descriptor = os.open(path, flags, 0o666)
    except OSError:
        if not links:
            _refuse_link(path)  # the system's own reason is "Too many levels of symbolic links"
        if os.path.isdir(path):  # that of Windows is "Permission denied"
            raise OSError(errno.EISDIR, "it is a folder, not a regular file") from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = next((name for fits, name in _KINDS if fits(mode)), "something else")
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, not a regular file")
    return descriptor


def _refuse_link(path: str | os.PathLike[str]) -> None:
    """Raise OSError if a path is a link."""
    with contextlib.suppress(FileNotFoundError):
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) & _NAME_OF_ANOTHER:
            raise OSError(errno.ELOOP, "it is a link, and the files of a run are not opened through links")


# ------------------------------------------------------------------ write a file atomically


def write_atomic(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Replace a file in one step: readers see the old content or the new content, also after a crash or a full disk.

    The content is written to a temporary file in the same folder, flushed to the disk, and then renamed. Text is
    encoded as UTF-8. If this raises StorageError, an older file is unchanged.
    """
    write_together({path: content})


def write_together(contents: Mapping[str | os.PathLike[str], bytes | str]) -> None:
    """Do what `write_atomic` does for several files. None is renamed before all are on the disk."""
    written: list[tuple[Path, Path]] = []
    path = Path()
    try:
        try:
            for path, content in ((Path(name), content) for name, content in contents.items()):
                temporary = path.with_name(f".hfrnn-{secrets.token_hex(6)}.tmp") if path.name else path
                written.append((temporary, path))
                with open(temporary, "xb") as file:
                    file.write(content.encode("utf-8") if isinstance(content, str) else content)
                    file.flush()
                    os.fsync(file.fileno())
            for temporary, path in written:
                replace(temporary, path)
        except BaseException:
            for temporary, _ in written:
                with contextlib.suppress(OSError):
                    temporary.unlink()
            raise
    except (OSError, ValueError) as error:
        refuse_to_write(path, error)
    for folder in dict.fromkeys(path.parent for _, path in written):
        _flush_folder(folder)


def replace(old: Path, new: Path) -> None:
    """Rename a file, as `os.replace` does, but on Windows wait for a moment if another program has `new` open.

    Windows refuses to replace an open file. A virus scanner has it open for a moment, as does a command that reads the
    folder of a run.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            os.replace(old, new)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _BUSY or time.monotonic() > end:
                raise
        time.sleep(0.02)


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Append a line, given without its newline, to a file, which is created if it does not exist; flush it to the disk.

    A crash may leave the first part of the line in the file. After an error (StorageError) or another exception the
    file is truncated to its former length.
    """
    path = Path(path)
    try:
        with open_to_append(path) as file:
            before, data = file.seek(0, os.SEEK_END), (line + "\n").encode("utf-8")
            try:
                while data:
                    data = data[file.write(data) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(before)
                raise
    except OSError as error:
        refuse_to_write(path, error)


def refuse_to_write(path: Path, error: OSError | ValueError) -> NoReturn:
    """Raise a `StorageError` that says why a file cannot be written."""
    raise StorageError(
        f"cannot write {path} ({reason_of(error)}); what was there before is unchanged: "
        "free some space or choose a folder that can be written to"
    ) from error


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power failure, on systems that can flush a folder."""
    with contextlib.suppress(OSError):  # not all systems can; the file is complete either way
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ------------------------------------------------------------------ lock an open file


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
