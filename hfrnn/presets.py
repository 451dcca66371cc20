"""The options of an update in the two presets of Hessian-free optimization. This file imports no package.

`HessianFreeOptions.tuned()` and `.published()` have these values, and so has `hfrnn train --preset`. `runs/presets.py`
adds options of a run: batches and the average of the weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ByData(NamedTuple):
    """A default that depends on the kind of data."""

    text: Any
    music: Any
    task: Any
    arrays: Any


KINDS_OF_DATA = ByData._fields
"""Kinds of data. "task" are synthetic tasks; those with a target at every step count as "arrays"."""


class Preset(NamedTuple):
    """The value of an option in each preset: one for all data, or a `ByData`."""

    tuned: Any
    published: Any


UPDATE_OPTIONS: dict[str, Preset] = {
    "cg_iterations": Preset(ByData(text=3, music=3, task=4, arrays=30), 100),
    "warm_start": Preset(0.0, 0.95),
    "mu_growth": Preset(None, 3.0),
    "armijo": Preset(ByData(text=0.125, music=0.125, task=0.01, arrays=0.01), 0.01),
    "preconditioner": Preset("kronecker", "none"),
    "preconditioner_relative_shift": Preset(ByData(text=1.0, music=1.0, task=0.0, arrays=0.0), 0.0),
    "preconditioner_parts": Preset(20, 50),
    "preconditioner_every": Preset(20, 10),
}
"""The options of an update that a preset decides."""
CG_EPSILON = 0.005
"""`cg_epsilon` of both presets. The papers have 0.0005, the default of `HessianFreeOptions`."""


def update_options(preset: str, data: str) -> dict[str, Any]:
    """Return the options of an update that a preset decides, by name, for a kind of data.

    Parameters
    ----------
    preset : {"tuned", "published"}
    data : {"text", "music", "task", "arrays"}
    """
    values = {name: getattr(option, preset) for name, option in UPDATE_OPTIONS.items()}
    found = {name: getattr(value, data) if isinstance(value, ByData) else value for name, value in values.items()}
    return {**found, "cg_epsilon": CG_EPSILON}
