"""When the gradient batches of Hessian-free optimization grow: while noise takes too much of what an update gains.

    B1  own_k = gain(f_k before the update, f_k after it)                       both on batch k
    B2  fresh_k = gain(f_k before the update, f_k+1 before the next one)        the second on batch k+1
    B3  O = 0.9*O + own_k        F = 0.9*F + fresh_k
    B4  the next batch is larger if F < limit * O

gain(a, b) is log a - log b, or a - b if one of them is not above 0.

An update fits the noise of its batch. If its true gain is t, and noise adds n to the gain on its own batch, then new
batches lose about as much: own = t + n and fresh = t - n. n falls like 1/size, and so does the number of updates in a
given time. t - n per time is largest at n = t/2, where fresh = own/3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hfrnn.optim.outcome import Update

MEMORY = 0.9
"""Decay of the sums of B3."""
SUMS, LAST = ("own_gains", "fresh_gains"), ("loss_before_last", "gain_of_last")
"""Names of the entries in the state of a run: O and F; f_k before the last update and own_k."""


class BatchNoise:
    """The gains of the last updates on their own batches and on the next ones, and whether the next batch grows.

    `limit` is the share of B4; 0 lets the batches grow after every update.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._own = self._fresh = 0.0
        self._earlier: tuple[float, float] | None = None  # loss before the last update, and its own gain

    def add(self, update: Update) -> None:
        """Take note of an update."""
        before = update.loss_before
        if self._earlier is not None and update.failed is None:
            earlier, own = self._earlier
            self._own = MEMORY * self._own + own  # B3
            self._fresh = MEMORY * self._fresh + gain(earlier, before)  # B2
        after = update.loss_after if math.isfinite(update.loss_after) else before + update.q
        self._earlier = (before, gain(before, after)) if update.failed is None else None  # B1

    @property
    def grows(self) -> bool:
        """Whether the next batch is larger than the last one."""
        return not self.limit or self._fresh < self.limit * self._own  # B4

    def state_dict(self) -> dict[str, float]:
        """Return the entries in the state of a run; none without a limit."""
        if not self.limit:
            return {}
        earlier = {} if self._earlier is None else dict(zip(LAST, self._earlier, strict=True))
        return {**dict(zip(SUMS, (self._own, self._fresh), strict=True)), **earlier}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`."""
        if not self.limit:
            return
        self._own, self._fresh = (float(state[name]) for name in SUMS)
        loss, own = LAST
        self._earlier = (float(state[loss]), float(state[own])) if loss in state else None


def gain(before: float, after: float) -> float:
    """Return the decrease of a loss: of its logarithm if both losses are above 0."""
    return math.log(before) - math.log(after) if before > 0.0 and after > 0.0 else before - after
