"""What goes into an update of Hessian-free optimization and what comes out: objective, options, result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hfrnn.errors import HfrnnError, InputError
from hfrnn.optim.cg import Array, CGStop
from hfrnn.optim.damping import Damping


class Operator(Protocol):
    """A symmetric matrix, known by its products."""

    def apply(self, v: Array, out: Array) -> object:
        """Write A v into out; both (n,)."""


class Objective(Protocol):
    """What is minimised, as a function of a flat vector."""

    def loss(self, theta: Array) -> float:
        """f(theta)."""

    def loss_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """f(theta) and its gradient, (n,)."""

    def gauss_newton(
        self, theta: Array, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Operator:
        """The Gauss-Newton matrix at theta with its damping."""


class SquaredGradients(Protocol):
    """What the diagonal preconditioner asks of the curvature objective beside an Objective's methods."""

    def squared_gradients(self, theta: Array) -> Array:
        """D of SPEC 6, (n,), entries >= 0: sum over sequences of the squared gradient of each."""


class Failure(StrEnum):
    """Why an update left the parameters as they were; the value is what the log shows.

    no_decrease: no trial step lowered the loss enough; non_finite: no trial loss, or no product, was finite; no_step:
    CG found no step at all (its first direction has no positive curvature).
    """

    NO_DECREASE = "no_decrease"
    NON_FINITE = "non_finite"
    NO_STEP = "no_step"


class End(StrEnum):
    """Why there is nothing more to do: the gradient is 0, or too many updates in a row failed."""

    SOLUTION = "zero gradient"
    NO_PROGRESS = "no progress"


class UpdateInterrupted(HfrnnError):
    """An update was given up because `should_stop` said so; the optimizer is as it was before the update."""

    exit_code = 130


@dataclass(frozen=True)
class HessianFreeOptions:
    """The numbers of an update; the defaults are those of SPEC 6.

    Arguments
    ---------
    cg_iterations, cg_min_iterations, cg_epsilon, cg_window, cg_window_growth, residual_tolerance, residual_every,
    keep_ratio : as in `conjugate_gradient`
    preconditioner : "none", or "diagonal": (D + lambda)^exponent, with D from the curvature objective at every update
    preconditioner_exponent : of the diagonal, from 0 to 1
    preconditioner_shift : what is added to D in place of the damping's lambda, > 0; None takes that lambda
    warm_start : CG starts at the last CG solution times this, in [0, 1]; 0 turns it off
    mu_growth : CG ends when the factor mu(i)/mu_0, which follows rho at the kept iterates, reaches this, > 1; None
        turns it off, and the losses that it costs
    rho_model : "damped": q of rho holds the damping term; "undamped": it does not, at one product more for each rho
        where there is structural damping
    rho_objective : "gradient", "curvature" or "separate": where f of rho and of the choice of the iterate is measured
    line_search : "armijo" ([MS]) or "minimum" ([K]: the step that minimises the loss)
    line_search_factor, line_search_backtracks, armijo : as in `backtracking_line_search`
    tau, direction_backtracks : line-search damping: how a direction is shortened, and how often at most
    idle_directions : line-search damping: CG ends when more than this many directions brought no gain
    max_failures : after this many failed updates in a row there is nothing more to do, >= 1; None goes on for ever

    Raises
    ------
    InputError for a number out of range.
    """

    cg_iterations: int = 100
    cg_min_iterations: int = 1
    cg_epsilon: float = 0.0005
    cg_window: int = 10
    cg_window_growth: float = 0.1
    residual_tolerance: float | None = None
    residual_every: int = 0
    keep_ratio: float = 1.3
    preconditioner: str = "none"
    preconditioner_exponent: float = 0.75
    preconditioner_shift: float | None = None
    warm_start: float = 0.95
    mu_growth: float | None = 3.0
    rho_model: str = "damped"
    rho_objective: str = "gradient"
    line_search: str = "armijo"
    line_search_factor: float = 0.8
    line_search_backtracks: int = 60
    armijo: float = 0.01
    tau: float = 0.5
    direction_backtracks: int = 10
    idle_directions: int = 5
    max_failures: int | None = 10

    def __post_init__(self) -> None:
        for name, choices in (
            ("rho_model", ("damped", "undamped")),
            ("rho_objective", ("gradient", "curvature", "separate")),
            ("preconditioner", ("none", "diagonal")),
            ("line_search", ("armijo", "minimum")),
        ):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}.")
        for name, fits, expected in (
            ("cg_iterations", self.cg_iterations >= 1, "at least 1"),
            ("cg_window", self.cg_window >= 1, "at least 1"),
            ("residual_every", self.residual_every >= 0, "at least 0"),
            ("keep_ratio", self.keep_ratio > 1.0, "above 1"),
            ("warm_start", 0.0 <= self.warm_start <= 1.0, "from 0 to 1"),
            ("mu_growth", self.mu_growth is None or self.mu_growth > 1.0, "above 1, or None"),
            ("line_search_factor", 0.0 < self.line_search_factor < 1.0, "between 0 and 1"),
            ("line_search_backtracks", self.line_search_backtracks >= 0, "at least 0"),
            ("armijo", 0.0 <= self.armijo < 1.0, "from 0 up to but not 1"),
            ("tau", 0.0 < self.tau < 1.0, "between 0 and 1"),
            ("direction_backtracks", self.direction_backtracks >= 0, "at least 0"),
            ("idle_directions", self.idle_directions >= 0, "at least 0"),
            ("max_failures", self.max_failures is None or self.max_failures >= 1, "at least 1, or None"),
            ("preconditioner_exponent", 0.0 <= self.preconditioner_exponent <= 1.0, "from 0 to 1"),
            (
                "preconditioner_shift",
                self.preconditioner_shift is None or self.preconditioner_shift > 0.0,
                "above 0, or None",
            ),
        ):
            if not fits:
                raise InputError(f"{name} is {getattr(self, name)}, expected a number {expected}.")


