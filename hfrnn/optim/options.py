"""Inputs of Hessian-free optimization: what an objective must provide, and the options of an update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hfrnn.arrays.vectors import Vector
from hfrnn.optim.ranges import (
    ABOVE_ONE,
    AT_LEAST_ONE,
    BELOW_ONE,
    INSIDE_ONE,
    NOT_NEGATIVE,
    SHIFTS,
    ZERO_TO_ONE,
    check_fields,
    choice,
    number,
)


class Operator(Protocol):
    """A symmetric matrix (n, n), given by its products with vectors."""

    def apply(self, v: Vector, out: Vector) -> object:
        """Write A v into `out`; both (n,)."""


class Objective(Protocol):
    """A function of a flat vector (n,) that is to be minimised.

    For the option preconditioner="diagonal", the objective of the curvature also needs a method `squared_gradients`.
    It takes theta and returns D of SPEC 6, (n,), with entries 0 or more.
    """

    def loss(self, theta: Vector) -> float:
        """Return f(theta)."""

    def loss_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        """Return f(theta) and its gradient (n,)."""

    def gauss_newton(
        self, theta: Vector, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Operator:
        """Return the damped Gauss-Newton matrix at theta.

        Parameters
        ----------
        theta : (n,) array
        structural, tikhonov : float
            Strengths mu and lambda of the damping, 0 or more.
        metric : str
            Quantity that structural damping measures.

        Returns
        -------
        Operator
        """


@dataclass(frozen=True)
class HessianFreeOptions:
    """Options of an update; the defaults are those of SPEC 6.

    Parameters
    ----------
    cg_iterations : int
        Largest number of iterations of conjugate gradient (CG), 1 or more.
    cg_epsilon : float
        Least progress per iteration of CG; `epsilon` of `conjugate_gradient`.
    cg_window : int
        Least window of the progress rule, 1 or more; `window` of `conjugate_gradient`.
    residual_tolerance : float, optional
        Relative residual at which CG stops. By default the machine precision.
    residual_every : int
        Iterations of CG between true residuals, which cost one product each; 0 for none.
    keep_ratio : float
        CG keeps its iterates at ceil(keep_ratio^j), above 1.
    preconditioner : {"none", "diagonal"}
        With "diagonal", CG uses (D + lambda)^exponent. The objective of the curvature computes D at every update.
    preconditioner_exponent : float
        Exponent of the diagonal, from 0 to 1.
    preconditioner_shift : float, optional
        Number to add to D, from 1e-30 to 1e30. By default lambda of the damping.
    warm_start : float
        CG starts at the last solution times this, from 0 to 1; 0 turns the warm start off.
    mu_growth : float or None
        CG stops when the factor mu(i)/mu_0 reaches this, above 1. The factor follows rho at the kept iterates, which
        costs a loss for each. None turns the rule off.
    rho_model : {"damped", "undamped"}
        Whether q in rho includes the damping term. With structural damping, "undamped" costs one more product for
        each rho.
    rho_objective : {"gradient", "curvature", "separate"}
        Objective that measures f for rho and for the choice of the iterate.
    line_search : {"armijo", "minimum"}
        Rule of the last line search: the first step that is good enough [MS], or the step with the smallest loss [K].
    line_search_factor : float
        Factor by which the last line search shortens the step, between 0 and 1.
    line_search_backtracks : int
        Largest number of times that it shortens the step, 0 or more.
    armijo : float
        Required share of the decrease that the slope predicts, from 0 up to but not 1; for "armijo".
    tau : float
        Line-search damping: factor that shortens a direction, between 0 and 1.
    direction_backtracks : int
        Line-search damping: largest number of times that a direction is shortened, 0 or more.
    idle_directions : int
        Line-search damping: CG stops after more than this many directions without a gain.
    max_failures : int or None
        Optimization ends after this many failed updates in a row, 1 or more; None never ends it.

    Raises
    ------
    InputError
        A value is out of range.
    """

    cg_iterations: int = number(100, AT_LEAST_ONE)
    cg_epsilon: float = 0.0005
    cg_window: int = number(10, AT_LEAST_ONE)
    residual_tolerance: float | None = None
    residual_every: int = number(0, NOT_NEGATIVE)
    keep_ratio: float = number(1.3, ABOVE_ONE)
    preconditioner: str = choice("none", "diagonal")
    preconditioner_exponent: float = number(0.75, ZERO_TO_ONE)
    preconditioner_shift: float | None = number(None, SHIFTS, or_none=True)
    warm_start: float = number(0.95, ZERO_TO_ONE)
    mu_growth: float | None = number(3.0, ABOVE_ONE, or_none=True)
    rho_model: str = choice("damped", "undamped")
    rho_objective: str = choice("gradient", "curvature", "separate")
    line_search: str = choice("armijo", "minimum")
    line_search_factor: float = number(0.8, INSIDE_ONE)
    line_search_backtracks: int = number(60, NOT_NEGATIVE)
    armijo: float = number(0.01, BELOW_ONE)
    tau: float = number(0.5, INSIDE_ONE)
    direction_backtracks: int = number(10, NOT_NEGATIVE)
    idle_directions: int = number(5, NOT_NEGATIVE)
    max_failures: int | None = number(10, AT_LEAST_ONE, or_none=True)

    def __post_init__(self) -> None:
        check_fields(self)
