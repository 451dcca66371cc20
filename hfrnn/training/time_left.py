"""An estimate of the time that a run still needs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hfrnn.runs.metrics import Record

if TYPE_CHECKING:
    from hfrnn.training.callbacks import TrainingRun
    from hfrnn.training.methods.method import Work

MEMORY = 0.8
"""Weight of an update in the measured speed, relative to the next update."""


class TimeLeft:
    """Estimate the seconds until the first limit of a run: on time, updates or epochs.

    The work that is left is known from the limits and the sizes of the coming batches; the seconds for a unit of each
    kind of work are measured. Goals, such as `target_bits`, do not count.

    Parameters
    ----------
    trainer : TrainingRun
        A run at its start.
    """

    def __init__(self, trainer: TrainingRun) -> None:
        self._trainer = trainer
        self._start = self._noted = time.monotonic()
        self._seconds: Work = {}
        self._done: Work = {}
        self._work_seconds: float | None = None

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._start

    def note(self, record: Record) -> None:
        """Note the work of a record and its time."""
        now = time.monotonic()
        method, config = self._trainer.method, self._trainer.config
        for total, new in ((self._done, method.work), (self._seconds, method.seconds(record, now - self._noted))):
            for kind, value in new.items():
                total[kind] = MEMORY * total.get(kind, 0.0) + value
        self._noted = now
        left = method.work_left(None if config.updates is None else max(config.updates - self._trainer.update, 0))
        if left is not None:
            self._work_seconds = sum(self._seconds[kind] / self._done[kind] * more for kind, more in left.items())

    def __call__(self) -> float | None:
        """Return the seconds left; None if there is no estimate yet."""
        now, limit = time.monotonic(), self._trainer.config.time_limit
        guesses = [] if limit is None else [limit - (now - self._start)]
        if self._work_seconds is not None:
            guesses.append(self._work_seconds - (now - self._noted))
        return max(min(guesses), 0.0) if guesses else None
