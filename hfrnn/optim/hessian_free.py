"""Hessian-free optimization: each update computes a gradient, runs conjugate gradient and searches along a line.

    H1  f = f(theta), g = its gradient                          gradient objective
    H2  A = G + mu*S + lambda*I at theta; M of K4 is optional   curvature objective
    H3  CG on A x = -g, from 0.95 times the last iterate of CG in the last update
    H4  mu(i) = mu(i-1) * factor(rho at x_i) at kept iterates; CG stops when mu(i) >= 3*mu_0
    H5  x: from the last kept iterate backwards while the loss falls; or x_f of line-search damping
    H6  rho = (f(theta + x) - f(theta)) / q(x), at full step    objective of rho
    H7  theta + step * x by a line search                       gradient objective
    H8  mu, lambda * factor(rho); mu(i)/mu_0 if H4 stopped CG
    H9  no step lowers the loss: theta stays, factor at least 3/2, the next CG starts at 0
    H10 g = 0: a solution, nothing changes; ten failed updates in a row: no progress
    H11 CG ended above q(0) = 0, because it started elsewhere: the next CG starts at 0 too
    H12 only one update in so many is measured, and every one with q < -f/4; the others take the last iterate of CG.
        After a change of mu or lambda, all are measured until five in a row have left both as they are
    H13 f on the next batch is higher by a fifth or not finite: f before the step is computed on the same batch, and the
        step is undone if f rose by a tenth on it; then the factor is at least 3/2
    H14 CG stops after its first iteration if K8 > limit * g.M^-1 g; docs/preconditioner.md has K4 and K8
    H15 with compare_iterates="low-rho", H5 goes back only if rho of the last iterate is below the bound of H8
    H16 with momentum the step is p_k = m*p_{k-1} + (1 - m^2)*step*x; m rises in the first hundred updates. The
        first step and the one after a failed update are step*x. H6 to H8 judge x, and H13 judges p_k
    H17 theta is more than twice the last step away from where that step began: somebody has replaced it. The vectors
        of the last update (H3, H13, H16), the preconditioner and the count of failures are dropped; the damping stays

An update that raises an exception changes nothing.

References: SPEC 5 and 6; [MS]; [K] 3.3, 4.1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.vectors import Apply, Vector, fetch, lazy_dot, lazy_norm, norm
from hfrnn.checks import count, instance, is_result, shown
from hfrnn.errors import InputError
from hfrnn.optim.cg import CGStop, Iterate
from hfrnn.optim.damping import Damping, LevenbergMarquardt, rho
from hfrnn.optim.full_step import Rules, Solver
from hfrnn.optim.hf_options import CurvatureObjective, HessianFreeOptions, check_arguments
from hfrnn.optim.kronecker import Kronecker
from hfrnn.optim.line_search import LineSearchResult
from hfrnn.optim.outcome import End, Failure, Update, UpdateInterrupted, undone
from hfrnn.optim.preconditioner import check_shift, kronecker_of, make_preconditioner, state_of
from hfrnn.optim.quadratic import Quadratic, TrialLosses
from hfrnn.optim.update_model import (
    PROMISE,
    RISING,
    ROUNDING,
    SOLUTION,
    STEADY_UPDATES,
    STEP,
    Fallback,
    Solution,
    UpdateModel,
    check_finite,
    vector_of,
)

__all__ = ["CurvatureObjective", "End", "Failure", "HessianFree", "HessianFreeOptions", "Update", "UpdateInterrupted"]


class HessianFree:
    """Hessian-free optimization of [MS] and [K], on callables.

    Parameters
    ----------
    damping : Damping, optional
        Kind and first strengths of the damping; copied. By default structural damping.
    options : HessianFreeOptions, optional
        Options of every update.
    rule : LevenbergMarquardt, optional
        Rule by which rho changes mu, and lambda too if it has no rule of its own.
    lambda_rule : LevenbergMarquardt, optional
        Rule by which rho changes lambda.

    Attributes
    ----------
    damping : Damping
        Strengths that the next update will use.
    failures : int
        Number of failed updates in a row.
    updates : int
        Number of updates made.
    ended : End or None
        Why there is nothing more to do; None if there is.

    Raises
    ------
    InputError
        `lambda_rule` has no lambda to change, or the preconditioner has nothing to add to D.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> optimizer = hfrnn.HessianFree()
    >>> update = optimizer.update(theta, objective)
    >>> update.loss_after < update.loss_before
    True
    >>> theta = update.theta
    """

    def __init__(
        self,
        damping: Damping | None = None,
        options: HessianFreeOptions | None = None,
        rule: LevenbergMarquardt | None = None,
        lambda_rule: LevenbergMarquardt | None = None,
    ) -> None:
        self.damping = replace(instance("damping", damping, Damping, "a hfrnn.Damping", or_none=True) or Damping())
        own = "a hfrnn.HessianFreeOptions"
        self.options = instance("options", options, HessianFreeOptions, own, or_none=True) or HessianFreeOptions()
        for name, each in (("rule", rule), ("lambda_rule", lambda_rule)):
            instance(name, each, LevenbergMarquardt, "a hfrnn.LevenbergMarquardt", or_none=True)
        self.rule = rule if rule is not None else LevenbergMarquardt()
        self.lambda_rule = lambda_rule if lambda_rule is not None else self.rule
        self.failures, self.updates = 0, 0
        self.ended: End | None = None
        self._fallback: Fallback | None = None
        self._solution: Vector | None = None  # last iterate of CG in the last update
        self._step: Vector | None = None  # the last step, with momentum
        self._steady = 0  # measured updates in a row that have left the damping as it is
        self._kronecker: Kronecker | None = None
        if lambda_rule is not None and not self.damping.adapts_lambda:
            raise InputError(
                f"lambda_rule is given, but damping of kind {self.damping.kind!r} has no lambda that adapts: "
                "leave it out."
            )
        check_shift(self.options, self.damping)

    def __repr__(self) -> str:
        return f"HessianFree({self.damping!r}, updates={self.updates})"

    def update(
        self,
        theta: Vector,
        gradient: CurvatureObjective,
        curvature: CurvatureObjective | None = None,
        separate: CurvatureObjective | None = None,
        *,
        preconditioner: Apply | None = None,
        on_cg: Callable[[int, float], object] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Update:
        """Make one update.

        Parameters
        ----------
        theta : (n,) array
            Parameters; not written. They need not be those of the last update (H17).
        gradient : CurvatureObjective
            Objective of the gradient and of the last line search.
        curvature : CurvatureObjective, optional
            Objective of the Gauss-Newton products. By default `gradient`.
        separate : CurvatureObjective, optional
            Objective of rho; required by the option rho_objective="separate" and not allowed otherwise.
        preconditioner : callable, optional
            Preconditioner of this update, as for `conjugate_gradient`.
        on_cg : callable, optional
            Called as on_cg(iteration, q) in every iteration of CG.
        should_stop : callable, optional
            Called in every iteration of CG; True abandons the update.

        Returns
        -------
        Update
            If no step lowers the loss, theta is unchanged, the damping grows, the next update has no warm start, and
            `failed` gives the reason. If this batch shows that the last step was bad (`Failure.DIVERGED`), theta is
            the one before that step. A gradient of 0 changes nothing and is not a failure.

        Raises
        ------
        NonFiniteError
            Loss or gradient at theta is not finite, and there is no earlier theta to return to. The optimizer is as
            before.
        UpdateInterrupted
            `should_stop` returned True. The optimizer is as before.
        InputError
            Shapes differ, or the objectives or the preconditioner do not fit the options. The optimizer is as before.
        """
        theta = array("theta", theta, (None,), "f")
        given = {"gradient": gradient, "curvature": curvature, "separate": separate}
        check_arguments(
            self.options, given, {"preconditioner": preconditioner, "on_cg": on_cg, "should_stop": should_stop}
        )
        begin = time.perf_counter()
        f0, g = gradient.loss_and_gradient(theta)  # H1
        f0, g_norm, is_another = self._check_gradient(theta, f0, g)
        if is_another:  # H17
            self.restart()
        found = None if self._fallback is None else self._fallback.check(f0, g_norm, gradient)
        gradient_seconds = time.perf_counter() - begin
        if self._fallback is not None and found is not None and found[1]:
            return self._go_back(self._fallback.theta, (f0, found[0]), g_norm, gradient_seconds)
        check_finite(theta, f0, g_norm)
        if g_norm == 0.0:
            self.failures, self.ended = 0, End.SOLUTION  # H10
            self._forget()
            update = undone(theta, f0, self._strengths, gradient_seconds, self.options)
        else:
            roles = {role: gradient if each is None else each for role, each in given.items()}
            model = self._model(theta, (f0, g, g_norm), roles, preconditioner, gradient_seconds)
            update = self._commit(*self._solve(model, on_cg, should_stop))
        return replace(update, evaluations=update.evaluations + (found is not None))

    def _model(
        self,
        theta: Vector,
        known: tuple[float, Vector, float],
        objectives: Mapping[str, CurvatureObjective],
        preconditioner: Apply | None,
        gradient_seconds: float,
    ) -> UpdateModel:
        """Prepare the quadratic and the trial losses; `known` holds the loss, the gradient and its norm."""
        begin = time.perf_counter()
        (f0, g, g_norm), options = known, self.options
        losses = TrialLosses(objectives["gradient"], theta)
        on = objectives[options.rho_objective]
        judge, judge_f0 = (losses, f0) if on is objectives["gradient"] else (TrialLosses(on, theta), math.nan)
        search = judge if options.search_objective == "rho" else losses
        start = time.perf_counter()
        on = objectives["curvature"]
        made = make_preconditioner(theta, on, self.damping, options, self._kronecker)
        seconds = time.perf_counter() - start
        undamped = options.rho_model == "undamped"
        quadratic = Quadratic(theta, g, on, self.damping, undamped)  # H2
        model = UpdateModel(
            theta=theta, f0=f0, g=g, g_norm=g_norm, losses=search, judge=judge, judge_f0=judge_f0, quadratic=quadratic,
            preconditioner=preconditioner or made.apply, kronecker=made.kronecker, measured=False,
            gradient_seconds=gradient_seconds, preconditioner_seconds=seconds, begin=begin,
            noise=made.noise / getattr(objectives["gradient"], "total_weight", math.inf),  # H14
        )  # fmt: skip
        return model.measure(options.rho_objective) if self._measures else model

    def _solve(
        self, model: UpdateModel, on_cg: Callable[[int, float], object] | None, should_stop: Callable[[], bool] | None
    ) -> tuple[UpdateModel, Solution]:
        """Find the full step, and how much of it to take; the model knows whether it was measured."""

        def watch(iterate: Iterate) -> None:
            if on_cg is not None:
                on_cg(iterate.iteration, iterate.q)
            if should_stop is not None and should_stop():
                raise UpdateInterrupted(
                    "The update was interrupted in its conjugate gradient run: nothing was changed."
                )

        start = self._solution * self.options.warm_start if self._solution is not None else None
        solver = Solver(
            quadratic=model.quadratic, start=start, preconditioner=model.preconditioner, losses=model.judge,
            f0=model.judge_f0, damping=self.damping, rules=Rules(self.rule, self.lambda_rule), options=self.options,
            watch=watch, noise=model.noise,
        )  # fmt: skip
        full = solver.solve() if model.measured else solver.last()
        if not model.measured and full.q < -PROMISE * abs(model.f0):
            model = model.measure(self.options.rho_objective)
            full = replace(full, f=model.judge(full.x))  # H12
        ratio = rho(full.f, model.judge_f0, model.quadratic.model(full.x, full.q)) if model.measured else math.nan  # H6
        seconds = time.perf_counter() - model.begin - model.judge.seconds - model.preconditioner_seconds
        if not model.measured:
            x_norm = norm(full.x)
            success = math.isfinite(x_norm) and x_norm > 0.0 and full.q < 0.0
            return model, Solution(full, ratio, x_norm, LineSearchResult(float(success), math.nan, 0, success), seconds)
        x_norm, slope = fetch(lazy_norm(full.x), lazy_dot(model.g, full.x))
        search = model.search(full, slope, x_norm, options=self.options)  # H7
        return model, Solution(full, ratio, x_norm, search, seconds)

    def _commit(self, model: UpdateModel, solution: Solution) -> Update:
        """Change the state of the optimizer, and report the update."""
        options, damping, full, search = self.options, self.damping, solution.full, solution.search
        theta, cg = model.theta, full.cg
        step = full.x * search.step if search.success else None
        step_norm, loss_after = search.step * solution.x_norm, search.f
        if step is not None and self._step is not None and options.momentum:
            m = options.momentum * min(1.0, self.updates / RISING)
            step = self._step * m + step * (1 - m * m)  # H16
            step_norm, loss_after = norm(step), math.nan  # the loss of this step was not computed
        new_theta = theta.copy() if step is None else theta + step
        failed = None if search.success else solution.failure(model)

        mu, lambda_ = self._strengths
        factors = full.factors
        if model.measured and cg.stop is not CGStop.MU_GROWTH:
            factors = Rules(self.rule, self.lambda_rule).factors(solution.rho)  # H8
        if failed is not None:
            factors = max(factors[0], self.rule.grow), max(factors[1], self.lambda_rule.grow)  # H9
        damping.scale(*factors)
        if self._strengths != (mu, lambda_):
            self._steady = 0
        elif model.measured:
            self._steady += 1
        warm = search.success and options.warm_start > 0.0 and cg.q < 0.0
        self._solution = cg.x if warm else None  # H9, H11
        self._step = step if options.momentum else None
        self._kronecker = model.kronecker
        self._fallback = None if failed is not None else Fallback(theta.copy(), model.f0, step_norm)
        self._count(failed)
        return Update(
            theta=new_theta,
            loss_before=model.f0,
            loss_after=loss_after,
            rho=solution.rho,
            q=full.q,
            cg_iterations=cg.iterations,
            cg_stop=cg.stop,
            chosen_iteration=full.iteration,
            step_size=search.step,
            mu=mu,
            lambda_=lambda_,
            next_mu=damping.mu,
            next_lambda_=damping.lambda_,
            gradient_norm=model.g_norm,
            step_norm=step_norm,
            smallest_curvature=cg.smallest_curvature,
            residual_norm=cg.residual_norm,
            residual_drift=cg.residual_drift,
            products=cg.products + model.quadratic.products,
            evaluations=sum(each.evaluations for each in model.trials),
            failed=failed,
            failures=self.failures,
            ended=self.ended,
            seconds={
                "gradient": model.gradient_seconds,
                "preconditioner": model.preconditioner_seconds,
                "cg": solution.cg_seconds,
                "products": model.quadratic.seconds,
                "search": sum(each.seconds for each in model.trials),
            },
            rho_model=options.rho_model,
            rho_objective=options.rho_objective,
            search_objective=options.rho_objective if options.search_objective == "rho" else "gradient",
        )

    def _check_gradient(self, theta: Vector, loss: Any, g: Vector) -> tuple[float, float, bool]:
        """Check loss and gradient; return the loss, the norm of the gradient, and whether theta was replaced (H17)."""
        if not is_result(loss):
            raise InputError(f"the loss of the gradient's objective is {shown(loss)}: it has to be a number")
        f0 = float(loss)
        array("the gradient", g, (None,), "f")
        last = self._fallback
        vectors = (g, self._solution, self._step, None if last is None else last.theta)
        if any(each is not None and each.shape != theta.shape for each in vectors):
            raise InputError(
                f"theta has shape {theta.shape}, but the gradient, the last CG solution, the last step or the last "
                "theta has another: use one optimizer for one model."
            )
        if last is None:
            return f0, norm(g), False
        g_norm, distance, size = fetch(lazy_norm(g), lazy_norm(theta - last.theta), lazy_norm(theta))
        return f0, g_norm, distance > 2 * last.step_norm + ROUNDING * size

    @property
    def _strengths(self) -> tuple[float, float]:
        return self.damping.mu, self.damping.lambda_

    @property
    def _measures(self) -> bool:
        """Whether the next update measures rho (H12). Line-search damping measures all its steps."""
        every = self.options.rho_every
        return self.damping.kind == "line-search" or self._steady < STEADY_UPDATES or self.updates % every == 0

    def _count(self, failed: Failure | None) -> None:
        """Count an update, and the failures in a row."""
        self.updates += 1
        self.failures = 0 if failed is None else self.failures + 1
        self.ended = End.NO_PROGRESS if self.failures >= (self.options.max_failures or math.inf) else None  # H10

    def _forget(self) -> None:
        """Drop the vectors that belong to the theta of the last update."""
        self._solution, self._step, self._fallback = None, None, None

    def _go_back(self, theta: Vector, losses: tuple[float, float], g_norm: float, gradient_seconds: float) -> Update:
        """Return to theta, before the last step, with stronger damping (H13); `losses` are f after and before it."""
        strengths, (f0, f) = self._strengths, losses
        self.damping.scale(self.rule.grow, self.lambda_rule.grow)
        self._steady = 0
        self._forget()
        self._count(Failure.DIVERGED)
        update = undone(theta, f0, strengths, gradient_seconds, self.options)
        return replace(
            update, loss_after=f, evaluations=1, gradient_norm=g_norm,
            next_mu=self.damping.mu, next_lambda_=self.damping.lambda_,
            failed=Failure.DIVERGED, failures=self.failures, ended=self.ended,
        )  # fmt: skip

    def restart(self) -> None:
        """Forget the last parameters (H17): keep only the strengths of the damping and the number of updates."""
        self._forget()
        self._kronecker, self._steady, self.failures, self.ended = None, 0, 0, None

    def state_dict(self) -> dict[str, Any]:
        """Return the state that an update leaves for the next one.

        Returns
        -------
        dict
            Kind and strengths of the damping, `failures`, `updates`, `ended`, `steady` (measured updates in a row that
            have left the damping as it is), and `cg_solution`: a copy of the last iterate of CG, (n,), on the device of
            theta, or None. After a step also `before` and `before_loss`, theta before it and the loss there, and with
            momentum `last_step`, (n,). After `load_state_dict`, updates give the same bits.
        """
        solution = None if self._solution is None else self._solution.copy()
        ended = None if self.ended is None else self.ended.value
        own = {"failures": self.failures, "updates": self.updates, "steady": self._steady, "ended": ended}
        fallback = {} if self._fallback is None else self._fallback.state_dict()
        step = {} if self._step is None else {STEP: self._step.copy()}
        vectors = {SOLUTION: solution, **step, **fallback, **state_of(self._kronecker)}
        return {**self.damping.state_dict(), **own, **vectors}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a `state_dict` of an optimizer with the same kind of damping.

        Parameters
        ----------
        state : dict
            Its vector must be on the device of theta.

        Raises
        ------
        InputError
            An entry is missing or does not fit. Nothing has changed then.
        """
        if not isinstance(state, Mapping):
            raise InputError(f"state is {shown(state)}: give the state_dict of a HessianFree")
        if missing := [name for name in (SOLUTION, "failures", "updates", "steady", "ended") if name not in state]:
            raise InputError(f"The optimizer state lacks {', '.join(missing)}: give the state_dict of a HessianFree.")
        failures, updates, steady = (
            count(f"{name} of the state", state[name]) for name in ("failures", "updates", "steady")
        )
        ended, fallback = state["ended"], Fallback.of(state)
        if ended is not None and ended not in [end.value for end in End]:
            raise InputError(
                f"The optimizer state says that it ended for {ended!r}: give the state_dict of a HessianFree."
            )
        solution, step = vector_of(state, SOLUTION), vector_of(state, STEP)
        basis = kronecker_of(state)
        self.damping.load_state_dict(state)
        self._kronecker, self._fallback, self.updates, self._steady = basis, fallback, updates, steady
        self.failures, self.ended = failures, None if ended is None else End(ended)
        self._solution, self._step = solution, step
