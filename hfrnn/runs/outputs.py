"""Files that a command writes where its user says: never over its inputs, into a run folder, or over an older file."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hfrnn.choices import names_arrays
from hfrnn.data.corpora import CORPORA, located
from hfrnn.data.midi import midi_files
from hfrnn.data.music import COLLECTIONS
from hfrnn.errors import InputError, reason_of
from hfrnn.files import write_atomic
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.defaults import kind_of_data

RUN_FILES = ("last.safetensors", "best.safetensors", "metrics.jsonl", "vocabulary.json", ".lock")
"""A folder is a run folder if it holds config.toml and one of these files."""


@dataclass(frozen=True)
class Output:
    """A file that a command is asked to write.

    Parameters
    ----------
    option : str
        The option that names the file, for messages.
    path : str
        The file.
    force : bool
        Whether an existing file may be replaced.
    inputs : sequence of paths
        Files that the command reads.
    """

    option: str
    path: str
    force: bool = False
    inputs: Sequence[str | os.PathLike[str]] = ()

    def check(self) -> None:
        """Check that the file may and can be written; a command calls this before long work.

        Raises
        ------
        InputError
            The file is an input, lies in a run folder, exists, or cannot be written.
        """
        given = f"{self.option} is {self.path}"
        folder = os.path.dirname(self.path) or "."
        if not self.path:
            raise InputError(f"{self.option} is empty: give the name of a file")
        if not os.path.isdir(folder):
            raise InputError(f"{given}, and there is no folder {folder}: make it, or give another file")
        if os.path.isdir(self.path):
            raise InputError(f"{given}, which is a folder: give a file")
        exists = self._exists(given)
        if any(_same(self.path, each) for each in self.inputs):
            raise InputError(f"{given}, which is a file that the command reads: give another file")
        for path in (os.path.realpath(self.path), os.path.join(os.path.realpath(folder), "file")):
            if (run := enclosing_run(path)) is not None:
                raise InputError(f"{given}, inside the run folder {run}, which only the run writes to: give another")
        if exists and not self.force:
            raise InputError(f"{given}, which exists already: give another file, or --force to replace it")

    def write(self, content: bytes | str) -> None:
        """Check again, and write the file completely or not at all.

        Raises
        ------
        InputError
            As for `check`.
        StorageError
            The file cannot be written.
        """
        self.check()
        write_atomic(self.path, content)

    def _exists(self, given: str) -> bool:
        """Return whether there is something at the path that could be replaced; raise InputError for what cannot."""
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            raise InputError(f"{given}, which cannot be written ({reason_of(error)}): give another file") from error
        if os.path.exists(self.path) and not stat.S_ISREG(os.stat(self.path).st_mode):
            raise InputError(f"{given}, which is not a regular file: give another file")
        return True


def enclosing_run(path: str | os.PathLike[str]) -> Path | None:
    """Return the run folder that a path lies in, at any depth; None if it lies in none."""
    for folder in Path(os.path.realpath(path)).parents:
        if (folder / "config.toml").is_file() and any(os.path.lexists(folder / name) for name in RUN_FILES):
            return folder
    return None


def data_files(config: TrainConfig) -> list[str | os.PathLike[str]]:
    """Return the files that the data of a run are read from."""
    if names_arrays(config.data):
        pair = config.targets if str(config.data).lower().endswith(".npy") else None
        return [str(config.data), *(pair or ())]
    if kind_of_data(config.data) == "MIDI music":
        with contextlib.suppress(InputError):
            return [*midi_files(str(config.data))]
        return []
    named: list[tuple[str, ...]] = []
    if config.data in COLLECTIONS:
        named = [*COLLECTIONS[config.data].files]
    elif config.data in CORPORA:
        named = [*CORPORA[config.data].files]
    return [*(path for path in (config.text, config.valid, config.test) if path is not None), *located(named)]


def _same(one: str, other: str | os.PathLike[str]) -> bool:
    """Return whether two paths lead to one file."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
