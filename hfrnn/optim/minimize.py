"""Hessian-free minimisation of an objective, or of any function with a gradient and a Gauss-Newton product.

Examples
--------
Fit y = a * exp(b * t), with residual r and Jacobian J:

>>> import numpy as np
>>> from hfrnn.optim.minimize import minimize
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

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.vectors import Apply, Vector, norm
from hfrnn.checks import NOT_NEGATIVE, count, function, instance, is_result, methods, number, shown
from hfrnn.errors import InputError
from hfrnn.optim.damping import Damping, LevenbergMarquardt
from hfrnn.optim.hessian_free import HessianFree
from hfrnn.optim.hf_options import CurvatureObjective, HessianFreeOptions, Operator
from hfrnn.optim.outcome import End, Update
from hfrnn.optim.update_model import check_finite
from hfrnn.wording import brief

Curvature = Callable[[Vector], Callable[[Vector], Vector]]
"""Takes theta and returns the product with a matrix at theta: a function of v that returns a fresh vector."""


METHODS = ("loss", "loss_and_gradient", "gauss_newton")
"""Methods of an objective."""


class MinimumStop(StrEnum):
    """Reason why `minimize` stopped.

    Attributes
    ----------
    GRADIENT
        The gradient is small enough.
    UPDATES
        The largest number of updates was reached.
    NO_PROGRESS
        Too many updates in a row failed: `max_failures` of `HessianFreeOptions`.
    CALLBACK
        The callback returned a true value.

    Examples
    --------
    >>> from hfrnn.optim.minimize import MinimumStop
    >>> [each.value for each in MinimumStop]
    ['gradient', 'updates', 'no progress', 'callback']
    """

    GRADIENT = "gradient"
    UPDATES = "updates"
    NO_PROGRESS = "no progress"
    CALLBACK = "callback"


@brief
@dataclass(frozen=True)
class Minimum:
    """Result of `minimize`.

    Attributes
    ----------
    theta : (n,) array
        Last parameters.
    loss : float
        Loss there.
    gradient_norm : float
        Euclidean norm of the gradient there.
    stop : MinimumStop
        Why the run stopped.
    updates : int
        Number of updates.
    cg_iterations : int
        Number of iterations of CG.
    products : int
        Number of matrix products.
    evaluations : int
        Number of losses, not counting those of the gradients.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> found = hfrnn.minimize(objective, theta=theta, max_updates=2)
    >>> found.updates, found.stop.value, found.success
    (2, 'updates', False)
    """

    theta: Vector
    loss: float
    gradient_norm: float
    stop: MinimumStop
    updates: int
    cg_iterations: int
    products: int
    evaluations: int

    @property
    def success(self) -> bool:
        """Whether the gradient is small enough."""
        return self.stop is MinimumStop.GRADIENT


@dataclass(frozen=True)
class _Product:
    """G(theta) + mu*S(theta) + lambda*I."""

    curvature: Callable[[Vector], Vector]
    structural: Callable[[Vector], Vector] | None
    mu: float
    lambda_: float

    def apply(self, v: Vector, out: Vector) -> None:
        out[:] = _vector("the product of gauss_newton", self.curvature(v), v)
        if self.structural is not None:
            out += _vector("the product of structural", self.structural(v), v) * self.mu
        if self.lambda_:
            out += v * self.lambda_


class _Functions:
    """Python functions as an objective."""

    def __init__(
        self,
        loss: Callable[[Vector], float],
        gradient: Callable[[Vector], Vector],
        gauss_newton: Curvature,
        structural: Curvature | None,
        squared_gradients: Callable[[Vector], Vector] | None,
    ) -> None:
        self._loss, self._gradient = loss, gradient
        self._gauss_newton, self._structural = gauss_newton, structural
        if squared_gradients is not None:
            self.squared_gradients = squared_gradients

    def loss(self, theta: Vector) -> float:
        found = self._loss(theta)
        if not is_result(found):
            raise InputError(f"the result of loss is {shown(found)}: return a number")
        return float(found)

    def loss_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        return self.loss(theta), _vector("the result of gradient", self._gradient(theta), theta)

    def gauss_newton(
        self, theta: Vector, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Operator:
        damping = None
        if structural and self._structural is not None:
            damping = function("the result of structural", self._structural(theta), "v")
        product = function("the result of gauss_newton", self._gauss_newton(theta), "v")
        return _Product(product, damping, structural, tikhonov)


class _Remembering:
    """An objective that remembers loss and gradient of the last parameters."""

    def __init__(self, objective: Any) -> None:
        self._objective: CurvatureObjective = objective
        self._known: tuple[Vector, tuple[float, Vector]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)

    def loss(self, theta: Vector) -> float:
        return self._objective.loss(theta)

    def loss_and_gradient(self, theta: Vector) -> tuple[float, Vector]:
        if self._known is None or self._known[0] is not theta:
            self._known = theta, self._objective.loss_and_gradient(theta)
        return self._known[1]

    def gauss_newton(
        self, theta: Vector, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Operator:
        return self._objective.gauss_newton(theta, structural, tikhonov, metric)


def _vector(name: str, found: Vector, like: Vector) -> Vector:
    """Return what a caller's function returned, if it is a vector like another one, in the type of that one."""
    vector: Vector = array(name, found, like.shape, "f", advice="as theta is")
    return vector.astype(like.dtype, copy=False)


