"""The inputs of Hessian-free optimization: what an objective must provide, and the options of an update.

Each option of an update is a field of `HessianFreeOptions`, and nothing else declares it. The check, the defaults of
both presets, the option of `hfrnn train` and its help text are derived from the field. Importing this file does not
import NumPy, so that help texts appear quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

from hfrnn.checks import (
    ABOVE_ONE,
    BELOW_ONE,
    INSIDE_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    SHIFTS,
    ZERO_TO_ONE,
    Range,
    check_fields,
    choice,
    count,
    function,
    methods,
    number,
)
from hfrnn.choices import (
    COMPARISONS,
    LINE_SEARCHES,
    PRECONDITIONERS,
    RHO_MODELS,
    RHO_OBJECTIVES,
    SEARCH_OBJECTIVES,
)
from hfrnn.errors import InputError
from hfrnn.option import ByData, Need, Option, Presets

if TYPE_CHECKING:
    from hfrnn.arrays.vectors import Vector

KINDS_OF_DATA = ByData._fields
"""Kinds of data that presets tell apart. "task" are synthetic tasks; those with a target at every step are "arrays"."""
STRENGTHS: dict[str, tuple[float, float]] = {
    "structural": (0.1, 0.01),
    "tikhonov": (0.0, 1.0),
    "structural+tikhonov": (0.1, 0.1),
    "line-search": (0.0, 0.0),
    "none": (0.0, 0.0),
}
"""Initial strengths (mu, lambda) of each kind of damping."""
WEAKER = 10
"""How many times weaker than its kind's own the damping of a large text is at first, in the preset tuned."""
LEAST_FACTORS = {"tikhonov": 0.01, "structural+tikhonov": 0.1}
"""Factors of the default of `least_damping`, by kind of damping. They make the least lambda 0.001 for every kind."""
SHIFT = 1e-3
"""Shift of the preconditioner where the damping has no lambda and no relative shift is given."""

DAMPED = Need("damping", ("structural", "structural+tikhonov", "tikhonov"))
PRECONDITIONED = Need("preconditioner", ("diagonal", "kronecker"))
KRONECKER = Need("preconditioner", ("kronecker",))
ARMIJO = Need("line_search", ("armijo",))


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
    `MatrixBlock`. It may have attributes `threads`, the `Threads` that share the work of the preconditioner, and
    `host_threads`, those that compute on the host for a device; and an attribute `exists`, a vector (n,) with 0 for
    entries that have no effect and do not move, and 1 for all others.

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
        """Return the damped Gauss-Newton matrix at theta: G + structural*S + tikhonov*I.

        `metric` is the quantity that structural damping measures.
        """


# ---------------------------------------------------------------------- the options of an update


def option(
    default: Any,
    check: Callable[..., Any],
    *bounds: Any,
    help: str = "",
    presets: Presets | None = None,
    needs: tuple[Need, ...] = (),
    zero: str = "",
    otherwise: str = "",
    **keywords: Any,
) -> Any:
    """Return a field of `HessianFreeOptions`: the declaration of an option of an update.

    `default` is that of SPEC 6; `presets` has the default in each preset if it differs. The check is `count`, `number`
    or `choice` of `hfrnn/checks.py`; `bounds` and `keywords` are its further arguments. The type, the bounds and the
    choices of the run's option of the same name are those of the check. The rest is as for `Option`; a field without a
    help text is no option of a run. With `zero`, a run says 0 where the option is off, and `HessianFreeOptions` says
    None if the check allows that.
    """
    declared = {"help": help, "presets": presets, "needs": needs, "zero": zero, "otherwise": otherwise}
    return field(default=default, metadata={"check": (check, bounds, keywords), **declared})


