"""The full step of an update: CG on the damped quadratic, and the choice of one of its iterates.

H3 to H5, H14 and H15 of hessian_free.py. There are two ways to choose: the kept iterate where the loss stops falling,
or x_f of line-search damping.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hfrnn.arrays.vectors import Apply, Vector
from hfrnn.optim.cg import CGResult, CGStop, Iterate, conjugate_gradient, kept_iterations
from hfrnn.optim.damping import Damping, LevenbergMarquardt, rho
from hfrnn.optim.hf_options import HessianFreeOptions
from hfrnn.optim.line_search import DirectionSearch
from hfrnn.optim.quadratic import Quadratic, TrialLosses


@dataclass(frozen=True)
class FullStep:
    """A full step x (n,) before the last line search, its q(x), and the loss at theta + x on the objective of rho.

    `iteration` is the iteration of CG that x comes from; `factors` are mu(i)/mu_0 and lambda(i)/lambda_0 at its end
    (H4).
    """

    x: Vector
    q: float
    f: float
    iteration: int
    cg: CGResult
    factors: tuple[float, float]


@dataclass(frozen=True)
class Rules:
    """Levenberg-Marquardt rules of mu and of lambda."""

    mu: LevenbergMarquardt
    lambda_: LevenbergMarquardt

    def factors(self, ratio: float) -> tuple[float, float]:
        """Return the factors of mu and lambda after a step with this rho."""
        return self.mu.factor(ratio), self.lambda_.factor(ratio)


@dataclass(frozen=True)
class Solver:
    """Finds the full step of one update.

    CG begins at `start`, (n,), or at 0. `losses` and `f0`, the loss at theta, are those of the objective of rho.
    `watch` is called with every Iterate and may raise an exception. `noise` is the expected part of g.M^-1 g that noise
    makes (K8).
    """

    quadratic: Quadratic
    start: Vector | None
    preconditioner: Apply | None
    losses: TrialLosses
    f0: float
    damping: Damping
    rules: Rules
    options: HessianFreeOptions
    watch: Callable[[Iterate], None]
    noise: float

    def solve(self) -> FullStep:
        """Run CG and choose the full step."""
        return self._follow_directions() if self.damping.kind == "line-search" else self._choose_iterate()

    def last(self) -> FullStep:
        """Run CG and take its last iterate; no loss is evaluated, and f is NaN."""
        cg = self._run(self.start, None, self.watch)  # H3
        iteration, q, x = cg.iterates[-1]
        return FullStep(x, q, math.nan, iteration, cg, (1.0, 1.0))  # H12

    def _choose_iterate(self) -> FullStep:
        """Follow mu(i) during CG, then go back over the kept iterates while the loss falls."""
        damping, losses = self.damping, self.losses
        bound = self.options.mu_growth if damping.adapts else None
        watched = [at for at, adapts in enumerate((damping.adapts_mu, damping.adapts_lambda)) if adapts]
        factors = (1.0, 1.0)

        def on_iterate(iterate: Iterate) -> CGStop | None:
            nonlocal factors
            self.watch(iterate)
            if bound is None or not iterate.kept or iterate.q >= 0.0:
                return None
            f = losses.of_iterate(iterate.iteration, iterate.x)
            asked = self.rules.factors(rho(f, self.f0, self.quadratic.model(iterate.x, iterate.q)))
            factors = factors[0] * asked[0], factors[1] * asked[1]  # H4
            return CGStop.MU_GROWTH if max(factors[at] for at in watched) >= bound else None

        cg = self._run(self.start, self.options.keep_ratio, on_iterate)  # H3
        iteration, q, x = cg.iterates[-1]
        f = losses.of_iterate(iteration, x)
        if self.options.compare_iterates == "low-rho" and not self._is_low(x, q, f):
            return FullStep(x, q, f, iteration, cg, factors)  # H15
        for earlier, earlier_q, earlier_x in reversed(cg.iterates[:-1]):
            earlier_f = losses.of_iterate(earlier, earlier_x)
            if math.isfinite(f) and earlier_f >= f:
                break
            iteration, q, x, f = earlier, earlier_q, earlier_x, earlier_f  # H5
        return FullStep(x, q, f, iteration, cg, factors)

    def _is_low(self, x: Vector, q: float, f: float) -> bool:
        """Return whether rho at an iterate with the loss f asks for stronger damping."""
        return rho(f, self.f0, self.quadratic.model(x, q)) < self.rules.mu.low

    def _follow_directions(self) -> FullStep:
        """Line-search damping: CG without damping, and x_f along the same directions."""
        options, start, f = self.options, self.start, self.f0
        if start is not None:
            f = self.losses(start)
            start = start if math.isfinite(f) else None
        search = DirectionSearch(
            self.losses,
            start if start is not None else self.quadratic.g * 0.0,
            f if start is not None else self.f0,
            tau=options.tau,
            max_backtracks=options.direction_backtracks,
        )
        last_gain = 0

        def on_iterate(iterate: Iterate) -> CGStop | None:
            nonlocal last_gain
            self.watch(iterate)
            if search.follow(iterate.direction, iterate.alpha, iterate.q_step):
                last_gain = iterate.iteration
            return CGStop.NO_GAIN if search.idle > options.idle_directions else None

        cg = self._run(start, None, on_iterate)  # H3
        return FullStep(search.x, cg.q_history[0] + search.q_change, search.f, last_gain, cg, (1.0, 1.0))  # H5

    def _run(
        self, start: Vector | None, keep_ratio: float | None, on_iterate: Callable[[Iterate], CGStop | None]
    ) -> CGResult:
        options = self.options
        return conjugate_gradient(
            self.quadratic.apply,
            -self.quadratic.g,
            start,
            max_iterations=options.cg_iterations,
            epsilon=options.cg_epsilon,
            window=options.cg_window,
            residual_tolerance=options.residual_tolerance,
            residual_every=options.residual_every,
            keep_ratio=keep_ratio,
            preconditioner=self.preconditioner,
            on_iterate=lambda iterate: on_iterate(iterate) or self._noise_stop(iterate),
        )

    def _noise_stop(self, iterate: Iterate) -> CGStop | None:
        """Stop after the first iteration if noise makes too much of its decrease."""
        limit = self.options.noise_limit
        if limit is None or iterate.iteration > 1:
            return None
        product = -2.0 * iterate.q_step / iterate.alpha  # r.M^-1 r at the start, by C1 to C4
        return CGStop.NOISE if self.noise > limit * product else None  # H14


def usual_losses(damping: Damping, options: HessianFreeOptions, iterations: int) -> float:
    """Return how many trial losses an update with so many CG iterations usually computes, on average over updates.

    Steps that have to be shortened need more.
    """
    if damping.kind == "line-search":
        return 2 * iterations + (options.warm_start > 0.0)  # at eps = 1 and tau along each direction; at the start
    kept = len(kept_iterations(options.keep_ratio, iterations))
    compared = 1 if options.compare_iterates == "low-rho" else 2
    losses = kept if options.mu_growth is not None and damping.adapts else min(kept, compared)  # H4, H5, H15
    return losses / options.rho_every  # H12
