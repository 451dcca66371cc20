"""Early stopping, and what it shares with the schedules of the learning rate.

A loss is an improvement if it is below the best loss so far; NaN and infinity never are. The state is a `state_dict` of
JSON values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from hfrnn.checks import BELOW_ONE, count, number
from hfrnn.errors import InputError


class Resumable:
    """Base class that saves and loads the numbers that change, named in `numbers`."""

    kind: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]]

    def state_dict(self) -> dict[str, Any]:
        """Return the numbers that change during training, and the kind."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self.numbers}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the numbers of a `state_dict`.

        Raises
        ------
        InputError
            An entry is missing, or the kind is another one. Nothing has changed then.
        """
        missing = [name for name in ("kind", *self.numbers) if name not in state]
        if missing:
            raise InputError(f"The state of the schedule lacks {', '.join(missing)}: give the state_dict of one.")
        if state["kind"] != self.kind:
            raise InputError(
                f"The state of the schedule is of kind {state['kind']!r}, expected {self.kind!r}: "
                "use the schedule that was saved."
            )
        for name in self.numbers:
            setattr(self, name, state[name])


class EarlyStopping(Resumable):
    """Stop after several evaluations in a row without an improvement.

    Parameters
    ----------
    patience : int
        Evaluations without an improvement, 1 or more.
    gain : float
        Least relative decrease of the best loss that is an improvement, from 0 up to but not 1.

    Attributes
    ----------
    best : float or None
        Loss of the last improvement; None at first.
    idle : int
        Evaluations since then.

    Raises
    ------
    InputError
        A number is out of range.

    Examples
    --------
    >>> from hfrnn.optim.early_stopping import EarlyStopping
    >>> stopping = EarlyStopping(patience=1)
    >>> [stopping.after_evaluation(loss) for loss in (3.0, 2.0, 2.1)]
    [False, False, True]
    """

    kind = "early-stopping"
    numbers = ("best", "idle")

    def __init__(self, patience: int, gain: float = 0.0) -> None:
        check_patience(patience, gain)
        self.patience, self.gain = patience, gain
        self.best: float | None = None
        self.idle = 0

    def after_evaluation(self, loss: float) -> bool:
        """Take one more loss into account, and return whether to stop."""
        self.best, self.idle = watched(loss, self.best, self.idle, self.gain)
        return self.idle >= self.patience


def watched(loss: float, best: float | None, idle: int, gain: float) -> tuple[float | None, int]:
    """Return the best loss and the number of losses since then, after one more loss."""
    if math.isfinite(loss) and (best is None or loss < best - gain * abs(best)):
        return float(loss), 0
    return best, idle + 1


def check_patience(patience: int, gain: float) -> None:
    """Raise InputError for a number that is out of range."""
    count("patience", patience, 1)
    number("gain", gain, BELOW_ONE)
