"""Options that may change when a run is resumed."""

from __future__ import annotations

import os
from typing import Any

from hfrnn.checks import instance, path
from hfrnn.choices import DEVICES
from hfrnn.errors import InputError, Message
from hfrnn.option import absolute, argument
from hfrnn.runs.config import PATHS, TrainConfig, checked_options, default_memory, with_files
from hfrnn.runs.options import run_options

LIMITS = ("updates", "minutes", "epochs")
"""Limits of a run. A new one replaces all old ones."""
RESUMABLE = (
    *LIMITS, "target_bits", "patience", "keep", "threads", "backend", "checkpoint", "memory", "precision",
    "sample_length", "rank_timeout",
)  # fmt: skip
"""Names of the options that may change."""


def run_to_resume(config: Any, resume: Any) -> str | None:
    """Return the folder of the run to resume, None for a new run, after checking both arguments of `train`."""
    instance("config", config, TrainConfig, "a hfrnn.TrainConfig", or_none=True)
    folder: str | None = path("resume", resume, or_none=True)
    if folder is not None and config is not None:
        raise InputError("config and resume were both given: leave config out, and give the changes as single options")
    return folder


def resumed_config(stored: TrainConfig, changes: dict[str, Any]) -> TrainConfig:
    """Return the configuration of a run that is resumed with new values of some options, by name.

    Options outside `RESUMABLE` must have their stored values, but files of data may have other paths. A
    change between a CPU and a GPU also changes `memory` to its default there, unless it is given.
    """
    changes = checked_options(changes, "train()")
    files = {key: value for key, value in changes.items() if key in PATHS and not _is_stored(stored, key, value)}
    if files and not stored.kind.in_memory:
        stored = with_files(stored, files)
        changes = {key: value for key, value in changes.items() if key not in files}
    changes = {key: value for key, value in changes.items() if key in RESUMABLE or not _is_stored(stored, key, value)}
    if foreign := [key for key in changes if key not in RESUMABLE]:
        names, allowed = (", ".join(map(argument, each)) for each in (foreign, RESUMABLE))
        raise InputError(Message(f"a resumed run keeps its {names}: leave it out, only {allowed} may differ"))
    if set(LIMITS) & changes.keys():
        changes = {**dict.fromkeys(LIMITS), **changes}
    config = stored.replace(**changes)
    if (config.backend in DEVICES) != (stored.backend in DEVICES) and "memory" not in changes:
        return config.replace(memory=default_memory(config.backend))
    return config


def _is_stored(stored: TrainConfig, key: str, value: Any) -> bool:
    """Return whether an option has its stored value, or names the same file as the stored absolute path."""
    expected = getattr(stored, key)
    if value == expected:
        return True
    if key == "targets" and value is not None:
        return bool(expected == (os.path.abspath(",".join(value)),))
    option = run_options().get(key)
    if not (key == "data" or (option is not None and option.path)) or None in (value, expected):
        return False
    return bool(absolute(value) == expected)


def needs_plans(stored: TrainConfig, config: TrainConfig) -> bool:
    """Return whether a run that was started as `stored` needs other plans when it is resumed with `config`."""
    return any(getattr(stored, name) != getattr(config, name) for name in ("checkpoint", "memory"))
