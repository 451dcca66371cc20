"""An objective as a function of variables, whose weights satisfy constraints.

O1  f(w(v)),  gradient D g                              D = dw/dv of `constraints.py`
O2  G -> D G D + lambda*P                               P: 0 for absent weights, else 1
O3  H -> D H D + diag(2*s*g)                            s: signs
O4  J -> J D
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hfrnn.arrays.backend import Array
from hfrnn.arrays.threads import Threads
from hfrnn.arrays.vectors import Scalar
from hfrnn.checks import NOT_NEGATIVE, instance, methods, number
from hfrnn.engine.constraints import Constraints
from hfrnn.engine.operators import make_operator
from hfrnn.errors import InputError
from hfrnn.optim.blocks import MatrixBlock

if TYPE_CHECKING:
    from hfrnn.engine.objective import Objective

METHODS = ("loss_and_gradient", "squared_gradients", "part_gradients", "gauss_newton", "hessian", "jacobian")
"""Methods that only an `Objective` has all of."""


class ConstrainedObjective:
    """An objective f as a function of variables v: f(constraints.weights(v)), with its derivatives.

    Without signs, it is f on the weights that exist: its gradient is P g and its curvature P G P, where P sets the
    entries of absent weights to 0.

    Parameters
    ----------
    objective : Objective
    constraints : Constraints
        Constraints of the same network.

    Attributes
    ----------
    threads, host_threads : Threads
    matrix_blocks : tuple of MatrixBlock
    total_weight : float
        Sum of the weights of the symbols.
    exists : (n_parameters,) array
        0 for absent weights, else 1, of the type of the network.

    Raises
    ------
    InputError
        The constraints are of another network.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> constraints = hfrnn.Constraints(net, signs={"output.W_y0": np.ones((3, 1))})  # weights of 0 or more
    >>> bounded = hfrnn.ConstrainedObjective(objective, constraints)
    >>> v = constraints.variables(constraints.initial(theta))
    >>> v = hfrnn.HessianFree().update(v, bounded).theta
    >>> bool((net.views(constraints.weights(v))["output.W_y0"] >= 0).all())
    True
    """

    def __init__(self, objective: Objective, constraints: Constraints) -> None:
        self.objective: Objective = methods("objective", objective, METHODS)
        self.constraints: Constraints = instance("constraints", constraints, Constraints, "a hfrnn.Constraints")
        self.net, own = objective.net, constraints.net
        if own.parameters.blocks != self.net.parameters.blocks or own.backend.xp is not self.net.backend.xp:
            raise InputError("the constraints are of another network than the objective: make them for this one")
        self.threads: Threads = objective.threads
        self.host_threads: Threads = objective.host_threads
        self.matrix_blocks: tuple[MatrixBlock, ...] = objective.matrix_blocks
        self.total_weight: float = objective.total_weight
        self.exists: Array = self.net.backend.xp.where(constraints.absent, 0, 1).astype(self.net.dtype)

    def loss(self, variables: Array) -> float:
        """Return f in nats at variables (n_parameters,)."""
        return self.objective.loss(self.constraints.weights(variables))

    def lazy_loss(self, variables: Array) -> Scalar:
        """Return `loss` without waiting for a device, as an `Objective` does."""
        return self.objective.lazy_loss(self.constraints.weights(variables))

    def loss_and_gradient(
        self, variables: Array, out: Array | None = None, clip_error: float | None = None
    ) -> tuple[float, Array]:
        """Return f in nats and its gradient (n_parameters,) in the variables, in `out` if given (O1).

        `clip_error` is that of `Objective.loss_and_gradient`.
        """
        return self._gradient(self.objective.loss_and_gradient, variables, out, clip_error)

    def data_loss_and_gradient(
        self, variables: Array, out: Array | None = None, clip_error: float | None = None
    ) -> tuple[Scalar, Array]:
        """Return f without its penalty, in nats, and the gradient of f with it (O1), as an `Objective` does."""
        return self._gradient(self.objective.data_loss_and_gradient, variables, out, clip_error)

    def penalty(self, variables: Array) -> float:
        """Return the part of the loss that is not the data's: l2/2 * |w|^2."""
        return self.objective.penalty(self.constraints.weights(variables))

    def squared_gradients(self, variables: Array) -> Array:
        """Return `Objective.squared_gradients` for the gradients in the variables, (n_parameters,)."""
        w, D = self._at(variables)
        return self.objective.squared_gradients(w) * (D * D)

    def part_gradients(self, variables: Array, parts: int = 50) -> Array:
        """Return `Objective.part_gradients` in the variables, (parts, n_parameters)."""
        w, D = self._at(variables)
        rows = self.objective.part_gradients(w, parts)
        rows *= D
        return rows

    def gauss_newton(
        self, variables: Array, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Any:
        """Return the damped Gauss-Newton matrix in the variables (O2), as `Objective.gauss_newton` does.

        Tikhonov damping holds the variables, not the weights.
        """
        tikhonov = number("tikhonov", tikhonov, NOT_NEGATIVE)
        w, D = self._at(variables)
        G = self.objective.gauss_newton(w, structural, 0.0, metric)
        return self._symmetric(G, D, tikhonov * self.exists if tikhonov else None)

    def hessian(self, variables: Array) -> Any:
        """Return the exact Hessian in the variables (O3) as a LinearOperator in float64.

        g in O3 has the precision of the network.
        """
        w, D = self._at(variables)
        g = self.objective.loss_and_gradient(w)[1]
        diagonal = 2 * self.constraints.signs.astype("float64") * g.astype("float64")
        return self._symmetric(self.objective.hessian(w), D.astype("float64"), diagonal)

    def jacobian(self, variables: Array) -> Any:
        """Return the Jacobian of the logits in the variables (O4), as `Objective.jacobian` does."""
        w, D = self._at(variables)
        J = self.objective.jacobian(w)

        def apply(v: Array, out: Array) -> None:
            J.apply(D * v, out)

        def adjoint(u: Array, out: Array) -> None:
            out[...] = D * J.rmatvec(u)

        return make_operator(self.net.backend, J.shape, self.net.dtype, apply, adjoint, "Jacobian")

    def __repr__(self) -> str:
        return f"<ConstrainedObjective of {self.objective!r}>"

    def _at(self, variables: Array) -> tuple[Array, Array]:
        """Return the weights of variables, and D."""
        v = self.net.lazy_vector(variables, "variables")
        return self.constraints.weights(v), self.constraints.slopes(v)

    def _gradient(
        self, compute: Callable[[Array, Array | None, float | None], tuple[Scalar, Array]], variables: Array,
        out: Array | None, clip_error: float | None,
    ) -> tuple[Scalar, Array]:  # fmt: skip
        """Return a loss and its gradient in the variables, given what computes them in the weights (O1)."""
        w, D = self._at(variables)
        loss, gradient = compute(w, out, clip_error)
        gradient *= D
        return loss, gradient

    def _symmetric(self, A: Any, D: Array, diagonal: Array | None) -> Any:
        """Return the operator D A D + diag(diagonal)."""

        def apply(v: Array, out: Array) -> None:
            A.apply(D * v, out)
            out *= D
            if diagonal is not None:
                out += diagonal * v

        return make_operator(self.net.backend, A.shape, A.dtype, apply, name="curvature in the variables")
