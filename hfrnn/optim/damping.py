"""Strength of the damping of the curvature, and the Levenberg-Marquardt rule that adapts it.

    D1  A = G + mu*S + lambda*I
    D2  rho = (f(theta + x) - f(theta)) / q(x); minus infinity where the loss rose or is not finite, or q(x) >= 0
    D3  rho < 1/4: mu (and lambda) * 3/2
    D4  rho > 3/4: mu (and lambda) * 2/3
    D5  mu (and lambda) stay above `least` times their first values

References: SPEC 5; [MS]; [K] 3.24-3.30 and 4.1 (which prints the two factors the wrong way round).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hfrnn.checks import (
    ABOVE_ONE,
    INSIDE_ONE,
    POSITIVE,
    ZERO_TO_ONE,
    Range,
    check_fields,
    checked,
    choice,
    is_number,
    number,
    shown,
    wrong,
)
from hfrnn.choices import ADAPTED, DAMPINGS, METRICS
from hfrnn.errors import InputError
from hfrnn.optim.hf_options import STRENGTHS

LEAST_STRENGTH, GREATEST_STRENGTH = 1e-8, 1e8
"""Bounds of a strength that is not 0."""


@dataclass(init=False)
class Damping:
    """A kind of damping with its current strengths, mu (structural) and lambda_ (Tikhonov).

    Parameters
    ----------
    kind : {"structural", "tikhonov", "structural+tikhonov", "line-search", "none"}
        With "line-search" ([K] Algorithm 5), conjugate gradient itself is not damped.
    mu : float, optional
        Strength of structural damping, from 1e-8 to 1e8, for the kinds that include it. By default that of the kind.
    lambda_ : float, optional
        Strength of Tikhonov damping, from 1e-8 to 1e8, for the kinds that include it. Kind "structural" includes a
        small one by default; 0 turns it off. By default that of the kind.
    metric : {"hidden", "matching", "preactivation"}
        Quantity that structural damping measures (SPEC 5).
    adapt : {"both", "mu", "lambda", "none"}
        Strengths that change from update to update.
    least : float
        Smallest strength as a share of the first one, from 0 to 1. Small batches need it: there, rho does not tell when
        the damping is too weak for the sequences outside the batch.

    Raises
    ------
    InputError
        The kind, the metric or `adapt` is unknown; a strength is out of range; or the kind does not have a strength
        that is given or to be adapted.

    References
    ----------
    SPEC 5; [K] 3.24-3.30; [MS].

    Examples
    --------
    >>> import hfrnn
    >>> damping = hfrnn.Damping("tikhonov", lambda_=2.0)
    >>> damping.scale(1.5)
    >>> damping.lambda_
    3.0
    """

    kind: str
    mu: float
    lambda_: float
    metric: str
    adapt: str
    least: float

    def __init__(
        self,
        kind: str = "structural",
        mu: float | None = None,
        lambda_: float | None = None,
        metric: str = "hidden",
        adapt: str = "both",
        least: float = 0.0,
    ) -> None:
        kind, adapt = choice("the damping kind", kind, DAMPINGS), choice("adapt", adapt, ADAPTED)
        metric = choice("the damping metric", metric, METRICS)
        default_mu, default_lambda = STRENGTHS[kind]
        self.kind, self.metric, self.adapt = kind, metric, adapt
        self.mu = number("mu", default_mu if mu is None else mu)
        self.lambda_ = number("lambda_", default_lambda if lambda_ is None else lambda_)
        self.least = number("least", least, ZERO_TO_ONE)
        self._least = max(self.least * self.mu, LEAST_STRENGTH), max(self.least * self.lambda_, LEAST_STRENGTH)
        structural, tikhonov = kind.startswith("structural"), kind.endswith("tikhonov")
        _check_strength("mu", self.mu, kind, allowed=structural, required=structural)
        _check_strength("lambda_", self.lambda_, kind, allowed=structural or tikhonov, required=tikhonov)
        if adapt != "none" and not (self.adapts or adapt == "both"):
            raise InputError(f"adapt is {adapt!r}, but damping of kind {kind!r} has no {adapt} here: choose another.")

    @property
    def adapts_mu(self) -> bool:
        """Whether mu is above 0 and changes."""
        return self.mu > 0.0 and self.adapt in ("both", "mu")

    @property
    def adapts_lambda(self) -> bool:
        """Whether lambda is above 0 and changes."""
        return self.lambda_ > 0.0 and self.adapt in ("both", "lambda")

    @property
    def adapts(self) -> bool:
        """Whether the Levenberg-Marquardt rule can change a strength."""
        return self.adapts_mu or self.adapts_lambda

    def scale(self, factor: float, lambda_factor: float | None = None) -> None:
        """Multiply the strengths that adapt, and keep them from 1e-8 (or the least) to 1e8.

        Parameters
        ----------
        factor : float
            Factor of mu, above 0.
        lambda_factor : float, optional
            Factor of lambda, above 0. By default `factor`.
        """
        factor = number("factor", factor, POSITIVE)
        lambda_factor = number("lambda_factor", factor if lambda_factor is None else lambda_factor, POSITIVE)
        if self.adapts_mu:
            self.mu = min(max(self.mu * factor, self._least[0]), GREATEST_STRENGTH)  # D5
        if self.adapts_lambda:
            self.lambda_ = min(max(self.lambda_ * lambda_factor, self._least[1]), GREATEST_STRENGTH)

    def state_dict(self) -> dict[str, float | str]:
        """Return the strengths, which change during training, and the kind."""
        return {"kind": self.kind, "mu": self.mu, "lambda_": self.lambda_}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the strengths from a `state_dict`.

        Raises
        ------
        InputError
            An entry is missing or out of range, or the kind is another one. Nothing has changed then.
        """
        if not isinstance(state, Mapping):
            raise InputError(f"state is {shown(state)}: give the state_dict of a Damping")
        missing = [name for name in ("kind", "mu", "lambda_") if name not in state]
        if missing:
            raise InputError(f"The damping state lacks {', '.join(missing)}: give the state_dict of a Damping.")
        if state["kind"] != self.kind:
            raise InputError(
                f"The damping state is of kind {shown(state['kind'])}, expected {self.kind!r}: "
                "construct the Damping with the kind that was saved."
            )
        checked = replace(self, mu=state["mu"], lambda_=state["lambda_"])
        self.mu, self.lambda_ = checked.mu, checked.lambda_


