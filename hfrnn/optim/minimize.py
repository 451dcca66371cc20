"""Hessian-free minimisation of anything that has a gradient and a Gauss-Newton product, given as plain functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from hfrnn.errors import InputError
from hfrnn.optim.cg import Apply, Array, norm
from hfrnn.optim.damping import Damping, LevenbergMarquardt
from hfrnn.optim.hessian_free import HessianFree
from hfrnn.optim.result import End, HessianFreeOptions, Operator, Update

Curvature = Callable[[Array], Callable[[Array], Array]]


class MinimumStop(StrEnum):
    """Why `minimize` ended: the gradient is small enough; as many updates as were asked for; `HessianFreeOptions`'
    `max_failures` in a row; or the callback said so."""

    GRADIENT = "gradient"
    UPDATES = "updates"
    NO_PROGRESS = "no progress"
    CALLBACK = "callback"


@dataclass(frozen=True)
class Minimum:
    """Where `minimize` ended: parameters (n,), loss and norm of the gradient there, why, and what was spent."""

    theta: Array
    loss: float
    gradient_norm: float
    stop: MinimumStop
    updates: int
    cg_iterations: int
    products: int
    evaluations: int

    @property
    def success(self) -> bool:
        """Whether the gradient is as small as was asked for."""
        return self.stop is MinimumStop.GRADIENT


class _Product:
    """G(theta) + mu*S(theta) + lambda*I."""

    def __init__(
        self,
        curvature: Callable[[Array], Array],
        structural: Callable[[Array], Array] | None,
        mu: float,
        lambda_: float,
    ) -> None:
        self._curvature, self._structural, self._mu, self._lambda = curvature, structural, mu, lambda_

    def apply(self, v: Array, out: Array) -> None:
        out[:] = self._curvature(v)
        if self._structural is not None:
            out += self._structural(v) * self._mu
        if self._lambda:
            out += v * self._lambda


class _Functions:
    """Plain functions as an Objective; remembers loss and gradient of the last parameters."""

    def __init__(
        self,
        loss: Callable[[Array], float],
        gradient: Callable[[Array], Array],
        gauss_newton: Curvature,
        structural: Curvature | None,
        squared_gradients: Callable[[Array], Array] | None,
    ) -> None:
        self.loss, self._gradient = loss, gradient
        self._gauss_newton, self._structural = gauss_newton, structural
        self._known: tuple[Array, float, Array] | None = None
        if squared_gradients is not None:
            self.squared_gradients = squared_gradients

    def loss_and_gradient(self, theta: Array) -> tuple[float, Array]:
        if self._known is None or self._known[0] is not theta:
            self._known = theta, float(self.loss(theta)), self._gradient(theta)
        return self._known[1:]

    def gauss_newton(
        self, theta: Array, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Operator:
        damping = self._structural(theta) if structural and self._structural is not None else None
        return _Product(self._gauss_newton(theta), damping, structural, tikhonov)


def minimize(
    loss: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    gauss_newton: Curvature,
    theta: Array,
    *,
    damping: Damping | None = None,
    options: HessianFreeOptions | None = None,
    rule: LevenbergMarquardt | None = None,
    structural: Curvature | None = None,
    squared_gradients: Callable[[Array], Array] | None = None,
    preconditioner: Apply | None = None,
    max_updates: int = 100,
    gradient_tolerance: float = 1e-8,
    callback: Callable[[Update], object] | None = None,
) -> Minimum:
    """Minimise a function by Hessian-free updates.

    Arguments
    ---------
    loss : f(theta), a number
    gradient : g(theta), (n,), of theta's type
    gauss_newton : takes theta and returns a function v -> G v, both (n,): a positive semi-definite matrix that stands
        for the curvature, J'J for a sum of squares |residual|^2 / 2 with Jacobian J. Called once an update, so whatever
        does not depend on v is computed once
    theta : where to start, (n,), float32 or float64; not written
    damping : Damping("tikhonov") if None
    options, rule : as of `HessianFree`
    structural : likewise theta -> (v -> S v), for damping with a mu
    squared_gradients : theta -> D, (n,), for the option preconditioner="diagonal"
    preconditioner : as in `conjugate_gradient`, for every update
    max_updates : at most so many, >= 0
    gradient_tolerance : ends where the gradient's Euclidean norm is not above this, >= 0
    callback : called with every `Update`; a true answer ends the run

    Returns
    -------
    Minimum

    Raises
    ------
    InputError for wrong arguments; NonFiniteError if loss or gradient are not finite at the start.

    Source: SPEC 5 and 6.

    Examples
    --------
    Fit y = a * exp(b * t), residual r and Jacobian J:

    >>> import numpy as np
    >>> from hfrnn.optim import minimize
    >>> t = np.linspace(0.0, 2.0, 20)
    >>> y = 3.0 * np.exp(-1.5 * t)
    >>> def r(theta):
    ...     return theta[0] * np.exp(theta[1] * t) - y
    >>> def J(theta):
    ...     e = np.exp(theta[1] * t)
    ...     return np.stack([e, theta[0] * t * e], axis=1)
    >>> def gauss_newton(theta):
    ...     jacobian = J(theta)
    ...     return lambda v: jacobian.T @ (jacobian @ v)
    >>> found = minimize(
    ...     lambda theta: 0.5 * float(r(theta) @ r(theta)),
    ...     lambda theta: J(theta).T @ r(theta),
    ...     gauss_newton,
    ...     np.array([1.0, 0.0]),
    ... )
    >>> found.stop.value, found.theta.round(6).tolist()
    ('gradient', [3.0, -1.5])
    """
    damping = Damping("tikhonov") if damping is None else damping
    if damping.mu > 0.0 and structural is None:
        raise InputError(f"damping has mu = {damping.mu}, but structural is not given: give S, or damping without mu.")
    if damping.mu == 0.0 and structural is not None:
        raise InputError("structural is given, but damping has no mu: leave it out, or give structural damping.")
    if max_updates < 0:
        raise InputError(f"max_updates is {max_updates}, expected at least 0: raise it.")
    if not gradient_tolerance >= 0.0:
        raise InputError(f"gradient_tolerance is {gradient_tolerance}, expected a number of at least 0.")
    objective = _Functions(loss, gradient, gauss_newton, structural, squared_gradients)
    optimizer = HessianFree(damping, options, rule)
    updates, cg_iterations, products, evaluations = 0, 0, 0, 0
    stop: MinimumStop | None = None
    while True:
        f, g = objective.loss_and_gradient(theta)
        g_norm = norm(g)
        if g_norm <= gradient_tolerance:
            stop = MinimumStop.GRADIENT
        elif stop is None and updates == max_updates:
            stop = MinimumStop.UPDATES
        if stop is not None:
            return Minimum(theta.copy(), f, g_norm, stop, updates, cg_iterations, products, evaluations)
        update = optimizer.update(theta, objective, preconditioner=preconditioner)
        theta = theta if update.failed else update.theta
        updates, cg_iterations = updates + 1, cg_iterations + update.cg_iterations
        products, evaluations = products + update.products, evaluations + update.evaluations
        if callback is not None and callback(update):
            stop = MinimumStop.CALLBACK
        elif update.ended is End.NO_PROGRESS:
            stop = MinimumStop.NO_PROGRESS
