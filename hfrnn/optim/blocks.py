"""Matrix blocks: the parts of a flat vector that are matrices, and their Kronecker factors.

A side is the rows of a block (L), or the columns of one of its gates (R). A side of 1, or of more than `MOST`, has no
factor; its basis is the unit basis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from hfrnn.arrays.vectors import Vector, is_on_host, library
from hfrnn.checks import count, shown
from hfrnn.errors import InputError


@dataclass(frozen=True)
class MatrixBlock:
    """A part of the flat vector that is a matrix, row after row, or several matrices of equal width side by side.

    Parameters
    ----------
    start : int
        Index of the first entry in the flat vector.
    rows, columns : int
    gates : int
        Number of matrices side by side; it divides `columns`.

    Examples
    --------
    >>> from hfrnn.optim.blocks import MatrixBlock
    >>> block = MatrixBlock(start=6, rows=3, columns=12, gates=4)
    >>> block.size, block.span, block.width
    (36, slice(6, 42, None), 3)
    """

    start: int
    rows: int
    columns: int
    gates: int = 1

    @property
    def span(self) -> slice:
        """The entries of the flat vector."""
        return slice(self.start, self.start + self.size)

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.rows * self.columns

    @property
    def width(self) -> int:
        """The number of columns of each gate."""
        return self.columns // self.gates


def check_blocks(blocks: Any) -> tuple[MatrixBlock, ...]:
    """Return blocks as a tuple. They must follow one another, and the gates must divide the columns."""
    if not isinstance(blocks, Sequence) or not all(isinstance(block, MatrixBlock) for block in blocks):
        raise InputError(f"blocks is {shown(blocks)}: give a sequence of MatrixBlock, such as net.matrix_blocks")
    end = 0
    for block in blocks:
        count("start of a block", block.start, end)
        count("rows of a block", block.rows, 1)
        count("columns of a block", block.columns, 1)
        if block.columns % count("gates of a block", block.gates, 1):
            raise InputError(f"a block has {block.columns} columns and {block.gates} gates: give a divisor")
        end = block.span.stop
    return tuple(blocks)


# ------------------------------------------------------------------ Kronecker factors and bases of the blocks


MOST = 1024
"""Largest side of a block that has a basis of its own."""

Pair: TypeAlias = tuple[Vector | None, Vector | None]
"""L (rows, rows) and R (gates, width, width) of a block, or Q_L and Q_R; None for a side without a basis of its own."""


def view(x: Vector, block: MatrixBlock) -> Vector:
    """Return a block of a vector (..., n) as a view (..., rows, gates, width)."""
    return x[..., block.span].reshape(*x.shape[:-1], block.rows, block.gates, block.width)


def basis_of(pair: Pair, gate: int) -> Pair:
    """Return Q_L and the Q_R of a gate."""
    return pair[0], None if pair[1] is None else pair[1][gate]


def rotated(x: Vector, Q_L: Vector | None, Q_R: Vector | None) -> Vector:
    """Return Q_L' x Q_R for matrices on the last two axes; None stands for the unit basis."""
    if Q_L is not None:
        x = Q_L.T @ x
    return x if Q_R is None else x @ Q_R


def rotated_back(x: Vector, Q_L: Vector | None, Q_R: Vector | None) -> Vector:
    """Return Q_L x Q_R', which undoes `rotated`."""
    return rotated(x, None if Q_L is None else Q_L.T, None if Q_R is None else Q_R.T)


def rotated_gates(x: Vector, Q_L: Vector | None, Q_R: Vector | None) -> Vector:
    """Return `rotated` of every gate of a block (rows, gates, width), at once, with Q_R (gates, width, width)."""
    if Q_L is not None:
        x = (Q_L.T @ x.reshape(x.shape[0], -1)).reshape(x.shape)
    if Q_R is not None:
        x = (x.swapaxes(0, 1) @ Q_R).swapaxes(0, 1)
    return x


def covered_length(blocks: Sequence[MatrixBlock]) -> int:
    """Return the length of the vector that the blocks cover without a gap."""
    n = sum(block.size for block in blocks)
    if blocks and blocks[-1].span.stop != n:
        raise InputError(f"the blocks have {n} entries and end at {blocks[-1].span.stop}: give blocks without gaps")
    return n


def _has_basis(block: MatrixBlock) -> tuple[bool, bool]:
    """Return whether the left and the right side have bases of their own."""
    return 1 < block.rows <= MOST, 1 < block.width <= MOST


def gates_of(blocks: Sequence[MatrixBlock]) -> list[tuple[int, int]]:
    """Return the number of its block, and its own, for each gate."""
    return [(at, gate) for at, block in enumerate(blocks) for gate in range(block.gates)]


def sides_of(blocks: Sequence[MatrixBlock]) -> list[tuple[int, int, int]]:
    """Return (block, 0, 0) for each L, and (block, 1, gate) for each R."""
    found = []
    for at, (left, right) in enumerate(map(_has_basis, blocks)):
        found += [(at, 0, 0)] * left + [(at, 1, gate) for gate in range(blocks[at].gates)] * right
    return found


def factor_entries(blocks: Sequence[MatrixBlock]) -> int:
    """Return the number of entries of all factors."""
    found = 0
    for block, (left, right) in zip(blocks, map(_has_basis, blocks), strict=True):
        found += left * block.rows**2 + right * block.gates * block.width**2
    return found


def zero_matrices(blocks: Sequence[MatrixBlock], like: Vector) -> list[Pair]:
    """Return matrices of 0 for all blocks, of the type and on the device of a vector."""

    def zeros(*shape: int) -> Vector:
        return (like.reshape(-1)[:1] * 0).repeat(math.prod(shape)).reshape(shape)

    return [
        (
            zeros(block.rows, block.rows) if left else None,
            zeros(block.gates, block.width, block.width) if right else None,
        )
        for block, (left, right) in zip(blocks, map(_has_basis, blocks), strict=True)
    ]


def matrix_of(pair: Pair, side: int, gate: int) -> Vector:
    """Return L, or the R of a gate."""
    F = pair[side]
    assert F is not None  # `sides_of` lists only sides with a basis
    return F if side == 0 else F[gate]


def joined_vector(parts: list[Vector]) -> Vector:
    """Return several vectors as one, on their device."""
    out, start = parts[0][:1].repeat(sum(part.shape[0] for part in parts)), 0
    for part in parts:
        out[start : start + part.shape[0]] = part
        start += part.shape[0]
    return out


def split(joined: Vector, matrices: Sequence[Vector]) -> list[Vector]:
    """Return the parts of a vector that has the entries of these matrices one after another, in their shapes."""
    ends = list(accumulate(F.size for F in matrices))
    return [joined[end - F.size : end].reshape(F.shape) for F, end in zip(matrices, ends, strict=True)]


def on_host(matrices: Sequence[Vector]) -> Sequence[Vector]:
    """Return matrices as arrays of NumPy. All those of a device come in one transfer."""
    if not matrices or is_on_host(matrices[0]):
        return matrices
    joined = joined_vector([F.reshape(-1) for F in matrices])
    return split(library(joined).asnumpy(joined), matrices)
