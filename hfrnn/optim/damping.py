"""How strongly the curvature is damped, and the Levenberg-Marquardt rule that adapts it.

    D1  A = G + mu*S + lambda*I
    D2  rho = (f(theta + x) - f(theta)) / q(x); minus infinity where the loss rose or is not finite, or q(x) >= 0
    D3  rho < 1/4: mu (and lambda) * 3/2
    D4  rho > 3/4: mu (and lambda) * 2/3

Sources: SPEC 5; [MS]; [K] 3.24-3.30 and 4.1 (where the two factors are printed the wrong way round).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hfrnn.errors import InputError
from hfrnn.names import ADAPTED, DAMPINGS, METRICS

# kind: the strengths (mu, lambda_) that it starts with unless told
_DEFAULTS = {
    "structural": (0.1, 0.01),
    "tikhonov": (0.0, 1.0),
    "structural+tikhonov": (0.1, 0.1),
    "line-search": (0.0, 0.0),
    "none": (0.0, 0.0),
}
KINDS = DAMPINGS


@dataclass(init=False)
class Damping:
    """A kind of damping with its present strengths, mu (structural) and lambda_ (Tikhonov).

    Arguments
    ---------
    kind : "structural", "tikhonov", "structural+tikhonov", "line-search" ([K] Algorithm 5, CG undamped) or "none"
    mu : strength of structural damping, > 0 where the kind has one; None takes the kind's default
    lambda_ : strength of Tikhonov damping, > 0; beside kind "structural" a small one by default, and 0 gives the pure
        form; None takes the kind's default
    metric : what structural damping measures, "hidden", "matching" or "preactivation" (SPEC 5)
    adapt : which strengths change from update to update: "both" that the kind has, "mu" or "lambda" alone while the
        other stays as it is, or "none"
    mu_floor, mu_ceiling, lambda_floor, lambda_ceiling : what adapting never passes, 0 < floor <= ceiling

    Raises
    ------
    InputError for an unknown kind, metric or adapt, a strength that is not there but given or to be adapted, or one
    outside its bounds.

    Source: SPEC 5; [K] 3.24-3.30; [MS].
    """

    kind: str
    mu: float
    lambda_: float
    metric: str
    adapt: str
    mu_floor: float
    mu_ceiling: float
    lambda_floor: float
    lambda_ceiling: float

    def __init__(
        self,
        kind: str = "structural",
        mu: float | None = None,
        lambda_: float | None = None,
        metric: str = "hidden",
        adapt: str = "both",
        mu_floor: float = 1e-8,
        mu_ceiling: float = 1e8,
        lambda_floor: float = 1e-8,
        lambda_ceiling: float = 1e8,
    ) -> None:
        if kind not in KINDS:
            raise InputError(f"The damping kind is {kind!r}, expected one of {', '.join(KINDS)}: choose one of these.")
        if metric not in METRICS:
            raise InputError(f"The damping metric is {metric!r}, expected one of {', '.join(METRICS)}: choose one.")
        if adapt not in ADAPTED:
            raise InputError(f"adapt is {adapt!r}, expected one of {', '.join(ADAPTED)}: choose one of these.")
        default_mu, default_lambda = _DEFAULTS[kind]
        self.kind, self.metric, self.adapt = kind, metric, adapt
        self.mu = float(default_mu if mu is None else mu)
        self.lambda_ = float(default_lambda if lambda_ is None else lambda_)
        self.mu_floor, self.mu_ceiling = mu_floor, mu_ceiling
        self.lambda_floor, self.lambda_ceiling = lambda_floor, lambda_ceiling
        structural = kind.startswith("structural")
        _check_strength("mu", self.mu, mu_floor, mu_ceiling, kind, structural, required=structural)
        tikhonov = kind.endswith("tikhonov")
        _check_strength(
            "lambda_", self.lambda_, lambda_floor, lambda_ceiling, kind, structural or tikhonov, required=tikhonov
        )
        if adapt != "none" and not (self.adapts or adapt == "both"):
            raise InputError(f"adapt is {adapt!r}, but damping of kind {kind!r} has no {adapt} here: choose another.")

    @property
    def adapts_mu(self) -> bool:
        """Whether mu is there and changes."""
        return self.mu > 0.0 and self.adapt in ("both", "mu")

    @property
    def adapts_lambda(self) -> bool:
        """Whether lambda is there and changes."""
        return self.lambda_ > 0.0 and self.adapt in ("both", "lambda")

    @property
    def adapts(self) -> bool:
        """Whether there is a strength that the Levenberg-Marquardt rule can change."""
        return self.adapts_mu or self.adapts_lambda

    def scale(self, factor: float, lambda_factor: float | None = None) -> None:
        """Multiply what is adapted, each held between its floor and its ceiling.

        Arguments: `factor` > 0 of mu, and of lambda too unless it has a `lambda_factor` > 0 of its own.
        """
        if self.adapts_mu:
            self.mu = min(max(self.mu * factor, self.mu_floor), self.mu_ceiling)
        if self.adapts_lambda:
            factor = factor if lambda_factor is None else lambda_factor
            self.lambda_ = min(max(self.lambda_ * factor, self.lambda_floor), self.lambda_ceiling)

    def state_dict(self) -> dict[str, float | str]:
        """What changes during training, and the kind that it belongs to."""
        return {"kind": self.kind, "mu": self.mu, "lambda_": self.lambda_}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the strengths of a `state_dict`; InputError if it does not fit."""
        missing = [name for name in ("kind", "mu", "lambda_") if name not in state]
        if missing:
            raise InputError(f"The damping state lacks {', '.join(missing)}: give the state_dict of a Damping.")
        if state["kind"] != self.kind:
            raise InputError(
                f"The damping state is of kind {state['kind']!r}, expected {self.kind!r}: "
                "construct the Damping with the kind that was saved."
            )
        checked = replace(self, mu=state["mu"], lambda_=state["lambda_"])
        self.mu, self.lambda_ = checked.mu, checked.lambda_


