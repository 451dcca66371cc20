"""Files of a run's data that lie elsewhere than when it was started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hfrnn.errors import InputError, Message
from hfrnn.option import absolute, argument, either
from hfrnn.runs.config import TrainConfig

PATHS = ("text", "data", "valid", "test", "targets")
"""The options that may name files of data."""


def files_of(config: TrainConfig, name: str) -> tuple[str, ...]:
    """Return the paths that an option names; none if it names something else, such as a corpus or columns."""
    value = config.values.get(name)
    listed = value if isinstance(value, tuple) else () if value is None else (str(value),)
    if name == "targets" and not {*listed} <= {str(each) for each in config.kind.files(config.values)}:
        return ()  # names of columns, or of datasets such as /session/rates
    return listed if listed and all(map(os.path.isabs, listed)) else ()


def beside(config: TrainConfig, run: Path) -> TrainConfig:
    """Return the configuration of a run with files that are gone, but lie beside it.

    Beside it means: in the folder that holds the run folder, in the run folder, or in the current folder. Whether they
    are the same files is checked when they are opened, by their hashes.
    """
    found: dict[str, Any] = {}
    for name in PATHS:
        paths = files_of(config, name)
        if any(not os.path.exists(path) for path in paths):
            moved = tuple(_beside(path, run) for path in paths)
            found[name] = moved if isinstance(config.values[name], tuple) else moved[0]
    return config.completed(**found) if found else config


def _beside(path: str, run: Path) -> str:
    name = os.path.basename(path.rstrip("/" + os.sep))
    end = os.sep if path.endswith(("/", os.sep)) else ""
    places = (os.path.join(folder, name) for folder in (run.absolute().parent, run.absolute(), os.getcwd()))
    return path if os.path.exists(path) else next((place + end for place in places if os.path.exists(place)), path)


def with_files(config: TrainConfig, given: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of a run whose data are in other files, by the options that name them.

    Raises
    ------
    InputError
        The run has no files of that option, or other data are no files of that kind.
    """
    found = {}
    for name, value in given.items():
        known = [each for each in PATHS if files_of(config, each)]
        if name not in known:
            others = f"give {either(map(argument, known))}" if known else "it has no files of data"
            raise InputError(Message(f"the run has no {argument(name)} that is a file: {others}"))
        values = {**config.values, name: value}
        if name == "data" and not config.kind.recognises(value if isinstance(value, str) else value[0]):
            about = config.kind.about
            raise InputError(Message("{data} is {0}, and the run was trained on {1}: give that", value, about))
        found[name] = config.kind.resolved(values).get(name) or absolute(value)
    return config.completed(**found)
