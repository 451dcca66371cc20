"""The plan of an objective: how a batch is divided, and what is kept of the forward pass. It is stored with a run.

The sequences of a batch are divided into shards, and the steps of every shard into segments of time. `planner.py`
chooses the sizes. On a GPU the shards run one after another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.errors import InputError

SHARD = 128
"""Largest number of sequences in a shard."""
SMALLEST = 8
"""Smallest number of sequences in a shard, unless memory is short; smaller ones make matrix products slow."""
SHARDS = 2
"""Smallest number of shards of a batch by default."""
WORKERS = 16
"""Largest number of shards that run at the same time, if memory allows."""
ALONE = 10_000_000
"""Steps of all sequences, times parameters, below which other threads slow a batch down (docs/speed.md)."""

PLACES = 1024
"""Approximate number of places where shards of sequences of unequal lengths may begin."""

Lengths = NDArray[np.int64]


class Keep(Enum):
    """What a sweep keeps of its forward pass: states and predictions, states only, or nothing."""

    ALL = "all"
    STATES = "states"
    NOTHING = "nothing"


class Use(Enum):
    """What an objective is used for."""

    LOSS = "losses"
    GRADIENT = "losses and gradients"
    OPERATOR = "losses and curvature operators, one at a time"
    BOTH = "both"


@dataclass(frozen=True)
class Plan:
    """How a batch is divided and computed."""

    shards: tuple[int, ...]  # the boundaries of the shards along the batch, from 0 to B
    segment: int | None  # number of steps in a segment of time; None for one segment
    keep: Keep  # what an operator keeps for all its products
    workers: int = WORKERS  # largest number of shards that run at the same time, each with its own buffers

    @property
    def parts(self) -> list[tuple[int, int]]:
        """First sequence of each shard, and the first after it."""
        return list(zip(self.shards[:-1], self.shards[1:], strict=True))

    @property
    def keep_of_gradients(self) -> Keep:
        """What a gradient keeps of its forward pass: never the predictions, which it uses once."""
        return Keep.NOTHING if self.keep is Keep.NOTHING else Keep.STATES

    def check(self, B: int) -> None:
        """Raise InputError unless the shards divide B sequences."""
        if not self.shards or self.shards[-1] != B:
            raise InputError(f"the plan is for {max(self.shards, default=0)} sequences, but the batch has {B}")
        if self.shards[0] != 0 or any(stop <= start for start, stop in self.parts):
            raise InputError(f"the plan has shards at {', '.join(map(str, self.shards))}: give 0, ..., {B}, increasing")

    def to_json(self) -> dict[str, Any]:
        """Return the plan as values that JSON can hold."""
        return {"shards": list(self.shards), "stretch": self.segment, "keep": self.keep.value, "slots": self.workers}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_json` wrote."""
        return cls(tuple(content["shards"]), content["stretch"], Keep(content["keep"]), content["slots"])


def shard_boundaries(B: int, most: int = SHARD, least: int = SHARDS) -> tuple[int, ...]:
    """Return the boundaries of nearly equal shards of at most `most` sequences each.

    There are at least `least` shards, so that as many threads and ranks have work, unless these would have fewer than 8
    sequences. Larger shards come first, so that the buffers that shards share need not grow.
    """
    count = max(math.ceil(B / most), min(least, B // SMALLEST), 1)
    return equal_boundaries(B, count)


def ragged_boundaries(lengths: Lengths, most: int = SHARD, least: int = SHARDS, overhead: int = 0) -> tuple[int, ...]:
    """Return the boundaries of shards of sequences of unequal lengths, in their order: those with the least work.

    The work of a shard of B sequences, padded to the longest of them, T, is T * (overhead + B). `most` and `least` are
    those of `shard_boundaries`. Sequences that are sorted by length need the least work.

    >>> import numpy as np
    >>> ragged_boundaries(np.array([900] + [10] * 31), overhead=16)
    (0, 1, 16, 32)
    """
    B = len(lengths)
    count = max(math.ceil(B / most), min(least, B // SMALLEST), 1)
    most = math.ceil(B / count)
    step = max(min(B // PLACES, most // SMALLEST), 1)
    edges = np.array([*range(0, B, step), B])
    tops = np.maximum.reduceat(lengths, edges[:-1]).astype(np.float64)
    work, before = np.zeros(edges.size), np.zeros(edges.size, dtype=np.int64)
    for j in range(1, edges.size):
        first = int(np.searchsorted(edges, edges[j] - most))
        longest = np.maximum.accumulate(tops[first:j][::-1])[::-1]
        found = work[first:j] + longest * (overhead + edges[j] - edges[first:j])
        best = int(found.argmin())
        work[j], before[j] = found[best], first + best
    places = [edges.size - 1]
    while places[-1]:
        places.append(int(before[places[-1]]))
    return tuple(edges[places[::-1]].tolist())


def equal_boundaries(B: int, count: int) -> tuple[int, ...]:
    """Return the boundaries of `count` parts of nearly equal size; the first B % count have one sequence more."""
    size, longer = divmod(B, count)
    return tuple(n * size + min(n, longer) for n in range(count + 1))


def steps_of(plan: Plan, T: int, lengths: Lengths | None) -> list[int]:
    """Return the number of steps of each shard: T, or those of the longest of its sequences."""
    return [T if lengths is None else int(lengths[start:stop].max()) for start, stop in plan.parts]


def segment_boundaries(T: int, K: int | None) -> list[int]:
    """Return the boundaries of segments of K steps each, or of one segment for None.

    Only the first segment may be shorter. Backward reaches it last, when shared buffers already have their full size.
    """
    K = K or T
    return [0, *range((T - 1) % K + 1, T, K), T]
