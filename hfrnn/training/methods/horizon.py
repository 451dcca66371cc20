"""How many updates fit into the time limit of a run, estimated once from its first part."""

from __future__ import annotations

import time
from collections.abc import Callable

MEASURED = 0.1
"""Share of the time limit after which the number of updates is estimated; the schedule cosine is still almost flat."""


class Pace:
    """Estimate the number of updates that a run makes within its time limit.

    Parameters
    ----------
    seconds : float or None
        The limit, from the first call of `horizon` on; None for no limit.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self._clock = seconds, clock
        self._marks: list[tuple[float, int]] = []  # time and updates at the first two calls and at the last one

    def horizon(self, updates: int) -> int | None:
        """Return the number of updates until the limit, or None if it is too early to tell.

        Call it before every record. The speed is that of the updates after the first record, which may include
        compilation, unless the first record alone takes long enough.

        Parameters
        ----------
        updates : int
            Number of updates so far, those before the first call included.
        """
        if self.seconds is None:
            return None
        now = self._clock()
        self._marks = [*self._marks[:2], (now, updates)]
        start = self._marks[0][0]
        if now - start < MEASURED * self.seconds:
            return None
        begin, done = self._marks[-2]
        return updates + int(max(start + self.seconds - now, 0.0) * (updates - done) / (now - begin))
