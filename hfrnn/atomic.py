"""Atomic file writes: after a crash a file has its old content or its new content, never a mixture."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import NoReturn

from hfrnn.errors import StorageError, reason_of
from hfrnn.files import open_to_append


def write_atomic(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Replace a file in one step: readers see the old content or the new content, also after a crash or a full disk.

    The content is written to a temporary file in the same folder, flushed to the disk, and then renamed.

    Parameters
    ----------
    path : path
        The file to write or replace; its folder must exist.
    content : bytes or str
        The whole content. Text is encoded as UTF-8; newlines are not changed.

    Raises
    ------
    StorageError
        The file cannot be written. An older file is unchanged and the temporary file is deleted.
    """
    path = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f".hfrnn-{secrets.token_hex(6)}.tmp") if path.name else path
    try:
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except (OSError, ValueError) as error:
        refuse_to_write(path, error)
    _flush_folder(path.parent)


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Append a line to a file and flush it to the disk.

    A crash may leave the first part of the line in the file. After an error or an exception the file is truncated to
    its former length.

    Parameters
    ----------
    path : path
        The file; it is created if it does not exist. It must not be a link.
    line : str
        The line without its newline; it is encoded as UTF-8.

    Raises
    ------
    StorageError
        The line cannot be written; the file is unchanged.
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
    """Raise a `StorageError` that says why a file cannot be written.

    Parameters
    ----------
    path : Path
    error : OSError or ValueError
        The cause.

    Raises
    ------
    StorageError
        Always.
    """
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
