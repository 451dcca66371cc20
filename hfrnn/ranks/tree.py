"""The fixed binary tree in whose order the sums of shards are added.

T1  sum[a, b) = sum[a, m) + sum[m, b),  m = a + ceil((b - a)/2)

The tree depends only on the number of shards, so the sum has the same bits on any number of ranks and threads. Every
rank owns neighbouring shards. An even number of ranks is halved with the tree, and an odd number R divides the shards
of a node into R nearly equal parts. If R is a power of two, each rank therefore owns one node; else it owns a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from hfrnn.arrays.vectors import Scalar


class Addition(NamedTuple):
    """An addition of the tree: the sum of the shards from `right` to `stop` is added to that of `left` to `right`."""

    left: int
    right: int
    stop: int


@lru_cache(maxsize=64)
def additions(count: int) -> tuple[Addition, ...]:
    """Return the additions of the tree over `count` shards, each after those that it needs (T1)."""
    return tuple(_additions(0, count))


def _additions(start: int, stop: int) -> Iterator[Addition]:
    if stop - start > 1:
        middle = start + (stop - start + 1) // 2
        yield from _additions(start, middle)
        yield from _additions(middle, stop)
        yield Addition(start, middle, stop)


def owned(count: int, ranks: int, rank: int) -> tuple[int, int]:
    """Return the first shard that a rank owns, and the first after it; the two are equal if it owns none."""
    start, stop = 0, count
    while ranks % 2 == 0:  # half of the ranks for each half of the tree
        ranks, middle = ranks // 2, start + (stop - start + 1) // 2
        start, stop = (start, middle) if rank < ranks else (middle, stop)
        rank %= ranks
    size = stop - start
    return start - (-rank * size // ranks), start - (-(rank + 1) * size // ranks)


@lru_cache(maxsize=64)
def additions_within(count: int, start: int, stop: int) -> tuple[Addition, ...]:
    """Return the additions that need only the shards from `start` to `stop`."""
    return tuple(each for each in additions(count) if start <= each.left and each.stop <= stop)


@lru_cache(maxsize=64)
def additions_between(count: int, ranks: int) -> tuple[Addition, ...]:
    """Return the additions that need the shards of several ranks."""
    inside = {each for rank in range(ranks) for each in additions_within(count, *owned(count, ranks, rank))}
    return tuple(each for each in additions(count) if each not in inside)


@lru_cache(maxsize=4096)
def roots(count: int, start: int, stop: int) -> tuple[int, ...]:
    """Return the first shard of each sum that is left after the additions within `start` to `stop`."""
    added = {each.right for each in additions_within(count, start, stop)}
    return tuple(shard for shard in range(start, stop) if shard not in added)


def total(values: Iterable[Scalar]) -> Scalar:
    """Return the sum of the shards' numbers in the order of the tree."""
    sums = list(values)
    for left, right, _ in additions(len(sums)):
        sums[left] += sums[right]
    return sums[0]
