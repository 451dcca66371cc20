"""Trace and diagonal of a symmetric matrix A (n, n) from its products with vectors, with standard errors: Hutch++.

With an orthonormal basis Q (n, r) of A S, where S has r columns of random signs, and P = I - QQ',

    A = (QQ'A + AQQ' - QQ'AQQ') + PAP                                                                              # T1

The diagonal of the first part is exact and needs A Q only. That of PAP, which is small where r eigenvalues dominate, is
the mean over random signs g:

    diag PAP = E g*(PAP g) entry by entry,     tr PAP = E g.(PAP g)                                                # T2

The standard errors are those of the means T2. They tell nothing where g hits the same value each time.

References: Hutchinson 1990, "A stochastic estimator of the trace of the influence matrix"; Meyer, Musco, Musco &
Woodruff 2021, "Hutch++: optimal stochastic trace estimation"; Baston & Nakatsukasa 2022, "Stochastic diagonal
estimation: probabilistic bounds and an improved algorithm".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hfrnn.arrays.vectors import Vector
from hfrnn.optim.lanczos import Product
from hfrnn.wording import brief

LEAST_PRODUCTS = 4
"""One product for the basis, one with it, and two draws of T2, without which there is no error."""


@brief
@dataclass(frozen=True, eq=False)
class TraceEstimate:
    """Trace and diagonal of a symmetric matrix.

    Attributes
    ----------
    trace, trace_error : float
        The estimate, and its standard error.
    diagonal, diagonal_errors : (n,) arrays
        The same for each entry of the diagonal.
    products : int
        Number of products with the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> found = hfrnn.curvature_trace(objective, theta)
    >>> found.diagonal.shape, found.products
    ((21,), 60)
    """

    trace: float
    trace_error: float
    diagonal: Vector
    diagonal_errors: Vector
    products: int


def hutch_plus_plus(product: Product, n: int, products: int, rng: np.random.Generator) -> TraceEstimate:
    """Estimate the trace and the diagonal of a symmetric matrix with n rows.

    A third of the products (`LEAST_PRODUCTS` or more) each goes to the basis, to A Q, and to T2. The result is exact,
    with errors near 0, if a third of the products reaches the rank of A. `product` takes several columns (n, k).
    """
    r = min(max(products // 3, 1), n)
    draws = max(products - 2 * r, 2)
    Q, _ = np.linalg.qr(product(rng.choice((-1.0, 1.0), (r, n)).T))
    AQ = product(Q)
    known = 2.0 * (Q * AQ).sum(axis=1) - ((Q @ (Q.T @ AQ)) * Q).sum(axis=1)  # T1
    g = rng.choice((-1.0, 1.0), (draws, n)).T
    w = product(g - Q @ (Q.T @ g))
    rest = (g * (w - Q @ (Q.T @ w))).T  # T2
    traces = rest.sum(axis=1)
    return TraceEstimate(
        trace=float(known.sum() + traces.mean()),
        trace_error=float(traces.std(ddof=1)) / math.sqrt(draws),
        diagonal=known + rest.mean(axis=0),
        diagonal_errors=rest.std(axis=0, ddof=1) / math.sqrt(draws),
        products=2 * r + draws,
    )
