"""Laplace's approximation of the posterior of a network's weights, with the exact Gauss-Newton matrix.

The loss of SPEC 3 is minus a log-likelihood: with the sum W of all weights, the mean loss f without its penalty and
without label smoothing, and a prior N(0, I/delta),

    classification   log p(y | theta) = -W f                                                                       # L1
    regression       log p(y | theta) = -W f / s2 - (N/2) log(2 pi s2),   N: the sum of the outputs' weights

with the noise variance s2. The training objective with the penalty l2 has its minimum at the mode of the posterior if
delta = l2 * W (/ s2). With G at the mode theta and c = W (/ s2),

    p(theta' | y) ~ N(theta, P^-1),   P = c*G + delta*I                                                            # L2
    log p(y) ~ log p(y | theta) - (delta*|theta|^2 + log det(P/delta)) / 2                                         # L3
    outputs z = z(theta) + J (theta' - theta):   cov z = J P^-1 J'                                                 # L4
    classes     p ~ softmax(z / sqrt(1 + pi/8 * var z)), or sigma                                                  # L5
    samples     P x = sqrt(c) J' C^1/2 e1 + sqrt(delta) e2,  e ~ N(0, I),  gives x ~ N(0, P^-1)                    # L6

References: MacKay 1992, "A practical Bayesian framework for backpropagation networks" (L3) and "The evidence framework
applied to classification networks" (L5); Immer, Korzepa & Bauer 2021, "Improving predictions of Bayesian neural nets
via local linearization" (L4); Daxberger et al. 2021, "Laplace redux"; Papandreou & Yuille 2010, "Gaussian sampling by
local perturbations" (L6).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax

from hfrnn.analysis.gauss_newton import LossRoot, check_objective, in_weights
from hfrnn.analysis.posterior import STRUCTURES, LowRank, Spectral, fitted_curvature
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import INSIDE_ONE, POSITIVE, choice, count, function_or_flag, instance, is_whole, number, shown
from hfrnn.engine.batch import Batch
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError
from hfrnn.live_line import Told, working
from hfrnn.optim.cg import conjugate_gradients
from hfrnn.wording import brief

METHODS = ("factorization", "cg")


@brief
@dataclass(frozen=True, eq=False)
class LaplacePrediction:
    """Outputs of a network with their uncertainty under the posterior.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> z = np.zeros((5, 4, 1))
    >>> hfrnn.LaplacePrediction((0, 1, 2, 3, 4), z, z + 0.2, noise_variance=0.1, probabilities=None).variances.shape
    (5, 4, 1)
    """

    steps: tuple[int, ...]
    """The S time steps of the predictions."""
    outputs: HostArray
    """Predictions of a regression or logits of a classification at the mode, (S, B, n_out); 0 in the padding."""
    variances: HostArray
    """Variance L4 of each output, (S, B, n_out), without the noise of the targets; 0 in the padding."""
    noise_variance: float | None
    """s2, to be added for intervals of new targets; None for classification."""
    probabilities: HostArray | None
    """The probabilities L5, (S, B, n_out); None for regression."""


@brief
@dataclass(frozen=True, eq=False)
class Laplace:
    """The posterior N(theta, P^-1) of L2, as `hfrnn.laplace` returns it.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> posterior = hfrnn.laplace(objective, theta, prior_precision=1.0, noise_variance=0.1)
    >>> posterior.structure, posterior.sample(3).shape
    ('dense', (3, 21))
    """

    objective: Objective
    theta: Array
    structure: str
    """The form of G: "dense", "low-rank" or "diagonal"."""
    prior_precision: float
    """The precision delta."""
    noise_variance: float | None
    """The variance s2 of a regression; None for classification."""
    curvature: Spectral | LowRank
    exists: HostArray
    """1 for the weights of the posterior, 0 for absent weights, which stay 0, (n_parameters,)."""

    @property
    def scale(self) -> float:
        """The factor c of G in L2."""
        return float(self.objective.total_weight) / (self.noise_variance or 1.0)

    @property
    def log_likelihood(self) -> float:
        """log p(y | theta), L1, in nats."""
        found = -_data_loss(self.objective, self.theta) * self.scale
        if self.noise_variance is None:
            return found
        return found - 0.5 * _targets(self.objective) * math.log(2 * math.pi * self.noise_variance)

    @property
    def log_marginal_likelihood(self) -> float:
        """The estimate L3 of log p(y), in nats."""
        host = np.asarray(self.objective.net.backend.to_host(self.theta), dtype="float64")
        prior = self.prior_precision * float(host @ host)
        return self.log_likelihood - 0.5 * (prior + self.curvature.log_ratio(self.scale, self.prior_precision))

    def with_values(self, prior_precision: float, noise_variance: float | None = None) -> Laplace:
        """Return the posterior at the same theta for another prior precision, and another noise variance if given."""
        delta = number("prior_precision", prior_precision, POSITIVE)
        s2 = number("noise_variance", noise_variance, POSITIVE, or_none=True)
        if s2 is not None and self.noise_variance is None:
            raise InputError("noise_variance was given, but a classification has none: leave it out")
        return replace(self, prior_precision=delta, noise_variance=s2 or self.noise_variance)

    def tuned(self) -> Laplace:
        """Return the posterior whose prior precision and noise variance maximise L3 at the same theta and G.

        InputError is raised if a regression reaches its targets exactly: L3 then has no maximum.
        """
        if self.noise_variance is not None and _data_loss(self.objective, self.theta) <= 0:
            raise InputError("the training targets are reached exactly, so no noise is the best: use with_values")
        start = [self.prior_precision] + ([] if self.noise_variance is None else [self.noise_variance])

        def negative(logs: HostArray) -> float:
            return -self.with_values(*np.exp(logs)).log_marginal_likelihood

        found = minimize(negative, np.log(start), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6}).x
        return self.with_values(*np.exp(found))

    def predict(self, batch: Batch, steps: Sequence[int] | None = None) -> LaplacePrediction:
        """Predict a batch with uncertainties.

        Parameters
        ----------
        batch : Batch
            Targets and their weights are not needed.
        steps : sequence of int, optional
            Time steps to predict, each from -T to T - 1; by default all. One backward pass per step and output.
        """
        net, theta = self.objective.net, self.theta
        instance("batch", batch, Batch, "a hfrnn.Batch")
        times = _times(batch.T, steps)
        z = net.backend.to_host(net.run(theta, batch)[0]).astype("float64")[list(times)]  # type: ignore[attr-defined]
        whole = Objective(net, _with_targets(net, batch), threads=self.objective.threads.threads)
        jacobian = whole.sequence_jacobian(theta)
        variances = np.empty(z.shape)
        for k, t in enumerate(times):
            for i in range(net.n_out):
                u = np.zeros(jacobian.shape)
                u[t, :, i] = 1.0
                rows = net.backend.to_host(jacobian.transpose_products(net.backend.asarray(u))) * self.exists
                solved = self.curvature.times_covariance(rows, self.scale, self.prior_precision)
                variances[k, :, i] = (solved * rows).sum(axis=1)  # L4
        return LaplacePrediction(times, z, variances, self.noise_variance, _probabilities(net.loss_name, z, variances))

    def sample(
        self, samples: int, seed: int = 0, method: str = "factorization", tolerance: float = 1e-6,
        max_iterations: int = 1000,
    ) -> Array:  # fmt: skip
        """Draw weights from the posterior.

        Parameters
        ----------
        samples : int
            Number of vectors, 1 or more.
        seed : int
        method : {"factorization", "cg"}
            "factorization" uses the structure. "cg" solves L6 with the exact G, whatever the structure, from two
            random vectors and one linear system per sample.
        tolerance : float
            For "cg": largest residual, relative to the right-hand side.
        max_iterations : int
            For "cg": most iterations per sample.

        Returns
        -------
        (samples, n_parameters) array
        """
        samples, seed = count("samples", samples, 1), count("seed", seed)
        tolerance, most = number("tolerance", tolerance, INSIDE_ONE), count("max_iterations", max_iterations, 1)
        method, net = choice("method", method, METHODS), self.objective.net
        rng, n = np.random.default_rng(seed), net.n_parameters
        if method == "factorization":
            moved = self.curvature.samples(rng.standard_normal((samples, n)), self.scale, self.prior_precision)
        else:
            moved = self._samples_by_cg(samples, rng, tolerance, most)
        return self.theta + net.backend.asarray((moved * self.exists).astype(net.dtype))

    def _samples_by_cg(self, samples: int, rng: np.random.Generator, tolerance: float, most: int) -> HostArray:
        objective, net, backend, c = self.objective, self.objective.net, self.objective.net.backend, self.scale
        root, jacobian = LossRoot(objective, self.theta), objective.jacobian(self.theta)
        delta, exists = self.prior_precision, backend.asarray(self.exists, dtype=net.dtype)
        G = objective.gauss_newton(self.theta)  # with l2
        found = np.empty((samples, net.n_parameters))

        def products(vectors: Sequence[Array]) -> Array:
            V = backend.xp.stack(vectors)
            out = (G @ V.T).T
            out *= c * exists
            out += (delta - c * net.l2) * V
            return out

        def sides() -> Iterator[Array]:
            for _ in range(samples):
                noise = root.times(rng.standard_normal(root.shape)).reshape(-1)
                b = math.sqrt(c) * backend.to_host(jacobian.rmatvec(backend.asarray(noise, dtype=net.dtype)))
                b = self.exists * (b + math.sqrt(delta) * rng.standard_normal(net.n_parameters))  # L6
                yield backend.asarray(b, dtype=net.dtype)

        for k, result in conjugate_gradients(products, sides(), max_iterations=most, residual_tolerance=tolerance):
            found[k] = backend.to_host(result.x)
        return found


def laplace(
    objective: Objective | ConstrainedObjective,
    theta: Array,
    structure: str = "dense",
    prior_precision: float | None = None,
    noise_variance: float | None = None,
    rank: int = 50,
    draws: int | None = None,
    seed: int = 0,
    progress: Told | bool = True,
) -> Laplace:
    """Approximate the posterior of a network's weights around trained weights.

    Parameters
    ----------
    objective : Objective or ConstrainedObjective without signs
        The training objective, of a network with the loss softmax or logistic (classification) or squared
        (regression). Weights count targets: a weight of 2 stands for a target seen twice.
    theta : (n_parameters,) array
        Trained weights, best at a minimum of the objective.
    structure : {"dense", "low-rank", "diagonal"}
        "dense": the whole matrix, for up to some thousand weights. "low-rank": `rank` eigenvectors by Lanczos, and the
        diagonal of the rest. "diagonal": the diagonal of G alone.
    prior_precision : float, optional
        delta, above 0. By default l2 * W for classification and l2 * W / s2 for regression, for which theta is the
        mode.
    noise_variance : float, optional
        s2 of a regression, above 0. By default the mean squared error of the training targets.
    rank : int
        Number of eigenvectors for "low-rank", 1 or more; at most n_parameters are used.
    draws : int, optional
        For "low-rank" and "diagonal": random draws that estimate the diagonal; by default it is exact
        (`hfrnn.gauss_newton_diagonal`).
    seed : int
        Seed of the start of Lanczos and of the draws.
    progress : callable or bool
        Whether to show progress on stderr, or a function that is called after each backward pass or product with the
        activity ("matrix", "diagonal" or "eigenvectors"), the passes or products made for it, and the most that it can
        take.

    Returns
    -------
    Laplace
        Its `log_marginal_likelihood`, `predict(batch)`, `sample(m)` and `tuned()`.

    Raises
    ------
    InputError
        An argument is out of range, the loss is another one, or there is neither a prior precision nor an l2.
    NonFiniteError
        The curvature is not finite.

    References
    ----------
    MacKay 1992, "A practical Bayesian framework for backpropagation networks"; Daxberger et al. 2021, "Laplace redux".

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> posterior = hfrnn.laplace(objective, theta, prior_precision=1.0, noise_variance=0.1)
    >>> posterior.predict(batch).variances.shape
    (5, 4, 1)
    """
    objective, theta, exists = in_weights(objective, theta)
    net, structure = check_objective(objective).net, choice("structure", structure, STRUCTURES)
    rank, seed = min(count("rank", rank, 1), net.n_parameters), count("seed", seed)
    delta = number("prior_precision", prior_precision, POSITIVE, or_none=True)
    s2 = number("noise_variance", noise_variance, POSITIVE, or_none=True)
    draws = count("draws", draws, 2, or_none=True)
    progress = function_or_flag("progress", progress, "what, done, total")
    if net.loss_name != "squared" and s2 is not None:
        raise InputError("noise_variance was given, but a classification has none: leave it out")
    if net.loss_name == "squared" and s2 is None:
        s2 = 2.0 * _data_loss(objective, theta) * float(objective.total_weight) / _targets(objective)
        if s2 <= 0:
            raise InputError("the training targets are reached exactly: give noise_variance, above 0")
    if delta is None:
        delta = net.l2 * float(objective.total_weight) / (s2 or 1.0)
        if delta <= 0:
            raise InputError("the network has no l2: give prior_precision, above 0")
    with working("left at most", progress) as tell:
        curvature = fitted_curvature(objective, theta, exists, structure, rank, draws, seed, tell)
    return Laplace(objective, theta, structure, delta, s2, curvature, exists)


def _data_loss(objective: Objective, theta: Array) -> float:
    """Return the mean loss without the penalty and without label smoothing."""
    if not objective.net.config.get("label_smoothing"):
        return objective.loss(theta) - objective.penalty(theta)
    return Objective(objective.net.without_penalty(), objective.batch, plan=objective.plan).loss(theta)


def _targets(objective: Objective) -> float:
    """Return N of L1: the sum of the weights of all outputs."""
    weights = objective.net.backend.to_host(objective.batch.output_weights(objective.net.backend))
    return float(weights.sum()) * (objective.net.n_out if weights.shape[2] == 1 else 1)


def _with_targets(net: Any, batch: Batch) -> Batch:
    """Return a batch with targets of 0 and weights of 1, which no prediction depends on; an objective needs some."""
    symbols = net.loss_name == "softmax"
    shape = (batch.T, batch.B) if symbols else (batch.T, batch.B, net.n_out)
    targets = np.zeros(shape, dtype="int64" if symbols else net.dtype)
    return Batch(batch.inputs, targets, lengths=batch.lengths, initial_state=batch.initial_state)


def _times(T: int, steps: Any) -> tuple[int, ...]:
    """Return the chosen time steps, each from 0 to T - 1, after checking them."""
    chosen = range(T) if steps is None else steps
    listed = isinstance(chosen, list | tuple | range) and chosen
    if not listed or not all(is_whole(t) and -T <= t < T for t in chosen):
        raise InputError(f"steps is {shown(steps)}: give a list of whole numbers from {-T} to {T - 1}")
    return tuple(int(t) % T for t in chosen)


def _probabilities(loss: str, z: HostArray, variances: HostArray) -> HostArray | None:
    """Return the class probabilities of L5."""
    if loss == "squared":
        return None
    flat = z / np.sqrt(1.0 + math.pi / 8.0 * variances)
    return np.asarray(expit(flat) if loss == "logistic" else softmax(flat, axis=2))
