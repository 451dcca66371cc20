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
summed in float64, in a fixed order. On a device, each iteration waits once.

An iteration is a generator of its parts. Each part yields scalars and the check that decides from them whether to go
on. On the host, every part is checked before the next one runs. On a device, all parts run first, into vectors that
the present iterate does not need, and their scalars arrive in one transfer; then the checks follow in the same order.
A part that should not have run changes nothing, because its run ends.

References: SPEC 6; [K] 3.3, 4.1-4.2; [MS].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.vectors import Apply, Scalar, Vector, fetch, lazy_dot, norm, of_type, scaled
from hfrnn.checks import ABOVE_ONE, NOT_NEGATIVE, POSITIVE, ZERO_TO_ONE, count, function, number, shown
from hfrnn.errors import InputError
from hfrnn.wording import brief

__all__ = ["CGResult", "CGStop", "Iterate", "conjugate_gradient", "diagonal_preconditioner", "power_preconditioner"]

WINDOW_GROWTH = 0.1  # of the window k of S4 with the iteration i
KEEP_RATIO = 1.3  # of the numbers of iterates that are kept [MS]


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
    keep_ratio: float | None = KEEP_RATIO, preconditioner: Apply | None = None,
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
    function("apply", apply, "v, out")
    preconditioner = function("preconditioner", preconditioner, "r, out", or_none=True)
    on_iterate = function("on_iterate", on_iterate, "iterate", or_none=True)
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


Products: TypeAlias = Callable[[Sequence[Vector]], Any]
"""Returns the products with one or several vectors, as an array or a list of them."""
TOGETHER = 16
"""Most systems that are solved at a time: as many as the vectors of one product (engine/several_vectors.py)."""


def conjugate_gradients(
    apply: Products,
    sides: Iterable[Vector],
    *,
    max_iterations: int, residual_tolerance: float, residual_every: int = 0,
) -> Iterator[tuple[int, CGResult]]:  # fmt: skip
    """Solve A x = b for several right-hand sides; each run is that of `conjugate_gradient` with epsilon=0, bit by bit.

    Up to TOGETHER runs make their iterations side by side. When one ends, the next system takes its place. Yields the
    number of each system and its result, in the order in which the runs end.
    """
    kept, waiting = kept_iterations(KEEP_RATIO, max_iterations), enumerate(sides)
    running: list[tuple[int, State, _Product]] = []
    while True:
        for j, b in islice(waiting, TOGETHER - len(running)):
            product = _Product(apply)
            state = State(product, b, None)
            if (stop := state.start(None)) is None:
                running.append((j, state, product))
            else:
                yield j, state.result(stop)
        if not running:
            return
        going = []
        for j, state, product in running:
            if (stop := _done(state, residual_tolerance, max_iterations)) is None:
                going.append((j, state, product))
            else:
                yield j, state.result(stop)
        found = apply([state.direction for _, state, _ in going]) if going else ()
        running = []
        for (j, state, product), product.made in zip(going, found, strict=True):
            if (stop := state.step(residual_every)) is None:
                _reported(state, kept, None)
                state.turn()
                running.append((j, state, product))
            else:
                yield j, state.result(stop)


class _Product:
    """The product of one of several runs: what was computed for all of them together, or else a product of its own."""

    def __init__(self, apply: Products) -> None:
        self.apply = apply
        self.made: Vector | None = None

    def __call__(self, v: Vector, out: Vector) -> None:
        out[:] = self.apply([v])[0] if self.made is None else self.made
        self.made = None


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


# ------------------------------------------------------------------ the iterations, and the state from one to the next


class CGStop(StrEnum):
    """Reason why a run of conjugate gradient stopped; the log shows the value.

    Examples
    --------
    >>> from hfrnn.optim.cg import CGStop
    >>> CGStop.PROGRESS.value
    'progress'
    """

    PROGRESS = "progress"
    MAX_ITERATIONS = "max_iterations"
    MU_GROWTH = "mu_growth"
    NO_GAIN = "no_gain"
    NOISE = "noise"
    CURVATURE = "curvature"
    RESIDUAL = "residual"
    NON_FINITE = "non_finite"


@brief
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

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.cg import conjugate_gradient
    >>> found = conjugate_gradient(lambda v, out: np.copyto(out, 2.0 * v), np.ones(3))
    >>> found.stop.value, found.q
    ('residual', -0.75)
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


Check: TypeAlias = Callable[..., CGStop | None]
"""Takes the scalars of a part of an iteration, and returns a reason to stop or None."""
Parts: TypeAlias = Iterator[tuple[tuple[Scalar, ...], Check]]
"""Runs the parts of an iteration, and yields the scalars and the check of each one."""


def run_checked(parts: Parts) -> CGStop | None:
    """Run the parts of an iteration and their checks; return the first reason to stop."""
    waiting: list[tuple[tuple[Scalar, ...], Check]] = []
    for scalars, check in parts:
        if not all(isinstance(each, float) for each in scalars):
            waiting.append((scalars, check))
        elif (stop := check(*scalars)) is not None:
            return stop
    found = iter(fetch(*(each for scalars, _ in waiting for each in scalars)))
    for scalars, check in waiting:
        if (stop := check(*islice(found, len(scalars)))) is not None:
            return stop
    return None


UNDERFLOW = 1e-150
"""Size of a vector below which the squares of its entries, and so r.z, may underflow to 0."""


