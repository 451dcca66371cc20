"""Files that a command writes where its user says: never over its inputs, into a run folder, or over an older file."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from hfrnn.errors import InputError, Message, reason_of
from hfrnn.files import write_atomic, write_together
from hfrnn.option import argument
from hfrnn.runs.folder import enclosing_run


@dataclass(frozen=True)
class Output:
    """A file that a command is asked to write.

    `option` is the argument that names it; `force` allows to replace it; `inputs` are the files that are read.
    """

    option: str
    path: str
    force: bool = False
    inputs: Sequence[str | os.PathLike[str]] = ()

    def check(self) -> None:
        """Check that the file may and can be written; a command calls this before long work."""
        given = Message(f"{argument(self.option)} is {{0}}", self.path)
        folder = os.path.dirname(self.path) or "."
        if not self.path:
            raise InputError(Message(f"{argument(self.option)} is empty: give the name of a file"))
        if not os.path.isdir(folder):
            raise InputError(Message("{0}, and there is no folder {1}: make it, or give another file", given, folder))
        if os.path.isdir(self.path):
            raise InputError(Message("{0}, which is a folder: give a file", given))
        exists = self._exists(given)
        if any(_same(self.path, each) for each in self.inputs):
            raise InputError(Message("{0}, which is a file that the command reads: give another file", given))
        for path in (os.path.realpath(self.path), os.path.join(os.path.realpath(folder), "file")):
            if (run := enclosing_run(path)) is not None:
                inside = "{0}, inside the run folder {1}, which only the run writes to: give another"
                raise InputError(Message(inside, given, run))
        if exists and not self.force:
            found = "{0}, which exists already: give another file, or {force:True} to replace it"
            raise InputError(Message(found, given))

    def write(self, content: bytes | str) -> None:
        """Check again, and write the file completely or not at all."""
        self.check()
        write_atomic(self.path, content)

    @staticmethod
    def write_all(contents: Sequence[tuple[Output, bytes | str]]) -> None:
        """Do what `write` does for several files: if one cannot be written, none changes."""
        for each, _ in contents:
            each.check()
        write_together({each.path: content for each, content in contents})

    def _exists(self, given: Message) -> bool:
        """Return whether there is something at the path that could be replaced; raise InputError for what cannot."""
        try:
            os.lstat(self.path)
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            unwritable = "{0}, which cannot be written ({1}): give another file"
            raise InputError(Message(unwritable, given, reason_of(error))) from error
        if os.path.exists(self.path) and not stat.S_ISREG(os.stat(self.path).st_mode):
            raise InputError(Message("{0}, which is not a regular file: give another file", given))
        return True


def _same(one: str, other: str | os.PathLike[str]) -> bool:
    """Return whether two paths lead to one file."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
