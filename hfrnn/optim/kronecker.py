"""A preconditioner that is diagonal in the eigenbasis of Kronecker factors, block by block.

A block W (m, k) of theta has the gradients G_1, ..., G_p of parts of the curvature batch. Their outer products estimate
the curvature, and the eigenvectors of their two factors are a basis in which it is nearly diagonal:

    K1  L = d*L + sum_j G_j G_j'                R = d*R + sum_j G_j' G_j        d decays the earlier factors
    K2  L = Q_L diag(.) Q_L'                    R = Q_R diag(.) Q_R'
    K3  D = sum_j (Q_L' G_j Q_R)^2              entry by entry
    K4  M^-1 r = Q_L [(D + lambda)^-exponent * (Q_L' r Q_R)] Q_R'

M is symmetric, and positive definite because lambda is. A side of more than `MOST` rows or columns keeps the unit
basis, so that D is diagonal on that side. A vector is a matrix with one row.

The factors are computed again when the basis is old. The share of the new factors that the old basis does not make
diagonal says how far it has turned, and changes the period between two computations:

    K5  turned = mean over the sides of 1 - |diag(Q' F Q)|^2 / |F|^2            F = L or R
    K6  period * 2 if turned < 0.02, period / 2 if turned > 0.1, from 1 to `longest`

References: the factors are those of Gupta, Koren & Singer 2018 (Shampoo); a diagonal in their eigenbasis is used by
George and others 2018 (EKFAC) and by Vyas and others 2024 (SOAP) in place of the curvature, here as a preconditioner of
exact Gauss-Newton products. The exponent is that of [MS].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hfrnn.arrays.blas import one_blas_thread
from hfrnn.arrays.checks import array
from hfrnn.arrays.vectors import Apply, Vector, dot, eigenvectors
from hfrnn.checks import POSITIVE, ZERO_TO_ONE, count, number
from hfrnn.errors import InputError

MOST = 1024
"""Largest side of a block that has a basis of its own."""
STEADY, TURNED = 0.02, 0.1
"""Bounds of K6."""

Matrices: TypeAlias = tuple[tuple[Vector | None, Vector | None], ...]
"""L and R, or Q_L and Q_R, of each block; None for a side without a basis of its own."""


@dataclass(frozen=True)
class MatrixBlock:
    """A part of the flat vector that is a matrix, row after row.

    Parameters
    ----------
    start : int
        Index of the first entry in the flat vector.
    rows, columns : int
    """

    start: int
    rows: int
    columns: int

    @property
    def span(self) -> slice:
        """The entries of the flat vector."""
        return slice(self.start, self.start + self.size)

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Kronecker:
    """The basis and the diagonal of all blocks.

    Parameters
    ----------
    blocks : sequence of MatrixBlock
        They cover the flat vector.
    factors : Matrices
        L and R of K1.
    bases : Matrices
        Q_L and Q_R of K2.
    diagonal : (n,) array
        D of K3 in the order of the flat vector, entries 0 or more.
    period : int
        Number of updates after which the factors are computed again, 1 or more.
    age : int
        Number of updates that have used the diagonal.
    """

    blocks: Sequence[MatrixBlock]
    factors: Matrices
    bases: Matrices
    diagonal: Vector
    period: int = 1
    age: int = 0

    @property
    def due(self) -> bool:
        """Whether the factors are to be computed again."""
        return self.age >= self.period

    def used(self) -> Kronecker:
        """Return this preconditioner, one update older."""
        return replace(self, age=self.age + 1)

    def preconditioner(self, lambda_: float, exponent: float = 0.75) -> Apply:
        """Return the preconditioner of K4 for `conjugate_gradient`.

        Parameters
        ----------
        lambda_ : float
            Shift, above 0.
        exponent : float
            From 0 to 1.

        Returns
        -------
        callable
            Function of (r, out) that writes M^-1 r into `out`; both (n,).

        Raises
        ------
        InputError
            A number is out of range.
        """
        lambda_, exponent = number("lambda_", lambda_, POSITIVE), number("exponent", exponent, ZERO_TO_ONE)
        inverse = (self.diagonal + lambda_) ** -exponent

        def precondition(r: Vector, out: Vector) -> None:
            with one_blas_thread():  # so that the bits do not depend on BLAS's threads
                for block, (Q_L, Q_R) in zip(self.blocks, self.bases, strict=True):
                    matrix = rotated(r[block.span].reshape(block.rows, block.columns), Q_L, Q_R)
                    matrix = matrix * inverse[block.span].reshape(matrix.shape)
                    out[block.span] = rotated_back(matrix, Q_L, Q_R).reshape(-1)  # K4

        return precondition

    def state_dict(self) -> dict[str, Any]:
        """Return the state: the diagonal, all factors in one vector (the bases follow from them), age and period."""
        parts = [F.reshape(-1) for F in _sides(self.factors)]
        joined = self.diagonal[:0].copy() if not parts else _joined(parts)
        blocks = [(block.start, block.rows, block.columns) for block in self.blocks]
        own = {"blocks": blocks, "age": self.age, "period": self.period}
        return {"diagonal": self.diagonal.copy(), "factors": joined, **own}


def kronecker(
    blocks: Sequence[MatrixBlock],
    gradients: Vector,
    earlier: Kronecker | None = None,
    decay: float = 0.7,
    longest: int = 10,
) -> Kronecker:
    """Compute factors, bases and diagonal from gradients.

    Parameters
    ----------
    blocks : sequence of MatrixBlock
    gradients : (p, n) array
        The gradients of parts of the curvature batch; the sum of their outer products estimates the curvature.
    earlier : Kronecker, optional
        The preconditioner so far; its factors count `decay` times.
    decay : float
        d of K1, from 0 to 1.
    longest : int
        Largest period of K6, in updates.

    Raises
    ------
    InputError
        A value is out of range, or the gradients have another length than the blocks.
    """
    n = sum(block.size for block in blocks)
    gradients = array("gradients", gradients, (None, n), "f")
    decay, longest = number("decay", decay, ZERO_TO_ONE), count("longest", longest, 1)
    factors, bases, diagonal = [], [], gradients[0].copy()
    with one_blas_thread():
        for at, block in enumerate(blocks):
            G = gradients[:, block.span].reshape(-1, block.rows, block.columns)
            pair = _factors(G, (None, None) if earlier is None else earlier.factors[at], decay)  # K1
            Q_L, Q_R = (None if F is None else eigenvectors(F) for F in pair)  # K2
            turned = rotated(G, Q_L, Q_R)
            diagonal[block.span] = (turned * turned).sum(0).reshape(-1)  # K3
            factors.append(pair)
            bases.append((Q_L, Q_R))
        period = 1 if earlier is None else _period(earlier, tuple(factors), longest)
    return Kronecker(tuple(blocks), tuple(factors), tuple(bases), diagonal, period)


def bytes_needed(blocks: Sequence[MatrixBlock], parts: int, itemsize: int) -> int:
    """Return the memory that `kronecker` needs at its peak, with the gradients and the earlier factors.

    Parameters
    ----------
    blocks : sequence of MatrixBlock
    parts : int
        p, the number of gradients.
    itemsize : int
        Bytes of a number.
    """
    sizes = [block.size for block in blocks]
    sides = [side for block in blocks for side in _has_basis(block)]
    squares = sum(side * side for side in sides)  # factors, bases, and those of the last time
    wide = 3 * 8 * max(sides, default=0) ** 2  # one factor in float64, with its eigenvectors
    return itemsize * (parts * (sum(sizes) + 3 * max(sizes)) + 4 * squares + 2 * sum(sizes)) + wide


def load_kronecker(state: Mapping[str, Any]) -> Kronecker:
    """Return the preconditioner of a `Kronecker.state_dict`.

    Raises
    ------
    InputError
        The vectors do not fit the blocks.
    """
    blocks = tuple(MatrixBlock(*map(int, block)) for block in state["blocks"])
    joined, diagonal, start = state["factors"], state["diagonal"], 0
    sides = [_has_basis(block) for block in blocks]
    needed = sum(side * side for pair in sides for side in pair), sum(block.size for block in blocks)
    if (joined.shape, diagonal.shape) != ((needed[0],), (needed[1],)):
        raise InputError(
            f"the state of the preconditioner has {joined.shape[0]} factors and {diagonal.shape[0]} entries: its "
            f"blocks need {needed[0]} and {needed[1]}"
        )
    factors: list[tuple[Vector | None, Vector | None]] = []
    for pair in sides:
        found: list[Vector | None] = []
        for side in pair:
            found.append(joined[start : start + side * side].reshape(side, side).copy() if side else None)
            start += side * side
        factors.append((found[0], found[1]))
    bases = tuple((None if L is None else eigenvectors(L), None if R is None else eigenvectors(R)) for L, R in factors)
    return Kronecker(blocks, tuple(factors), bases, diagonal, int(state["period"]), int(state["age"]))


def _has_basis(block: MatrixBlock) -> tuple[int, int]:
    """Return the size of the left and of the right basis; 0 for none."""
    rows = block.rows if 1 < block.rows <= MOST else 0
    return rows, block.columns if 1 < block.columns <= MOST else 0


def _factors(
    G: Vector, earlier: tuple[Vector | None, Vector | None], decay: float
) -> tuple[Vector | None, Vector | None]:
    """Return L and R for G (p, m, k), given the earlier ones; None for a side without a basis."""
    _, rows, columns = G.shape
    wide, tall = G.swapaxes(0, 1).reshape(rows, -1), G.reshape(-1, columns)
    found: list[Vector | None] = []
    for side, old, A in zip(_has_basis(MatrixBlock(0, rows, columns)), earlier, (wide, tall.T), strict=True):
        F = A @ A.T if side else None
        if F is not None and old is not None:
            F += decay * old
        found.append(F)
    return found[0], found[1]


def rotated(x: Vector, Q_L: Vector | None, Q_R: Vector | None) -> Vector:
    """Return Q_L' x Q_R for matrices on the last two axes; None stands for the unit basis."""
    if Q_L is not None:
        x = Q_L.T @ x
    return x if Q_R is None else x @ Q_R


