"""The limits and goals that end a run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfrnn.data.synthetic import SUCCESS

if TYPE_CHECKING:
    from hfrnn.training.run_state import RunState


@dataclass
class TimeLimit:
    """A time limit. It ends a run before an update that would probably exceed it.

    A record of many updates ends at the limit, wherever it is, so that it is their mean time that counts.

    Attributes
    ----------
    seconds : float or None
        The limit; None for no limit.
    start : float
        Time at which training began.
    longest : float
        Seconds of the longest update so far, as the mean of a record.
    reached : bool
        Whether there is no time for another update.
    """

    seconds: float | None
    start: float = 0.0
    longest: float = 0.0
    reached: bool = False

    def begin(self) -> float:
        """Start the clock, and return the time at which the limit is reached."""
        self.start = time.perf_counter()
        return self.start + (math.inf if self.seconds is None else self.seconds)

    def note(self, begin: float, end: float, updates: int = 1) -> None:
        """Note a record of so many updates that took from one time to another."""
        self.longest = max(self.longest, (end - begin) / max(updates, 1))

    def check(self, now: float) -> None:
        """Find out whether another update would end after the limit."""
        self.reached = self.seconds is not None and now - self.start + self.longest > self.seconds


def reason_to_end(state: RunState, time_limit: TimeLimit) -> str | None:
    """Return why training ends before the next update, or None if it continues."""
    if state.stopping is not None and state.stopping.idle >= state.stopping.patience:
        return "patience"
    if _solved(state):
        return "success"
    if _target_reached(state):
        return "target"
    return reached_limit(state, time_limit)


def reached_limit(state: RunState, time_limit: TimeLimit) -> str | None:
    """Return which limit on updates, epochs or time is reached, or None."""
    if state.config.updates is not None and state.update >= state.config.updates:
        return "updates"
    return state.method.ended or ("time" if time_limit.reached else None)


def _solved(state: RunState) -> bool:
    """Return whether a synthetic task is solved: the last validation found few wrong answers."""
    if state.last is None or not state.source.ends_by_success:
        return False
    errors = state.last["valid_errors"]
    return errors is not None and errors < SUCCESS


def _target_reached(state: RunState) -> bool:
    """Return whether the best record is as good as the option `target_bits` asks for."""
    if state.config.target_bits is None or state.best is None:
        return False
    bits = state.best["train_bits" if state.source.validation is None else "valid_bits"]
    return bits is not None and bits <= state.config.target_bits
