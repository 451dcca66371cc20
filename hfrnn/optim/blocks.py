"""Matrix blocks: the parts of a flat vector that are matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    """Return blocks as a tuple after checking them.

    Parameters
    ----------
    blocks : sequence of MatrixBlock

    Raises
    ------
    InputError
        The value is not a sequence of MatrixBlock, a block begins before the end of the one before it, or its gates do
        not divide its columns.
    """
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