@dataclass(frozen=True)
class Update:
    """One update and all that its log line tells.

    Attributes
    ----------
    theta : the new vector; a copy of the old one where the update failed
    loss_before, loss_after : f before and after, on the gradient objective
    q, rho : of the full step of the chosen iterate, q as CG has it; rho may be minus infinity, and is NaN where the
        gradient is 0
    cg_iterations, cg_stop : of CG, and why it ended
    chosen_iteration : the iteration of CG whose iterate was chosen
    step_size : what the last line search took of the step; 0 without success
    mu, lambda_, next_mu, next_lambda_ : the strengths used here, and those that come next
    gradient_norm, step_norm : of the gradient, and of the step taken
    smallest_curvature : the least S.AS/S.S that CG met, None if it met none
    residual_norm, residual_drift : as in `CGResult`
    products, evaluations : matrix products, and losses beside the gradient's
    failed : why the parameters stayed as they were; None if they moved, or if the gradient is 0
    failures : how many updates in a row have failed, this one included
    ended : why there is nothing more to do, None if there is
    seconds : of "gradient" (with its loss), "preconditioner" (its diagonal), "cg" (of which "products") and "search"
        (every trial loss, also those inside CG)
    rho_model, rho_objective : how rho was measured
    """

    theta: Array
    loss_before: float
    loss_after: float
    rho: float
    q: float
    cg_iterations: int
    cg_stop: CGStop
    chosen_iteration: int
    step_size: float
    mu: float
    lambda_: float
    next_mu: float
    next_lambda_: float
    gradient_norm: float
    step_norm: float
    smallest_curvature: float | None
    residual_norm: float
    residual_drift: float | None
    products: int
    evaluations: int
    failed: Failure | None
    failures: int
    ended: End | None
    seconds: dict[str, float]
    rho_model: str
    rho_objective: str

    @property
    def success(self) -> bool:
        """Whether the parameters moved."""
        return self.step_size > 0.0


def solved(theta: Array, f: float, damping: Damping, options: HessianFreeOptions, gradient_seconds: float) -> Update:
    """The update where the gradient is 0: nothing changes, nothing was tried, nothing failed.

    Arguments: parameters `theta`, (n,); the loss `f` there; `damping` and `options` as they stand.
    """
    return Update(
        theta=theta.copy(),
        loss_before=f,
        loss_after=f,
        rho=math.nan,
        q=0.0,
        cg_iterations=0,
        cg_stop=CGStop.RESIDUAL,
        chosen_iteration=0,
        step_size=0.0,
        mu=damping.mu,
        lambda_=damping.lambda_,
        next_mu=damping.mu,
        next_lambda_=damping.lambda_,
        gradient_norm=0.0,
        step_norm=0.0,
        smallest_curvature=None,
        residual_norm=0.0,
        residual_drift=None,
        products=0,
        evaluations=0,
        failed=None,
        failures=0,
        ended=End.SOLUTION,
        seconds={"gradient": gradient_seconds, "preconditioner": 0.0, "cg": 0.0, "products": 0.0, "search": 0.0},
        rho_model=options.rho_model,
        rho_objective=options.rho_objective,
    )
