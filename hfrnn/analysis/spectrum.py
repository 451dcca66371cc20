"""Extreme eigenvalues and eigenvalue density of the Gauss-Newton matrix G or of the exact Hessian H.

G is positive semi-definite; negative eigenvalues of H belong to directions that G does not represent. Reference:
Ghorbani, Krishnan & Xiao 2019, "An investigation into neural net optimization via Hessian eigenvalue density".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn import checks
from hfrnn.analysis.gauss_newton import CountedProduct, curvature_product
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import INSIDE_ONE, choice, count, function_or_flag, instance, number
from hfrnn.choices import MATRICES
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError
from hfrnn.live_line import Told, working
from hfrnn.optim.lanczos import Product, extreme_eigenvalues, lanczos, most_products, quadrature
from hfrnn.optim.trace import LEAST_PRODUCTS, TraceEstimate, hutch_plus_plus
from hfrnn.wording import brief


@brief
@dataclass(frozen=True, eq=False)
class Spectrum:
    """Estimates of the eigenvalues of a symmetric matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> hfrnn.spectrum(objective, theta, count=2, steps=10).largest.shape
    (2,)
    """

    matrix: str
    size: int
    """The number of rows, n."""
    largest: HostArray
    """The largest eigenvalues, in falling order, (k,)."""
    largest_residuals: HostArray
    """The residual |A v - lambda v| of each."""
    smallest: HostArray
    """The smallest eigenvalues of the Hessian, in rising order, (k,); (0,) for G, which has no negative ones."""
    smallest_residuals: HostArray
    """The residual of each."""
    nodes: HostArray
    """The nodes of the density, in rising order, (m,); (0,) if no density was computed."""
    weights: HostArray
    """The weights of the nodes, with sum 1."""
    trace: float | None
    """The sum of all eigenvalues, estimated from the density; None without a density."""
    trace_error: float | None
    """Its standard error; None with fewer than two random vectors."""
    frobenius: float | None
    """The root of the sum of all squared eigenvalues, estimated from the density; None without a density."""
    products: int
    """The number of products with the matrix."""

    def ranked(self, rank: int) -> tuple[float, float]:
        """Estimate the `rank`-th largest and the `rank`-th smallest eigenvalue from the density; rank is 1 to n."""
        rank = checks.count("rank", rank, 1, self.size)
        if not self.nodes.size:
            raise InputError("no density was computed: call spectrum with vectors of 1 or more")
        up, down = (self.size * np.cumsum(weights) for weights in (self.weights, self.weights[::-1]))
        low, high = (min(int(np.searchsorted(counts, rank - 0.5)), counts.size - 1) for counts in (up, down))
        return float(self.nodes[::-1][high]), float(self.nodes[low])

    def to_json(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}


def spectrum(
    objective: Objective | ConstrainedObjective,
    theta: Array,
    matrix: str = "gauss-newton",
    count: int = 5,
    vectors: int = 2,
    steps: int = 40,
    tolerance: float = 1e-6,
    seed: int = 0,
    progress: Told | bool = True,
) -> Spectrum:
    """Compute extreme eigenvalues and the spectral density of an objective's curvature at theta.

    Parameters
    ----------
    objective : Objective or ConstrainedObjective
        An objective of a network in float64. With constraints, the matrix is that of the variables, which
        Hessian-free optimization uses, without the rows and columns of absent weights.
    theta : (n_parameters,) array
        Variables for a ConstrainedObjective.
    matrix : {"gauss-newton", "hessian"}
        The matrix without damping, plus l2*I. The Hessian takes more products, because both ends of its spectrum are
        computed, and each takes several times as long.
    count : int
        Number of eigenvalues to find at the upper end, and for the Hessian also at the lower end; 0 for none.
    vectors : int
        Number of random vectors for the density, 0 for no density. The sampling error falls with the root of it.
    steps : int
        Lanczos steps for each random vector, 1 or more. More resolve the density better; each stores one vector.
    tolerance : float
        Above 0. The search ends when the estimated residual of every eigenvalue is at most this share of the
        eigenvalue.
    seed : int
        Seed of the random vectors, 0 or more.
    progress : callable or bool
        Whether to show progress on stderr, or a function that is called before an activity and after each product, with
        the activity, the products made for it, and the most products that it can take.

    Returns
    -------
    Spectrum
        It has fewer than `count` eigenvalues if the search stopped early, after about 1,000 products.

    Raises
    ------
    InputError
        A number is out of its range, the matrix is unknown, or the network is in float32.
    NonFiniteError
        A product is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> found = hfrnn.spectrum(objective, theta, count=2, steps=10)
    >>> found.largest.round(4).tolist()
    [0.0203, 0.0145]
    """
    choice("matrix", matrix, MATRICES)
    kinds = "a hfrnn.Objective or a hfrnn.ConstrainedObjective"
    instance("objective", objective, (Objective, ConstrainedObjective), kinds)
    if objective.net.dtype != np.float64:
        raise InputError('the network is in float32, too coarse for eigenvalues: make it with dtype="float64"')
    count, vectors, seed = checks.count("count", count), checks.count("vectors", vectors), checks.count("seed", seed)
    steps, tolerance = checks.count("steps", steps, 1), number("tolerance", tolerance, INSIDE_ONE)
    progress = function_or_flag("progress", progress, "what, done, total")
    of_existing, n = _of_existing(objective, curvature_product(objective, theta, matrix))
    rng, none = np.random.default_rng(seed), (np.zeros(0), np.zeros(0))
    ends = {"largest": none, "smallest": none}
    with working("left at most", progress) as tell:
        product = CountedProduct(of_existing, tell)
        for end in ("largest", "smallest") if matrix == "hessian" else ("largest",):
            if count:
                product.begin(end, most_products(n, count))
                ends[end] = extreme_eigenvalues(product, n, count, end, tolerance, rng)
        product.begin("density", vectors * min(steps, n))
        rules = [quadrature(*lanczos(product, rng.choice((-1.0, 1.0), n), steps)) for _ in range(vectors)]
    traces = [n * float(w @ t) for t, w in rules]
    nodes, weights = (np.concatenate(parts) for parts in zip(*(rules or [none]), strict=True))
    order = np.argsort(nodes, kind="stable")
    return Spectrum(
        matrix, n, *ends["largest"], *ends["smallest"],
        nodes=nodes[order],
        weights=weights[order] / max(vectors, 1),
        trace=float(np.mean(traces)) if rules else None,
        trace_error=float(np.std(traces, ddof=1)) / math.sqrt(vectors) if vectors > 1 else None,
        frobenius=math.sqrt(n * float(weights @ nodes**2) / vectors) if rules else None,
        products=product.total,
    )  # fmt: skip


def _of_existing(objective: Objective | ConstrainedObjective, product: Product) -> tuple[Product, int]:
    """Return the product with the rows and columns of the weights that exist, and their number."""
    n = objective.net.n_parameters
    if isinstance(objective, Objective):
        return product, n
    there = np.flatnonzero(objective.net.backend.to_host(objective.exists))

    def restricted(v: HostArray) -> HostArray:
        whole = np.zeros(n)
        whole[there] = v
        return product(whole)[there]

    return restricted, there.size


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
        The matrix without damping, plus l2*I.
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
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> exact = hfrnn.dense_gauss_newton(objective, theta).trace()
    >>> bool(abs(hfrnn.curvature_trace(objective, theta).trace - exact) < 1e-9 * exact)  # enough products to be exact
    True
    """
    instance("objective", objective, Objective, "a hfrnn.Objective")
    products, seed = count("products", products, LEAST_PRODUCTS), count("seed", seed)
    choice("matrix", matrix, MATRICES)
    product = curvature_product(objective, theta, matrix)
    return hutch_plus_plus(product, objective.net.n_parameters, products, np.random.default_rng(seed))
