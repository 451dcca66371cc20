"""The iterations of conjugate gradient, C1 to C7 of cg.py, and the state that one of them leaves for the next.

An iteration is a generator of its parts. Each part yields scalars and the check that decides from them whether to go
on. On the host, every part is checked before the next one runs. On a device, all parts run first, into vectors that
the present iterate does not need, and their scalars arrive in one transfer; then the checks follow in the same order.
A part that should not have run changes nothing, because its run ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TypeAlias

import numpy as np

from hfrnn.arrays.vectors import Apply, Scalar, Vector, fetch, lazy_dot, norm, of_type, scaled
from hfrnn.brief import brief
from hfrnn.errors import InputError


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
