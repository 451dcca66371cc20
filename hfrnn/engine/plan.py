"""How a batch is cut and what is kept: the plan of an objective, as plain numbers.

A batch is cut along its sequences into shards, and every shard along time into segments. `planner.py` chooses the
numbers; they are stored with a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

SHARD = 128
"""Sequences a shard, at most."""
SLOTS = 16
"""Shards that run side by side, at most, where memory allows."""


class Keep(Enum):
    """What a sweep keeps of its forward pass."""

    ALL = "all"
    STATES = "states"
    NOTHING = "nothing"


class Use(Enum):
    """What will be asked of an objective."""

    LOSS = "losses"
    GRADIENT = "losses and gradients"
    OPERATOR = "losses and curvature operators, one at a time"
    BOTH = "both"


@dataclass(frozen=True)
class Plan:
    """How a batch is run.

    shards : where shards begin and end along the batch
    segment : steps of a segment of time (None: all in one)
    keep : what an operator keeps over its products
    slots : shards that may run side by side, each with buffers of its own
    """

    shards: tuple[int, ...]
    segment: int | None
    keep: Keep
    slots: int = SLOTS

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Where each shard begins and ends along the batch."""
        return list(zip(self.shards[:-1], self.shards[1:], strict=True))

    def to_json(self) -> dict[str, Any]:
        """The plan in values that JSON holds."""
        return {"shards": list(self.shards), "stretch": self.segment, "keep": self.keep.value, "slots": self.slots}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` gave."""
        return cls(tuple(content["shards"]), content["stretch"], Keep(content["keep"]), content["slots"])


def shard_boundaries(B: int, most: int = SHARD) -> tuple[int, ...]:
    """Equal shards of at most `most` sequences; two or more where there are enough sequences for two threads.

    Where they cannot be equal the larger come first, so that buffers that shards share need not grow.
    """
    count = max(math.ceil(B / most), 2 if B >= 16 else 1)
    return tuple(n * (B // count) + min(n, B % count) for n in range(count + 1))


def segment_boundaries(T: int, K: int | None) -> list[int]:
    """The boundaries of segments of K steps; of one segment for None.

    The first may be shorter: backward comes to it last, when the buffers that segments share have their full size.
    """
    K = K or T
    return [0, *range((T - 1) % K + 1, T, K), T]
