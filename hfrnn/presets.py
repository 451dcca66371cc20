"""The options of an update in the two presets of Hessian-free optimization. This file imports no package.

`HessianFreeOptions.tuned()` and `.published()` have these values, and so has `hfrnn train --preset`. `runs/defaults.py`
adds options of a run: batches and the average of the weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

LARGE = 1_000_000
"""The least number of symbols of a large text. Its validation and test parts count too."""
AS_TEXT = object()
"""Stands for the value of other texts."""


class ByData(NamedTuple):
    """A default that depends on the kind of data. Without `large_text`, large texts have the value of other texts."""

    text: Any
    music: Any
    task: Any
    arrays: Any
    large_text: Any = AS_TEXT

    def of(self, kind: str) -> Any:
        """Return the value for a kind of data, one of `KINDS_OF_DATA`."""
        value = getattr(self, kind)
        return self.text if value is AS_TEXT else value


KINDS_OF_DATA = ByData._fields
"""Kinds of data. "task" are synthetic tasks; those with a target at every step count as "arrays"."""


class Preset(NamedTuple):
    """The value of an option in each preset: one for all data, or a `ByData`."""

    tuned: Any
    published: Any


UPDATE_OPTIONS: dict[str, Preset] = {
    "cg_iterations": Preset(ByData(text=3, music=3, task=4, arrays=30, large_text=2), 100),
    "noise_limit": Preset(ByData(text=None, music=None, task=None, arrays=None, large_text=0.5), None),
    "warm_start": Preset(0.0, 0.95),
    "mu_growth": Preset(None, 3.0),
    "rho_every": Preset(ByData(text=1, music=1, task=1, arrays=1, large_text=5), 1),
    "armijo": Preset(ByData(text=0.125, music=0.125, task=0.01, arrays=0.01), 0.01),
    "preconditioner": Preset("kronecker", "none"),
    "preconditioner_exponent": Preset(ByData(text=0.75, music=0.75, task=0.75, arrays=0.75, large_text=1.0), 0.75),
    "preconditioner_relative_shift": Preset(ByData(text=1.0, music=1.0, task=0.0, arrays=0.0, large_text=0.5), 0.0),
    "preconditioner_parts": Preset(ByData(text=20, music=20, task=20, arrays=20, large_text=50), 50),
    "preconditioner_every": Preset(20, 10),
}
"""The options of an update that a preset decides."""
STRENGTHS: dict[str, tuple[float, float]] = {
    "structural": (0.1, 0.01),
    "tikhonov": (0.0, 1.0),
    "structural+tikhonov": (0.1, 0.1),
    "line-search": (0.0, 0.0),
    "none": (0.0, 0.0),
}
"""Initial strengths (mu, lambda) of each kind of damping."""
CG_EPSILON = 0.005
"""`cg_epsilon` of both presets. The papers have 0.0005, the default of `HessianFreeOptions`."""


def preset_options(preset: str, data: str) -> dict[str, Any]:
    """Return the options of an update that a preset decides, by name, for a kind of data.

    Parameters
    ----------
    preset : {"tuned", "published"}
    data : {"text", "large_text", "music", "task", "arrays"}
    """
    values = {name: getattr(option, preset) for name, option in UPDATE_OPTIONS.items()}
    found = {name: value.of(data) if isinstance(value, ByData) else value for name, value in values.items()}
    return {**found, "cg_epsilon": CG_EPSILON}
