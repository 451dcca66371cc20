"""The Gauss-Newton matrix G as a sum of outer products, as a dense matrix, and its diagonal.

With the Jacobian J_b of the outputs of sequence b, the Hessian H of the loss in the outputs of a step (SPEC 3), and the
weights w,

    G = sum_b J_b' C_b J_b,        C_b block-diagonal with blocks w/sum(w) * H                                    # G1
    H = R R':   softmax   R = diag(sqrt p) - p sqrt(p)'     (R R' = diag p - p p', as sum p = 1)                  # G2
                logistic  R = diag(sqrt(p*(1-p)))
                squared   R = I
    G = sum_b sum_i r_bi r_bi',    r_bi = J_b' (root of C_b) e_i                                                  # G3
    diag G = E sum_b (J_b' (root of C_b) s)^2 entry by entry, for random signs s                                  # G4

One backward pass of all sequences gives r_bi for every b (`Objective.sequence_jacobian`), so G takes as many passes as
a sequence has scored outputs; or n products, if these are fewer. G4 needs one backward pass per draw of s; it is the
estimator of Hutchinson for each sequence by itself, whose cross terms between sequences are left out.

References: Schraudolph 2002, "Fast curvature matrix-vector products", for G1; Dangel, Kunstner & Hennig 2020,
"BackPACK", for the factors of G2 and their random version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import softmax

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import count, function, instance
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.lanczos import Product

Told = Callable[[int, int], object]
"""Is called with the work done and the work in all."""

WITH_ROOTS = ("softmax", "logistic", "squared")
"""The losses whose Hessian has the root of G2 here."""


def check_objective(objective: Any) -> Objective:
    """Return an objective after checking that its loss is one of `WITH_ROOTS`."""
    found: Objective = instance("objective", objective, Objective, "a hfrnn.Objective")
    if found.net.loss_name not in WITH_ROOTS:
        raise InputError(f"the network's loss is {found.net.loss_name!r}: use a network with {', '.join(WITH_ROOTS)}")
    return found


def in_weights(objective: Any, theta: Array) -> tuple[Objective, Array, HostArray]:
    """Return an objective as a function of its weights, the weights, and which of them exist.

    Constraints may make weights absent, but not give them signs. Absent weights are 0. The last result (n_parameters,),
    in float64 on the host, is 0 for them and 1 for the others.
    """
    both = "a hfrnn.Objective, or a hfrnn.ConstrainedObjective without signs"
    instance("objective", objective, (Objective, ConstrainedObjective), both)
    net, theta = objective.net, objective.net.vector(theta)
    if isinstance(objective, Objective):
        return objective, theta.copy(), np.ones(net.n_parameters)
    constraints = objective.constraints
    if (net.backend.to_host(constraints.signs) != 0).any():
        raise InputError(
            "the constraints have signs: weights at the bound 0 have no such approximation; for all weights as if they "
            "were free, give objective.objective and constraints.weights(theta)"
        )
    exists = net.backend.to_host(objective.exists).astype("float64")
    return objective.objective, constraints.weights(theta), exists


class LossRoot:
    """The root of C_b in G1 at theta, for all sequences of an objective's batch."""

    def __init__(self, objective: Objective, theta: Array) -> None:
        net, batch = objective.net, objective.batch
        self.backend, self.shape = net.backend, (batch.T, batch.B, net.n_out)
        weights = net.backend.to_host(batch.output_weights(net.backend))
        self.scale = np.broadcast_to(np.sqrt(weights / objective.total_weight), self.shape)  # of each output
        self.outputs: HostArray = net.backend.to_host(objective.loss_and_logits(theta)[1]).astype("float64")
        self.loss = net.loss_name
        self.root_p: HostArray = np.ones((1, 1, 1))
        if self.loss == "softmax":
            self.root_p = np.sqrt(softmax(self.outputs, axis=2))
        elif self.loss == "logistic":
            self.root_p = 0.5 / np.cosh(0.5 * self.outputs)  # sqrt(p*(1-p))

    @property
    def columns(self) -> list[tuple[int, int]]:
        """The steps and outputs, (t, i), that have a weight in some sequence."""
        return [(int(t), int(i)) for t, i in np.argwhere((self.scale > 0).any(axis=1))]

    def times(self, s: HostArray) -> Array:
        """Return the root times s (T, B, n_out), on the backend."""
        root = self.root_p * s  # G2
        if self.loss == "softmax":
            root -= self.root_p**2 * (self.root_p * s).sum(axis=2, keepdims=True)
        return self.backend.asarray(self.scale * root)


def curvature_product(
    objective: Objective | ConstrainedObjective, theta: Array, matrix: str, tikhonov: float = 0.0
) -> Product:
    """Return the product with a curvature matrix, with l2*I, at theta (variables for a ConstrainedObjective).

    It maps arrays (n_parameters,) or (n_parameters, k) of the host to such arrays in float64, and raises NonFiniteError
    if a product is not finite. `tikhonov` is the factor of the identity that is added.
    """
    backend = objective.net.backend
    with np.errstate(over="ignore", invalid="ignore"):  # results that are not finite are refused below
        if matrix == "hessian":
            operator, shift = objective.hessian(theta), tikhonov
        else:
            operator, shift = objective.gauss_newton(theta, tikhonov=tikhonov), 0.0

    def product(v: HostArray) -> HostArray:
        with np.errstate(over="ignore", invalid="ignore"):
            found = backend.to_host(operator @ backend.asarray(v)).astype("float64", copy=False)
            return finite(found + shift * v if shift else found)

    return product


