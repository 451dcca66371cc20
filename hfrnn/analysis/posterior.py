"""Gaussian posteriors N(theta, P^-1) with the precision P = c*G + delta*I, for a Gauss-Newton matrix G in two forms.

    spectral      G = Q diag(g) Q', all n eigenvectors                      P = Q diag(c*g + delta) Q'             # P1
    low rank      G ~ Q diag(g) Q' + diag(d), k eigenvectors, d >= 0        P = diag(D) + c * Q diag(g) Q'         # P2
                                                                            D = c*d + delta

P2 uses the identities of Woodbury and Sylvester with the (k, k) matrix

    M = I + S' D^-1 S,   S = sqrt(c) * Q diag(sqrt g)                                                              # P3
    log det P = sum log D + log det M                                                                              # P4
    P^-1 = D^-1 - D^-1 S M^-1 S' D^-1                                                                              # P5
    x = D^-1/2 (e + W ((I + W'W)^-1/2 - I) (W'W)^-1 W' e),  W = D^-1/2 S,  has covariance P^-1 for e ~ N(0, I)     # P6
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from hfrnn.analysis.gauss_newton import CountedProduct, curvature_product, dense_gauss_newton, gauss_newton_diagonal
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.engine.objective import Objective
from hfrnn.live_line import Told
from hfrnn.optim.lanczos import extreme_eigenpairs, most_products

STRUCTURES = ("dense", "low-rank", "diagonal")


@dataclass(frozen=True, eq=False)
class Spectral:
    """P1: the eigenvalues g (n,) and eigenvectors Q (n, n) of G."""

    g: HostArray
    Q: HostArray

    @classmethod
    def of(cls, G: HostArray) -> Spectral:
        """Decompose a dense, symmetric, positive semi-definite matrix; eigenvalues below 0 are rounding errors."""
        g, Q = eigh(G)
        return cls(np.maximum(g, 0.0), Q)

    def log_ratio(self, c: float, delta: float) -> float:
        """Return log det(P / delta)."""
        return float(np.log1p(c / delta * self.g).sum())

    def times_covariance(self, X: HostArray, c: float, delta: float) -> HostArray:
        """Return X P^-1 for the rows of X (m, n)."""
        return (X @ self.Q / (c * self.g + delta)) @ self.Q.T

    def samples(self, e: HostArray, c: float, delta: float) -> HostArray:
        """Turn rows e (m, n) of N(0, I) into rows of N(0, P^-1)."""
        return (e / np.sqrt(c * self.g + delta)) @ self.Q.T


@dataclass(frozen=True, eq=False)
class LowRank:
    """P2: eigenvalues g (k,), eigenvectors Q (n, k) and the diagonal d (n,) of the rest."""

    g: HostArray
    Q: HostArray
    d: HostArray

    @classmethod
    def of(cls, g: HostArray, Q: HostArray, diagonal: HostArray) -> LowRank:
        """Take eigenpairs and the diagonal of G, whose part outside the eigenpairs becomes d."""
        g = np.maximum(g, 0.0)
        return cls(g, Q, np.maximum(diagonal - (Q * Q) @ g, 0.0))

    def log_ratio(self, c: float, delta: float) -> float:
        """Return log det(P / delta)."""
        W = self._root(c, delta)
        _, log_det = np.linalg.slogdet(np.eye(self.g.size) + W.T @ W)
        return float(np.log1p(c / delta * self.d).sum() + log_det)  # P4

    def times_covariance(self, X: HostArray, c: float, delta: float) -> HostArray:
        """Return X P^-1 for the rows of X (m, n)."""
        root_D, W = np.sqrt(c * self.d + delta), self._root(c, delta)
        Y = X / root_D
        Y = Y - cho_solve(cho_factor(np.eye(self.g.size) + W.T @ W), (Y @ W).T).T @ W.T  # P5
        return np.asarray(Y / root_D)

    def samples(self, e: HostArray, c: float, delta: float) -> HostArray:
        """Turn rows e (m, n) of N(0, I) into rows of N(0, P^-1)."""
        W = self._root(c, delta)
        s, V = eigh(W.T @ W)
        s = np.maximum(s, 0.0)
        factor = np.where(s > 1e-12, (1.0 / np.sqrt(1.0 + s) - 1.0) / np.maximum(s, 1e-12), -0.5)
        return np.asarray((e + ((e @ W @ V) * factor) @ V.T @ W.T) / np.sqrt(c * self.d + delta))  # P6

    def _root(self, c: float, delta: float) -> HostArray:
        """Return W = D^-1/2 S, (n, k)."""
        return math.sqrt(c) * self.Q * np.sqrt(self.g) / np.sqrt(c * self.d + delta)[:, None]


def fitted_curvature(
    objective: Objective, theta: Array, exists: HostArray, structure: str, rank: int, draws: int | None, seed: int,
    tell: Told,
) -> Spectral | LowRank:  # fmt: skip
    """Return G in one of `STRUCTURES`, with 0 in the rows and columns of absent weights (`exists` is 0 there).

    `tell` is called as `progress` of `laplace` is.
    """
    if structure == "dense":
        return Spectral.of(dense_gauss_newton(objective, theta, partial(tell, "matrix")) * np.outer(exists, exists))
    n = objective.net.n_parameters
    diagonal = gauss_newton_diagonal(objective, theta, draws, seed, partial(tell, "diagonal"))[0] * exists
    if structure == "diagonal":
        return LowRank(np.zeros(0), np.zeros((n, 0)), diagonal)
    product = curvature_product(objective, theta, "gauss-newton")

    def without_l2(v: HostArray) -> HostArray:
        return exists * (product(exists * v) - objective.net.l2 * v)

    counted = CountedProduct(without_l2, tell)
    counted.begin("eigenvectors", most_products(n, rank))
    values, vectors = extreme_eigenpairs(counted, n, rank, "largest", 1e-8, np.random.default_rng(seed))
    return LowRank.of(values, vectors, diagonal)
