"""The batches that a run of Hessian-free optimization has still to draw."""

from __future__ import annotations

import math
from collections import Counter

from hfrnn.data.sampler import SequenceSampler

SIMULATED = 1000
"""Subsets whose sizes are computed one by one; batches that still grow after those count as constant."""


def coming_sizes(sampler: SequenceSampler, draws: int | None, epochs: int | None) -> Counter[int]:
    """Count the subsets of each size that a sampler has still to draw before a limit.

    Parameters
    ----------
    sampler : SequenceSampler
    draws : int, optional
        Number of subsets.
    epochs : int, optional
        Number of epochs since the first subset of all. At least one limit is given.

    Returns
    -------
    Counter
        Number of subsets by size.
    """
    state, found = sampler.state_dict(), Counter[int]()
    epoch, position, drawn = (int(state[name]) for name in ("epoch", "position", "drawn"))
    most = math.inf if draws is None else draws
    first, size = drawn, sampler.size_after(drawn)
    while size < sampler.subset and drawn - first < min(most, SIMULATED):
        if position + size > sampler.sequences:
            epoch, position = epoch + 1, 0
        if epochs is not None and epoch >= epochs:
            return found
        position, drawn = position + size, drawn + 1
        found[size] += 1
        size = sampler.size_after(drawn)
    more = most - (drawn - first)
    if epochs is not None:
        of_epochs = (sampler.sequences - position) // size + (epochs - epoch - 1) * (sampler.sequences // size)
        more = min(more, of_epochs if epoch < epochs else 0)
    found[size] += max(int(more), 0)
    return found
