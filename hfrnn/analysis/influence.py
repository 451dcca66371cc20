"""Influence functions: how the loss of validation data would change if a training sequence were left out.

With the training loss f = sum_b L_b / W + (l2/2)*|theta|^2 (L_b: the summed w*loss of sequence b, g_b its gradient, W
the sum of all weights), the minimum of f - L_b/W is, to first order in L_b/W,

    theta_b = theta + A^-1 g_b / W,        A = G + (lambda + l2)*I                                                 # I1

where the Gauss-Newton matrix G stands for the Hessian of the data; or A is the Hessian of f, plus lambda*I. So a
validation loss F changes by

    F(theta_b) - F(theta) = x . g_b / W,   A x = grad F(theta)                                                     # I2

One linear system per validation loss gives the scores of all training sequences. Conjugate gradient solves it to the
residual r = grad F - A x. The scores are then off by (A^-1 r) . g_b / W; A has no eigenvalue below lambda + l2, so that

    |error of the score| <= |r| * |g_b| / ((lambda + l2) * W)                                                      # I3

The bound is strict for G, and often far too large, because r lies mostly along directions of large curvature.

At a minimum with large residuals, the Hessian gives better scores: G leaves out the curvature of the network's outputs
times the residuals. Its products cost several times as much. Away from a minimum it may be indefinite; G never is.

References: Koh & Liang 2017, "Understanding black-box predictions via influence functions"; Martens 2010, "Deep
learning via Hessian-free optimization", for G in place of the Hessian; Grosse et al. 2023, "Studying large language
model generalization with influence functions", 2.1, for what A with lambda > 0 means away from a minimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import spearmanr

from hfrnn.analysis.gauss_newton import curvature_product, dense_gauss_newton, in_weights
from hfrnn.arrays.array_checks import array, is_array
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import INSIDE_ONE, NOT_NEGATIVE, choice, count, number, shown
from hfrnn.choices import MATRICES
from hfrnn.engine.batch import Batch
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.cg import CGStop, conjugate_gradients
from hfrnn.optim.lanczos import Product
from hfrnn.wording import brief

SOLVERS = ("cg", "dense")
EARLIER = 0.75
"""Share of the iterations after which an earlier iterate shows how far the scores still move."""


@brief
@dataclass(frozen=True, eq=False)
class Influence:
    """Scores of B training sequences for m validation losses, and what CG's tolerance did to them.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> hfrnn.influence(objective, theta, batch, damping=0.1).bounds.shape
    (1, 4)
    """

    scores: HostArray
    """Estimated change of each validation loss, in its own unit, if a training sequence is left out, (m, B). A negative
    score means that the sequence harms: without it the loss is lower."""
    changes: HostArray
    """How far each score moved in about the last quarter of CG's iterations, (m, B); 0 for the solver "dense"."""
    rank_correlations: HostArray
    """Spearman's correlation of the scores with those before that last quarter, (m,); 1 for the solver "dense". NaN
    where it is not defined, after one or two iterations."""
    bounds: HostArray
    """Strict bounds I3 of the error of each score that CG leaves, (m, B); infinite for the Hessian."""
    residuals: HostArray
    """|grad F - A x| / |grad F| of every system, (m,)."""
    iterations: HostArray
    """Iterations of CG, (m,) integers; 0 for the solver "dense"."""


def influence(
    objective: Objective | ConstrainedObjective,
    theta: Array,
    validation: Batch | Sequence[Batch] | Array,
    damping: float = 0.0,
    matrix: str = "gauss-newton",
    solver: str = "cg",
    tolerance: float = 1e-4,
    max_iterations: int = 1000,
) -> Influence:
    """Score the sequences of a training objective for validation losses.

    Parameters
    ----------
    objective : Objective or ConstrainedObjective
        The training objective, with the l2 that theta was trained with. Absent weights of a ConstrainedObjective stay
        0; its constraints must not have signs.
    theta : (n_parameters,) array
        Trained weights, best at a minimum of the objective.
    validation : Batch, sequence of Batch, or (m, n_parameters) array
        One validation loss per batch: its mean loss without l2 and label smoothing. Or their gradients at theta.
    damping : float
        lambda, 0 or more; lambda + l2 must be above 0. With a trained l2 and theta at a minimum, 0 is right.
    matrix : {"gauss-newton", "hessian"}
        The matrix of A. The Hessian is more accurate at a minimum, and its products cost several times as much.
    solver : {"cg", "dense"}
        "cg" needs products only. "dense" factors the dense matrix; it serves networks of up to some thousand
        weights, many validation losses cost it nearly the same as one, and it is exact.
    tolerance : float
        CG stops when the residual is at most this share of the right-hand side.
    max_iterations : int
        Largest number of iterations of CG for each validation loss, 1 or more.

    Returns
    -------
    Influence

    Raises
    ------
    InputError
        An argument is out of range, lambda + l2 is 0, or the Hessian plus lambda*I is not positive definite.
    NonFiniteError
        A gradient or a product is not finite.

    Notes
    -----
    The sum W of all weights stays the same in I1, as in the reference. If sequence b is really left out, the mean loss
    is over W - w_b, and l2 has to grow to l2 * W / (W - w_b), or the penalty changes the weights too.

    The call keeps the gradient of every training sequence, B * n_parameters numbers. Scores of sequences are not
    additive for large groups, and leave-one-out training that ends in another minimum does not follow them.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> validation = hfrnn.Batch(np.zeros((5, 2, 2)), np.ones((5, 2, 1)))
    >>> hfrnn.influence(objective, theta, validation, damping=0.1).scores.shape
    (1, 4)
    """
    objective, theta, exists = in_weights(objective, theta)
    damping, tolerance = number("damping", damping, NOT_NEGATIVE), number("tolerance", tolerance, INSIDE_ONE)
    solver, matrix = choice("solver", solver, SOLVERS), choice("matrix", matrix, MATRICES)
    max_iterations = count("max_iterations", max_iterations, 1)
    shift = damping + objective.net.l2
    if shift <= 0:
        raise InputError("damping and the network's l2 are both 0, so that G may be singular: give damping above 0")
    wanted = _gradients(objective, theta, validation) * exists  # (m, n)
    rows = _host(objective, objective.per_sequence_gradients(theta)) * exists  # (B, n)
    if not (np.isfinite(rows).all() and np.isfinite(wanted).all()):
        raise NonFiniteError("a gradient is not finite: the weights are too large, use others")
    if solver == "cg":
        b = wanted.astype("float64" if matrix == "hessian" else objective.net.dtype)
        found = _by_cg(_product(objective, theta, exists, matrix, damping), b, tolerance, max_iterations)
    else:
        found = _by_factorization(_dense(objective, theta, exists, matrix, damping), wanted)
    rows /= objective.total_weight
    scores, earlier = found.x @ rows.T, found.earlier @ rows.T  # I2
    bounds = np.outer(found.residuals, np.linalg.norm(rows, axis=1)) / shift  # I3
    sizes = np.linalg.norm(wanted, axis=1)
    return Influence(
        scores=scores,
        changes=np.abs(scores - earlier),
        rank_correlations=np.array([_spearman(a, b) for a, b in zip(scores, earlier, strict=True)]),
        bounds=np.full(scores.shape, math.inf) if matrix == "hessian" else bounds,
        residuals=found.residuals / np.where(sizes > 0, sizes, 1.0),
        iterations=found.iterations,
    )


