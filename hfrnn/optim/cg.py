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
summed in float64, in a fixed order.

References: SPEC 6; [K] 3.3, 4.1-4.2; [MS].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from hfrnn.arrays.checks import array
from hfrnn.arrays.vectors import Apply, Vector, dot, norm
from hfrnn.checks import ABOVE_ONE, NOT_NEGATIVE, POSITIVE, ZERO_TO_ONE, count, function, number, shown
from hfrnn.errors import InputError

WINDOW_GROWTH = 0.1  # of the window k of S4 with the iteration i


class CGStop(StrEnum):
    """Reason why a run of conjugate gradient stopped; the log shows the value."""

    PROGRESS = "progress"
    MAX_ITERATIONS = "max_iterations"
    MU_GROWTH = "mu_growth"
    NO_GAIN = "no_gain"
    CURVATURE = "curvature"
    RESIDUAL = "residual"
    NON_FINITE = "non_finite"


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
    """

    iteration: int
    q: float
    q_step: float
    x: Vector
    direction: Vector
    alpha: float
    kept: bool


@dataclass(frozen=True)
class CGResult:
    """Solution of a run of conjugate gradient, and the reason why it stopped.

    Attributes
    ----------
    x : (n,) array
        Last good iterate.
    iterates : tuple of (iteration, q, x)
        Iterates at ceil(1.3^j), and the last one.
    iterations : int
    stop : CGStop
    q : float
    residual_norm : float
        |b - A x|, from C4 or C6.
    preconditioned_norm : float
        The same in the norm of C7.
    residual_drift : float or None
        Largest |r of C4 - r of C6| / |b| of the run; None if C6 was never used.
    smallest_curvature : float or None
        Smallest S.AS / S.S of the run; None without a product along a direction.
    q_history : tuple of float
        q_0 to q_iterations.
    products : int
        Number of calls of `apply`.
    """

    x: Vector
    iterates: tuple[tuple[int, float, Vector], ...]
    iterations: int
    stop: CGStop
    q: float
    residual_norm: float
    preconditioned_norm: float
    residual_drift: float | None
    smallest_curvature: float | None
    q_history: tuple[float, ...]
    products: int


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
    """
    lambda_, exponent = number("lambda_", lambda_, POSITIVE), number("exponent", exponent, ZERO_TO_ONE)
    diagonal = array("diagonal", diagonal, (None,), "f", finite=True)
    if 0 not in diagonal.shape and diagonal.min().item() < 0.0:
        raise InputError("diagonal has an entry below 0: give entries of 0 or more")
    return power_preconditioner(diagonal, lambda_, exponent)


def power_preconditioner(diagonal: Vector, lambda_: float, exponent: float) -> Apply:
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
    kept = _kept_iterations(keep_ratio, max_iterations)
    state = _State(apply, b, preconditioner)
    tolerance = state.eps if residual_tolerance is None else residual_tolerance
    stop = state.start(x0)
    while stop is None:
        stop = _done(state, tolerance, max_iterations) or state.step(residual_every)
        if stop is None:
            stop = _reported(state, kept, on_iterate) or _stalled(state.q_history, epsilon, window)
        if stop is None:
            state.turn()
    return state.result(stop)


