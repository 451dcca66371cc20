"""Hints about a training run: a command prints them among its lines, and a Python program gets them as warnings."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from hfrnn.errors import HfrnnWarning, Message
from hfrnn.runs.metrics import Record
from hfrnn.training.callbacks import Callback

if TYPE_CHECKING:
    from hfrnn.training.callbacks import TrainingResult, TrainingRun

IDLE = 10
"""Validations without an improvement after which a run says how to stop it."""
RISEN = 1.25
"""Last validation loss, divided by the best one, that counts as risen."""


class Improvement:
    """Counts the validations since the best one, and says once that there were many.

    `best` is the best record of a run that continues.
    """

    def __init__(self, best: Record | None = None) -> None:
        self._least = None if best is None else best.get("valid_loss")
        self._update = 0 if best is None else best["update"]
        self._idle = 0

    def hint(self, record: Record) -> Message | None:
        """Note a record; after `IDLE` validations without an improvement, return how to stop."""
        loss = record.get("valid_loss")
        if loss is None:
            return None
        if self._least is None or loss < self._least:
            self._least, self._update, self._idle = loss, record["update"], 0
            return None
        self._idle += 1
        if self._idle != IDLE:
            return None
        return Message(
            "no better validation since update {0:,}: Ctrl-C stops and keeps the best weights; {patience:{1}} does so "
            "by itself", self._update, IDLE,
        )  # fmt: skip


def overfitting(result: TrainingResult) -> Message | None:
    """Return what to try if the validation loss has risen since its best value, while the training loss fell."""
    advice, best, last = result.config.kind.advice(result.config.values), result.summary["best"], result.summary["last"]
    if not advice or best is None or None in (best["valid_loss"], last["valid_loss"]):
        return None
    risen = last["valid_loss"] > RISEN * best["valid_loss"] and last["train_loss"] < best["train_loss"]
    return Message("the validation loss rises while the training loss falls: {0}", advice) if risen else None


def no_updates_left(trainer: TrainingRun) -> Message | None:
    """Return what to give if a run that continues has made all its updates."""
    updates = trainer.config.updates
    if not trainer.update or updates is None or trainer.update < updates:
        return None
    return Message(
        "{updates:{0}} counts from the first update, so none is left; give a larger {updates}, or {minutes}", updates
    )


class Warnings(Callback):
    """Gives the hints of a run, or of all restarts of one, as warnings."""

    def __init__(self) -> None:
        self._improvement: Improvement | None = None
        self._said = False

    def on_start(self, trainer: TrainingRun) -> None:
        watches = trainer.config.patience is None and not self._said
        self._improvement = Improvement(trainer.best) if watches else None
        if (left := no_updates_left(trainer)) is not None:
            _warn(Message("continuing after update {0}: {1}", trainer.update, left))

    def on_update(self, record: Record) -> bool | None:
        if self._improvement is not None and (hint := self._improvement.hint(record)) is not None:
            self._improvement, self._said = None, True
            _warn(hint)
        return None

    def on_end(self, result: TrainingResult) -> None:
        if (hint := overfitting(result)) is not None:
            _warn(hint)


def _warn(hint: Message) -> None:
    """Give a hint as a warning about the line of the program that called hfrnn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hfrnn":
        frame, level = frame.f_back, level + 1
    warnings.warn(str(hint), HfrnnWarning, stacklevel=level)