def _check_strength(name: str, value: float, kind: str, *, allowed: bool, required: bool) -> None:
    if value == 0.0 and not required:
        return
    if not allowed:
        raise InputError(f"{name} is {value:g}, but damping of kind {kind!r} has none: leave it out.")
    number(name, value, Range(LEAST_STRENGTH, GREATEST_STRENGTH))


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Rule that turns rho into a factor for the strengths of the damping.

    Parameters
    ----------
    low : float
        A rho below this makes the damping stronger. A rho that is NaN counts as minus infinity.
    high : float
        A rho above this makes the damping weaker; at least `low`.
    grow : float
        Factor for a rho below `low`, above 1.
    shrink : float
        Factor for a rho above `high`, between 0 and 1.

    Raises
    ------
    InputError
        A number is out of range.

    References
    ----------
    SPEC 5; [MS].

    Examples
    --------
    >>> import hfrnn
    >>> rule = hfrnn.LevenbergMarquardt(low=0.25, high=0.75)
    >>> rule.factor(0.1), rule.factor(0.5), round(rule.factor(0.9), 3)
    (1.5, 1.0, 0.667)
    """

    low: float = checked(0.25, number)
    high: float = checked(0.75, number)
    grow: float = checked(1.5, number, ABOVE_ONE)
    shrink: float = checked(2.0 / 3.0, number, INSIDE_ONE)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.low > self.high:
            raise InputError(f"low is {self.low:g}, and high is {self.high:g}: give a low that is not above high")

    def factor(self, ratio: float) -> float:
        """Return the factor of the strengths after a step with this rho."""
        if not is_number(ratio):
            raise wrong("ratio", ratio, "give a number")
        if ratio != ratio or ratio < self.low:
            return self.grow  # D3
        return self.shrink if ratio > self.high else 1.0  # D4


def rho(f_new: float, f_old: float, q: float) -> float:
    """Return the actual decrease of the loss as a share of the decrease that the quadratic predicts.

    Parameters
    ----------
    f_new, f_old : float
        Losses after and before a full step.
    q : float
        Value of the quadratic at that step.

    Returns
    -------
    float
        (f_new - f_old) / q. Minus infinity if f_new is not finite or above f_old, or if q is not negative: then the
        quadratic predicts no decrease and cannot be trusted.

    References
    ----------
    SPEC 5; [K] 4.1; [MS].
    """
    if not math.isfinite(f_new) or f_new > f_old or not q < 0.0:
        return -math.inf
    return (f_old - f_new) / -q  # D2
