"""One flat parameter vector with named views into it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from hfrnn.arrays.backend import Array
from hfrnn.errors import InputError


@dataclass(frozen=True)
class Block:
    """One named array inside the flat vector, whose first entry has the index `start` there.

    If it is `transposed`, the flat vector holds its columns one after the other, instead of the rows.
    """

    name: str
    shape: tuple[int, ...]
    start: int
    transposed: bool = False

    @cached_property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @cached_property
    def stop(self) -> int:
        """Index after the last entry in the flat vector."""
        return self.start + self.size

    def view(self, flat: Array) -> Array:
        """Return the block of a flat vector in its own shape, without a copy."""
        part = flat[self.start : self.stop]
        return part.reshape(self.shape[::-1]).T if self.transposed else part.reshape(self.shape)

    def view_of_rows(self, vectors: Array) -> Array:
        """Return the block of flat vectors (B, size), without a copy; the axis of B comes last."""
        part, B, axes = vectors[:, self.start : self.stop], vectors.shape[0], tuple(range(1, len(self.shape) + 1))
        if self.transposed:
            return part.reshape(B, *self.shape[::-1]).transpose(*axes[::-1], 0)
        return part.reshape(B, *self.shape).transpose(*axes, 0)


class ParameterLayout:
    """Positions of the named blocks in the flat vector (size,), in the order of `shapes`.

    Those with a name in `transposed` are held column by column, instead of row by row.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], transposed: Collection[str] = ()) -> None:
        blocks, self.size = [], 0
        for name, shape in shapes.items():
            blocks.append(Block(name, shape, self.size, name in transposed))
            self.size = blocks[-1].stop
        self.blocks = tuple(blocks)

    def views(self, flat: Array) -> dict[str, Array]:
        """Return each block of a flat vector (size,) by its name, in its own shape and without a copy."""
        if flat.shape != (self.size,):
            raise InputError(
                f"a parameter vector of shape {tuple(flat.shape)} was given, and this network has {self.size} "
                f"parameters: give an array of shape ({self.size},), as net.init() makes"
            )
        return {block.name: block.view(flat) for block in self.blocks}

    def views_of_rows(self, vectors: Array) -> dict[str, Array]:
        """Return each block of vectors (B, size) by its name, without a copy; the axis of B comes last."""
        return {block.name: block.view_of_rows(vectors) for block in self.blocks}
