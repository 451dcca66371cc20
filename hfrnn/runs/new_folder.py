"""Make the folder of a new run, and delete what a killed process left in one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hfrnn.errors import InputError
from hfrnn.files import is_regular
from hfrnn.runs.lock import NAME as LOCK
from hfrnn.runs.outputs import enclosing_run


def make_numbered_folder(wanted: Path) -> Path:
    """Make a folder with this path, or with -2, -3, ... after it if something is there already; return its path."""
    _check_place(wanted, wanted)
    folder, number = wanted, 1
    while True:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()  # of several processes that try this at once, one succeeds
            return folder
        except OSError as error:
            if not isinstance(error, FileExistsError) or not os.path.lexists(folder):
                raise InputError(f"{folder} cannot be made ({error.strerror}): give an --out") from error
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")


def make_empty_folder(folder: Path, given: str | Path) -> None:
    """Make a folder unless it exists and is unused; messages show its path as it was given."""
    _check_place(folder, given)
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(
                f"{given} exists already and is left as it is, because it is no folder: give a new or an empty folder "
                "as --out"
            )
        if folder.exists() and not is_unused(folder):
            raise occupied(given)
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{given} cannot be made ({reason}): give another --out") from error


def _check_place(folder: Path, given: str | Path) -> None:
    """Raise InputError if a new run would lie in the folder of another one."""
    run = None
    with contextlib.suppress(OSError, ValueError):  # a path that cannot be is refused when the folder is made
        run = enclosing_run(folder)
    if run is not None:
        raise InputError(f"{given} lies in the run folder {run}, which only that run writes to: give another --out")


def occupied(path: str | Path) -> InputError:
    return InputError(
        f"{path} exists already and is left as it is: give another --out, or resume the run in it with --resume {path}"
    )


def is_unused(folder: Path) -> bool:
    """Return whether a path is a folder that holds nothing, or only what a killed process left."""
    return folder.is_dir() and all(map(_is_leftover, folder.iterdir()))


def _is_leftover(path: Path) -> bool:
    """Return whether a file is a lock or a temporary file, which a killed process may leave, and no link."""
    named = path.name == LOCK or (path.name.startswith(".hfrnn-") and path.suffix == ".tmp")
    return named and is_regular(path)


def delete_leftovers(folder: Path) -> None:
    """Delete temporary files of a killed process, but keep our own lock."""
    for path in folder.iterdir():
        if _is_leftover(path) and path.name != LOCK:
            path.unlink(missing_ok=True)
