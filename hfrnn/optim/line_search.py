"""Searches for a step length: the last one of an update, and the one inside CG for line-search damping.

    L1  armijo: the first step of 1, 0.8, 0.8^2, .. with f(theta + step*x) <= f(theta) + 0.01 * step * g.x       [MS]
    L2  minimum: the step of these that minimises f(theta + step*x)                                              [K] 4.1
    L3  x_q: what CG minimises q with, x_q += alpha_i S_i                                          [K] Algorithm 5
    L4  x_f += eps_i alpha_i S_i, with eps_i of 1, tau, tau^2, .. by the loss at theta + x_f + eps alpha_i S_i
    L5  q(x_f) += (q(x_q) of L3, its change) * eps_i * (2 - eps_i), as the S_i are conjugate

A loss that is not finite counts as larger than any other: it is never a decrease, and backtracking goes on past it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hfrnn.errors import InputError
from hfrnn.optim.cg import Array


@dataclass(frozen=True)
class LineSearchResult:
    """The step that was found (0 without success), the loss there, and how often the loss was evaluated."""

    step: float
    f: float
    evaluations: int
    success: bool


class _Trials:
    """Losses at step lengths, counted; the one at 1 may be known beforehand."""

    def __init__(self, loss: Callable[[float], float], first: float | None) -> None:
        self._loss, self._first, self.evaluations = loss, first, 0

    def __call__(self, step: float) -> float:
        if step == 1.0 and self._first is not None:
            f = self._first
        else:
            f = self._loss(step)
            self.evaluations += 1
        return f if math.isfinite(f) else math.inf


def backtracking_line_search(
    loss: Callable[[float], float],
    f0: float,
    slope: float,
    *,
    factor: float = 0.8,
    max_backtracks: int = 60,
    armijo: float = 0.01,
    first: float | None = None,
) -> LineSearchResult:
    """The longest of the steps 1, factor, factor^2, .. that lowers the loss enough.

    Enough is f(step) <= f0 + armijo * step * slope, and f(step) < f0 whatever the slope.

    Arguments
    ---------
    loss : the loss at a step length
    f0 : the loss at 0, finite
    slope : the derivative of the loss at 0 along the direction, g.x
    factor : in (0, 1)
    max_backtracks : how often the step is shortened at most, >= 0
    armijo : the share of the promised decrease that is asked for, in [0, 1)
    first : the loss at step 1, if it is known already

    Returns
    -------
    LineSearchResult; without success step is 0 and f is f0.

    Raises
    ------
    InputError for a number out of range.

    Source: SPEC 6, [MS].
    """
    _check(factor, max_backtracks, armijo)
    trials = _Trials(loss, first)
    step = 1.0
    for _ in range(max_backtracks + 1):
        f = trials(step)
        if f < f0 and f <= f0 + armijo * step * slope:  # L1
            return LineSearchResult(step, f, trials.evaluations, True)
        step *= factor
    return LineSearchResult(0.0, f0, trials.evaluations, False)


def minimising_line_search(
    loss: Callable[[float], float],
    f0: float,
    *,
    factor: float = 0.8,
    max_backtracks: int = 60,
    first: float | None = None,
) -> LineSearchResult:
    """Shorten the step while the loss falls, and at least until it is below f0; the best step is the answer.

    Arguments and errors as for `backtracking_line_search`. Returns LineSearchResult. Source: SPEC 6, [K] 4.1.
    """
    _check(factor, max_backtracks, 0.0)
    trials = _Trials(loss, first)
    best_step, best, step = 0.0, f0, 1.0
    for _ in range(max_backtracks + 1):
        f = trials(step)
        if f < best:
            best_step, best = step, f  # L2
        elif best_step > 0.0:
            break
        step *= factor
    return LineSearchResult(best_step, best, trials.evaluations, best_step > 0.0)


def _check(factor: float, max_backtracks: int, armijo: float) -> None:
    if not 0.0 < factor < 1.0:
        raise InputError(f"The line search's factor is {factor}, expected a number between 0 and 1.")
    if max_backtracks < 0:
        raise InputError(f"max_backtracks is {max_backtracks}, expected at least 0.")
    if not 0.0 <= armijo < 1.0:
        raise InputError(f"The Armijo constant is {armijo}, expected a number from 0 up to but not 1.")


class DirectionSearch:
    """Line-search damping: beside CG's x_q, x_f follows the same directions as far as each lowers the true loss.

    eps_i starts at 1 and is shortened by tau while the loss falls; the direction counts only if its best trial is below
    the loss at theta + x_f. q(x_f) comes along for nothing: the directions are conjugate, so a direction that changes
    q(x_q) by d changes q(x_f) by d * eps * (2 - eps).

    Arguments: `loss` of a displacement x from theta; `x` the common start of CG and x_f, (n,), with the loss `f` there;
    `tau` in (0, 1); `max_backtracks` >= 0. Afterwards `x` and `f` are those of x_f, `q_change` is q(x_f) less q of the
    start, and `idle` counts directions without gain. Source: SPEC 5; [K] 3.31-3.32, Algorithm 5.
    """

    def __init__(
        self,
        loss: Callable[[Array], float],
        x: Array,
        f: float,
        *,
        tau: float = 0.5,
        max_backtracks: int = 10,
    ) -> None:
        _check(tau, max_backtracks, 0.0)
        self._loss, self._tau, self._max_backtracks = loss, tau, max_backtracks
        self.x, self.f, self.q_change, self.idle = x.copy(), f, 0.0, 0

    def follow(self, direction: Array, alpha: float, q_step: float) -> bool:
        """Go along alpha * direction, which changed q(x_q) by q_step, if the true loss falls; True if it does."""
        best, best_x, best_eps, eps = math.inf, self.x, 0.0, 1.0
        for _ in range(self._max_backtracks + 1):
            x = self.x + direction * (eps * alpha)
            f = self._loss(x)
            f = f if math.isfinite(f) else math.inf
            if math.isfinite(best) and f >= best:
                break
            best, best_x, best_eps = f, x, eps
            eps *= self._tau
        if not best < self.f:
            self.idle += 1
            return False
        self.x, self.f = best_x, best  # L4
        self.q_change += q_step * best_eps * (2.0 - best_eps)  # L5
        return True
