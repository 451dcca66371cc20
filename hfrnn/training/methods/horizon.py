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
        self._start: float | None = None
        self._from: tuple[float, int] = (0.0, 0)
        self._calls = 0

    def horizon(self, updates: int) -> int | None:
        """Return the number of updates until the limit, or None if it is too early to tell.

        Call it before every record. The speed is that of the updates after the first record, which may include
        compilation, unless the first record alone takes long enough.

        Parameters
        ----------
        updates : int
            Number of updates so far, those before the first call included.
        """
        now = self._clock()
        if self.seconds is None:
            return None
        if self._start is None:
            self._start, self._from = now, (now, updates)
        self._calls += 1
        if now - self._start < MEASURED * self.seconds:
            self._from = (now, updates) if self._calls == 2 else self._from
            return None
        begin, done = self._from
        left = max(self._start + self.seconds - now, 0.0)
        return updates + int(left * (updates - done) / (now - begin))
