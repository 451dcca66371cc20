"""Blocks of a vector, gradients of parts, and the dense form of a Kronecker preconditioner."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

import hfrnn
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.kronecker import Kronecker
from hfrnn.optim.preconditioner import Preconditioner, make_preconditioner

SHAPES = ((3, 5, 1), (1, 4, 2), (4, 6, 3), (6, 2, 2), (1, 1, 1))
"""Rows, columns and gates."""
BLOCKS = tuple(MatrixBlock(start, *shape) for start, shape in zip((0, 15, 19, 43, 55), SHAPES, strict=True))
N = 56


def gradients(seed: int, parts: int = 7) -> Any:
    return np.random.default_rng(seed).standard_normal((parts, N)) * np.geomspace(0.1, 10, N)


def dense(found: Kronecker, shift: Any, exponent: float) -> Any:
    """Return M^-1 of a preconditioner, from its bases and its diagonal alone."""
    M, shifted = np.zeros((N, N)), found.diagonal + shift
    for block, (Q_L, Q_R) in zip(found.blocks, found.bases, strict=True):
        Q_R = np.eye(block.columns) if Q_R is None else scipy.linalg.block_diag(*Q_R)
        Q = np.kron(np.eye(block.rows) if Q_L is None else Q_L, Q_R)
        M[block.span, block.span] = Q @ np.diag(shifted[block.span] ** -exponent) @ Q.T
    return M


def matrix(found: Kronecker, shift: Any, exponent: float) -> Any:
    """Return M^-1 by its products with the unit vectors."""
    apply, out = found.preconditioner(shift, exponent), np.full((N, N), np.nan)
    for n in range(N):
        column = np.empty(N)
        apply(np.eye(N)[n], column)
        out[:, n] = column
    return out


class Parts:
    """An objective with given gradients of its parts; `threads` means something else than in hfrnn."""

    matrix_blocks, threads = BLOCKS, 3

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    def part_gradients(self, theta: Any, parts: int) -> Any:
        return self.parts


def made(parts: Any, earlier: Kronecker | None = None, n: int = N, **options: Any) -> Preconditioner:
    shift: dict[str, Any] = {} if options else {"preconditioner_shift": 1.0}
    chosen = hfrnn.HessianFreeOptions(preconditioner="kronecker", **shift, **options)
    objective: Any = Parts(parts)
    return make_preconditioner(np.zeros(n, parts.dtype), objective, hfrnn.Damping("none"), chosen, earlier)
