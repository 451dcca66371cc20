"""The damped quadratic of one update, and the losses at its trial steps."""

from __future__ import annotations

import math
import time
from typing import Any

from hfrnn.arrays.vectors import Apply, Vector, dot, fetch, is_on_host, lazy_dot, lazy_norm, norm
from hfrnn.checks import methods
from hfrnn.optim.damping import Damping
from hfrnn.optim.hf_options import CurvatureObjective


class TrialLosses:
    """Losses at trial steps from theta (n,), counted and timed; a loss that is not finite becomes infinity."""

    def __init__(self, objective: CurvatureObjective, theta: Vector) -> None:
        self._objective, self._theta = objective, theta
        self._known: dict[int, float] = {}
        self.evaluations, self.finite, self.seconds = 0, 0, 0.0

    def __call__(self, x: Vector, step: float = 1.0) -> float:
        """Return the loss at theta + step * x; x (n,)."""
        start = time.perf_counter()
        f = self._loss(self._theta + x * step)
        self.seconds += time.perf_counter() - start
        self.evaluations += 1
        if not math.isfinite(f):
            return math.inf
        self.finite += 1
        return f

    def _loss(self, theta: Vector) -> float:
        """Return the loss at parameters (n,); infinity if they overflowed."""
        lazy_loss = getattr(self._objective, "lazy_loss", None)
        if is_on_host(theta) or lazy_loss is None:
            return float(self._objective.loss(theta)) if math.isfinite(norm(theta)) else math.inf
        f, length = fetch(lazy_loss(theta), lazy_norm(theta))  # in one transfer
        return f if math.isfinite(length) else math.inf

    def of_iterate(self, iteration: int, x: Vector) -> float:
        """Return the loss at a kept iterate x (n,); evaluate each iteration only once."""
        if iteration not in self._known:
            self._known[iteration] = self(x)
        return self._known[iteration]


def _apply_of(operator: Any) -> Apply:
    """Return the product v, out -> A v of what `gauss_newton` of an objective returned."""
    matvec = getattr(operator, "matvec", None)
    if callable(getattr(operator, "apply", None)) or not callable(matvec):
        found: Apply = methods("the result of gauss_newton", operator, ("apply",), "v, out").apply
        return found

    def apply(v: Vector, out: Vector) -> None:
        out[...] = matvec(v)

    return apply


class Quadratic:
    """The quadratic q(x) = g.x + x.Ax/2 with A = G + mu*S + lambda*I at theta (SPEC 5 and 6).

    `undamped` says whether `model` leaves the damping term out. `products` counts the products by `model` only;
    `seconds` is the time of all products, with the forward passes at theta.
    """

    def __init__(
        self, theta: Vector, g: Vector, objective: CurvatureObjective, damping: Damping, undamped: bool
    ) -> None:
        begin = time.perf_counter()
        self.g, self.products = g, 0
        self._lambda, self._without_damping = damping.lambda_, undamped
        self._damped = _apply_of(
            objective.gauss_newton(theta, structural=damping.mu, tikhonov=damping.lambda_, metric=damping.metric)
        )
        self._undamped: Apply | None = None
        if undamped and damping.mu > 0.0:
            self._undamped = _apply_of(
                objective.gauss_newton(theta, structural=0.0, tikhonov=0.0, metric=damping.metric)
            )
        self.seconds = time.perf_counter() - begin

    def apply(self, v: Vector, out: Vector) -> None:
        """Write A v into `out`; both (n,)."""
        self._timed(self._damped, v, out)

    def model(self, x: Vector, q: float) -> float:
        """Return q(x) for rho, with the damping term or without it; `q` is q(x) with it, as CG computes it."""
        if not self._without_damping:
            return q
        if self._undamped is None:
            return q - 0.5 * self._lambda * dot(x, x)
        product = x.copy()
        self._timed(self._undamped, x, product)
        self.products += 1
        gx, xGx = fetch(lazy_dot(self.g, x), lazy_dot(x, product))
        return gx + 0.5 * xGx

    def _timed(self, apply: Apply, v: Vector, out: Vector) -> None:
        begin = time.perf_counter()
        apply(v, out)
        self.seconds += time.perf_counter() - begin