@dataclass(frozen=True)
class HessianFreeOptions:
    """Options of an update; the defaults are those of SPEC 6.

    `tuned()` and `published()` return the options that the two presets of `hfrnn train` have.

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
    momentum : float
        m of H16, from 0 up to but not 1. A step is m times the last step, plus 1 - m^2 times that of the line search.
        m rises from 0 to its value in the first hundred updates.
    mu_growth : float or None
        CG stops when the factor mu(i)/mu_0 reaches this, above 1. The factor follows rho at the kept iterates, which
        costs a loss for each. None turns the rule off.
    rho_model : {"damped", "undamped"}
        Whether q in rho includes the damping term. With structural damping, "undamped" costs one more product for
        each rho.
    rho_objective : {"gradient", "curvature", "separate"}
        Objective that measures f for rho, for the choice of the iterate and for line-search damping.
    rho_every : int
        Updates between two that are measured, 1 or more. The others take the last iterate of CG as it is, without rho
        and line search. An update whose quadratic promises more than a quarter of the loss is measured, and so are all
        updates until five of them in a row have left the damping as it is. Line-search damping measures every update.
    compare_iterates : {"always", "low-rho"}
        When an update that is measured computes the losses at earlier iterates of CG, to go back while the loss falls:
        always, or only if rho at the last iterate is so low that the damping grows. Not used by line-search damping.
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

    cg_iterations: int = option(
        100, count, 1,
        help="Largest number of CG iterations per update.",
        presets=Presets(ByData(text=3, music=3, task=4, arrays=30, large_text=2), 100),
    )  # fmt: skip
    noise_limit: float | None = option(
        None, number, POSITIVE, or_none=True,
        help="CG stops after its first iteration if noise of the gradient batch makes more than this share of the "
        "decrease",
        zero="for no limit", needs=(PRECONDITIONED,),
        presets=Presets(ByData(text=None, music=None, task=None, arrays=None, large_text=0.5), None),
    )  # fmt: skip
    cg_epsilon: float = option(
        0.0005, number, NOT_NEGATIVE,
        help="CG stops when the mean relative decrease of q per iteration is below this value.",
        presets=Presets(0.005, 0.005),
    )  # fmt: skip
    cg_window: int = option(10, count, 1)
    residual_tolerance: float | None = option(None, number, NOT_NEGATIVE, or_none=True)
    residual_every: int = option(
        0, count, unit="iterations", zero="for none", help="CG iterations between exact computations of the residual"
    )
    keep_ratio: float = option(1.3, number, ABOVE_ONE)
    preconditioner: str = option(
        "none", choice, PRECONDITIONERS, help="Preconditioner for CG.", presets=Presets("kronecker", "none")
    )
    preconditioner_exponent: float = option(
        0.75, number, ZERO_TO_ONE,
        help="Exponent of the preconditioner's diagonal, from 0 to 1.", needs=(PRECONDITIONED,),
        presets=Presets(ByData(text=0.75, music=0.75, task=0.75, arrays=0.75, large_text=1.0), 0.75),
    )  # fmt: skip
    preconditioner_shift: float | None = option(
        None, number, SHIFTS, or_none=True,
        help="Number added to the diagonal of the preconditioner.", needs=(PRECONDITIONED,),
        otherwise="set by the relative shift",
    )  # fmt: skip
    preconditioner_relative_shift: float = option(
        0.0, number, NOT_NEGATIVE,
        help="Shift of the preconditioner, divided by the mean of its diagonal", needs=(PRECONDITIONED,),
        zero=f"for lambda, or {SHIFT:g} where the damping has none",
        presets=Presets(ByData(text=1.0, music=1.0, task=0.0, arrays=0.0, large_text=0.5), 0.0),
    )  # fmt: skip
    preconditioner_parts: int = option(
        50, count, 1, unit="parts",
        help="Parts of the curvature batch whose gradients make the factors.", needs=(KRONECKER,),
        presets=Presets(ByData(text=20, music=20, task=20, arrays=20, large_text=50), 50),
    )  # fmt: skip
    preconditioner_every: int = option(
        10, count, 1, unit="updates",
        help="Most updates between two computations of the factors.", needs=(KRONECKER,),
        presets=Presets(ByData(text=20, music=20, task=20, arrays=20, large_text=40), 10),
    )  # fmt: skip
    preconditioner_decay: float = option(
        0.7, number, ZERO_TO_ONE, help="Weight of the earlier factors when they are computed again.", needs=(KRONECKER,)
    )
    warm_start: float = option(
        0.95, number, ZERO_TO_ONE,
        help="CG starts at its last solution times this factor; 0 starts at zero.",
        otherwise="0 with {damping:line-search}",
        presets=Presets(0.0, 0.95),
    )  # fmt: skip
    momentum: float = option(
        0.0, number, BELOW_ONE,
        help="Share m of the last step in each step; hf multiplies the solution of CG by 1 - m^2.",
        presets=Presets(ByData(text=0.0, music=0.0, task=0.0, arrays=0.6, large_text=0.6), 0.0),
    )  # fmt: skip
    mu_growth: float | None = option(
        3.0, number, ABOVE_ONE, or_none=True,
        help="CG stops when rho would raise the damping by this factor", zero="to turn it off", needs=(DAMPED,),
        presets=Presets(None, 3.0),
    )  # fmt: skip
    rho_model: str = option(
        "damped", choice, RHO_MODELS, help="Whether the quadratic q in rho includes the damping.", needs=(DAMPED,)
    )
    rho_objective: str = option(
        "gradient", choice, RHO_OBJECTIVES,
        help="Batch on which the loss in rho is measured, and the losses of {damping:line-search}.",
    )  # fmt: skip
    rho_every: int = option(
        1, count, 1,
        help="Measure rho once in this many updates; the others take their step without a trial loss.",
        presets=Presets(ByData(text=1, music=1, task=1, arrays=1, large_text=10), 1),
    )  # fmt: skip
    compare_iterates: str = option(
        "always", choice, COMPARISONS,
        help="When measured updates compute the losses at earlier CG iterates: always, or only if rho is below "
        "{rho_low!s} at the last one.",
        needs=(DAMPED,),
        presets=Presets(ByData(text="always", music="always", task="always", arrays="always", large_text="low-rho"),
                        "always"),
    )  # fmt: skip
    search_objective: str = option(
        "gradient", choice, SEARCH_OBJECTIVES,
        help="Batch of the final line search: that of the gradient or that of rho.",
    )  # fmt: skip
    line_search: str = option("armijo", choice, LINE_SEARCHES, help="Stopping rule of the final line search.")
    line_search_factor: float = option(0.8, number, INSIDE_ONE)
    line_search_backtracks: int = option(60, count)
    armijo: float = option(
        0.01, number, BELOW_ONE,
        help="Share of the decrease along the gradient that the final line search asks for.", needs=(ARMIJO,),
        presets=Presets(ByData(text=0.125, music=0.125, task=0.01, arrays=0.01), 0.01),
    )  # fmt: skip
    tau: float = option(0.5, number, INSIDE_ONE)
    direction_backtracks: int = option(10, count)
    idle_directions: int = option(5, count)
    max_failures: int | None = option(
        10, count, 1, or_none=True, unit="updates",
        help="Stop after this many updates in a row without a step", zero="for never",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def tuned(cls, data: str = "text", **changes: Any) -> HessianFreeOptions:
        """Return the options of the preset tuned of `hfrnn train`, its default: many cheap updates.

        Parameters
        ----------
        data : {"text", "large_text", "music", "task", "arrays"}
            Kind of the data. "large_text" are texts of at least a million symbols, "task" are synthetic tasks with long
            time lags. Tasks with a target at every step are "arrays".
        **changes
            Options that differ, by name.

        Raises
        ------
        InputError
            The kind of data is unknown, or a value is out of range.

        Notes
        -----
        A run with this preset also has small batches, `Damping(least=0.1)` for texts and music, and
        `LevenbergMarquardt(0.5, 1.0)`. If the damping has no lambda, tasks and arrays need a `preconditioner_shift`.

        Examples
        --------
        >>> import hfrnn
        >>> options = hfrnn.HessianFreeOptions.tuned("arrays", line_search="minimum")
        >>> options.cg_iterations, options.preconditioner
        (30, 'kronecker')
        """
        return cls(**{**_of_preset("tuned", data), **changes})

    @classmethod
    def published(cls, data: str = "text", **changes: Any) -> HessianFreeOptions:
        """Return the options of the preset published of `hfrnn train`: long CG runs, close to the papers.

        The arguments and errors are those of `tuned`. A run with line-search damping has `warm_start=0.0`.

        Examples
        --------
        >>> import hfrnn
        >>> options = hfrnn.HessianFreeOptions.published()
        >>> options.cg_iterations, options.warm_start
        (100, 0.95)
        """
        return cls(**{**_of_preset("published", data), **changes})

    @classmethod
    def from_run(cls, values: Mapping[str, Any], **changes: Any) -> HessianFreeOptions:
        """Return the options of the updates of a run, from the values of its options by name, with changes.

        A run has 0 for an option that is off, and the result has None. A run has None for an option that is newer than
        the run, and the result has the default.
        """
        declared = [each for each in fields(cls) if each.metadata["help"]]
        off = {each.name: None for each in declared if _allows_none(each) and not values[each.name]}
        known = {each.name: values[each.name] for each in declared if values[each.name] is not None}
        return cls(**{**known, **off, **changes})


def declarations() -> tuple[Option, ...]:
    """Return the options of an update that a run has: those fields of `HessianFreeOptions` that have a help text."""
    return tuple(_declaration(each) for each in fields(HessianFreeOptions) if each.metadata["help"])


def _declaration(each: Field[Any]) -> Option:
    """Return the option of a run that a field stands for."""
    declared = dict(each.metadata)
    check, bounds, keywords = declared.pop("check")
    default = each.default if declared["presets"] is None else None
    limits: dict[str, Any] = {"unit": keywords.get("unit", "")}
    kind: type = str
    if check is choice:
        limits["choices"] = bounds[0]
    elif check is count:
        kind = int
        least = bounds[0] if bounds else 0
        limits["least"] = 1 if least == 0 and declared["zero"] else least  # `zero` stands for 0
    else:
        kind = float
        limits |= _limits(bounds[0])
    return Option(each.name, kind, default, group="Optimizer", **limits, **declared)


def _limits(allowed: Range) -> dict[str, float]:
    """Return an interval as the bounds of an option."""
    found = {
        "above" if allowed.low_open else "least": allowed.low,
        "below" if allowed.high_open else "most": allowed.high,
    }
    return {name: bound for name, bound in found.items() if math.isfinite(bound)}


def _allows_none(each: Field[Any]) -> bool:
    """Return whether None is an allowed value of a field."""
    return bool(each.metadata["check"][2].get("or_none"))


def _of_preset(preset: str, data: str) -> dict[str, Any]:
    """Return the options that a preset decides, for a kind of data."""
    choice("data", data, KINDS_OF_DATA)
    values = {each.name: getattr(presets, preset) for each in fields(HessianFreeOptions)
              if (presets := each.metadata["presets"]) is not None}  # fmt: skip
    return {name: value.of(data) if isinstance(value, ByData) else value for name, value in values.items()}


FUNCTIONS = {"preconditioner": "r, out", "on_cg": "iteration, q", "should_stop": ""}
"""The arguments of the functions that an update takes."""


def check_arguments(options: HessianFreeOptions, objectives: Mapping[str, Any], functions: Mapping[str, Any]) -> None:
    """Raise InputError unless the arguments of an update are valid and fit the options.

    The objectives are `gradient`, `curvature` and `separate`; the others are functions or None.
    """
    for name, given in objectives.items():
        methods(name, given, ("loss", "loss_and_gradient", "gauss_newton"), "theta", or_none=name != "gradient")
    for name, given in functions.items():
        function(name, given, FUNCTIONS[name], or_none=True)
    separate = objectives["separate"]
    if separate is None and options.rho_objective == "separate":
        raise InputError("rho_objective is 'separate', and separate is not given: give the objective that measures rho")
    if separate is not None and options.rho_objective != "separate":
        raise InputError(
            f"separate is given, and rho_objective is {options.rho_objective!r}: leave it out, or use the option "
            "rho_objective='separate'"
        )
    if functions["preconditioner"] is not None and options.preconditioner != "none":
        raise InputError("A preconditioner is given beside the option preconditioner: leave one of them out.")
