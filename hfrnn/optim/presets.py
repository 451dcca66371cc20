"""What Hessian-free optimization chooses by the kind of damping and of data, beside the defaults of single options.

The defaults of single options stand in the declarations of the options: those of an update in `optim/hf_options.py`,
those of a run in `training/methods/hf.py`. This file imports only the declarations, so that help texts appear quickly.
"""

from __future__ import annotations

from hfrnn.option import ByData

KINDS_OF_DATA = ByData._fields
"""Kinds of data that presets tell apart. "task" are synthetic tasks; those with a target at every step are "arrays"."""
STRENGTHS: dict[str, tuple[float, float]] = {
    "structural": (0.1, 0.01),
    "tikhonov": (0.0, 1.0),
    "structural+tikhonov": (0.1, 0.1),
    "line-search": (0.0, 0.0),
    "none": (0.0, 0.0),
}
"""Initial strengths (mu, lambda) of each kind of damping."""
WEAKER = 10
"""How many times weaker than its kind's own the damping of a large text is at first, in the preset tuned."""
LEAST_FACTORS = {"tikhonov": 0.01, "structural+tikhonov": 0.1}
"""Factors of the default of `least_damping`, by kind of damping. They make the least lambda 0.001 for every kind."""
SHIFT = 1e-3
"""Shift of the preconditioner where the damping has no lambda and no relative shift is given."""
