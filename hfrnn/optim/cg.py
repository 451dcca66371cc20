"""Conjugate gradient for A x = b, as Hessian-free optimization uses it: early stopping, kept iterates, warm start.

Conjugate gradient minimises the quadratic q(x) = x.Ax/2 - b.x. The residual r = b - A x gives q(x) without a product:

    C1  q(x) = -(b + r).x/2             q(0) = 0, also when the run starts elsewhere
    C2  alpha_i = r.z / S.AS            z = M^-1 r with preconditioner M, else z = r
    C3  x += alpha_i S
    C4  r -= alpha_i AS
    C5  S = z + S (r.z)_new / (r.z)_old
    C6  r = b - A x                     every `residual_every` iterations, in place of C4, which drifts by rounding
    C7  |r|_M = sqrt(r.z)               the norm of the stopping rule S1; |r| without a preconditioner

A run stops at the first of these events ([K] 4.1-4.2, SPEC 6):

    S1  |r|_M <= tolerance * |b|_M                      the residual is small
    S2  i = max_iterations
    S3  S.AS <= 0, or 0 to rounding: eps*|S||AS|        no positive curvature
    S4  (q_i - q_{i-k})/q_i < epsilon*k and q_i < 0     no progress, k = max(window, WINDOW_GROWTH*i)
    S5  on_iterate returned a reason, or a number is not finite

Iterates are kept at ceil(1.3^j) [MS]. Vectors keep the type of b (float32 or float64, NumPy or CuPy). Every scalar is
summed in float64, in a fixed order. cg_state.py makes the iterations; on a device, each of them waits once.

References: SPEC 6; [K] 3.3, 4.1-4.2; [MS].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hfrnn.arrays.checks import array
from hfrnn.arrays.vectors import Apply, Vector
from hfrnn.brief import brief
from hfrnn.checks import ABOVE_ONE, NOT_NEGATIVE, POSITIVE, ZERO_TO_ONE, count, function, number, shown
from hfrnn.errors import InputError
from hfrnn.optim.cg_state import CGResult, CGStop, State

__all__ = ["CGResult", "CGStop", "Iterate", "conjugate_gradient", "diagonal_preconditioner", "power_preconditioner"]

WINDOW_GROWTH = 0.1  # of the window k of S4 with the iteration i


@brief
@dataclass(frozen=True)
class Iterate:
    """State of a run after one iteration, as `on_iterate` receives it; its vectors are valid during the call only.

    Attributes
    ----------
    iteration : int
    q : float
        q(x).
    q_step : float
        Change of q in this iteration, negative.
    x : (n,) array
        New iterate: the previous one plus `alpha * direction`.
    direction : (n,) array
    alpha : float
    kept : bool
        Whether the result will hold this iterate.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.cg import conjugate_gradient
    >>> kept = []
    >>> def watch(iterate):
    ...     kept.append(iterate.iteration)
    >>> found = conjugate_gradient(lambda v, out: np.copyto(out, 2.0 * v), np.ones(3), on_iterate=watch)
    >>> kept
    [1]
    """

    iteration: int
    q: float
    q_step: float
    x: Vector
    direction: Vector
    alpha: float
    kept: bool


def diagonal_preconditioner(diagonal: Vector, lambda_: float, exponent: float = 0.75) -> Apply:
    """Return the preconditioner (D + lambda I)^exponent of SPEC 6 for `conjugate_gradient`.

    Parameters
    ----------
    diagonal : (n,) array
        Diagonal of D, entries 0 or more.
    lambda_ : float
        Shift, above 0.
    exponent : float
        From 0 to 1.

    Returns
    -------
    callable
        Function of (r, out) that writes (D + lambda)^-exponent * r into `out`.

    Raises
    ------
    InputError
        The diagonal is not finite or has an entry below 0, or a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.cg import diagonal_preconditioner
    >>> apply, out = diagonal_preconditioner(np.array([0.0, 15.0]), 1.0), np.empty(2)
    >>> apply(np.ones(2), out)
    >>> out.tolist()
    [1.0, 0.125]
    """
    lambda_, exponent = number("lambda_", lambda_, POSITIVE), number("exponent", exponent, ZERO_TO_ONE)
    diagonal = array("diagonal", diagonal, (None,), "f", finite=True)
    if 0 not in diagonal.shape and diagonal.min().item() < 0.0:
        raise InputError("diagonal has an entry below 0: give entries of 0 or more")
    return power_preconditioner(diagonal, lambda_, exponent)


def power_preconditioner(diagonal: Vector, lambda_: float | Vector, exponent: float) -> Apply:
    """Return `diagonal_preconditioner` without a check of the arguments."""
    inverse = (diagonal + lambda_) ** -exponent

    def precondition(r: Vector, out: Vector) -> None:
        out[:] = r
        out *= inverse

    return precondition


def conjugate_gradient(
    apply: Apply,
    b: Vector,
    x0: Vector | None = None,
    *,
    max_iterations: int = 100,
    epsilon: float = 0.0005,
    window: int = 10, residual_tolerance: float | None = None, residual_every: int = 0,
    keep_ratio: float | None = 1.3, preconditioner: Apply | None = None,
    on_iterate: Callable[[Iterate], CGStop | None] | None = None,
) -> CGResult:  # fmt: skip
    """Minimise q(x) = x.Ax/2 - b.x, which solves A x = b, and stop early when progress is slow.

    Parameters
    ----------
    apply : callable
        `apply(v, out)` writes A v into `out`; A is (n, n), symmetric and positive semi-definite.
    b : (n,) array
        Right-hand side, float32 or float64; minus the gradient in Hessian-free optimization. Not written.
    x0 : (n,) array, optional
        Start, by default 0. Not written.
    max_iterations : int
        0 or more.
    epsilon : float
        Least progress per iteration in rule S4; 0 turns the rule off.
    window : int
        Least window of rule S4, 1 or more.
    residual_tolerance : float, optional
        Tolerance of rule S1. By default the machine precision of the type of b.
    residual_every : int
        Iterations between true residuals (C6), which cost one product each; 0 for none.
    keep_ratio : float or None
        Iterates are kept at ceil(keep_ratio^j), above 1; None keeps the last one only.
    preconditioner : callable, optional
        `preconditioner(r, out)` writes M^-1 r into `out`; M is symmetric and positive definite.
    on_iterate : callable, optional
        Called after each iteration; stops the run if it returns a CGStop.

    Returns
    -------
    CGResult
        After rule S3 or a number that is not finite, x is the last good iterate; 0 if b or A x0 is not finite.

    Raises
    ------
    InputError
        A number is out of range, shapes differ, or the preconditioner is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.cg import conjugate_gradient
    >>> A, b = np.diag([1.0, 2.0, 4.0]), np.ones(3)
    >>> def apply(v, out):
    ...     out[:] = A @ v
    >>> found = conjugate_gradient(apply, b)
    >>> found.x.round(6).tolist(), found.iterations
    ([1.0, 0.5, 0.25], 3)
    """
    b = array("b", b, (None,), "f")
    x0 = None if x0 is None else array("x0", x0, b.shape, "f", advice="as b is")
    max_iterations, window = count("max_iterations", max_iterations), count("window", window, 1)
    residual_every, epsilon = count("residual_every", residual_every), number("epsilon", epsilon, NOT_NEGATIVE)
    residual_tolerance = number("residual_tolerance", residual_tolerance, NOT_NEGATIVE, or_none=True)
    keep_ratio = number("keep_ratio", keep_ratio, ABOVE_ONE, or_none=True)
    function("apply", apply)
    preconditioner = function("preconditioner", preconditioner, or_none=True)
    on_iterate = function("on_iterate", on_iterate, or_none=True)
    kept = kept_iterations(keep_ratio, max_iterations)
    state = State(apply, b, preconditioner)
    tolerance = state.eps if residual_tolerance is None else residual_tolerance
    stop = state.start(x0)
    while stop is None:
        stop = _done(state, tolerance, max_iterations) or state.step(residual_every)
        if stop is None:
            stop = _reported(state, kept, on_iterate) or _stalled(state.q_history, epsilon, window)
        if stop is None:
            state.turn()
    return state.result(stop)


def _done(state: State, tolerance: float, max_iterations: int) -> CGStop | None:
    """Apply the rules that come before an iteration."""
    if state.level <= tolerance * state.b_level:
        return CGStop.RESIDUAL  # S1
    return CGStop.MAX_ITERATIONS if state.i == max_iterations else None  # S2


def _reported(
    state: State, kept: frozenset[int], on_iterate: Callable[[Iterate], CGStop | None] | None
) -> CGStop | None:
    """Keep the iterate if it is one of `kept`, and show it to the caller, who may stop the run."""
    keep = state.i in kept
    if keep:
        state.kept.append((state.i, state.q, state.x.copy()))
    if on_iterate is None:
        return None
    stop = on_iterate(Iterate(state.i, state.q, state.q_step, state.x, state.direction, state.alpha, keep))  # S5
    if stop is not None and not isinstance(stop, CGStop):
        raise InputError(f"the result of on_iterate is {shown(stop)}: return a CGStop, or None")
    return stop


def _stalled(history: list[float], epsilon: float, window: int) -> CGStop | None:
    """Stop if, over the last k iterations, q fell by less than epsilon*k of itself while q is negative ([K] 4.2)."""
    i = len(history) - 1
    k = max(window, math.ceil(WINDOW_GROWTH * i))
    if epsilon > 0.0 and i >= k and history[i] < 0.0 and (history[i] - history[i - k]) / history[i] < epsilon * k:
        return CGStop.PROGRESS  # S4
    return None


def kept_iterations(ratio: float | None, last: int) -> frozenset[int]:
    """Return the iterations ceil(ratio^j) up to `last`; none if the ratio is None."""
    if ratio is None:
        return frozenset()
    kept, power = set(), 1.0
    while math.ceil(power) <= last:
        kept.add(math.ceil(power))
        power *= ratio
    return frozenset(kept)
