"""Parts of an update of Hessian-free optimization: its model, its solution, and the return to earlier parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.vectors import Apply, Vector
from hfrnn.checks import number
from hfrnn.errors import NonFiniteError
from hfrnn.optim.cg import CGStop
from hfrnn.optim.full_step import FullStep
from hfrnn.optim.hf_options import CurvatureObjective, HessianFreeOptions
from hfrnn.optim.kronecker import Kronecker
from hfrnn.optim.line_search import LineSearchResult, backtracking_line_search, minimising_line_search
from hfrnn.optim.outcome import Failure
from hfrnn.optim.quadratic import Quadratic, TrialLosses

STEADY_UPDATES = 5
"""Measured updates in a row that must leave the damping as it is before others go unmeasured."""
PROMISE = 0.25
"""Share of the loss that q may promise in an update without measurement."""
RISING = 100
"""Number of updates in which the momentum rises from 0 to its value. The directions of the first steps change fast."""
SUSPICIOUS, BAD = 0.2, 0.1
"""Bounds on the rise of the loss after a step, as a share of the loss: on the new batch, above which the step is
checked; and on the same batch, above which it is undone."""
ROUNDING = 1e-5
"""Distance between two thetas that may come from rounding to single precision, as a share of their norm."""
BEFORE, BEFORE_LOSS = "before", "before_loss"
"""Names of a `Fallback` in the state of the optimizer."""
SOLUTION, STEP = "cg_solution", "last_step"
"""Names of the last solution of CG and of the last step in the state of the optimizer."""


@dataclass(frozen=True)
class UpdateModel:
    """Loss, gradient and quadratic of an update.

    `losses` are those of the last line search, and `judge` those of rho; `judge_f0` is the latter at theta, NaN while
    it is not known. An update that is not measured uses none of these three. `noise` is that of `Solver`.
    """

    theta: Vector
    f0: float
    g: Vector
    g_norm: float
    losses: TrialLosses
    judge: TrialLosses
    judge_f0: float
    quadratic: Quadratic
    preconditioner: Apply | None
    kronecker: Kronecker | None
    measured: bool
    gradient_seconds: float
    preconditioner_seconds: float
    noise: float
    begin: float

    def measure(self, rho_objective: str) -> UpdateModel:
        """Return this model for a measured update; its loss of rho at theta is evaluated if it is not known."""
        judge_f0 = self.judge(self.g * 0.0) if math.isnan(self.judge_f0) else self.judge_f0
        if not math.isfinite(judge_f0):
            raise NonFiniteError(_not_finite(f"loss of the {rho_objective} batch"))
        return replace(self, measured=True, judge_f0=judge_f0)

    def search(self, full: FullStep, slope: float, x_norm: float, *, options: HessianFreeOptions) -> LineSearchResult:
        """Return the result of the last line search, along a full step with that slope and norm."""
        f0 = self.losses_f0
        if x_norm == 0.0:
            return LineSearchResult(0.0, f0, 0, False)

        def loss(step: float) -> float:
            return self.losses(full.x, step)

        first = full.f if self.judge is self.losses else None
        factor, backtracks = options.line_search_factor, options.line_search_backtracks
        if options.line_search == "minimum":
            return minimising_line_search(loss, f0, factor=factor, max_backtracks=backtracks, first=first)
        return backtracking_line_search(
            loss, f0, slope, factor=factor, max_backtracks=backtracks, armijo=options.armijo, first=first
        )

    @property
    def losses_f0(self) -> float:
        """The loss at theta on the objective of the last line search."""
        return self.judge_f0 if self.losses is self.judge else self.f0

    @property
    def trials(self) -> list[TrialLosses]:
        """The losses at trial steps, each objective once."""
        return list({id(each): each for each in (self.losses, self.judge)}.values())


@dataclass(frozen=True)
class Solution:
    """The full step of an update, its rho and norm, and the step that the last line search chose."""

    full: FullStep
    rho: float
    x_norm: float
    search: LineSearchResult
    cg_seconds: float

    def failure(self, model: UpdateModel) -> Failure:
        """Return why no step was taken."""
        cg = self.full.cg
        if cg.stop is CGStop.NON_FINITE and self.x_norm == 0.0:
            return Failure.NON_FINITE
        if cg.iterations == 0 and self.x_norm == 0.0:
            return Failure.NO_STEP
        if not model.measured:
            return Failure.NON_FINITE
        losses = model.losses if model.losses.evaluations else model.judge
        return Failure.NO_DECREASE if losses.finite else Failure.NON_FINITE


@dataclass(frozen=True)
class Fallback:
    """Theta (n,) before a step and the loss there, to return to if the next batch shows that the step was bad (H13).

    `step_norm` is the length of the step; infinity if the state of the optimizer was loaded.
    """

    theta: Vector
    loss: float
    step_norm: float = math.inf

    def check(self, loss: float, gradient_norm: float, objective: CurvatureObjective) -> tuple[float, bool] | None:
        """Return the loss before the step on the objective of a new batch, and whether the step was bad.

        `loss` and `gradient_norm` are those after the step, on the same objective. None if they raise no suspicion.
        """
        finite = math.isfinite(loss) and math.isfinite(gradient_norm)
        if finite and loss <= self.loss + SUSPICIOUS * abs(self.loss):
            return None
        before = float(objective.loss(self.theta))
        return before, not finite or loss > before + BAD * abs(before)

    def state_dict(self) -> dict[str, Any]:
        """Return the entries in the state of the optimizer."""
        return {BEFORE: self.theta.copy(), BEFORE_LOSS: self.loss}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Fallback | None:
        """Return the fallback of the optimizer's state; None if the state holds none."""
        theta = vector_of(state, BEFORE)
        if theta is None:
            return None
        return cls(theta, number(f"{BEFORE_LOSS} of the state", state.get(BEFORE_LOSS)))


def vector_of(state: Mapping[str, Any], name: str) -> Vector | None:
    """Return a copy of a vector (n,) of the optimizer's state; None if the state holds none."""
    given = state.get(name)
    return None if given is None else array(f"{name} of the state", given, (None,), "f", finite=True).copy()


def check_finite(theta: Vector, loss: float, gradient_norm: float) -> None:
    """Raise NonFiniteError for a loss or a gradient that is not finite, and InputError for such parameters."""
    if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
        array("theta", theta, (None,), finite=True)
    if not math.isfinite(loss):
        raise NonFiniteError(_not_finite("training loss"))
    if not math.isfinite(gradient_norm):
        raise NonFiniteError(_not_finite("gradient"))


def _not_finite(what: str) -> str:
    """Return the message of an error about a number that is not finite."""
    return (
        f"The {what} is not finite at the present parameters, expected finite numbers: "
        "go back to the last good parameters, or start from smaller ones."
    )
