"""One flat parameter vector with named views into it, and the initialisers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse.linalg

from hfrnn.arrays.backend import Array
from hfrnn.errors import InputError

HostArray: TypeAlias = "np.ndarray[Any, Any]"
Initializer: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], HostArray]


@dataclass(frozen=True)
class Block:
    """One named array inside the flat vector; a `transposed` one lies there column by column."""

    name: str
    shape: tuple[int, ...]
    start: int
    transposed: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def stop(self) -> int:
        return self.start + self.size

    def view(self, flat: Array) -> Array:
        """The block of a flat vector in its shape, without a copy."""
        part = flat[self.start : self.stop]
        return part.reshape(self.shape[::-1]).T if self.transposed else part.reshape(self.shape)


class ParameterLayout:
    """Where each named block lies in the flat vector, in the order given.

    Parameters
    ----------
    shapes : mapping of name to shape
    transposed : collection of str, optional
        The blocks whose columns lie one after the other in the flat vector, instead of their rows.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], transposed: Collection[str] = ()) -> None:
        blocks = []
        start = 0
        for name, shape in shapes.items():
            block = Block(name, shape, start, name in transposed)
            blocks.append(block)
            start = block.stop
        self.blocks = tuple(blocks)
        self.size = start

    def views(self, flat: Array) -> dict[str, Array]:
        """Each block of `flat` (shape `(size,)`) under its name and in its shape, without a copy.

        Raises
        ------
        InputError
            `flat` has another shape.
        """
        if flat.shape != (self.size,):
            raise InputError(
                f"a parameter vector of shape {tuple(flat.shape)} was given, and this network has {self.size} "
                f"parameters: give an array of shape ({self.size},), as net.init() makes"
            )
        return {block.name: block.view(flat) for block in self.blocks}


def constant(value: float) -> Initializer:
    """Every entry `value`."""
    return lambda rng, shape: np.full(shape, value)


def normal(scale: float) -> Initializer:
    """Independent N(0, scale^2)."""
    return lambda rng, shape: scale * rng.standard_normal(shape)


def sparse_normal(scale: float, density: float = 0.1) -> Initializer:
    """Zero with probability 1 - density, else N(0, scale^2): the recurrent matrix of the plain RNN in [K] 4.2."""

    def initialize(rng: np.random.Generator, shape: tuple[int, ...]) -> HostArray:
        values = scale * rng.standard_normal(shape)
        return np.where(rng.random(shape) < density, values, 0.0)

    return initialize


def fixed_fan_in(scale: float = 1.0, nonzeros: int = 15, spectral_radius: float | None = None) -> Initializer:
    """Sutskever's sparse initialiser: each column holds `nonzeros` entries N(0, scale^2) at random rows, the rest 0.

    A matrix `(H, k*H)` is filled as k square blocks side by side; each square block is then scaled to the given
    spectral radius (1.1 in [MS]'s code) if one is given. Columns with fewer rows than `nonzeros` are full.
    """

    def fill(rng: np.random.Generator, rows: int, columns: int) -> HostArray:
        block = np.zeros((rows, columns))
        kept = min(nonzeros, rows)
        for column in range(columns):
            block[rng.choice(rows, kept, replace=False), column] = scale * rng.standard_normal(kept)
        radius = _spectral_radius(block) if spectral_radius is not None and rows == columns else 0.0
        return block * (spectral_radius / radius) if spectral_radius is not None and radius > 0 else block

    def initialize(rng: np.random.Generator, shape: tuple[int, ...]) -> HostArray:
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


def _spectral_radius(matrix: HostArray) -> float:
    """The largest absolute eigenvalue of a square matrix."""
    if matrix.shape[0] <= 1000:
        return float(np.abs(np.linalg.eigvals(matrix)).max())
    largest = scipy.sparse.linalg.eigs(matrix, k=1, which="LM", v0=np.ones(matrix.shape[0]), return_eigenvectors=False)
    return float(np.abs(largest).max())