@dataclass
class State:
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
        self.b_norm = self.level = self.b_level = norm(self.b)
        self._use_residual(self.r, self.b_norm)
        self.q_history = [0.0]

    def start(self, x0: Vector | None) -> CGStop | None:
        """Start at x0 or 0."""
        if not math.isfinite(self.b_norm):
            return CGStop.NON_FINITE  # S5
        if (stop := run_checked(self._beginning(x0 if self.b_norm > 0.0 else None))) is not None:
            return stop
        self.direction[:] = self.z
        return None

    def step(self, residual_every: int) -> CGStop | None:
        """Make one iteration along the direction; a step that cannot be made leaves x as it is."""
        return run_checked(self._iteration(residual_every > 0 and (self.i + 1) % residual_every == 0))

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

    # ------------------------------------------------------------------ the parts of a start and of an iteration

    def _beginning(self, x0: Vector | None) -> Parts:
        if x0 is not None:
            self.apply(x0, self.product)
            self.products += 1
            self.r -= self.product
            yield self._of_quadratic(x0, self.r), partial(self._begin_at, x0)
        if self.preconditioner is not None:
            both: list[tuple[Vector, Check]] = [(self.b, self._weigh_b), (self.r, self._weigh_residual)]
            for r, check in both if x0 is not None else [(self.b, self._weigh_start)]:
                self.preconditioner(r, self._answer)
                yield (lazy_dot(r, self._answer),), check

    def _iteration(self, true_residual: bool) -> Parts:
        direction, product, next_x = self.direction, self.product, self.next_x
        self.apply(direction, product)
        self.products += 1
        curvature = lazy_dot(direction, product)
        yield (curvature, lazy_dot(direction, direction), lazy_dot(product, product)), self._measure_direction
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            alpha = of_type(self.rz / curvature, direction)  # C2
            scaled(direction, alpha, next_x)
            next_x += self.x  # C3
            product *= -alpha
            product += self.r  # C4
            next_r, drift = self._true_residual(next_x, product) if true_residual else (product, None)
        if drift is not None:
            yield (drift,), self._measure_drift
        yield self._of_quadratic(next_x, next_r), partial(self._move, next_x, next_r)
        if self.preconditioner is not None:
            self.preconditioner(next_r, self._answer)
            yield (lazy_dot(next_r, self._answer),), self._weigh_residual

    def _of_quadratic(self, x: Vector, r: Vector) -> tuple[Scalar, ...]:
        """Return b.x, r.x and r.r."""
        return lazy_dot(self.b, x), lazy_dot(r, x), lazy_dot(r, r)

    def _true_residual(self, x: Vector, carried: Vector) -> tuple[Vector, Scalar]:
        """Return b - A x in the memory of the old residual, and the square of its distance from that of C4.

        `carried`, the residual of C4, is overwritten.
        """
        true = self.r
        self.apply(x, true)
        self.products += 1
        true *= -1.0
        true += self.b  # C6
        carried -= true
        return true, lazy_dot(carried, carried)

    # ------------------------------------------------------------------ their checks

    def _begin_at(self, x0: Vector, bx: float, rx: float, rr: float) -> CGStop | None:
        q, r_norm = -0.5 * (bx + rx), math.sqrt(rr)  # C1
        if not (math.isfinite(q) and math.isfinite(r_norm)):
            return CGStop.NON_FINITE  # S5
        self.x[:] = x0
        self.q, self.q_history = q, [q]
        self._use_residual(self.r, r_norm)
        return None

    def _measure_direction(self, curvature: float, square: float, product_square: float) -> CGStop | None:
        if not (math.isfinite(curvature) and math.isfinite(square) and square > 0.0):
            return CGStop.NON_FINITE  # S5
        self.smallest = min(self.smallest, curvature / square)
        if curvature <= self.eps * math.sqrt(square) * math.sqrt(product_square):
            return CGStop.CURVATURE  # S3; so small an angle takes a condition number above 4/eps^2
        self.alpha = self.rz / curvature  # C2
        return None

    def _measure_drift(self, square: float) -> None:
        gap = math.sqrt(square) / self.b_norm
        self.drift = max(gap, 0.0 if self.drift is None else self.drift)

    def _move(self, x: Vector, r: Vector, bx: float, rx: float, rr: float) -> CGStop | None:
        """Take a new iterate and its residual."""
        q, r_norm = -0.5 * (bx + rx), math.sqrt(rr)  # C1
        if not (math.isfinite(q) and math.isfinite(r_norm)):
            return CGStop.NON_FINITE  # S5
        self.x, self.next_x = x, self.x
        if r is self.product:
            self.r, self.product = self.product, self.r
        self.i, self.q_step, self.q = self.i + 1, q - self.q, q
        self.rz_old = self.rz
        self._use_residual(r, r_norm)
        self.q_history.append(q)
        return None

    def _use_residual(self, r: Vector, r_norm: float) -> None:
        """Take the norm of a residual, and z, r.z and the norm of C7; a preconditioner gives other ones."""
        self.r_norm = r_norm
        if self.preconditioner is None:
            self.z, self.rz, self.level = r, r_norm * r_norm, r_norm

    def _weigh_residual(self, square: float) -> None:
        """Take r.z of the preconditioner's answer to the residual."""
        self.z, self.rz, self.level = self._answer, square, self._preconditioned_norm(square, self.r_norm)

    def _weigh_b(self, square: float) -> None:
        """Take b.z of the preconditioner's answer to b."""
        self.b_level = self._preconditioned_norm(square, self.b_norm)

    def _weigh_start(self, square: float) -> None:
        """Take b.z of the preconditioner's answer to b, the residual of the start at 0."""
        self._weigh_b(square)
        self._weigh_residual(square)

    def _preconditioned_norm(self, square: float, size: float) -> float:
        """Return the norm of C7 of a vector with the Euclidean norm `size`."""
        if square < 0.0 or (square == 0.0 and size > UNDERFLOW):
            raise InputError(
                f"The preconditioner gave r.z = {square:g} in iteration {self.i}, expected a number above 0: "
                "it has to be symmetric and positive definite."
            )
        return math.sqrt(square)  # C7