def minimize(
    loss: Callable[[Vector], float] | CurvatureObjective,
    gradient: Callable[[Vector], Vector] | None = None,
    gauss_newton: Curvature | None = None,
    theta: Vector | None = None,
    *,
    damping: Damping | None = None,
    options: HessianFreeOptions | None = None,
    rule: LevenbergMarquardt | None = None,
    structural: Curvature | None = None,
    squared_gradients: Callable[[Vector], Vector] | None = None,
    preconditioner: Apply | None = None,
    max_updates: int = 100,
    gradient_tolerance: float = 1e-8,
    callback: Callable[[Update], object] | None = None,
) -> Minimum:
    """Minimise a function by Hessian-free updates (SPEC 5 and 6): `minimize(objective, theta=theta)`, or functions.

    Parameters
    ----------
    loss : CurvatureObjective or callable
        An objective, such as `hfrnn.Objective`, which has its own gradient and products. Or a function that takes theta
        and returns f(theta), a number.
    gradient : callable
        Not with an objective. Takes theta and returns the gradient (n,), of the type of theta.
    gauss_newton : callable
        Not with an objective. Takes theta and returns a function v -> G v, both (n,). G is positive semi-definite and
        approximates the curvature: J'J for a sum of squares |residual|^2 / 2 with Jacobian J. Called once in each
        update, so it can prepare everything that does not depend on v.
    theta : (n,) array
        Start, float32 or float64; not written.
    damping : Damping, optional
        By default structural damping for an objective and Tikhonov damping for functions.
    options, rule : optional
        As for `HessianFree`.
    structural : callable, optional
        Not with an objective. Takes theta and returns a function v -> S v, for damping with a mu.
    squared_gradients : callable, optional
        Not with an objective. Takes theta and returns D, (n,), for the option preconditioner="diagonal".
    preconditioner : callable, optional
        Preconditioner of every update, as for `conjugate_gradient`.
    max_updates : int
        Largest number of updates, 0 or more.
    gradient_tolerance : float
        Ends when the Euclidean norm of the gradient is at most this, 0 or more.
    callback : callable, optional
        Called with every Update; a true result ends the run.

    Returns
    -------
    Minimum

    Raises
    ------
    InputError
        An argument is wrong.
    NonFiniteError
        Loss or gradient is not finite at the start.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> found = hfrnn.minimize(objective, theta=theta, max_updates=20)
    >>> found.loss < objective.loss(theta)
    True
    """
    own = {"gradient": gradient, "gauss_newton": gauss_newton}
    own |= {"structural": structural, "squared_gradients": squared_gradients}
    given = not isinstance(loss, type) and all(callable(getattr(loss, name, None)) for name in METHODS)
    if given and (odd := [name for name, each in own.items() if each is not None]):
        raise InputError(
            f"{', '.join(odd)} cannot be given with an objective, which has its own: call "
            "minimize(objective, theta=theta)"
        )
    objective = _Remembering(methods("loss", loss, METHODS, "theta") if given else _functions(loss, own))
    function("preconditioner", preconditioner, "r, out", or_none=True)
    function("callback", callback, "update", or_none=True)
    theta, max_updates = array("theta", theta, (None,), "f", finite=True), count("max_updates", max_updates)
    gradient_tolerance = number("gradient_tolerance", gradient_tolerance, NOT_NEGATIVE)
    kind = "structural" if given else "tikhonov"
    damping = instance("damping", damping, Damping, "a hfrnn.Damping", or_none=True) or Damping(kind)
    if not given:
        _check(damping, structural)
    optimizer = HessianFree(damping, options, rule)
    update = partial(optimizer.update, gradient=objective, preconditioner=preconditioner)
    return _repeat(update, objective, theta, max_updates, gradient_tolerance, callback)


def _functions(loss: Any, own: Mapping[str, Any]) -> CurvatureObjective:
    function("loss", loss, "theta")
    for name, given in own.items():
        function(name, given, "theta", or_none=name in ("structural", "squared_gradients"))
    return _Functions(loss, **own)


def _check(damping: Damping, structural: Curvature | None) -> None:
    if damping.mu > 0.0 and structural is None:
        raise InputError(f"damping has mu = {damping.mu}, but structural is not given: give S, or damping without mu.")
    if damping.mu == 0.0 and structural is not None:
        raise InputError("structural is given, but damping has no mu: leave it out, or give structural damping.")


def _repeat(
    update_from: Callable[[Vector], Update],
    objective: CurvatureObjective,
    theta: Vector,
    max_updates: int,
    gradient_tolerance: float,
    callback: Callable[[Update], object] | None,
) -> Minimum:
    """Make updates until there is a reason to stop; the gradient at the last parameters decides first."""
    updates, cg_iterations, products, evaluations = 0, 0, 0, 0
    stop: MinimumStop | None = None
    while True:
        f, g = objective.loss_and_gradient(theta)
        g_norm = norm(g)
        check_finite(theta, f, g_norm)
        if g_norm <= gradient_tolerance:
            stop = MinimumStop.GRADIENT
        elif stop is None and updates == max_updates:
            stop = MinimumStop.UPDATES
        if stop is not None:
            return Minimum(theta.copy(), f, g_norm, stop, updates, cg_iterations, products, evaluations)
        update = update_from(theta)
        theta = update.theta
        updates, cg_iterations = updates + 1, cg_iterations + update.cg_iterations
        products, evaluations = products + update.products, evaluations + update.evaluations
        if callback is not None and callback(update):
            stop = MinimumStop.CALLBACK
        elif update.ended is End.NO_PROGRESS:
            stop = MinimumStop.NO_PROGRESS
