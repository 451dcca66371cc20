"""Trace and diagonal of an objective's curvature, with error bars."""

from __future__ import annotations

import numpy as np

from hfrnn.analysis.gauss_newton import curvature_product
from hfrnn.arrays.backend import Array
from hfrnn.checks import choice, count, instance
from hfrnn.choices import MATRICES
from hfrnn.engine.objective import Objective
from hfrnn.optim.trace import LEAST_PRODUCTS, TraceEstimate, hutch_plus_plus


def curvature_trace(
    objective: Objective, theta: Array, products: int = 60, matrix: str = "gauss-newton", seed: int = 0
) -> TraceEstimate:
    """Estimate the trace and the diagonal of the curvature at theta by Hutch++.

    Parameters
    ----------
    objective : Objective
    theta : (n_parameters,) array
    products : int
        Number of products with the matrix, 4 or more.
    matrix : {"gauss-newton", "hessian"}
        The matrix without damping, plus l2*I if the network has an l2 penalty.
    seed : int
        Seed of the random signs, 0 or more.

    Returns
    -------
    TraceEstimate

    Raises
    ------
    InputError
        A number is out of its range, or the matrix is unknown.
    NonFiniteError
        A product is not finite.

    References
    ----------
    Meyer, Musco, Musco & Woodruff 2021, "Hutch++: optimal stochastic trace estimation"; Baston & Nakatsukasa 2022,
    "Stochastic diagonal estimation".

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
    >>> exact = hfrnn.dense_gauss_newton(objective, theta).trace()
    >>> bool(abs(found.trace - exact) < 1e-9 * exact)  # more products than parameters: exact
    True
    """
    instance("objective", objective, Objective, "a hfrnn.Objective")
    products, seed = count("products", products, LEAST_PRODUCTS), count("seed", seed)
    choice("matrix", matrix, MATRICES)
    product = curvature_product(objective, theta, matrix)
    return hutch_plus_plus(product, objective.net.n_parameters, products, np.random.default_rng(seed))
