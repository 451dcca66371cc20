"""The check of matrix blocks that a caller gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hfrnn.checks import count, shown
from hfrnn.errors import InputError
from hfrnn.optim.kronecker import MatrixBlock


def check_blocks(blocks: Any) -> tuple[MatrixBlock, ...]:
    """Return blocks as a tuple after checking them.

    Parameters
    ----------
    blocks : sequence of MatrixBlock

    Raises
    ------
    InputError
        A value is no such sequence, or a block begins before the end of the one before it.
    """
    if not isinstance(blocks, Sequence) or not all(isinstance(block, MatrixBlock) for block in blocks):
        raise InputError(f"blocks is {shown(blocks)}: give a sequence of MatrixBlock, such as net.matrix_blocks")
    end = 0
    for block in blocks:
        count("start of a block", block.start, end)
        count("rows of a block", block.rows, 1)
        count("columns of a block", block.columns, 1)
        end = block.span.stop
    return tuple(blocks)
