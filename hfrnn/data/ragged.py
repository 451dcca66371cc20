"""Sequences of unequal lengths, stored one after another without padding; a few of them are padded when they are used.

    x   (rows, n_in) or (rows,)      inputs or symbols of all sequences
    y   (rows, n_out) or (rows,)     targets; with `last_only`, one row for each sequence: those of its last step
    w   (rows, n_out) or (rows,)     weights; None: 1 at every scored step

Step t of sequence n is row `starts[n] + t` of x, y and w. The rows of two arrays may lie in the same memory: the inputs
of music are its targets one step earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.pool import Pool

Values = NDArray[Any]
SequenceIndex = NDArray[Any] | slice
"""Numbers of sequences, or a slice of them."""

SPREAD = 4.0
"""Standard deviations by which random subsets may have more long sequences than expected, in a plan."""


@dataclass(frozen=True, eq=False)
class RaggedPool:
    """N sequences, stored without padding; see above.

    The attributes of a `Pool` (`inputs`, `targets`, `weights`) are padded to the longest of all sequences whenever they
    are read, which may take much memory: use `select`. Real inputs and targets are converted to `dtype`, if given, when
    sequences are selected.
    """

    x: Values
    y: Values
    w: Values | None
    lengths: NDArray[np.int64]  # (N,)
    starts: NDArray[np.int64]  # (N,)
    last_only: bool = False
    dtype: str | None = None
    origin: NDArray[np.int64] | None = None  # (N,), their numbers in the data that were given; None: 0, 1, ...
    states: Values | None = None  # (N, n), the states before the first steps, NaN where they are not given

    # ------------------------------------------------------------------ sizes

    @property
    def sequences(self) -> int:
        """The number of sequences."""
        return self.lengths.size

    @cached_property
    def longest(self) -> int:
        """The number of steps of the longest sequence."""
        return int(self.lengths.max())

    @cached_property
    def ragged(self) -> bool:
        """Whether the lengths differ."""
        return int(self.lengths.min()) < self.longest

    @cached_property
    def steps(self) -> int:
        """The number of steps of all sequences."""
        return int(self.lengths.sum())

    @property
    def mean_length(self) -> float:
        """The mean number of steps of a sequence; an integer if all have the same."""
        return self.steps / self.sequences if self.ragged else self.longest

    @property
    def symbols(self) -> bool:
        """Whether the inputs are symbols."""
        return self.x.ndim == 1

    @property
    def weighs_outputs(self) -> bool:
        """Whether every output has its own weight."""
        return self.w is not None and self.w.ndim == 2

    @cached_property
    def _falling(self) -> NDArray[np.int64]:
        """The lengths from the longest to the shortest."""
        found: NDArray[np.int64] = np.sort(self.lengths)[::-1]
        return found

    def planned_lengths(self, count: int) -> NDArray[np.int64] | None:
        """Return the lengths that a plan of `count` sequences is made for; None if all have the same."""
        return self.profile(count) if self.ragged else None

    def profile(self, count: int) -> NDArray[np.int64]:
        """Return lengths for a plan of random subsets of `count` sequences, from the longest to the shortest.

        Entry k bounds the k-th longest sequence of a subset. It is the length that is expected there, increased for
        subsets with `SPREAD` standard deviations more long sequences than expected, so hardly any subset exceeds it.
        """
        place, N = np.arange(count), self.sequences
        rank = place - SPREAD * np.sqrt(place * max(1 - count / N, 0.0))
        found: NDArray[np.int64] = self._falling[np.floor(np.maximum(rank, 0) * (N / count)).astype(np.int64)]
        return found

    # ------------------------------------------------------------------ sequences

    def rows(self, columns: SequenceIndex = slice(None)) -> NDArray[np.int64]:
        """Return the rows of some sequences, one sequence after another."""
        starts, lengths = self.starts[columns], self.lengths[columns]
        first = np.cumsum(lengths) - lengths
        return np.repeat(starts - first, lengths) + np.arange(int(lengths.sum()))

    def select(self, columns: SequenceIndex) -> Pool:
        """Return some sequences side by side, padded with zeros to the longest of them; weights are always given."""
        lengths = self.lengths[columns]
        T, B = int(lengths.max()), lengths.size
        exists = np.arange(T) < lengths[:, None]  # (B, T)
        rows = self.rows(columns)
        inputs = _spread(self._typed(self.x[rows]), exists)
        if self.last_only:
            targets = np.zeros((B, T, *self.y.shape[1:]), self.y.dtype)
            ends = np.arange(B), lengths - 1
            targets[ends] = self.y[columns]
            weights = np.zeros((B, T), np.float32)
            weights[ends] = 1
            if targets.ndim == 3:
                targets = self._typed(targets)
        else:
            targets = _spread(self._typed(self.y[rows]), exists)
            weights = exists.astype(np.float32) if self.w is None else _spread(self.w[rows], exists)
        return Pool(inputs.swapaxes(0, 1), targets.swapaxes(0, 1), weights.swapaxes(0, 1), lengths)

    def _typed(self, values: Values) -> Values:
        """Return real numbers in the type of the network; symbols and classes as they are."""
        return values if self.dtype is None or values.dtype.kind != "f" else values.astype(self.dtype, copy=False)

    def total_weight(self, columns: SequenceIndex = slice(None)) -> float:
        """Return the sum of the weights of some sequences; a step has the mean of those of its outputs."""
        if self.w is None:
            return float(self.lengths[columns].size if self.last_only else self.lengths[columns].sum())
        weights = self.w[self.rows(columns)]
        with np.errstate(over="ignore"):  # whoever asks refuses an infinite sum
            return float(weights.sum(dtype=np.float64)) / (weights.shape[1] if weights.ndim == 2 else 1)

    # ------------------------------------------------------------------ as a padded pool

    @property
    def inputs(self) -> Values:
        """All inputs, (T, N) or (T, N, n_in)."""
        return self.select(slice(None)).inputs

    @property
    def targets(self) -> Values:
        """All targets, (T, N) or (T, N, n_out)."""
        return self.select(slice(None)).targets

    @property
    def weights(self) -> Values:
        """All weights, (T, N) or (T, N, n_out)."""
        weights = self.select(slice(None)).weights
        assert weights is not None
        return weights

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the fields of the padded pool."""
        return iter(self.select(slice(None)))


def first_rows(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return the first row of each sequence, if all lie one after another."""
    starts: NDArray[np.int64] = np.cumsum(lengths, dtype=np.int64) - lengths
    return starts


def _spread(rows: Values, exists: NDArray[np.bool_]) -> Values:
    """Return rows (S, ...) as (B, T, ...) where `exists` (B, T), with zeros elsewhere."""
    if rows.shape[0] == exists.size:
        return rows.reshape(*exists.shape, *rows.shape[1:])
    found = np.zeros((*exists.shape, *rows.shape[1:]), rows.dtype)
    found[exists] = rows
    return found