@dataclass
class _Solutions:
    """Solutions (m, n) of A x = grad F, earlier iterates of them, |residual| (m,), and iterations (m,)."""

    x: HostArray
    earlier: HostArray
    residuals: HostArray
    iterations: HostArray


def _product(objective: Objective, theta: Array, exists: HostArray, matrix: str, damping: float) -> Product:
    """Return the product with A of I1, and with the identity for absent weights, of a vector or of rows (k, n)."""
    of_all = curvature_product(objective, theta, matrix, damping)

    return lambda v: exists * of_all((exists * v).T).T + (1 - exists) * v


def _dense(objective: Objective, theta: Array, exists: HostArray, matrix: str, damping: float) -> HostArray:
    """Return A of I1, in which absent weights have an entry on the diagonal only."""
    unit = np.eye(objective.net.n_parameters)
    if matrix == "hessian":
        return _product(objective, theta, exists, matrix, damping)(unit)
    G = dense_gauss_newton(objective, theta) * np.outer(exists, exists)
    return np.asarray(G + (damping + objective.net.l2) * unit)


def _by_cg(apply: Product, wanted: HostArray, tolerance: float, max_iterations: int) -> _Solutions:
    def products(vectors: Sequence[HostArray]) -> HostArray:
        return apply(np.stack(vectors))

    x, earlier, residuals = np.zeros(wanted.shape), np.zeros(wanted.shape), np.zeros(len(wanted))
    iterations = np.zeros(len(wanted), dtype=int)
    for j, result in conjugate_gradients(
        products, wanted, max_iterations=max_iterations, residual_tolerance=tolerance, residual_every=50
    ):
        if result.stop is CGStop.CURVATURE:
            raise InputError("the matrix is not positive definite at theta: give more damping, or use the Gauss-Newton")
        before = [each[2] for each in result.iterates if each[0] <= EARLIER * result.iterations]
        x[j], iterations[j], residuals[j] = result.x, result.iterations, np.linalg.norm(wanted[j] - apply(result.x))
        if before:
            earlier[j] = before[-1]
    return _Solutions(x, earlier, residuals, iterations)


def _by_factorization(A: HostArray, wanted: HostArray) -> _Solutions:
    try:
        x = cho_solve(cho_factor((A + A.T) / 2), wanted.T).T
    except np.linalg.LinAlgError as error:
        raise InputError("the matrix is not positive definite at theta: give more damping") from error
    return _Solutions(x, x, np.linalg.norm(wanted - x @ A, axis=1), np.zeros(len(x), dtype=int))


def _gradients(objective: Objective, theta: Array, validation: Any) -> HostArray:
    """Return the gradients (m, n) of the validation losses, in float64 on the host."""
    net = objective.net
    if is_array(validation):
        return _host(objective, array("validation", validation, (None, net.n_parameters), finite=True))
    batches = [validation] if isinstance(validation, Batch) else validation
    known = isinstance(batches, list | tuple) and batches and all(isinstance(batch, Batch) for batch in batches)
    if not known:
        raise InputError(f"validation is {shown(validation)}: give a hfrnn.Batch, a list of them, or gradients (m, n)")
    plain, threads = net.without_penalty(), objective.threads.threads
    losses = (Objective(plain, batch, threads=threads) for batch in batches)
    return np.stack([_host(objective, loss.loss_and_gradient(theta)[1]) for loss in losses])


def _host(objective: Objective, values: Array) -> HostArray:
    return np.array(objective.net.backend.to_host(values), dtype="float64")


def _spearman(a: HostArray, b: HostArray) -> float:
    """Return Spearman's correlation; 1 for equal scores, and NaN if one of the two is constant."""
    if np.array_equal(a, b):
        return 1.0
    return math.nan if min(np.ptp(a), np.ptp(b)) == 0 else float(spearmanr(a, b).statistic)
