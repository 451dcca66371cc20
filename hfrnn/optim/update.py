"""What goes into an update of Hessian-free optimization and what comes out: objective, options, result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hfrnn.errors import HfrnnError, InputError
from hfrnn.optim.cg import Array, CGStop


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


class UpdateInterrupted(HfrnnError):
    """An update was given up because `should_stop` said so; the optimizer is as it was before the update."""

    exit_code = 130


@dataclass(frozen=True)
class HessianFreeOptions:
    """The numbers of an update; the defaults are those of SPEC 6.

    Arguments
    ---------
    cg_iterations, cg_min_iterations, cg_epsilon, cg_window, cg_window_growth, residual_tolerance, refresh,
    keep_ratio : as in `conjugate_gradient`
    warm_start : CG starts at the last CG solution times this, in [0, 1]; 0 turns it off
    mu_growth : CG ends when the factor mu(i)/mu_0, which follows rho at the kept iterates, reaches this, > 1; None
        turns it off, and the losses that it costs
    rho_model : "damped": q of rho holds the damping term; "undamped": it does not, at one product more for each rho
    rho_objective : "gradient" or "curvature": where f of rho and of the choice of the iterate is measured
    line_search : "armijo" ([MS]) or "minimum" ([K]: the step that minimises the loss)
    line_search_factor, line_search_backtracks, armijo : as in `backtracking_line_search`
    tau, direction_backtracks : line-search damping: how a direction is shortened, and how often at most
    idle_directions : line-search damping: CG ends when more than this many directions brought no gain

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
    refresh: int = 0
    keep_ratio: float = 1.3
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

    def __post_init__(self) -> None:
        for name, choices in (
            ("rho_model", ("damped", "undamped")),
            ("rho_objective", ("gradient", "curvature")),
            ("line_search", ("armijo", "minimum")),
        ):
            if getattr(self, name) not in choices:
                raise InputError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}.")
        for name, fits, expected in (
            ("cg_iterations", self.cg_iterations >= 1, "at least 1"),
            ("cg_window", self.cg_window >= 1, "at least 1"),
            ("refresh", self.refresh >= 0, "at least 0"),
            ("keep_ratio", self.keep_ratio > 1.0, "above 1"),
            ("warm_start", 0.0 <= self.warm_start <= 1.0, "from 0 to 1"),
            ("mu_growth", self.mu_growth is None or self.mu_growth > 1.0, "above 1, or None"),
            ("line_search_factor", 0.0 < self.line_search_factor < 1.0, "between 0 and 1"),
            ("line_search_backtracks", self.line_search_backtracks >= 0, "at least 0"),
            ("armijo", 0.0 <= self.armijo < 1.0, "from 0 up to but not 1"),
            ("tau", 0.0 < self.tau < 1.0, "between 0 and 1"),
            ("direction_backtracks", self.direction_backtracks >= 0, "at least 0"),
            ("idle_directions", self.idle_directions >= 0, "at least 0"),
        ):
            if not fits:
                raise InputError(f"{name} is {getattr(self, name)}, expected a number {expected}.")


@dataclass(frozen=True)
class Update:
    """One update and all that its log line tells.

    `theta` is the new vector (a copy of the old one if `success` is False); `q` and `rho` belong to the full step of
    the chosen iterate (`rho` may be minus infinity; `chosen_iteration` counts CG's iterations); `mu`, `lambda_` were
    used here, `next_mu`, `next_lambda_` come next; `smallest_curvature` is the least S.AS/S.S that CG met; `products`
    counts matrix products, `evaluations` losses beside the gradient's; `seconds` is split into
    gradient, cg (of which products) and search (every trial loss, also those inside CG); `rho_model` and
    `rho_objective` say how rho was measured.
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
    products: int
    evaluations: int
    success: bool
    seconds: dict[str, float]
    rho_model: str
    rho_objective: str
