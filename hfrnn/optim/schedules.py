"""Schedules of the learning rate, and early stopping.

A schedule receives the validation loss after every epoch. It returns the learning rate of the next epoch, or None to
end the run. `rate` gives the learning rate of a single update. Schedules resume from a `state_dict` of JSON values.

    Schedule(lr)               constant
    Plateau(lr)                halved when the loss does not improve ([S]); divisor=1.5 in [M]
    Stepped(lr)                constant for five epochs, then halved after every epoch ([S], [M] on text8)
    Cosine(lr, n)              half a cosine over n updates (Loshchilov & Hutter 2017, without restarts)

    C1  rate_k = least + (lr - least) * (1 + cos(pi * min(k/n, 1)))/2        k updates were made before
    C2  share_k = min((k + 1)/n, 1)                                          of the rate, in a warm-up of n updates

A loss is an improvement if it is below the best loss so far; NaN and infinity never are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from hfrnn.checks import ABOVE_ONE, BELOW_ONE, POSITIVE, Range, count, flag, number
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
    >>> from hfrnn.optim.schedules import EarlyStopping
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


# ------------------------------------------------------------------ schedules


class Schedule(Resumable):
    """A constant learning rate, and the base class of the other schedules.

    Parameters
    ----------
    lr : float
        Learning rate of the first epoch, above 0.

    Attributes
    ----------
    lr : float or None
        Learning rate of the next epoch; None after the end of the run.

    Raises
    ------
    InputError
        A number is out of range.

    Examples
    --------
    >>> from hfrnn.optim.schedules import Schedule
    >>> Schedule(0.1).rate(7)
    0.1
    """

    kind = "constant"
    numbers: ClassVar[tuple[str, ...]] = ("lr",)

    def __init__(self, lr: float) -> None:
        self.lr: float | None = number("lr", lr, POSITIVE)

    def after_epoch(self, validation_loss: float | None) -> float | None:
        """Return the learning rate of the next epoch, or None to end the run.

        Parameters
        ----------
        validation_loss : float or None
            Loss after the last epoch; None without validation.

        Raises
        ------
        InputError
            The schedule needs a validation loss.
        """
        return self.lr

    def rate(self, update: int) -> float:
        """Return the learning rate of the next update, after so many updates."""
        assert self.lr is not None, "a run ends with its schedule"
        return self.lr


class _Shrinking(Schedule):
    """A learning rate that is divided after some epochs; the run ends when it falls below `least`."""

    def __init__(self, lr: float, divisor: float, least: float) -> None:
        super().__init__(lr)
        number("divisor", divisor, ABOVE_ONE)
        number("least", least, Range(0.0, float(lr)))
        self.divisor, self.least = divisor, least

    def after_epoch(self, validation_loss: float | None) -> float | None:
        if self.lr is not None and self._shrinks(validation_loss):
            smaller = self.lr / self.divisor
            self.lr = smaller if smaller >= self.least and smaller > 0.0 else None
        return self.lr

    def _shrinks(self, validation_loss: float | None) -> bool:
        """Return whether to divide the learning rate after the last epoch."""
        raise NotImplementedError


class Plateau(_Shrinking):
    """A learning rate that is divided when the validation loss does not improve (SPEC 7).

    Parameters
    ----------
    lr : float
        Learning rate of the first epoch, above 0.
    divisor : float
        Above 1; 2 in [S], 1.5 in [M] (1.2 by default in the code of [M]).
    patience : int
        Epochs in a row without an improvement before the rate is divided, 1 or more.
    gain : float
        As in `EarlyStopping`; 0.0001 in the code of [M].
    least : float
        The run ends when the rate falls below this, from 0 (never) to lr.

    Attributes
    ----------
    best : float or None
        Loss of the last improvement; None at first.
    idle : int
        Epochs since then, or since the rate was last divided.

    Raises
    ------
    InputError
        A number is out of range.

    Notes
    -----
    The code of [M] also returns to the parameters of the best epoch whenever it divides the rate; `hfrnn train
    --restore-best` does that.

    Examples
    --------
    >>> from hfrnn.optim.schedules import Plateau
    >>> schedule = Plateau(0.4)
    >>> for loss in (3.0, 2.0, 2.1):
    ...     changed = schedule.after_epoch(loss)
    >>> schedule.rate(0)
    0.2
    """

    kind = "plateau"
    numbers = ("lr", "best", "idle")

    def __init__(
        self, lr: float, divisor: float = 2.0, patience: int = 1, gain: float = 0.0, least: float = 0.0
    ) -> None:
        super().__init__(lr, divisor, least)
        check_patience(patience, gain)
        self.patience, self.gain = patience, gain
        self.best: float | None = None
        self.idle = 0

    def _shrinks(self, validation_loss: float | None) -> bool:
        if validation_loss is None:
            raise InputError(
                "The plateau schedule got no validation loss: give a validation part, or use another schedule."
            )
        self.best, self.idle = watched(validation_loss, self.best, self.idle, self.gain)
        if self.idle < self.patience:
            return False
        self.idle = 0
        return True


class Stepped(_Shrinking):
    """A learning rate that is constant for some epochs and is then divided after every epoch (SPEC 7).

    Parameters
    ----------
    lr : float
        Learning rate of the first epochs, above 0.
    epochs : int
        Number of epochs with the first rate, 1 or more; 5 for text8 in [S] and [M].
    divisor : float
        Above 1.
    least : float
        The run ends when the rate falls below this, from 0 (never) to lr.

    Raises
    ------
    InputError
        A number is out of range.

    Examples
    --------
    >>> from hfrnn.optim.schedules import Stepped
    >>> schedule = Stepped(0.4, epochs=2)
    >>> for loss in (3.0, 2.0, 2.1):
    ...     changed = schedule.after_epoch(loss)
    >>> schedule.rate(0)
    0.1
    """

    kind = "stepped"
    numbers = ("lr", "done")

    def __init__(self, lr: float, epochs: int = 5, divisor: float = 2.0, least: float = 0.0) -> None:
        super().__init__(lr, divisor, least)
        count("epochs", epochs, 1)
        self.epochs, self.done = epochs, 0

    def _shrinks(self, validation_loss: float | None) -> bool:
        self.done += 1
        return self.done >= self.epochs


class Cosine(Schedule):
    """A learning rate that falls along half a cosine, from update to update (C1).

    Parameters
    ----------
    lr : float
        Learning rate of the first update, above 0.
    horizon : int, optional
        Number of updates after which the rate is `least`, 1 or more. Without one the rate is constant.
    least : float
        Rate after the horizon, from 0 to lr.

    Attributes
    ----------
    horizon : int or None
        The number of updates that the rate falls in.
    planned : int or None
        The horizon that was last given to the constructor or to `plan`.
    fixed : bool
        Whether `shorten` has no effect any more.

    Raises
    ------
    InputError
        A number is out of range.

    Notes
    -----
    A loaded state brings its horizon with it, unless this schedule was given a horizon that is not the planned one of
    the state.

    Examples
    --------
    >>> from hfrnn.optim.schedules import Cosine
    >>> [round(Cosine(0.4, horizon=10).rate(update), 3) for update in (0, 5, 10)]
    [0.4, 0.2, 0.0]
    """

    kind = "cosine"
    numbers = ("lr", "horizon", "planned", "fixed")

    def __init__(self, lr: float, horizon: int | None = None, least: float = 0.0) -> None:
        super().__init__(lr)
        self.least: float = number("least", least, Range(0.0, float(lr)))
        self.plan(horizon, fixed=True)

    def plan(self, horizon: int | None, fixed: bool) -> None:
        """Set the horizon, 1 or more, or None; `fixed` says whether `shorten` has no effect."""
        self.horizon: int | None = count("horizon", horizon, 1, or_none=True)
        self.planned, self.fixed = self.horizon, flag("fixed", fixed)

    def shorten(self, horizon: int) -> None:
        """Take a horizon for good if it is shorter than the present one, unless the present one is fixed."""
        horizon = count("horizon", horizon, 1)
        if not self.fixed:
            self.horizon, self.fixed = min(horizon, self.horizon or horizon), True

    def rate(self, update: int) -> float:
        lr = super().rate(update)
        if self.horizon is None:
            return lr
        return self.least + (lr - self.least) * (1.0 + math.cos(math.pi * min(update / self.horizon, 1.0))) / 2  # C1

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        given, fixed = self.planned, self.fixed
        for name in ("horizon", "planned"):
            count(f"{name} of the state", state.get(name), 1, or_none=True)
        flag("fixed of the state", state.get("fixed"), or_none=True)
        super().load_state_dict(state)
        if given is not None and given != self.planned:
            self.plan(given, fixed)


def warm_up(update: int, updates: int) -> float:
    """Return the share of the learning rate that an update uses (C2).

    Parameters
    ----------
    update : int
        Number of updates so far.
    updates : int
        Number of updates in which the share rises to 1; 0 for no warm-up.

    Examples
    --------
    >>> from hfrnn.optim.schedules import warm_up
    >>> [warm_up(update, 4) for update in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    made, rising = count("update", update), count("updates", updates)
    return min((made + 1.0) / rising, 1.0) if rising else 1.0  # C2
