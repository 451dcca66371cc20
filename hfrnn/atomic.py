"""Files that are either the old one or the new one, never half of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import NoReturn

from hfrnn.errors import StorageError


def write_atomic(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a file so that a reader, a crash or a full disk finds the old content or the new, never a mixture.

    The content goes to a temporary file in the same folder, which is flushed to the disk and then renamed.

    Parameters
    ----------
    path : path
        The file to write or replace; its folder must exist.
    content : bytes or str
        The whole content; text is stored as UTF-8, its newlines as they are.

    Raises
    ------
    StorageError
        The file cannot be written; the old one, if any, is as it was and no temporary file stays behind.
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
    """Add a line of UTF-8 to a file, made if need be, and flush it to the disk.

    A crash leaves a beginning of the line at most. Where it cannot be written, or an exception comes in between, the
    file is cut back to what it was.

    Raises
    ------
    StorageError
        The line cannot be written; the file is as it was.
    """
    path = Path(path)
    try:
        with open(path, "ab", buffering=0) as file:
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
    """Say why a file cannot be written."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    raise StorageError(
        f"cannot write {path} ({reason}); what was there before is unchanged: "
        "free some space or choose a folder that can be written to"
    ) from error


def _flush_folder(folder: Path) -> None:
    """Make the rename last through a power cut, on the systems that can flush a folder."""
    with contextlib.suppress(OSError):  # the file is whole either way; only some systems have more to offer
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