def rotated_back(x: Vector, Q_L: Vector | None, Q_R: Vector | None) -> Vector:
    """Return Q_L x Q_R', which undoes `rotated`."""
    return rotated(x, None if Q_L is None else Q_L.T, None if Q_R is None else Q_R.T)


def _period(earlier: Kronecker, factors: Matrices, longest: int) -> int:
    shares = []
    for F, Q in zip(_sides(factors), _sides(earlier.bases), strict=True):
        square = dot(F.reshape(-1), F.reshape(-1))
        along = ((F @ Q) * Q).sum(0)
        shares.append(1 - dot(along, along) / square if square > 0 else 0.0)
    turned = math.fsum(shares) / max(len(shares), 1)  # K5
    if turned < STEADY:
        return min(2 * earlier.period, longest)
    return max(earlier.period // 2, 1) if turned > TURNED else min(earlier.period, longest)  # K6


def _sides(matrices: Matrices) -> Iterator[Vector]:
    return (F for pair in matrices for F in pair if F is not None)


def _joined(parts: list[Vector]) -> Vector:
    """Return several vectors as one, on their device."""
    out, start = parts[0][:1].repeat(sum(part.shape[0] for part in parts)), 0
    for part in parts:
        out[start : start + part.shape[0]] = part
        start += part.shape[0]
    return out
