"""How messages say that a run can be resumed: as a call in Python, or as a command of the shell."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hfrnn.errors import Message, OfCommand, Wording
from hfrnn.runs.folder import RunFolder
from hfrnn.wording import shell_command


class ResumeCommand(Message):
    """The command or the call that resumes a run, for a message.

    Parameters
    ----------
    path : path
        The run folder.
    options : mapping, optional
        Options to resume with, by name; those that are None are left out.
    files : sequence of str
        The files with the architectures and optimizers of a user.
    data : str
        The argument that the data in memory are given as; such a run can only be resumed in Python.

    Examples
    --------
    >>> from hfrnn.training.resume_command import ResumeCommand
    >>> command = ResumeCommand("runs/a", {"updates": 7})
    >>> str(command)
    "hfrnn.train(resume='runs/a', updates=7)"
    >>> command.worded(lambda name, value: f"--{name}")
    'hfrnn train --resume runs/a --updates 7'
    """

    def __init__(
        self, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None, files: Sequence[str] = (),
        data: str = "",
    ) -> None:  # fmt: skip
        super().__init__("")
        self._path, self._files, self._data = str(path), files, data
        self._options = {name: value for name, value in (options or {}).items() if value is not None}

    def worded(self, wording: Wording | None = None) -> str:
        if wording is None or self._data:
            given = [f"resume={self._path!r}", *([f"{self._data}=..."] if self._data else [])]
            given += [f"{name}={value!r}" for name, value in self._options.items()]
            return f"hfrnn.train({', '.join(given)})"
        files = [("kernel", file) for file in self._files]
        words = ["hfrnn", "train"]
        for name, value in [*files, ("resume", self._path), *self._options.items()]:
            if isinstance(value, bool):
                words.append(wording(OfCommand(name), str(value)))
            else:
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [wording(OfCommand(name), ""), text]
        return shell_command(words)


def before_next_update(folder: RunFolder) -> Message | None:
    """Return what to tell the user if a run is interrupted before it is resumed; None if its folder holds no state."""
    if not folder.begun:
        return None
    return Message("interrupted before the next update: resume with {0}", ResumeCommand(folder.path))