@dataclass
class _State:
    """The current iterate, and all that one iteration carries to the next; vectors are (n,).

    `start` and `step` return a reason to stop, or None.
    """

    apply: Apply
    b: Vector
    preconditioner: Apply | None
    i: int = 0
    q: float = 0.0
    q_step: float = 0.0
    alpha: float = 0.0
    rz: float = 0.0
    rz_old: float = 0.0
    products: int = 0
    smallest: float = math.inf
    drift: float | None = None
    kept: list[tuple[int, float, Vector]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.eps = float(np.finfo(self.b.dtype).eps)
        self.x, self.next_x = self.b.copy(), self.b.copy()
        self.x.fill(0)
        self.r, self.product, self.direction = self.b.copy(), self.b.copy(), self.b.copy()
        self._answer = self.r if self.preconditioner is None else self.b.copy()
        self.b_norm = self.r_norm = self.level = self.b_level = norm(self.b)
        self.q_history = [0.0]

    def start(self, x0: Vector | None) -> CGStop | None:
        """Start at x0 or 0."""
        if not math.isfinite(self.b_norm):
            return CGStop.NON_FINITE  # S5
        if x0 is not None and self.b_norm > 0.0:
            self.apply(x0, self.product)
            self.products += 1
            self.r -= self.product
            q, r_norm = -0.5 * (dot(self.b, x0) + dot(self.r, x0)), norm(self.r)  # C1
            if not (math.isfinite(q) and math.isfinite(r_norm)):
                return CGStop.NON_FINITE  # S5
            self.x[:] = x0
            self.q, self.r_norm, self.q_history = q, r_norm, [q]
        _, _, self.b_level = self._precondition(self.b, self.b_norm)
        self.z, self.rz, self.level = self._precondition(self.r, self.r_norm)
        self.direction[:] = self.z
        return None

    def step(self, residual_every: int) -> CGStop | None:
        """Make one iteration along the direction; a step that cannot be made leaves x as it is."""
        direction, next_x, next_r = self.direction, self.next_x, self.product
        self.apply(direction, self.product)
        self.products += 1
        curvature, square = dot(direction, self.product), dot(direction, direction)
        if not (math.isfinite(curvature) and math.isfinite(square) and square > 0.0):
            return CGStop.NON_FINITE  # S5
        self.smallest = min(self.smallest, curvature / square)
        if curvature <= self.eps * math.sqrt(square) * norm(self.product):
            return CGStop.CURVATURE  # S3; so small an angle takes a condition number above 4/eps^2
        self.alpha = self.rz / curvature  # C2
        with np.errstate(over="ignore", invalid="ignore"):
            next_x[:] = direction
            next_x *= self.alpha
            next_x += self.x  # C3
            next_r *= -self.alpha
            next_r += self.r  # C4
            if residual_every and (self.i + 1) % residual_every == 0:
                next_r = self._true_residual(next_x, next_r)
        q, r_norm = -0.5 * (dot(self.b, next_x) + dot(next_r, next_x)), norm(next_r)  # C1
        if not (math.isfinite(q) and math.isfinite(r_norm)):
            return CGStop.NON_FINITE  # S5
        self.x, self.next_x = next_x, self.x
        if next_r is self.product:
            self.r, self.product = self.product, self.r
        self.i, self.q_step, self.q, self.r_norm = self.i + 1, q - self.q, q, r_norm
        self.rz_old = self.rz
        self.z, self.rz, self.level = self._precondition(self.r, r_norm)
        self.q_history.append(q)
        return None

    def turn(self) -> None:
        """Choose the next direction."""
        self.direction *= self.rz / self.rz_old  # C5
        self.direction += self.z

    def result(self, stop: CGStop) -> CGResult:
        last = (self.i, self.q, self.x)
        return CGResult(
            x=self.x,
            iterates=(*(each for each in self.kept if each[0] < self.i), last),
            iterations=self.i,
            stop=stop,
            q=self.q,
            residual_norm=self.r_norm,
            preconditioned_norm=self.level,
            residual_drift=self.drift,
            smallest_curvature=self.smallest if math.isfinite(self.smallest) else None,
            q_history=tuple(self.q_history),
            products=self.products,
        )

    def _true_residual(self, x: Vector, carried: Vector) -> Vector:
        """Return b - A x in the memory of the old residual; `carried`, the residual of C4, is overwritten."""
        true = self.r
        self.apply(x, true)
        self.products += 1
        true *= -1.0
        true += self.b  # C6
        carried -= true
        gap = norm(carried) / self.b_norm
        self.drift = max(gap, 0.0 if self.drift is None else self.drift)
        return true

    def _precondition(self, r: Vector, size: float) -> tuple[Vector, float, float]:
        """Return z, r.z and the norm of C7 of a residual with the Euclidean norm `size`."""
        if self.preconditioner is None:
            return r, size * size, size
        self.preconditioner(r, self._answer)
        square = dot(r, self._answer)
        if square <= 0.0 and size > 0.0:
            raise InputError(
                f"The preconditioner gave r.z = {square:g} in iteration {self.i}, expected a number above 0: "
                "it has to be symmetric and positive definite."
            )
        return self._answer, square, math.sqrt(square)  # C7


def _done(state: _State, tolerance: float, max_iterations: int) -> CGStop | None:
    """Apply the rules that come before an iteration."""
    if state.level <= tolerance * state.b_level:
        return CGStop.RESIDUAL  # S1
    return CGStop.MAX_ITERATIONS if state.i == max_iterations else None  # S2


def _reported(
    state: _State, kept: frozenset[int], on_iterate: Callable[[Iterate], CGStop | None] | None
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


def _kept_iterations(ratio: float | None, last: int) -> frozenset[int]:
    """Return the iterations ceil(ratio^j) up to `last`; none if the ratio is None."""
    if ratio is None:
        return frozenset()
    kept, power = set(), 1.0
    while math.ceil(power) <= last:
        kept.add(math.ceil(power))
        power *= ratio
    return frozenset(kept)
