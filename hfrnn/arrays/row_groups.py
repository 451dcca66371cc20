"""The rows of an array that are added to one sum, and a fixed order of the additions that suits a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class RowGroups:
    """N rows in groups: those with the same number belong to one sum.

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
