"""Random initial values: each initializer is a function of a generator and a shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse.linalg

Initializer: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], npt.NDArray[Any]]
"""Takes a random generator and a shape; returns a fresh NumPy array of that shape."""


def constant(value: float) -> Initializer:
    """Return an initializer that sets every entry to `value`."""
    return lambda rng, shape: np.full(shape, value)


def normal(scale: float) -> Initializer:
    """Return an initializer that draws each entry from N(0, scale^2)."""
    return lambda rng, shape: scale * rng.standard_normal(shape)


def sparse_normal(scale: float, density: float = 0.1) -> Initializer:
    """Return an initializer that draws each entry from N(0, scale^2) with probability `density`, else sets it to 0.

    Source: [K] 4.2, for the recurrent matrix of the plain RNN.
    """

    def initialize(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        values = scale * rng.standard_normal(shape)
        return np.where(rng.random(shape) < density, values, 0.0)

    return initialize


def fixed_fan_in(scale: float = 1.0, nonzeros: int = 15) -> Initializer:
    """Return Sutskever's sparse initializer: every column has `nonzeros` nonzero entries, or all if it is shorter.

    A matrix (H, k*H) is filled as k square blocks, side by side. The nonzero entries of a column lie at random rows and
    are drawn from N(0, scale^2).
    """

    def fill(rng: np.random.Generator, rows: int, columns: int) -> npt.NDArray[Any]:
        block = np.zeros((rows, columns))
        kept = min(nonzeros, rows)
        for column in range(columns):
            block[rng.choice(rows, kept, replace=False), column] = scale * rng.standard_normal(kept)
        return block

    def initialize(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        if math.prod(shape) == 0:
            return np.zeros(shape)
        rows, columns = shape[-2:]
        width = rows if columns % rows == 0 else columns
        parts = [
            np.concatenate([fill(rng, rows, width) for _ in range(columns // width)], axis=1)
            for _ in range(math.prod(shape[:-2]))
        ]
        return np.stack(parts).reshape(shape)

    return initialize


def with_spectral_radius(matrix: npt.NDArray[Any], radius: float) -> npt.NDArray[Any]:
    """Return a matrix (..., H, k*H) whose square blocks, side by side, are scaled to a spectral radius.

    A block whose eigenvalues are all 0, and a matrix of another shape, stay as they are.
    """
    rows, columns = matrix.shape[-2:]
    if matrix.size == 0 or columns % rows:
        return matrix
    found = matrix.copy()
    for whole in found.reshape(-1, rows, columns):
        for block in np.split(whole, columns // rows, axis=1):
            own = _spectral_radius(block)
            block *= radius / own if own > 0 else 1.0
    return found


def orthogonal() -> Initializer:
    """Return an initializer of random orthogonal matrices: a matrix (H, k*H) is filled as k square blocks.

    Their distribution is that of Haar: that of Q and of U Q is the same for every orthogonal U. LAPACK's QR of a normal
    matrix alone has other signs, and the same determinant each time; a positive diagonal of R corrects them.

    Source: F. Mezzadri, How to generate random matrices from the classical compact groups (2007), section 5.
    """

    def initialize(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        rows, columns = shape[-2:]
        Q, R = np.linalg.qr(rng.standard_normal((*shape[:-2], columns // rows, rows, rows)))
        Q *= np.copysign(1.0, np.diagonal(R, axis1=-2, axis2=-1))[..., None, :]
        return np.moveaxis(Q, -3, -2).reshape(shape)

    return initialize


def _spectral_radius(matrix: npt.NDArray[Any]) -> float:
    """Return the largest absolute eigenvalue of a square matrix."""
    if matrix.shape[0] <= 1000:
        return float(np.abs(np.linalg.eigvals(matrix)).max())
    start = np.ones(matrix.shape[0])  # many eigenvalues are nearly as large: a search for one may find the second
    largest = scipy.sparse.linalg.eigs(matrix, k=20, ncv=60, which="LM", v0=start, return_eigenvectors=False)
    return float(np.abs(largest).max())
