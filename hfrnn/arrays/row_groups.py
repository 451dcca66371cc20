"""The rows of an array that are added to one sum: as a sparse matrix on a CPU, in an order that suits a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse._sparsetools import csr_matvecs

from hfrnn.arrays.buffers import Buffers


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of N rows, those with the same number, as one product with a sparse matrix on a CPU.

    Attributes
    ----------
    matrix : (M, N) sparse array
        Has a 1 in row m and column n if row n belongs to sum m.
    numbers : slice or (M,) integers
        The number of each sum.
    """

    matrix: scipy.sparse.csr_array
    numbers: Any

    def add_to(self, out: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], buffers: Buffers) -> None:
        """Add the sums of rows (N, S) to their rows of a table, out (V, S). Both have the same type."""
        (count, N), S = self.matrix.shape, rows.shape[1]
        ones = self.matrix.data.astype(out.dtype, copy=False)
        if not rows.flags.c_contiguous:
            part, rows = rows, buffers.get("contiguous_rows", rows.shape)
            rows[...] = part
        whole = isinstance(self.numbers, slice)
        sums = out
        if not (whole and out.flags.c_contiguous):
            most = count if whole else N  # the buffer is as large as any N rows need
            sums = buffers.get("row_sums", (most, S))[:count]
            sums[...] = 0
        # SciPy's product returns a new array; the compiled function behind it adds to one
        csr_matvecs(count, N, S, self.matrix.indptr, self.matrix.indices, ones, rows.reshape(-1), sums.reshape(-1))
        if sums is not out:
            out[self.numbers] += sums


def row_sums(index: np.ndarray[Any, Any], count: int | None = None) -> RowSums:
    """Return the sums of N rows, N >= 1, that have the numbers `index` (N,).

    With `count`, there is a sum for each number below it, also for those that no row has.
    """
    if count is None:
        groups = group_rows(index)
        order, ends, numbers = groups.order, np.append(groups.starts, index.size), groups.numbers
    else:
        order, numbers = np.argsort(index, kind="stable"), slice(0, count)
        ends = np.concatenate(([0], np.cumsum(np.bincount(index, minlength=count))))
    ones = np.ones(index.size, np.float32)
    return RowSums(scipy.sparse.csr_array((ones, order, ends), shape=(ends.size - 1, index.size)), numbers)


@dataclass(frozen=True, eq=False)
class RowGroups:
    """N rows in groups on a GPU: those with the same number belong to one sum.

    Attributes
    ----------
    order : (N,) integers
        The rows, sorted by their number; those of a group keep their order.
    starts : (M,) integers
        The place of each group's first row in the sorted rows.
    numbers : (M,) integers
        The number of each group, ascending.
    pairs : tuple of integer arrays
        Additions that leave the sum of a group in its first place, for a GPU; see `pairs_of_places`.
    """

    order: Any
    starts: Any
    numbers: Any
    pairs: tuple[Any, ...] = ()


def group_rows(index: np.ndarray[Any, Any]) -> RowGroups:
    """Return the groups of N rows, N >= 1, that have the numbers `index` (N,)."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1))
    return RowGroups(order, starts, ordered[starts])


def pairs_of_places(starts: np.ndarray[Any, Any], size: int) -> list[np.ndarray[Any, Any]]:
    """Return the additions of a binary tree over each group of neighbouring places.

    Each array holds places to add to, and then as many places to add to them. No place is in an array twice, so the
    additions of an array may run at the same time. The first array adds the second place of a group to its first and
    the fourth to its third, the next one the third to the first, and so on with doubled distances.

    Parameters
    ----------
    starts : (M,) integers
        The first place of each group.
    size : int
        Number of places.

    Returns
    -------
    list of (2*n,) integer arrays
        One for each level of the tree over the largest group.
    """
    counts = np.diff(starts, append=size)
    rank, count = np.arange(size) - np.repeat(starts, counts), np.repeat(counts, counts)
    places, step, levels = np.arange(size), 1, []
    while step < counts.max():
        places = places[rank[places] % (2 * step) == 0]
        left = places[rank[places] + step < count[places]]
        levels.append(np.concatenate((left, left + step)))
        step *= 2
    return levels
