"""Conjugate gradient for A x = b, as Hessian-free optimization uses it: early stopping, kept iterates, warm start.

With b = -g the quadratic is q(x) = g.x + x.Ax/2, and with the residual r = b - A x it costs no product:

    C1  q(x) = -(b + r).x/2             q(0) = 0, also when the run starts elsewhere
    C2  alpha_i = r.z / S.AS            z = M^-1 r, the preconditioner's answer to r; r itself without one
    C3  x += alpha_i S
    C4  r -= alpha_i AS
    C5  S = z + S (r.z)_new / (r.z)_old
    C6  r = b - A x                     every `residual_every` iterations, in place of C4, which drifts by rounding
    C7  |r|_M = sqrt(r.z)               the norm that is followed: |r| without a preconditioner

It ends on the first of ([K] 4.1-4.2, SPEC 6):

    S1  |r|_M <= tolerance * |b|_M                      a residual that is nothing
    S2  i = max_iterations
    S3  S.AS <= 0, or 0 to rounding: eps*|S||AS|        no positive curvature
    S4  (q_i - q_{i-k})/q_i < epsilon*k and q_i < 0     no progress, k = max(window, window_growth*i)
    S5  what on_iterate asks for; a number that is not finite

Iterates are kept at ceil(1.3^j) [MS]. Vectors keep the type of b (float32 or float64, NumPy or CuPy); every scalar is
summed in float64, in a fixed order. Sources: SPEC 6; [K] 3.3, 4.1-4.2; [MS].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hfrnn.arrays.threads import Threads
from hfrnn.errors import InputError

Array: TypeAlias = npt.NDArray[Any]
Apply: TypeAlias = Callable[[Array, Array], object]

_PIECE = 1 << 17  # elements that `dot` takes to float64 at a time: bounds its scratch memory


class CGStop(StrEnum):
    """Why a run of conjugate gradient ended; the value is what the log shows."""

    PROGRESS = "progress"
    MAX_ITERATIONS = "max_iterations"
    MU_GROWTH = "mu_growth"
    NO_GAIN = "no_gain"
    CURVATURE = "curvature"
    RESIDUAL = "residual"
    NON_FINITE = "non_finite"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Iterate:
    """What `on_iterate` sees after an iteration; the vectors are work space and valid during the call only.

    `x` is the new iterate, reached from the one before by `alpha * direction`; `q` is q(x), `q_step` how much this
    iteration changed it (negative), `kept` whether x is one of the iterates that the result will hold.
    """

    iteration: int
    q: float
    q_step: float
    x: Array
    direction: Array
    alpha: float
    kept: bool


@dataclass(frozen=True)
class CGResult:
    """What conjugate gradient found, and why it stopped.

    `x` is the last good iterate, (n,); `iterates` holds (iteration, q, vector) at ceil(1.3^j), the last one always
    among them; `q_history` is q_0 .. q_iterations; `residual_norm` is |b - A x| (as C4 carries it, or C6 found it) and
    `preconditioned_norm` the same in the norm of C7; `residual_drift` is the largest |r of C4 - r of C6| / |b| that was
    found, None if r was never computed afresh; `smallest_curvature` the smallest S.AS / S.S met, None if no product was
    taken along a direction; `products` counts the calls of apply.
    """

    x: Array
    iterates: tuple[tuple[int, float, Array], ...]
    iterations: int
    stop: CGStop
    q: float
    residual_norm: float
    preconditioned_norm: float
    residual_drift: float | None
    smallest_curvature: float | None
    q_history: tuple[float, ...]
    products: int


def dot(a: Array, b: Array, threads: int = 1) -> float:
    """Inner product of two vectors, summed in float64 in an order that no BLAS or thread count changes."""
    count = -(-a.shape[0] // _PIECE)
    lanes = max(1, min(threads, count))

    def of_lane(lane: int) -> list[float]:
        sums = []
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(lane * _PIECE, a.shape[0], lanes * _PIECE):
                piece = a[start : start + _PIECE].astype(np.float64)
                piece *= piece if a is b else b[start : start + _PIECE]
                sums.append(piece.sum().item())
        return sums

    by_lane = [of_lane(0)] if lanes == 1 else list(Threads(lanes).ordered(of_lane, lanes))
    return sum((by_lane[number % lanes][number // lanes] for number in range(count)), 0.0)


def norm(a: Array, threads: int = 1) -> float:
    """Euclidean norm of a vector, summed in float64."""
    return math.sqrt(dot(a, a, threads))


def diagonal_preconditioner(diagonal: Array, lambda_: float, exponent: float = 0.75) -> Apply:
    """The preconditioner (D + lambda I)^exponent: a callable for `conjugate_gradient`.

    Arguments: `diagonal` (n,), entries >= 0; `lambda_` > 0; `exponent` in [0, 1]. Returns a function of (r, out) that
    writes (D + lambda)^-exponent * r into out. Raises InputError unless lambda_ > 0. Source: SPEC 6.
    """
    if not lambda_ > 0.0:
        raise InputError(f"The preconditioner's lambda_ is {lambda_}, expected a number above 0: give a positive one.")
    inverse = (diagonal + lambda_) ** -exponent

    def precondition(r: Array, out: Array) -> None:
        out[:] = r
        out *= inverse

    return precondition


def _kept_iterations(ratio: float | None, last: int) -> frozenset[int]:
    """The iterations ceil(ratio^j) up to `last`; none at all for ratio None."""
    if ratio is None:
        return frozenset()
    kept, power = set(), 1.0
    while math.ceil(power) <= last:
        kept.add(math.ceil(power))
        power *= ratio
    return frozenset(kept)


def _stalled(history: list[float], epsilon: float, window: int, window_growth: float) -> bool:
    """[K] 4.2: over the last k iterations q fell by less than epsilon*k of itself, while q is negative."""
    i = len(history) - 1
    k = max(window, math.ceil(window_growth * i))
    return epsilon > 0.0 and i >= k and history[i] < 0.0 and (history[i] - history[i - k]) / history[i] < epsilon * k


def conjugate_gradient(
    apply: Apply,
    b: Array,
    x0: Array | None = None,
    *,
    max_iterations: int = 100,
    min_iterations: int = 1,
    epsilon: float = 0.0005,
    window: int = 10,
    window_growth: float = 0.1,
    residual_tolerance: float | None = None,
    residual_every: int = 0,
    keep_ratio: float | None = 1.3,
    preconditioner: Apply | None = None,
    on_iterate: Callable[[Iterate], CGStop | None] | None = None,
) -> CGResult:
    """Minimise q(x) = x.Ax/2 - b.x, which solves A x = b, and stop when it no longer pays.

    Arguments
    ---------
    apply : writes A v into out, called as apply(v, out); A symmetric, (n, n), meant to be positive (semi-)definite
    b : right-hand side, (n,), float32 or float64; minus the gradient in Hessian-free optimization. Not written
    x0 : start, (n,), 0 if None; iterations count from here. Not written
    max_iterations : at most this many, >= 0
    min_iterations : the progress rule does not end the run before this many
    epsilon : progress rule: stop when (q_i - q_{i-k})/q_i < epsilon*k and q_i < 0; 0 turns it off
    window, window_growth : k = max(window, window_growth*i); window_growth 0 keeps k fixed
    residual_tolerance : nothing is left when |r| <= this times |b|, in the norm of C7; None is the machine precision
        of b's type
    residual_every : every so many iterations r = b - A x is computed afresh, at the cost of a product (for float32,
        where C4 drifts); 0 is never
    keep_ratio : iterates are kept at ceil(keep_ratio^j), > 1; None keeps the last one only
    preconditioner : writes an approximation of A^-1 r into out, called as preconditioner(r, out); positive definite
    on_iterate : called after each iteration; a CGStop in return ends the run for that reason

    Returns
    -------
    CGResult. When a direction shows no curvature above 0, or a number is no longer finite, x is the last good iterate
    (0 if already b or A x0 is not finite).

    Raises
    ------
    InputError if the numbers above are out of range, shapes differ, or the preconditioner is not positive definite.

    Source: SPEC 6; [K] 4.1-4.2; [MS].
    """
    _check(b, x0, max_iterations, min_iterations, window, residual_every, keep_ratio)
    keep = _kept_iterations(keep_ratio, max_iterations)
    eps = float(np.finfo(b.dtype).eps)
    tolerance = eps if residual_tolerance is None else residual_tolerance
    x, r, product, work = b.copy(), b.copy(), b.copy(), b.copy()  # (n,) each
    x.fill(0)
    products, stop = 0, CGStop.MAX_ITERATIONS
    b_norm = norm(b)
    q, r_norm = 0.0, b_norm
    if x0 is not None and 0.0 < b_norm < math.inf:
        apply(x0, product)
        products += 1
        r -= product
        q0, r0_norm = -0.5 * (dot(b, x0) + dot(r, x0)), norm(r)  # C1
        if math.isfinite(q0) and math.isfinite(r0_norm):
            x[:] = x0
            q, r_norm = q0, r0_norm
        else:
            stop = CGStop.NON_FINITE
    if not math.isfinite(b_norm):
        stop = CGStop.NON_FINITE

    work_z = r if preconditioner is None else b.copy()

    def answer(residual: Array, size: float, iteration: int) -> tuple[Array, float, float]:
        """z, r.z and the norm of C7 of a residual whose Euclidean norm is `size`."""
        if preconditioner is None:
            return residual, size * size, size
        preconditioner(residual, work_z)
        square = dot(residual, work_z)
        if square <= 0.0 and size > 0.0:
            raise InputError(
                f"The preconditioner gave r.z = {square:g} in iteration {iteration}, expected a number above 0: "
                "it has to be symmetric and positive definite."
            )
        return work_z, square, math.sqrt(square)  # C7

    history, kept, smallest, drift = [q], [(0, q, x)], math.inf, None
    i, direction, rz, level, b_level = 0, b.copy(), 0.0, r_norm, b_norm
    if stop is not CGStop.NON_FINITE:
        b_level = answer(b, b_norm, 0)[2]
        z, rz, level = answer(r, r_norm, 0)
        direction[:] = z
    while stop is not CGStop.NON_FINITE:
        if level <= tolerance * b_level:
            stop = CGStop.RESIDUAL  # S1
            break
        if i == max_iterations:
            break  # S2
        apply(direction, product)
        products += 1
        curvature, square = dot(direction, product), dot(direction, direction)
        if not (math.isfinite(curvature) and math.isfinite(square) and square > 0.0):
            stop = CGStop.NON_FINITE  # S5
            break
        smallest = min(smallest, curvature / square)
        if curvature <= eps * math.sqrt(square) * norm(product):
            stop = CGStop.CURVATURE  # S3; so small an angle takes a condition number above 4/eps^2
            break
        alpha = rz / curvature  # C2
        with np.errstate(over="ignore", invalid="ignore"):
            work[:] = direction
            work *= alpha
            work += x  # C3, the next x
            product *= -alpha
            product += r  # C4, the next r
            if residual_every and (i + 1) % residual_every == 0:
                apply(work, r)
                products += 1
                r *= -1.0
                r += b  # C6
                product -= r
                gap = norm(product) / b_norm
                drift = max(gap, 0.0 if drift is None else drift)
                product, r = r, product
        q_new, r_norm_new = -0.5 * (dot(b, work) + dot(product, work)), norm(product)  # C1
        if not (math.isfinite(q_new) and math.isfinite(r_norm_new)):
            stop = CGStop.NON_FINITE  # S5
            break
        x, work = work, x
        r, product = product, r
        q_step, q, r_norm = q_new - q, q_new, r_norm_new
        i += 1
        rz_old = rz
        z, rz, level = answer(r, r_norm, i)
        history.append(q)
        if i in keep:
            kept.append((i, q, x.copy()))
        if on_iterate is not None:
            asked = on_iterate(Iterate(i, q, q_step, x, direction, alpha, i in keep))
            if asked is not None:
                stop = asked  # S5
                break
        if i >= min_iterations and _stalled(history, epsilon, window, window_growth):
            stop = CGStop.PROGRESS  # S4
            break
        direction *= rz / rz_old  # C5
        direction += z

    iterates = [entry for entry in kept if 0 < entry[0] < i] + [(i, q, x)]
    least = smallest if math.isfinite(smallest) else None
    return CGResult(x, tuple(iterates), i, stop, q, r_norm, level, drift, least, tuple(history), products)


def _check(
    b: Array,
    x0: Array | None,
    max_iterations: int,
    min_iterations: int,
    window: int,
    residual_every: int,
    keep_ratio: float | None,
) -> None:
    if len(b.shape) != 1:
        raise InputError(f"b has shape {b.shape}, expected a vector (n,): flatten it.")
    if b.dtype.kind != "f":
        raise InputError(f"b has type {b.dtype}, expected float32 or float64: convert it.")
    if x0 is not None and x0.shape != b.shape:
        raise InputError(f"x0 has shape {x0.shape}, expected the shape of b, {b.shape}: start from a vector like b.")
    for name, value, least in (
        ("max_iterations", max_iterations, 0),
        ("min_iterations", min_iterations, 0),
        ("window", window, 1),
        ("residual_every", residual_every, 0),
    ):
        if value < least:
            raise InputError(f"{name} is {value}, expected at least {least}: raise it.")
    if keep_ratio is not None and not keep_ratio > 1.0:
        raise InputError(f"keep_ratio is {keep_ratio}, expected a number above 1 or None: raise it.")
