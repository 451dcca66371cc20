"""Hessian-free optimization: one update from a gradient, a run of conjugate gradient and a line search.

    1. f and g at theta                                  (gradient objective)
    2. CG on A x = -g from 0.95 times its last solution  (curvature objective, damped)
    3. x: walk back over the kept iterates while the loss falls; or x_f of line-search damping
    4. rho of the full step x
    5. theta + step * x by a line search                 (gradient objective)
    6. damping and warm start for the next update

Nothing is kept of an update that raises. Sources: SPEC 5 and 6; [MS]; [K] 3.3, 4.1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.cg import Apply, Array, CGResult, CGStop, Iterate, conjugate_gradient, dot, norm
from hfrnn.optim.damping import Damping, LevenbergMarquardt, rho
from hfrnn.optim.line_search import (
    DirectionSearch,
    LineSearchResult,
    backtracking_line_search,
    minimising_line_search,
)
from hfrnn.optim.update import HessianFreeOptions, Objective, Update, UpdateInterrupted

__all__ = ["HessianFree", "HessianFreeOptions", "Objective", "Update", "UpdateInterrupted"]


class _TrialLosses:
    """Losses at theta + step * x, counted and timed; a value that is not finite becomes infinity."""

    def __init__(self, objective: Objective, theta: Array) -> None:
        self._objective, self._theta = objective, theta
        self._known: dict[int, float] = {}
        self.evaluations, self.seconds = 0, 0.0

    def __call__(self, x: Array, step: float = 1.0) -> float:
        start = time.perf_counter()
        f = float(self._objective.loss(self._theta + x * step))
        self.seconds += time.perf_counter() - start
        self.evaluations += 1
        return f if math.isfinite(f) else math.inf

    def of_iterate(self, iteration: int, x: Array) -> float:
        """The loss at a kept iterate, never evaluated twice."""
        if iteration not in self._known:
            self._known[iteration] = self(x)
        return self._known[iteration]


@dataclass(frozen=True)
class _Candidate:
    """A full step: the vector, its quadratic and loss (on rho's objective), and CG's trailing factor mu(i)/mu_0."""

    x: Array
    q: float
    f: float
    iteration: int
    cg: CGResult
    mu_factor: float


class _Problem:
    """The quadratic of one update: gradient, damped operator, start of CG, and how q of rho is formed."""

    def __init__(
        self,
        theta: Array,
        g: Array,
        objective: Objective,
        damping: Damping,
        start: Array | None,
        rho_model: str,
        preconditioner: Apply | None,
    ) -> None:
        self.g, self.start, self.preconditioner, self.products = g, start, preconditioner, 0
        self.seconds = 0.0
        self._damped = objective.gauss_newton(
            theta, structural=damping.mu, tikhonov=damping.lambda_, metric=damping.metric
        ).apply
        self._undamped: Apply | None = None
        if rho_model == "undamped" and damping.adapts:
            self._undamped = objective.gauss_newton(theta, structural=0.0, tikhonov=0.0, metric=damping.metric).apply

    def apply(self, v: Array, out: Array) -> None:
        """out <- A v, timed."""
        begin = time.perf_counter()
        self._damped(v, out)
        self.seconds += time.perf_counter() - begin

    def model(self, x: Array, q: float) -> float:
        """q of rho at x, where CG's own quadratic has the value q."""
        if self._undamped is None:
            return q
        product = x.copy()
        self._undamped(x, product)
        self.products += 1
        return dot(self.g, x) + 0.5 * dot(x, product)


class HessianFree:
    """Hessian-free optimization of [MS] and [K], on callables.

    Arguments
    ---------
    damping : kind and first strengths of the damping; copied, so the one given never changes
    options : the numbers of an update
    rule : how rho changes the damping

    `damping` holds the strengths that the next update will use.

    Source: SPEC 6.
    """

    def __init__(
        self,
        damping: Damping | None = None,
        options: HessianFreeOptions | None = None,
        rule: LevenbergMarquardt | None = None,
    ) -> None:
        self.damping = replace(damping) if damping is not None else Damping()
        self.options = options if options is not None else HessianFreeOptions()
        self.rule = rule if rule is not None else LevenbergMarquardt()
        self._solution: Array | None = None  # CG's last iterate of the last update

    def update(
        self,
        theta: Array,
        gradient: Objective,
        curvature: Objective | None = None,
        *,
        preconditioner: Apply | None = None,
        on_cg: Callable[[int, float], object] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Update:
        """Make one update.

        Arguments
        ---------
        theta : parameters, (n,); not written
        gradient : objective of the gradient and of the last line search
        curvature : objective of the Gauss-Newton products, `gradient` if None
        preconditioner : as in `conjugate_gradient`, for this update
        on_cg : called as on_cg(iteration, q) in every CG iteration
        should_stop : asked in every CG iteration; True gives the update up

        Returns
        -------
        Update. If no step lowers the loss, theta is unchanged, the damping grows and the warm start is cleared.

        Raises
        ------
        NonFiniteError if loss or gradient at theta are not finite; UpdateInterrupted if `should_stop` says so;
        InputError if shapes differ. In each case the optimizer is as before.
        """
        options, damping = self.options, self.damping
        curvature = gradient if curvature is None else curvature
        begin = time.perf_counter()
        f0, g = gradient.loss_and_gradient(theta)
        f0, g_norm = self._check(theta, float(f0), g)
        gradient_seconds = time.perf_counter() - begin

        begin = time.perf_counter()
        losses = _TrialLosses(gradient, theta)
        judge, judge_f0 = losses, f0
        if options.rho_objective == "curvature" and curvature is not gradient:
            judge = _TrialLosses(curvature, theta)
            judge_f0 = judge(g * 0.0)
            if not math.isfinite(judge_f0):
                raise NonFiniteError(_message("loss of the curvature batch"))
        start = self._solution * options.warm_start if self._solution is not None else None
        problem = _Problem(theta, g, curvature, damping, start, options.rho_model, preconditioner)

        def watch(iterate: Iterate) -> None:
            if on_cg is not None:
                on_cg(iterate.iteration, iterate.q)
            if should_stop is not None and should_stop():
                raise UpdateInterrupted(
                    "The update was interrupted in its conjugate gradient run: nothing was changed."
                )

        solve = self._follow_directions if damping.kind == "line-search" else self._choose_iterate
        found = solve(problem, judge, judge_f0, watch)
        ratio = rho(found.f, judge_f0, problem.model(found.x, found.q))
        in_cg = time.perf_counter() - begin - judge.seconds

        search = self._search(losses, f0, dot(g, found.x), found, known=judge is losses)
        x_norm = norm(found.x)
        new_theta = theta + found.x * search.step if search.success else theta.copy()

        mu, lambda_ = damping.mu, damping.lambda_
        factor = found.mu_factor if found.cg.stop is CGStop.MU_GROWTH else self.rule.factor(ratio)
        damping.scale(factor if search.success else max(factor, self.rule.grow))
        self._solution = found.cg.x if search.success and options.warm_start > 0.0 else None
        judges = {id(losses): losses, id(judge): judge}.values()
        return Update(
            theta=new_theta,
            loss_before=f0,
            loss_after=search.f,
            rho=ratio,
            q=found.q,
            cg_iterations=found.cg.iterations,
            cg_stop=found.cg.stop,
            chosen_iteration=found.iteration,
            step_size=search.step,
            mu=mu,
            lambda_=lambda_,
            next_mu=damping.mu,
            next_lambda_=damping.lambda_,
            gradient_norm=g_norm,
            step_norm=search.step * x_norm,
            smallest_curvature=found.cg.smallest_curvature,
            products=found.cg.products + problem.products,
            evaluations=sum(each.evaluations for each in judges),
            success=search.success,
            seconds={
                "gradient": gradient_seconds,
                "cg": in_cg,
                "products": problem.seconds,
                "search": sum(each.seconds for each in judges),
            },
            rho_model=options.rho_model,
            rho_objective=options.rho_objective,
        )

    def _check(self, theta: Array, f0: float, g: Array) -> tuple[float, float]:
        if g.shape != theta.shape or (self._solution is not None and self._solution.shape != theta.shape):
            raise InputError(
                f"theta has shape {theta.shape}, but the gradient or the last CG solution has another: "
                "use one optimizer for one model."
            )
        if not math.isfinite(f0):
            raise NonFiniteError(_message("training loss"))
        g_norm = norm(g)
        if not math.isfinite(g_norm):
            raise NonFiniteError(_message("gradient"))
        return f0, g_norm

    def _run(
        self,
        problem: _Problem,
        start: Array | None,
        keep_ratio: float | None,
        on_iterate: Callable[[Iterate], CGStop | None],
    ) -> CGResult:
        options = self.options
        return conjugate_gradient(
            problem.apply,
            -problem.g,
            start,
            max_iterations=options.cg_iterations,
            min_iterations=options.cg_min_iterations,
            epsilon=options.cg_epsilon,
            window=options.cg_window,
            window_growth=options.cg_window_growth,
            residual_tolerance=options.residual_tolerance,
            refresh=options.refresh,
            keep_ratio=keep_ratio,
            preconditioner=problem.preconditioner,
            on_iterate=on_iterate,
        )

    def _choose_iterate(
        self, problem: _Problem, losses: _TrialLosses, f0: float, watch: Callable[[Iterate], None]
    ) -> _Candidate:
        """CG on the damped quadratic, with mu(i) followed on the way, then the walk back over its iterates."""
        bound = self.options.mu_growth if self.damping.adapts else None
        factor = 1.0

        def on_iterate(iterate: Iterate) -> CGStop | None:
            nonlocal factor
            watch(iterate)
            if bound is None or not iterate.kept or iterate.q >= 0.0:
                return None
            f = losses.of_iterate(iterate.iteration, iterate.x)
            factor *= self.rule.factor(rho(f, f0, problem.model(iterate.x, iterate.q)))
            return CGStop.MU_GROWTH if factor >= bound else None

        cg = self._run(problem, problem.start, self.options.keep_ratio, on_iterate)
        iteration, q, x = cg.iterates[-1]
        f = losses.of_iterate(iteration, x)
        for earlier, earlier_q, earlier_x in reversed(cg.iterates[:-1]):
            earlier_f = losses.of_iterate(earlier, earlier_x)
            if math.isfinite(f) and earlier_f >= f:
                break
            iteration, q, x, f = earlier, earlier_q, earlier_x, earlier_f
        return _Candidate(x, q, f, iteration, cg, factor)

    def _follow_directions(
        self, problem: _Problem, losses: _TrialLosses, f0: float, watch: Callable[[Iterate], None]
    ) -> _Candidate:
        """Line-search damping: undamped CG, and beside it x_f along the same directions."""
        options, start, f = self.options, problem.start, f0
        if start is not None:
            f = losses(start)
            start = start if math.isfinite(f) else None
        search = DirectionSearch(
            losses,
            start if start is not None else problem.g * 0.0,
            f if start is not None else f0,
            tau=options.tau,
            max_backtracks=options.direction_backtracks,
        )
        last_gain = 0

        def on_iterate(iterate: Iterate) -> CGStop | None:
            nonlocal last_gain
            watch(iterate)
            if search.follow(iterate.direction, iterate.alpha, iterate.q_step):
                last_gain = iterate.iteration
            return CGStop.NO_GAIN if search.idle > options.idle_directions else None

        cg = self._run(problem, start, None, on_iterate)
        return _Candidate(search.x, cg.q_history[0] + search.q_change, search.f, last_gain, cg, 1.0)

    def _search(
        self, losses: _TrialLosses, f0: float, slope: float, found: _Candidate, known: bool
    ) -> LineSearchResult:
        """The last line search; `known` says that the loss of the full step was measured by `losses` too."""
        options = self.options
        if norm(found.x) == 0.0:
            return LineSearchResult(0.0, f0, 0, False)

        def loss(step: float) -> float:
            return losses(found.x, step)

        first = found.f if known else None
        factor, backtracks = options.line_search_factor, options.line_search_backtracks
        if options.line_search == "minimum":
            return minimising_line_search(loss, f0, factor=factor, max_backtracks=backtracks, first=first)
        return backtracking_line_search(
            loss, f0, slope, factor=factor, max_backtracks=backtracks, armijo=options.armijo, first=first
        )

    def state_dict(self) -> dict[str, Any]:
        """All that an update leaves for the next: kind, mu, lambda_ and CG's last solution (a vector, or None).

        Returns a flat dict; the vector is a copy, on the device where theta was. Going on after `load_state_dict`
        gives the same bits as going on without it.
        """
        solution = None if self._solution is None else self._solution.copy()
        return {**self.damping.state_dict(), "cg_solution": solution}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict` of an optimizer with the same damping kind; its vector has to be where theta is.

        Raises InputError if something is missing or of another kind; nothing is changed then.
        """
        if "cg_solution" not in state:
            raise InputError("The optimizer state lacks cg_solution: give the state_dict of a HessianFree.")
        self.damping.load_state_dict(state)
        solution = state["cg_solution"]
        self._solution = None if solution is None else solution.copy()


def _message(what: str) -> str:
    return (
        f"The {what} is not finite at the present parameters, expected finite numbers: "
        "go back to the last good parameters, or start from smaller ones."
    )
