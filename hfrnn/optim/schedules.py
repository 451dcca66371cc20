"""The learning rate from epoch to epoch, and when to stop.

A schedule is told the validation loss after every epoch and answers with the rate of the next one, or None: the run
is over. A loss falls if it lies below the least one before it; NaN and infinity never do. All of them resume from a
`state_dict` of JSON values.

    Schedule(lr)               always the same
    Plateau(lr)                halved when the loss does not fall ([S]); with divisor=1.5 as in [M]
    Stepped(lr)                five epochs, then halved for every one ([S], [M] on text8)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from hfrnn.errors import InputError
from hfrnn.optim.first_order import require


class _Resumable:
    """Numbers that change, by name, as a dict and back."""

    kind: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]]

    def state_dict(self) -> dict[str, Any]:
        """What changes during training, and the kind that it belongs to."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self.numbers}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the numbers of a `state_dict`; InputError, and nothing changed, if it does not fit."""
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


class EarlyStopping(_Resumable):
    """Says stop after so many evaluations in a row whose loss does not fall.

    Arguments
    ---------
    patience : evaluations without a fall, >= 1
    gain : how far below the least loss so far a loss has to lie to count as a fall, as a share of it, from 0 up to but
        not 1

    `best` is the least loss that counted as a fall (None at first), `idle` the evaluations since.

    Raises
    ------
    InputError for a number out of range.
    """

    kind = "early-stopping"
    numbers = ("best", "idle")

    def __init__(self, patience: int, gain: float = 0.0) -> None:
        _check_patience(patience, gain)
        self.patience, self.gain = patience, gain
        self.best: float | None = None
        self.idle = 0

    def after_evaluation(self, loss: float) -> bool:
        """Whether patience has run out, now that there is one more loss."""
        self.best, self.idle = _watch(loss, self.best, self.idle, self.gain)
        return self.idle >= self.patience


def _watch(loss: float, best: float | None, idle: int, gain: float) -> tuple[float | None, int]:
    """The least loss and the number of losses since, with one more loss."""
    if math.isfinite(loss) and (best is None or loss < best - gain * abs(best)):
        return float(loss), 0
    return best, idle + 1


def _check_patience(patience: int, gain: float) -> None:
    require("patience", patience, patience >= 1, "of at least 1")
    require("gain", gain, 0.0 <= gain < 1.0, "from 0 up to but not 1")


class Schedule(_Resumable):
    """A learning rate that never changes; what the other schedules change.

    Arguments
    ---------
    lr : the rate of the first epoch, > 0

    `lr` is the rate of the epoch to come, None once the run is over.

    Raises
    ------
    InputError for a number out of range.
    """

    kind = "constant"
    numbers: ClassVar[tuple[str, ...]] = ("lr",)

    def __init__(self, lr: float) -> None:
        require("lr", lr, lr > 0.0, "above 0")
        self.lr: float | None = float(lr)

    def after_epoch(self, validation_loss: float | None) -> float | None:
        """The rate of the next epoch, or None to end the run.

        Arguments: the validation loss after the epoch that is over; None without validation. Raises InputError if the
        schedule needs one.
        """
        return self.lr


class _Shrinking(Schedule):
    """A rate that is divided after some epochs, and ends the run when it falls below a least one."""

    def __init__(self, lr: float, divisor: float, least: float) -> None:
        super().__init__(lr)
        require("divisor", divisor, divisor > 1.0, "above 1")
        require("least", least, 0.0 <= least <= lr, f"from 0 to the first rate, {lr}")
        self.divisor, self.least = divisor, least

    def after_epoch(self, validation_loss: float | None) -> float | None:
        if self.lr is not None and self._shrinks(validation_loss):
            smaller = self.lr / self.divisor
            self.lr = smaller if smaller >= self.least and smaller > 0.0 else None
        return self.lr

    def _shrinks(self, validation_loss: float | None) -> bool:
        """Whether the epoch that is over was the last one with this rate."""
        raise NotImplementedError


class Plateau(_Shrinking):
    """A rate that is divided when the validation loss does not fall.

    Arguments
    ---------
    lr : the rate of the first epoch, > 0
    divisor : > 1; 2 in [S], 1.5 in [M] (1.2 by default in its authors' code)
    patience : epochs in a row without a fall after which the rate is divided, >= 1
    gain : as in `EarlyStopping`; 0.0001 in [M]'s code
    least : the run ends when the rate falls below this, from 0 (never) to lr

    `best` is the least loss that counted as a fall (None at first), `idle` the epochs since then or since the rate was
    last divided. [M]'s code also goes back to the parameters of the best epoch whenever it divides the rate.

    Raises
    ------
    InputError for a number out of range.

    Source: SPEC 7.
    """

    kind = "plateau"
    numbers = ("lr", "best", "idle")

    def __init__(
        self, lr: float, divisor: float = 2.0, patience: int = 1, gain: float = 0.0, least: float = 0.0
    ) -> None:
        super().__init__(lr, divisor, least)
        _check_patience(patience, gain)
        self.patience, self.gain = patience, gain
        self.best: float | None = None
        self.idle = 0

    def _shrinks(self, validation_loss: float | None) -> bool:
        if validation_loss is None:
            raise InputError(
                "The plateau schedule got no validation loss: give a validation part, or use another schedule."
            )
        self.best, self.idle = _watch(validation_loss, self.best, self.idle, self.gain)
        if self.idle < self.patience:
            return False
        self.idle = 0
        return True


class Stepped(_Shrinking):
    """A rate that stays for some epochs and is then divided after every one.

    Arguments
    ---------
    lr : the rate of the first epochs, > 0
    epochs : how many epochs have the first rate, >= 1; the next has the first quotient. 5 for text8 in [S] and [M]
    divisor : > 1
    least : the run ends when the rate falls below this, from 0 (never) to lr

    Raises
    ------
    InputError for a number out of range.

    Source: SPEC 7.
    """

    kind = "stepped"
    numbers = ("lr", "done")

    def __init__(self, lr: float, epochs: int = 5, divisor: float = 2.0, least: float = 0.0) -> None:
        super().__init__(lr, divisor, least)
        require("epochs", epochs, epochs >= 1, "of at least 1")
        self.epochs, self.done = epochs, 0

    def _shrinks(self, validation_loss: float | None) -> bool:
        self.done += 1
        return self.done >= self.epochs
