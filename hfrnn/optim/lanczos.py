"""Eigenvalues of a symmetric matrix A (n, n) from its products with vectors: those at the ends, and their density.

The ends are ARPACK's (SciPy's eigsh), and one product more checks each: some eigenvalue of A lies within the residual
|A v - lambda v| of lambda. Of a multiple eigenvalue some copies may be missed.

The density is stochastic Lanczos quadrature. From q_1 = r/sqrt(n), r a vector of random signs, the Lanczos process

    beta_j q_{j+1} = A q_j - alpha_j q_j - beta_{j-1} q_{j-1},    alpha_j = q_j . A q_j              # L1

makes a tridiagonal matrix T of m rows; every new vector is made orthogonal to all before, twice, or rounding would
bring eigenvalues that are found already back as ghosts. With the eigenvalues t_i of T, and w_i the squared first
entries of its eigenvectors,

    q_1 . f(A) q_1 = sum_i w_i f(t_i)    for every polynomial f of degree below 2m,                  # L2

whose mean over r is the trace of f(A) over n (Hutchinson). So nodes t_i of weights w_i stand for the density of the
eigenvalues; f(t) = t and f(t) = t*t give the trace and the squared Frobenius norm.

Sources: Lehoucq, Sorensen & Yang 1998, "ARPACK users' guide"; Golub & Meurant 2010, "Matrices, Moments and Quadrature
with Applications"; Ubaru, Chen & Saad 2017, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

Vector = NDArray[Any]
Product = Callable[[Vector], Vector]
"""A v for v (n,) in float64: a fresh vector."""

MOST_PRODUCTS = 1000
"""The search for the eigenvalues at one end is given up after so many products, about."""
INVARIANT = 1e-13
"""A beta this small beside the largest entry of T so far is rounding: the vectors so far span an invariant space."""


def extreme_eigenvalues(
    product: Product, n: int, count: int, end: str, tolerance: float, rng: np.random.Generator
) -> tuple[Vector, Vector]:
    """The eigenvalues at one end of the spectrum, the outermost first, and their residuals.

    A matrix of few rows is written out and taken apart whole.

    Arguments
    ---------
    product : of A
    n : rows of A, 1 or more
    count : how many, 1 or more; all n where that is less
    end : "largest" or "smallest"
    tolerance : estimated residual, as a share of each eigenvalue, at which the search ends
    rng : draws the start

    Returns
    -------
    Eigenvalues and residuals, both (k,); k is below `count` where the search was given up.
    """
    count, kept, restarts = _sizes(n, count)
    if n <= kept:
        whole = np.stack([product(unit) for unit in np.eye(n)])
        values, vectors = eigh((whole + whole.T) / 2)
    else:
        start = rng.standard_normal(n)
        if not product(start).any():  # a matrix of zeros, which ARPACK refuses
            return np.zeros(count), np.zeros(count)
        A, which = LinearOperator((n, n), matvec=product, dtype=np.float64), {"largest": "LA", "smallest": "SA"}[end]
        try:
            values, vectors = eigsh(A, count, which=which, v0=start, ncv=kept, maxiter=restarts, tol=tolerance)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
    order = np.argsort(values if end == "smallest" else -values, kind="stable")[:count]
    residuals = [np.linalg.norm(product(vectors[:, k]) - values[k] * vectors[:, k]) for k in order]
    return values[order], np.array(residuals, dtype=np.float64)


def most_products(n: int, count: int) -> int:
    """The products that `extreme_eigenvalues` takes at most, about."""
    count, kept, restarts = _sizes(n, count)
    return n + count if n <= kept else 1 + kept + restarts * (kept - count) + count


def _sizes(n: int, count: int) -> tuple[int, int, int]:
    """Eigenvalues to find, vectors that ARPACK keeps, and how often it may start again from the best of them."""
    count = min(count, n)
    kept = max(2 * count + 1, 20)
    return count, kept, MOST_PRODUCTS // (kept - count)


def lanczos(product: Product, start: Vector, steps: int) -> tuple[Vector, Vector]:
    """alpha (m,) and beta (m - 1,) of L1, from a start (n,) that is not 0; m is the smaller of `steps` and n.

    It ends earlier where the vectors span an invariant space, which holds all that the start has a share in. Memory for
    m vectors is taken.
    """
    m = min(steps, start.size)
    Q, alpha, beta = np.empty((m, start.size)), np.zeros(m), np.zeros(m)
    Q[0] = start / np.linalg.norm(start)
    for j in range(m):
        w, known = product(Q[j]), Q[: j + 1]
        alpha[j] = Q[j] @ w
        for _ in range(2):
            w = w - (known @ w) @ known  # L1, and what rounding has left of all vectors before
        beta[j] = np.linalg.norm(w)
        if beta[j] <= INVARIANT * max(np.abs(alpha[: j + 1]).max(), beta[: j + 1].max()):
            return alpha[: j + 1], beta[:j]
        if j + 1 < m:
            Q[j + 1] = w / beta[j]
    return alpha, beta[:-1]


def quadrature(alpha: Vector, beta: Vector) -> tuple[Vector, Vector]:
    """Nodes and weights of L2, both (m,), the smallest node first; the weights sum to 1."""
    nodes, vectors = eigh_tridiagonal(alpha, beta)
    return nodes, vectors[0] ** 2
