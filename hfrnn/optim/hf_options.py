"""Inputs of Hessian-free optimization: what an objective must provide, and the options of an update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hfrnn.arrays.vectors import Vector
from hfrnn.checks import (
    ABOVE_ONE,
    BELOW_ONE,
    INSIDE_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    SHIFTS,
    ZERO_TO_ONE,
    check_fields,
    checked,
    choice,
    count,
    function,
    methods,
    number,
)
from hfrnn.choices import LINE_SEARCHES, PRECONDITIONERS, RHO_MODELS, RHO_OBJECTIVES, SEARCH_OBJECTIVES
from hfrnn.errors import InputError
from hfrnn.presets import KINDS_OF_DATA, preset_options


class Operator(Protocol):
    """A symmetric matrix (n, n), given by its products with vectors."""

    def apply(self, v: Vector, out: Vector) -> object:
        """Write A v into `out`; both (n,)."""


class CurvatureObjective(Protocol):
    """A function of a flat vector (n,) that is to be minimised.

    For the option preconditioner="diagonal", the objective of the curvature also needs a method `squared_gradients`.
    It takes theta and returns D of SPEC 6, (n,), with entries 0 or more. For preconditioner="kronecker" it needs a
    method `part_gradients(theta, parts)`, which returns the gradients of up to `parts` parts of its batch, (parts, n),
    scaled so that the sum of their outer products estimates the curvature; and `matrix_blocks`, a sequence of
    `MatrixBlock`. It may have an attribute `threads`, the `Threads` that share the work of the preconditioner, and an
    attribute `exists`, a vector (n,) with 0 for entries that have no effect and do not move, and 1 for all others.

    The option `noise_limit` uses the attribute `total_weight` of the objective of the gradient, the sum of the weights
    of its symbols, and has no effect without it.
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

    `tuned()` and `published()` return the options that `hfrnn train --preset` has.

    Parameters
    ----------
    cg_iterations : int
        Largest number of iterations of conjugate gradient (CG), 1 or more.
    noise_limit : float or None
        CG stops after its first iteration if noise of the gradient is expected to make more than this share of the
        decrease (H14 in `optim/hessian_free.py`), above 0. Not used without a `preconditioner`. None turns the rule
        off.
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
    preconditioner : {"none", "diagonal", "kronecker"}
        With "diagonal", CG uses (D + shift)^exponent. The objective of the curvature computes D at every update. With
        "kronecker", D is the diagonal in the eigenbasis of each block's Kronecker factors (`optim/kronecker.py`).
    preconditioner_exponent : float
        Exponent of the diagonal, from 0 to 1.
    preconditioner_shift : float, optional
        Number to add to D, from 1e-30 to 1e30. By default, see `preconditioner_relative_shift`.
    preconditioner_relative_shift : float
        The shift divided by the mean of D, 0 or more; with "kronecker", s of K7 (`optim/kronecker.py`). Not used with a
        `preconditioner_shift`. If it is 0, the shift is lambda of the damping.
    preconditioner_parts : int
        "kronecker": number of parts of the curvature batch whose gradients make the factors, 1 or more.
    preconditioner_every : int
        "kronecker": largest number of updates between two computations of the factors, 1 or more.
    preconditioner_decay : float
        "kronecker": weight of the earlier factors when they are computed again, from 0 to 1.
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
    rho_every : int
        Updates between two that are measured, 1 or more. The others take the last iterate of CG as it is, without rho
        and line search. The first 20 updates are all measured, and so is an update whose quadratic promises more than
        a quarter of the loss. Line-search damping measures every update.
    search_objective : {"gradient", "rho"}
        Objective of the last line search: that of the gradient, or that of rho.
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

    Examples
    --------
    >>> import hfrnn
    >>> hfrnn.HessianFreeOptions(cg_iterations=50).cg_iterations
    50
    """

    cg_iterations: int = checked(100, count, 1)
    noise_limit: float | None = checked(None, number, POSITIVE, or_none=True)
    cg_epsilon: float = checked(0.0005, number, NOT_NEGATIVE)
    cg_window: int = checked(10, count, 1)
    residual_tolerance: float | None = checked(None, number, NOT_NEGATIVE, or_none=True)
    residual_every: int = checked(0, count)
    keep_ratio: float = checked(1.3, number, ABOVE_ONE)
    preconditioner: str = checked("none", choice, PRECONDITIONERS)
    preconditioner_exponent: float = checked(0.75, number, ZERO_TO_ONE)
    preconditioner_shift: float | None = checked(None, number, SHIFTS, or_none=True)
    preconditioner_relative_shift: float = checked(0.0, number, NOT_NEGATIVE)
    preconditioner_parts: int = checked(50, count, 1)
    preconditioner_every: int = checked(10, count, 1)
    preconditioner_decay: float = checked(0.7, number, ZERO_TO_ONE)
    warm_start: float = checked(0.95, number, ZERO_TO_ONE)
    mu_growth: float | None = checked(3.0, number, ABOVE_ONE, or_none=True)
    rho_model: str = checked("damped", choice, RHO_MODELS)
    rho_objective: str = checked("gradient", choice, RHO_OBJECTIVES)
    rho_every: int = checked(1, count, 1)
    search_objective: str = checked("gradient", choice, SEARCH_OBJECTIVES)
    line_search: str = checked("armijo", choice, LINE_SEARCHES)
    line_search_factor: float = checked(0.8, number, INSIDE_ONE)
    line_search_backtracks: int = checked(60, count)
    armijo: float = checked(0.01, number, BELOW_ONE)
    tau: float = checked(0.5, number, INSIDE_ONE)
    direction_backtracks: int = checked(10, count)
    idle_directions: int = checked(5, count)
    max_failures: int | None = checked(10, count, 1, or_none=True)

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def tuned(cls, data: str = "text", **changes: Any) -> HessianFreeOptions:
        """Return the options of `hfrnn train --preset tuned`, the default: many cheap updates.

        Parameters
        ----------
        data : {"text", "large_text", "music", "task", "arrays"}
            Kind of the data. "large_text" are texts of at least a million symbols, "task" are synthetic tasks with long
            time lags. Tasks with a target at every step are "arrays".
        **changes
            Options that differ, by name.

        Returns
        -------
        HessianFreeOptions

        Raises
        ------
        InputError
            The kind of data is unknown, or a value is out of range.

        Notes
        -----
        A run with this preset also has small batches, `Damping(least=0.1)` for texts and music, and
        `LevenbergMarquardt(0.5, 1.0)`. If the damping has no lambda, tasks and arrays need a
        `preconditioner_shift`.

        Examples
        --------
        >>> import hfrnn
        >>> options = hfrnn.HessianFreeOptions.tuned("arrays", line_search="minimum")
        >>> options.cg_iterations, options.preconditioner
        (30, 'kronecker')
        """
        return cls(**{**preset_options("tuned", choice("data", data, KINDS_OF_DATA)), **changes})

    @classmethod
    def published(cls, data: str = "text", **changes: Any) -> HessianFreeOptions:
        """Return the options of `hfrnn train --preset published`: long CG runs, close to the papers.

        Parameters
        ----------
        data : {"text", "large_text", "music", "task", "arrays"}
            Kind of the data.
        **changes
            Options that differ, by name. A run with line-search damping has `warm_start=0.0`.

        Returns
        -------
        HessianFreeOptions

        Raises
        ------
        InputError
            The kind of data is unknown, or a value is out of range.

        Examples
        --------
        >>> import hfrnn
        >>> options = hfrnn.HessianFreeOptions.published()
        >>> options.cg_iterations, options.warm_start
        (100, 0.95)
        """
        return cls(**{**preset_options("published", choice("data", data, KINDS_OF_DATA)), **changes})


def check_arguments(options: HessianFreeOptions, objectives: Mapping[str, Any], functions: Mapping[str, Any]) -> None:
    """Raise InputError unless the arguments of an update are valid and fit the options.

    Parameters
    ----------
    options : HessianFreeOptions
    objectives : mapping of str to object
        The arguments `gradient`, `curvature` and `separate`.
    functions : mapping of str to object
        The other arguments: functions, or None.
    """
    for name, given in objectives.items():
        methods(name, given, ("loss", "loss_and_gradient", "gauss_newton"), or_none=name != "gradient")
    for name, given in functions.items():
        function(name, given, or_none=True)
    separate = objectives["separate"]
    if (separate is not None) != (options.rho_objective == "separate"):
        raise InputError(
            f"rho_objective is {options.rho_objective!r} and a separate objective is "
            f"{'missing' if separate is None else 'given'}: these two go together."
        )
    if functions["preconditioner"] is not None and options.preconditioner != "none":
        raise InputError("A preconditioner is given beside the option preconditioner: leave one of them out.")
