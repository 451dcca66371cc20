"""The plan: how a batch is cut into shards and stretches and what is kept, from sizes and a budget alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.batch import Batch
from hfrnn.errors import InputError
from hfrnn.network import Layout
from hfrnn.sweep import Keep, Sweep

DEFAULT_MEMORY = 4 * 2**30
"""Bytes for what a Gauss-Newton operator keeps, unless the caller gives a budget."""
SHARD = 128
"""Sequences a shard, at most."""


@dataclass(frozen=True)
class Plan:
    """Where shards begin and end, the steps of a stretch (None: one stretch), and what an operator keeps."""

    shards: tuple[int, ...]
    stretch: int | None
    keep: Keep

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The first and the last-but-one sequence of each shard."""
        return list(zip(self.shards[:-1], self.shards[1:], strict=True))


def shard_boundaries(B: int) -> tuple[int, ...]:
    """Equal shards of at most SHARD sequences; two or more where there are enough sequences for two threads."""
    count = max(math.ceil(B / SHARD), 2 if B >= 16 else 1)
    return tuple(round(n * B / count) for n in range(count + 1))


def make_plan(layout: Layout, T: int, B: int, checkpoint: int | str | None = "auto", memory: int | None = None) -> Plan:
    """The plan for a batch of B sequences of T steps.

    Parameters
    ----------
    layout : Layout
    T, B : int
    checkpoint : None, int, "sqrt" or "auto"
        Keep everything; the states every so many steps; every ceil(sqrt(T)) steps; or "auto": keep everything if it
        fits the budget, else "sqrt".
    memory : int, optional
        The budget in bytes for "auto", 4 GiB by default.

    Raises
    ------
    InputError
        Another value of checkpoint, or a budget that is not positive.
    """
    if memory is not None and not memory > 0:
        raise InputError(f"memory is {memory}: give a budget in bytes, more than 0")
    shards = shard_boundaries(B)
    if checkpoint == "auto":
        fits = kept_bytes(layout, T, B) <= (memory or DEFAULT_MEMORY)
        checkpoint = None if fits else "sqrt"
    if checkpoint is None:
        return Plan(shards, None, Keep.ALL)
    if checkpoint == "sqrt":
        return Plan(shards, math.ceil(math.sqrt(T)), Keep.NOTHING)
    if isinstance(checkpoint, (str, bool)) or checkpoint < 1:
        raise InputError(f'checkpoint is {checkpoint!r}: use None, "sqrt", "auto" or a number of steps, 1 or more')
    return Plan(shards, int(checkpoint), Keep.NOTHING)


def kept_bytes(layout: Layout, T: int, B: int) -> int:
    """What a Gauss-Newton operator that keeps everything holds, found by trying two tiny batches."""
    one, two = (_tiny_bytes(layout, steps) for steps in (1, 2))
    return B * (one + (T - 1) * (two - one))


def _tiny_bytes(layout: Layout, T: int) -> int:
    shape: tuple[int, ...] = (T, 1, layout.n_in)
    inputs: Any = np.zeros(shape, layout.dtype) if layout.embedding is None else np.zeros(shape[:2], np.int32)
    kind = np.int32 if layout.head.integer_targets else layout.dtype
    target_shape = shape[:2] if layout.head.integer_targets else (T, 1, layout.n_out)
    batch = layout.prepare(Batch(inputs, np.zeros(target_shape, kind)))
    sweep = Sweep(layout, batch, float(T))
    zero = layout.backend.zeros((layout.n_parameters,), layout.dtype)
    sweep.prepare(zero)
    sweep.product(zero, layout.backend.zeros((layout.n_parameters,), layout.dtype))
    return sweep.kept.nbytes
