"""Hessian-free optimization: one update from a gradient, a run of conjugate gradient and a line search.

    H1  f = f(theta), g = its gradient                          gradient objective
    H2  A = G + mu*S + lambda*I at theta; M = (D + lambda)^0.75 curvature objective; M only where asked for
    H3  CG on A x = -g from 0.95 times its last iterate of the last update
    H4  mu(i) = mu(i-1) * factor(rho at x_i) at kept iterates; CG ends when mu(i) >= 3*mu_0
    H5  x: from the last kept iterate backwards while the loss falls; or x_f of line-search damping
    H6  rho = (f(theta + x) - f(theta)) / q(x), at full step    the objective that rho is measured on
    H7  theta + step * x by a line search                       gradient objective
    H8  mu, lambda * factor(rho); mu(i)/mu_0 where H4 ended CG
    H9  no step lowers the loss: theta as it was, factor at least 3/2, the next CG starts at 0
    H10 g = 0: a solution, nothing changes; ten updates in a row that failed: no progress
    H11 CG ended above q(0) = 0, held back by a start from elsewhere: the next CG starts at 0 too

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
from hfrnn.optim.quadratic import Problem, TrialLosses
from hfrnn.optim.result import End, Failure, HessianFreeOptions, Objective, Update, UpdateInterrupted, solved

__all__ = ["End", "Failure", "HessianFree", "HessianFreeOptions", "Objective", "Update", "UpdateInterrupted"]


@dataclass(frozen=True)
class _Candidate:
    """A full step: the vector, its quadratic and loss (on rho's objective); mu(i)/mu_0, lambda(i)/lambda_0 of CG."""

    x: Array
    q: float
    f: float
    iteration: int
    cg: CGResult
    factors: tuple[float, float]


class HessianFree:
    """Hessian-free optimization of [MS] and [K], on callables.

    Arguments
    ---------
    damping : kind and first strengths of the damping; copied, so the one given never changes
    options : the numbers of an update
    rule : how rho changes mu, and lambda too unless it has a rule of its own
    lambda_rule : how rho changes lambda, where it is not to go with mu

    `damping` holds the strengths that the next update will use, `failures` how many updates in a row have failed, and
    `ended` why there is nothing more to do (None if there is).

    Raises
    ------
    InputError if a rule has nothing to change, or the diagonal preconditioner nothing to add to D.

    Source: SPEC 6.
    """

    def __init__(
        self,
        damping: Damping | None = None,
        options: HessianFreeOptions | None = None,
        rule: LevenbergMarquardt | None = None,
        lambda_rule: LevenbergMarquardt | None = None,
    ) -> None:
        self.damping = replace(damping) if damping is not None else Damping()
        self.options = options if options is not None else HessianFreeOptions()
        self.rule = rule if rule is not None else LevenbergMarquardt()
        self.lambda_rule = lambda_rule if lambda_rule is not None else self.rule
        self.failures = 0
        self.ended: End | None = None
        self._solution: Array | None = None  # CG's last iterate of the last update
        if lambda_rule is not None and not self.damping.adapts_lambda:
            raise InputError(
                f"lambda_rule is given, but damping of kind {self.damping.kind!r} has no lambda that adapts: "
                "leave it out."
            )
        shift = self.options.preconditioner_shift
        if self.options.preconditioner == "diagonal" and shift is None and not self.damping.lambda_ > 0.0:
            raise InputError(
                'preconditioner is "diagonal", but there is no lambda to add to D: '
                "give a preconditioner_shift above 0, or damping with a lambda."
            )

    def update(
        self,
        theta: Array,
        gradient: Objective,
        curvature: Objective | None = None,
        separate: Objective | None = None,
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
        separate : objective that rho is measured on, where the option rho_objective is "separate"
        preconditioner : as in `conjugate_gradient`, for this update
        on_cg : called as on_cg(iteration, q) in every CG iteration
        should_stop : asked in every CG iteration; True gives the update up

        Returns
        -------
        Update. If no step lowers the loss, theta is unchanged, the damping grows, the warm start is cleared, and
        `failed` says why; a gradient of 0 changes nothing and is no failure.

        Raises
        ------
        NonFiniteError if loss or gradient at theta are not finite; UpdateInterrupted if `should_stop` says so;
        InputError if shapes differ, or an objective or preconditioner is given that the options do not ask for, or
        not given. In each case the optimizer is as before.
        """
        options, damping = self.options, self.damping
        curvature = gradient if curvature is None else curvature
        if (separate is not None) != (options.rho_objective == "separate"):
            raise InputError(
                f"rho_objective is {options.rho_objective!r} and a separate objective is "
                f"{'missing' if separate is None else 'given'}: these two go together."
            )
        if preconditioner is not None and options.preconditioner != "none":
            raise InputError('A preconditioner is given beside the option "diagonal": leave one of them out.')
        begin = time.perf_counter()
        f0, g = gradient.loss_and_gradient(theta)  # H1
        f0, g_norm = self._check(theta, float(f0), g)
        gradient_seconds = time.perf_counter() - begin
        if g_norm == 0.0:
            self.failures, self.ended, self._solution = 0, End.SOLUTION, None  # H10
            return solved(theta, f0, damping, options, gradient_seconds)

        begin = time.perf_counter()
        losses = TrialLosses(gradient, theta)
        judge, judge_f0 = losses, f0
        on = {"gradient": gradient, "curvature": curvature, "separate": separate}[options.rho_objective]
        if on is not None and on is not gradient:
            judge = TrialLosses(on, theta)
            judge_f0 = judge(g * 0.0)
            if not math.isfinite(judge_f0):
                raise NonFiniteError(_message(f"loss of the {options.rho_objective} batch"))
        start = self._solution * options.warm_start if self._solution is not None else None
        problem = Problem(theta, g, curvature, damping, start, options, preconditioner)  # H2

        def watch(iterate: Iterate) -> None:
            if on_cg is not None:
                on_cg(iterate.iteration, iterate.q)
            if should_stop is not None and should_stop():
                raise UpdateInterrupted(
                    "The update was interrupted in its conjugate gradient run: nothing was changed."
                )

        solve = self._follow_directions if damping.kind == "line-search" else self._choose_iterate
        found = solve(problem, judge, judge_f0, watch)
        ratio = rho(found.f, judge_f0, problem.model(found.x, found.q))  # H6
        cg_seconds = time.perf_counter() - begin - judge.seconds - problem.preconditioner_seconds

        x_norm = norm(found.x)
        search = self._search(losses, f0, dot(g, found.x), x_norm, found, known=judge is losses)  # H7
        new_theta = theta + found.x * search.step if search.success else theta.copy()
        failed = None if search.success else _failure(found, x_norm, losses if losses.evaluations else judge)

        mu, lambda_ = damping.mu, damping.lambda_
        factors = self._factors(ratio) if found.cg.stop is not CGStop.MU_GROWTH else found.factors  # H8
        if failed is not None:
            factors = max(factors[0], self.rule.grow), max(factors[1], self.lambda_rule.grow)  # H9
        damping.scale(*factors)
        warm = search.success and options.warm_start > 0.0 and found.cg.q < 0.0
        self._solution = found.cg.x if warm else None  # H9, H11
        self.failures = 0 if failed is None else self.failures + 1
        self.ended = End.NO_PROGRESS if self.failures >= (options.max_failures or math.inf) else None  # H10
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
            residual_norm=found.cg.residual_norm,
            residual_drift=found.cg.residual_drift,
            products=found.cg.products + problem.products,
            evaluations=sum(each.evaluations for each in judges),
            failed=failed,
            failures=self.failures,
            ended=self.ended,
            seconds={
                "gradient": gradient_seconds,
                "preconditioner": problem.preconditioner_seconds,
                "cg": cg_seconds,
                "products": problem.seconds,
                "search": sum(each.seconds for each in judges),
            },
            rho_model=options.rho_model,
            rho_objective=options.rho_objective,
        )

    def _factors(self, ratio: float) -> tuple[float, float]:
        """What rho asks mu and lambda to be multiplied by."""
        return self.rule.factor(ratio), self.lambda_rule.factor(ratio)

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
        problem: Problem,
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
            residual_every=options.residual_every,
            keep_ratio=keep_ratio,
            preconditioner=problem.preconditioner,
            on_iterate=on_iterate,
        )

    def _choose_iterate(
        self, problem: Problem, losses: TrialLosses, f0: float, watch: Callable[[Iterate], None]
    ) -> _Candidate:
        """CG on the damped quadratic, with mu(i) followed on the way, then the walk back over its iterates."""
        bound = self.options.mu_growth if self.damping.adapts else None
        watched = [at for at, adapts in enumerate((self.damping.adapts_mu, self.damping.adapts_lambda)) if adapts]
        factors = (1.0, 1.0)

        def on_iterate(iterate: Iterate) -> CGStop | None:
            nonlocal factors
            watch(iterate)
            if bound is None or not iterate.kept or iterate.q >= 0.0:
                return None
            f = losses.of_iterate(iterate.iteration, iterate.x)
            asked = self._factors(rho(f, f0, problem.model(iterate.x, iterate.q)))
            factors = factors[0] * asked[0], factors[1] * asked[1]  # H4
            return CGStop.MU_GROWTH if max(factors[at] for at in watched) >= bound else None

        cg = self._run(problem, problem.start, self.options.keep_ratio, on_iterate)  # H3
        iteration, q, x = cg.iterates[-1]
        f = losses.of_iterate(iteration, x)
        for earlier, earlier_q, earlier_x in reversed(cg.iterates[:-1]):
            earlier_f = losses.of_iterate(earlier, earlier_x)
            if math.isfinite(f) and earlier_f >= f:
                break
            iteration, q, x, f = earlier, earlier_q, earlier_x, earlier_f  # H5
        return _Candidate(x, q, f, iteration, cg, factors)

    def _follow_directions(
        self, problem: Problem, losses: TrialLosses, f0: float, watch: Callable[[Iterate], None]
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

        cg = self._run(problem, start, None, on_iterate)  # H3
        return _Candidate(search.x, cg.q_history[0] + search.q_change, search.f, last_gain, cg, (1.0, 1.0))  # H5

    def _search(
        self, losses: TrialLosses, f0: float, slope: float, x_norm: float, found: _Candidate, known: bool
    ) -> LineSearchResult:
        """The last line search; `known` says that the loss of the full step was measured by `losses` too."""
        options = self.options
        if x_norm == 0.0:
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
        """All that an update leaves for the next: kind, mu, lambda_, failures, ended and CG's last solution (a vector).

        Returns a flat dict; the vector is a copy, on the device where theta was. Going on after `load_state_dict`
        gives the same bits as going on without it.
        """
        solution = None if self._solution is None else self._solution.copy()
        ended = None if self.ended is None else self.ended.value
        return {**self.damping.state_dict(), "failures": self.failures, "ended": ended, "cg_solution": solution}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict` of an optimizer with the same damping kind; its vector has to be where theta is.

        Raises InputError if something is missing or of another kind; nothing is changed then.
        """
        if "cg_solution" not in state:
            raise InputError("The optimizer state lacks cg_solution: give the state_dict of a HessianFree.")
        failures, ended = int(state.get("failures", 0)), state.get("ended")
        if ended is not None and ended not in [end.value for end in End]:
            raise InputError(
                f"The optimizer state says that it ended for {ended!r}: give the state_dict of a HessianFree."
            )
        self.damping.load_state_dict(state)
        self.failures, self.ended = failures, None if ended is None else End(ended)
        solution = state["cg_solution"]
        self._solution = None if solution is None else solution.copy()


def _failure(found: _Candidate, x_norm: float, losses: TrialLosses) -> Failure:
    """Why no step was taken."""
    if found.cg.stop is CGStop.NON_FINITE and x_norm == 0.0:
        return Failure.NON_FINITE
    if found.cg.iterations == 0 and x_norm == 0.0:
        return Failure.NO_STEP
    return Failure.NO_DECREASE if losses.finite else Failure.NON_FINITE


def _message(what: str) -> str:
    return (
        f"The {what} is not finite at the present parameters, expected finite numbers: "
        "go back to the last good parameters, or start from smaller ones."
    )