class CountedProduct:
    """A product that counts its calls."""

    def __init__(self, product: Product, progress: Callable[[str, int, int], object] | None) -> None:
        self._product, self._progress, self.total = product, progress, 0
        self.begin("", 0)

    def begin(self, what: str, most: int) -> None:
        """Restart the count that `progress` is called with, for a new activity of at most `most` products."""
        self._what, self._done, self._most = what, 0, most
        self._tell()

    def __call__(self, v: HostArray) -> HostArray:
        found = self._product(v)
        self.total, self._done = self.total + 1, self._done + 1
        self._tell()
        return found

    def _tell(self) -> None:
        if self._progress is not None and self._what:
            self._progress(self._what, self._done, self._most)


def gauss_newton_rows(
    objective: Objective, theta: Array, root: LossRoot, progress: Told | None = None
) -> Iterator[HostArray]:
    """Yield r_bi of G3, (B, n_parameters) in float64, for every scored step and output i. G is without l2.

    `progress` is called after each of them with their number so far and in all.
    """
    jacobian = objective.sequence_jacobian(theta)
    out = objective.net.backend.empty((objective.batch.B, objective.net.n_parameters), objective.net.dtype)
    columns = root.columns
    for done, (t, i) in enumerate(columns, 1):
        s = np.zeros(root.shape)
        s[t, :, i] = 1.0
        rows = jacobian.transpose_products(root.times(s), out)
        yield finite(objective.net.backend.to_host(rows).astype("float64"))
        if progress is not None:
            progress(done, len(columns))


def dense_gauss_newton(objective: Objective, theta: Array, progress: Told | None = None) -> HostArray:
    """Return the Gauss-Newton matrix at theta as a dense matrix.

    Parameters
    ----------
    objective : Objective
        float64 gives the most accurate matrix.
    theta : (n_parameters,) array
    progress : callable, optional
        Called after each backward pass or product, with their number so far and in all.

    Returns
    -------
    (n_parameters, n_parameters) array
        Symmetric, in float64, on the host, without damping and without l2.

    Raises
    ------
    NonFiniteError
        The matrix is not finite.

    Notes
    -----
    It takes S*n_out backward passes, where S is the number of scored steps, or n_parameters products, whichever are
    fewer. Targets at the last step only, as in many regressions, need n_out passes in all. A class softmax always takes
    n_parameters products.

    References
    ----------
    Schraudolph 2002, "Fast curvature matrix-vector products for second-order gradient descent".

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> G = hfrnn.dense_gauss_newton(objective, theta)
    >>> G.shape, bool(np.allclose(G, objective.gauss_newton(theta) @ np.eye(len(theta))))
    ((21, 21), True)
    """
    instance("objective", objective, Objective, "a hfrnn.Objective")
    n, progress = objective.net.n_parameters, function("progress", progress, "done, total", or_none=True)
    G = np.zeros((n, n))
    root = LossRoot(objective, theta) if objective.net.loss_name in WITH_ROOTS else None
    if root is not None and len(root.columns) < n:
        for rows in gauss_newton_rows(objective, theta, root, progress):
            G += rows.T @ rows  # G3
        return G
    product = curvature_product(objective, theta, "gauss-newton")
    for j in range(n):
        G[j] = product(np.eye(1, n, j)[0])
        G[j, j] -= objective.net.l2
        if progress is not None:
            progress(j + 1, n)
    return (G + G.T) / 2


def gauss_newton_diagonal(
    objective: Objective, theta: Array, draws: int | None = None, seed: int = 0, progress: Told | None = None
) -> tuple[HostArray, HostArray]:
    """Return the diagonal of the Gauss-Newton matrix at theta, without damping and without l2.

    Parameters
    ----------
    objective : Objective
        Of a network with the loss softmax, logistic or squared.
    theta : (n_parameters,) array
    draws : int, optional
        Number of random draws for an unbiased estimate, 2 or more; one backward pass each. By default the diagonal is
        exact, with one backward pass per scored step and output.
    seed : int
    progress : callable, optional
        Called after each backward pass, with their number so far and in all.

    Returns
    -------
    diagonal : (n_parameters,) array
        In float64, on the host.
    errors : (n_parameters,) array
        Standard error of every entry; 0 for the exact diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> diagonal, errors = hfrnn.gauss_newton_diagonal(objective, theta)
    >>> bool(np.allclose(diagonal, hfrnn.dense_gauss_newton(objective, theta).diagonal()))
    True
    """
    check_objective(objective)
    draws, seed = count("draws", draws, 2, or_none=True), count("seed", seed)
    progress = function("progress", progress, "done, total", or_none=True)
    n, root = objective.net.n_parameters, LossRoot(objective, theta)
    if draws is None:
        every = gauss_newton_rows(objective, theta, root, progress)
        return sum(((rows**2).sum(axis=0) for rows in every), np.zeros(n)), np.zeros(n)
    jacobian, rng = objective.sequence_jacobian(theta), np.random.default_rng(seed)
    mean, spread = np.zeros(n), np.zeros(n)
    for k in range(1, draws + 1):  # Welford's recurrence
        rows = jacobian.transpose_products(root.times(rng.choice((-1.0, 1.0), root.shape)))
        found = (finite(objective.net.backend.to_host(rows).astype("float64")) ** 2).sum(axis=0)  # G4
        before, mean = mean, mean + (found - mean) / k
        spread += (found - before) * (found - mean)
        if progress is not None:
            progress(k, draws)
    return mean, np.sqrt(spread / (draws - 1)) / math.sqrt(draws)


def finite(values: HostArray) -> HostArray:
    """Return an array after checking that its entries are finite."""
    if not np.isfinite(values).all():
        raise NonFiniteError("a product with the curvature is not finite: the weights are too large, use others")
    return values
