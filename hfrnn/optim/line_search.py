"""Searches for a step length: at the end of an update, and inside CG for line-search damping.

    L1  armijo: the first step of 1, 0.8, 0.8^2, .. with f(theta + step*x) <= f(theta) + 0.01 * step * g.x       [MS]
    L2  minimum: the step of these with the smallest f(theta + step*x)                                           [K] 4.1
    L3  x_q += alpha_i S_i, the iterate of CG                                                      [K] Algorithm 5
    L4  x_f += eps_i alpha_i S_i; eps_i is one of 1, tau, tau^2, .., by the loss at theta + x_f + eps alpha_i S_i
    L5  q(x_f) += (change of q(x_q) in L3) * eps_i * (2 - eps_i), because the S_i are conjugate

A loss that is not finite counts as larger than any other: it is never a decrease, and backtracking continues past it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hfrnn.arrays.vectors import Vector


@dataclass(frozen=True)
class LineSearchResult:
    """The chosen step, 0 without success; the loss there; and the number of losses evaluated."""

    step: float
    f: float
    evaluations: int
    success: bool


class _Trials:
    """Counted losses at step lengths; `first` is the loss at step 1 if it is known already."""

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
    """Find the longest of the steps 1, factor, factor^2, .. that lowers the loss enough.

    A step is good enough if f(step) <= f0 + armijo * step * slope and f(step) < f0. `loss` takes a step length; `f0`
    and `slope` are the loss and its derivative at step 0; `first` is the loss at step 1 if it is known. References:
    SPEC 6; [MS].
    """
    trials, step = _Trials(loss, first), 1.0
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
    """Find the step with the smallest loss among 1, factor, factor^2, ... (SPEC 6; [K] 4.1).

    The search shortens the step until a loss is below f0, and then as long as the loss falls.
    """
    trials, best_step, best, step = _Trials(loss, first), 0.0, f0, 1.0
    for _ in range(max_backtracks + 1):
        f = trials(step)
        if f < best:
            best_step, best = step, f  # L2
        elif best_step > 0.0:
            break
        step *= factor
    return LineSearchResult(best_step, best, trials.evaluations, best_step > 0.0)


class DirectionSearch:
    """Line-search damping: a second iterate x_f follows the directions of CG as far as they lower the true loss.

    eps_i starts at 1 and is multiplied by tau while the loss falls. A direction is a gain only if its best trial is
    below the loss at theta + x_f. Algorithm 5 as printed would also follow a direction whose second trial is not below
    the first, although both are above that loss. `loss` takes a displacement (n,) from theta; x and f are the start and
    the loss there.

    References: SPEC 5; [K] 3.31-3.32, Algorithm 5.

    Attributes
    ----------
    x, f : (n,) array, float
        x_f, and the loss at theta + x_f.
    q_change : float
        q(x_f) minus q of the start.
    idle : int
        Number of directions without a gain.
    """

    def __init__(
        self, loss: Callable[[Vector], float], x: Vector, f: float, *, tau: float = 0.5, max_backtracks: int = 10
    ) -> None:
        self._loss, self._tau, self._max_backtracks = loss, tau, max_backtracks
        self.x, self.f, self.q_change, self.idle = x.copy(), f, 0.0, 0

    def follow(self, direction: Vector, alpha: float, q_step: float) -> bool:
        """Move x_f along a step of CG, which changes q(x_q) by `q_step`, if the loss falls; return whether it did."""
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
