"""What one update works on: its quadratic with the damping, and the losses at its trial steps."""

from __future__ import annotations

import math
import time

from hfrnn.errors import InputError
from hfrnn.optim.cg import Apply, Array, diagonal_preconditioner, dot
from hfrnn.optim.damping import Damping
from hfrnn.optim.result import HessianFreeOptions, Objective


class TrialLosses:
    """f(theta + step * x), counted and timed; a value that is not finite becomes infinity.

    Arguments: `objective` and the parameters `theta`, (n,), of the update. `evaluations` counts the losses, `finite`
    those of them that are, `seconds` is what they took.
    """

    def __init__(self, objective: Objective, theta: Array) -> None:
        self._objective, self._theta = objective, theta
        self._known: dict[int, float] = {}
        self.evaluations, self.finite, self.seconds = 0, 0, 0.0

    def __call__(self, x: Array, step: float = 1.0) -> float:
        """The loss at theta + step * x; x (n,)."""
        start = time.perf_counter()
        f = float(self._objective.loss(self._theta + x * step))
        self.seconds += time.perf_counter() - start
        self.evaluations += 1
        if not math.isfinite(f):
            return math.inf
        self.finite += 1
        return f

    def of_iterate(self, iteration: int, x: Array) -> float:
        """The loss at a kept iterate, never evaluated twice."""
        if iteration not in self._known:
            self._known[iteration] = self(x)
        return self._known[iteration]


class Problem:
    """q(x) = g.x + x.Ax/2 with A = G + mu*S + lambda*I at theta, where CG starts, and its preconditioner.

    Arguments: parameters `theta` and gradient `g`, (n,); the `objective` of the products; the `damping` of this update;
    `start` of CG, (n,) or None; the `options`; a `preconditioner` in place of that of the options, or None.
    `products` counts products beyond CG's own, `seconds` is what all took, `preconditioner_seconds` the diagonal.
    Source: SPEC 5 and 6.
    """

    def __init__(
        self,
        theta: Array,
        g: Array,
        objective: Objective,
        damping: Damping,
        start: Array | None,
        options: HessianFreeOptions,
        preconditioner: Apply | None,
    ) -> None:
        self.g, self.start, self.products = g, start, 0
        self.seconds, self._lambda = 0.0, damping.lambda_
        begin = time.perf_counter()
        self.preconditioner = preconditioner
        if options.preconditioner == "diagonal":
            self.preconditioner = _diagonal(theta, objective, damping, options)
        self.preconditioner_seconds = time.perf_counter() - begin
        self._damped = objective.gauss_newton(
            theta, structural=damping.mu, tikhonov=damping.lambda_, metric=damping.metric
        ).apply
        self._undamped: Apply | None = None
        self._takes_out = options.rho_model == "undamped"
        if self._takes_out and damping.mu > 0.0:
            self._undamped = objective.gauss_newton(theta, structural=0.0, tikhonov=0.0, metric=damping.metric).apply

    def apply(self, v: Array, out: Array) -> None:
        """out <- A v, timed; both (n,)."""
        self._timed(self._damped, v, out)

    def model(self, x: Array, q: float) -> float:
        """q of rho at x, (n,), where CG's own quadratic has the value q: with the damping term, or without it."""
        if not self._takes_out:
            return q
        if self._undamped is None:
            return q - 0.5 * self._lambda * dot(x, x)
        product = x.copy()
        self._timed(self._undamped, x, product)
        self.products += 1
        return dot(self.g, x) + 0.5 * dot(x, product)

    def _timed(self, apply: Apply, v: Array, out: Array) -> None:
        begin = time.perf_counter()
        apply(v, out)
        self.seconds += time.perf_counter() - begin


def _diagonal(theta: Array, objective: Objective, damping: Damping, options: HessianFreeOptions) -> Apply:
    """(D + lambda)^exponent at theta (SPEC 6)."""
    squared_gradients = getattr(objective, "squared_gradients", None)
    if squared_gradients is None:
        raise InputError(
            'preconditioner is "diagonal", but the curvature objective has no squared_gradients(theta): '
            'give it one, or use "none".'
        )
    shift = damping.lambda_ if options.preconditioner_shift is None else options.preconditioner_shift
    return diagonal_preconditioner(squared_gradients(theta), shift, options.preconditioner_exponent)
