"""Eigenvalues of a symmetric matrix A (n, n) from its products with vectors: the extreme ones, and their density.

ARPACK (SciPy's eigsh) finds the extreme eigenvalues. One more product checks each: some eigenvalue of A lies within the
residual |A v - lambda v| of lambda. ARPACK may miss some copies of a multiple eigenvalue.

The density is computed by stochastic Lanczos quadrature. It starts at q_1 = r/sqrt(n), where r is a vector of random
signs. The Lanczos process

    beta_j q_{j+1} = A q_j - alpha_j q_j - beta_{j-1} q_{j-1},    alpha_j = q_j . A q_j              # L1

gives a tridiagonal matrix T with m rows. Every new vector is made orthogonal to all earlier ones, twice; otherwise
rounding would return eigenvalues that are found already as ghosts. With the eigenvalues t_i of T, and w_i the squared
first entries of its eigenvectors,

    q_1 . f(A) q_1 = sum_i w_i f(t_i)    for every polynomial f of degree below 2m.                  # L2

The mean of this over r is the trace of f(A), divided by n (Hutchinson). So the nodes t_i with weights w_i approximate
the density of the eigenvalues; f(t) = t and f(t) = t*t give the trace and the squared Frobenius norm.

References: Lehoucq, Sorensen & Yang 1998, "ARPACK users' guide"; Golub & Meurant 2010, "Matrices, Moments and
Quadrature with Applications"; Ubaru, Chen & Saad 2017, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from hfrnn.arrays.vectors import Vector

Product = Callable[[Vector], Vector]
"""Takes v (n,) in float64 and returns A v as a fresh vector."""

MOST_PRODUCTS = 1000
"""Approximate number of products after which the search for extreme eigenvalues gives up."""
INVARIANT = 1e-13
"""A beta below this share of the largest entry of T is rounding: the vectors so far span an invariant space."""


def extreme_eigenvalues(
    product: Product, n: int, count: int, end: str, tolerance: float, rng: np.random.Generator
) -> tuple[Vector, Vector]:
    """Find the eigenvalues at one end of the spectrum, and their residuals; both (k,), the outermost first.

    A small matrix is written out and decomposed directly. The search ends when the estimated residual of each
    eigenvalue, relative to it, is below `tolerance`. `end` is "largest" or "smallest"; k is the smaller of `count` and
    n, and less if the search gave up. `rng` draws the start.
    """
    values, vectors = extreme_eigenpairs(product, n, count, end, tolerance, rng)
    residuals = [np.linalg.norm(product(v) - value * v) for value, v in zip(values, vectors.T, strict=True) if v.any()]
    return values, np.array(residuals + [0.0] * (values.size - len(residuals)), dtype=np.float64)


def extreme_eigenpairs(
    product: Product, n: int, count: int, end: str, tolerance: float, rng: np.random.Generator
) -> tuple[Vector, Vector]:
    """Find eigenvalues as `extreme_eigenvalues` does, with their eigenvectors (n, k) in place of residuals.

    The eigenvectors of a matrix of zeros are returned as 0.
    """
    count, kept, restarts = _sizes(n, count)
    if n <= kept:
        whole = np.stack([product(unit) for unit in np.eye(n)])
        values, vectors = eigh((whole + whole.T) / 2)
    else:
        start = rng.standard_normal(n)
        if not product(start).any():  # a matrix of zeros, which ARPACK refuses
            return np.zeros(count), np.zeros((n, count))
        A, which = LinearOperator((n, n), matvec=product, dtype=np.float64), {"largest": "LA", "smallest": "SA"}[end]
        try:
            values, vectors = eigsh(A, count, which=which, v0=start, ncv=kept, maxiter=restarts, tol=tolerance)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
    order = np.argsort(values if end == "smallest" else -values, kind="stable")[:count]
    return values[order], vectors[:, order]


def most_products(n: int, count: int) -> int:
    """Return the approximate largest number of products that `extreme_eigenvalues` computes."""
    count, kept, restarts = _sizes(n, count)
    return n + count if n <= kept else 1 + kept + restarts * (kept - count) + count


def _sizes(n: int, count: int) -> tuple[int, int, int]:
    """Return how many eigenvalues to find, how many vectors ARPACK keeps, and how often it may restart."""
    count = min(count, n)
    kept = max(2 * count + 1, 20)
    return count, kept, MOST_PRODUCTS // (kept - count)


def lanczos(product: Product, start: Vector, steps: int) -> tuple[Vector, Vector]:
    """Compute the diagonal (m,) of the tridiagonal matrix T of L1, and the entries beside it, (m - 1,).

    m is the smaller of `steps` and n. It is smaller still if the vectors span an invariant space, because then L2 is
    exact. All m vectors are kept in memory. The start (n,) is not 0.
    """
    m = min(steps, start.size)
    Q, alpha, beta = np.empty((m, start.size)), np.zeros(m), np.zeros(m)
    Q[0] = start / np.linalg.norm(start)
    for j in range(m):
        w, known = product(Q[j]), Q[: j + 1]
        alpha[j] = Q[j] @ w
        for _ in range(2):
            w = w - (known @ w) @ known  # L1, and the rounding errors along all earlier vectors
        beta[j] = np.linalg.norm(w)
        if beta[j] <= INVARIANT * max(np.abs(alpha[: j + 1]).max(), beta[: j + 1].max()):
            return alpha[: j + 1], beta[:j]
        if j + 1 < m:
            Q[j + 1] = w / beta[j]
    return alpha, beta[:-1]


def quadrature(alpha: Vector, beta: Vector) -> tuple[Vector, Vector]:
    """Return the nodes (smallest first) and the weights (with sum 1) of L2; both (m,)."""
    nodes, vectors = eigh_tridiagonal(alpha, beta)
    return nodes, vectors[0] ** 2
