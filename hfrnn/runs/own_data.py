"""What to say of the data of a run that are no longer as they were when it was started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hfrnn.errors import InputError, MissingExtraError
from hfrnn.runs.outputs import data_files
from hfrnn.runs.presets import kind_of_data

if TYPE_CHECKING:
    from hfrnn.runs.run_folder import RunFolder


class LostFileError(InputError):
    """A file that a run was started with is no longer there."""


@contextlib.contextmanager
def as_before(folder: RunFolder | None) -> Iterator[None]:
    """Let an InputError about the data of a run say that they have changed since its start, or which file is gone."""
    try:
        yield
    except MissingExtraError:
        raise
    except InputError as error:
        if folder is None:
            raise
        begin = f"the data of {folder.path} is not as it was when the run was started"
        config = folder.config()
        files = [str(config.data)] if kind_of_data(config.data) == "MIDI music" else data_files(config)
        lost = [path for path in files if not os.path.exists(path)]
        if lost:
            raise LostFileError(f"{begin}: there is no file {lost[0]}; put it back there") from error
        raise InputError(f"{begin}: {error}") from error
