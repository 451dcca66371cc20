"""Options that may change when a run is resumed."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hfrnn.checks import instance, path
from hfrnn.choices import DEVICES
from hfrnn.errors import InputError
from hfrnn.runs.config import PATHS, TrainConfig, default_memory
from hfrnn.runs.options import option_key

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
    """Return the configuration of a run that is resumed with other options.

    Parameters
    ----------
    stored : TrainConfig
        The configuration that the run was started with.
    changes : dict
        New values of options by field name. Options outside `RESUMABLE` must have their stored values. A change
        between a CPU and a GPU also changes `memory` to its default there, unless it is given.

    Returns
    -------
    TrainConfig

    Raises
    ------
    InputError
        An option differs that must not change.
    """
    changes = {key: value for key, value in changes.items() if key in RESUMABLE or not _is_stored(stored, key, value)}
    foreign = [key for key in changes if key not in RESUMABLE]
    if foreign:
        names = ", ".join(map(option_key, foreign))
        raise InputError(f"a resumed run keeps its {names}: leave it out, only {', '.join(RESUMABLE)} may differ")
    if set(LIMITS) & changes.keys():
        stored = replace(stored, updates=None, minutes=None, epochs=None)
    if "backend" in changes:
        changes = {**changes, "backend": replace(stored, backend=changes["backend"]).chosen_backend}
        if (changes["backend"] in DEVICES) != (stored.backend in DEVICES):
            changes = {"memory": default_memory(changes["backend"]), **changes}
    return replace(stored, **changes)


def _is_stored(stored: TrainConfig, key: str, value: Any) -> bool:
    """Return whether an option has its stored value, or names the same file as the stored absolute path."""
    expected = getattr(stored, key)
    if value == expected:
        return True
    if key == "targets" and value is not None:
        return bool(expected == (os.path.abspath(",".join(value)),))
    if key not in (*PATHS, "data") or None in (value, expected):
        return False
    return os.path.abspath(value) == os.path.abspath(expected) and os.path.isabs(expected)


def needs_plans(stored: TrainConfig, config: TrainConfig) -> bool:
    """Return whether a resumed run needs other plans than the stored ones.

    Parameters
    ----------
    stored, config : TrainConfig
        The configurations that the run was started with and is resumed with.
    """
    return any(getattr(stored, name) != getattr(config, name) for name in ("checkpoint", "memory"))