def _check_strength(
    name: str, value: float, floor: float, ceiling: float, kind: str, allowed: bool, *, required: bool
) -> None:
    if not 0.0 < floor <= ceiling:
        raise InputError(f"{name} has floor {floor} and ceiling {ceiling}, expected 0 < floor <= ceiling.")
    if value == 0.0 and not required:
        return
    if not allowed:
        raise InputError(f"{name} is {value}, but damping of kind {kind!r} has none: leave it out.")
    if not floor <= value <= ceiling:
        raise InputError(
            f"{name} is {value}, expected a number from {floor} to {ceiling} for damping of kind {kind!r}."
        )


@dataclass(frozen=True)
class LevenbergMarquardt:
    """The rule that turns rho into a factor for the strengths.

    Arguments: below `low` the factor is `grow` > 1, above `high` it is `shrink` in (0, 1), between them 1. A rho that
    is NaN counts as minus infinity. Source: SPEC 5, [MS].
    """

    low: float = 0.25
    high: float = 0.75
    grow: float = 1.5
    shrink: float = 2.0 / 3.0

    def __post_init__(self) -> None:
        if not (self.low <= self.high and self.grow > 1.0 and 0.0 < self.shrink < 1.0):
            raise InputError(f"The rule is {self}, expected low <= high, grow > 1 and 0 < shrink < 1.")

    def factor(self, ratio: float) -> float:
        """What to multiply the strengths by after a step with this rho."""
        if math.isnan(ratio) or ratio < self.low:
            return self.grow  # D3
        return self.shrink if ratio > self.high else 1.0  # D4


def rho(f_new: float, f_old: float, q: float) -> float:
    """How much of the decrease that the quadratic promised was found: (f_new - f_old) / q.

    Arguments: the losses after and before a full step, and q of that step. Returns the ratio; minus infinity if f_new
    is not finite or above f_old, or if q is not negative (nothing was promised, so nothing can be trusted).
    Source: SPEC 5; [K] 4.1; [MS].
    """
    if not math.isfinite(f_new) or f_new > f_old or not q < 0.0:
        return -math.inf
    return (f_old - f_new) / -q  # D2
