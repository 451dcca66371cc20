"""What a program shows of a training run while it goes on: on a terminal, in a log file, or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hfrnn import live_line
from hfrnn.live_line import LiveLine, Stderr, bar
from hfrnn.runs.metrics import Record
from hfrnn.training.callbacks import Callback, TimeLeft, TrainingResult
from hfrnn.wording import clock, four_digits

if TYPE_CHECKING:
    from hfrnn.training.callbacks import TrainingRun

CELLS = 8
"""Length of the bar."""


@contextmanager
def with_progress(callbacks: Sequence[Callback], progress: bool) -> Iterator[list[Callback]]:
    """Yield the given callbacks, and with `progress` also one that shows a run; what it shows ends with the context."""
    if not progress:
        yield list(callbacks)
        return
    if "IPython" in sys.modules:
        from hfrnn.training.notebook import NotebookDisplay, in_notebook

        if in_notebook():
            yield [*callbacks, NotebookDisplay()]
            return
    shown = LiveProgress()
    try:
        yield [shown, *callbacks]  # first, so that others write on an empty line
    finally:
        shown.close()


class LiveProgress(Callback):
    """Shows a run on stderr: a line that changes on a terminal, else a line every ten seconds; last the result."""

    def __init__(self) -> None:
        self._stderr = Stderr()
        self._live: LiveLine | None = None
        self._trainer: TrainingRun | None = None
        self._left: TimeLeft | None = None
        self._losses: list[str] = []
        self._spoken: float | None = None
        self._said = False

    def on_start(self, trainer: TrainingRun) -> None:
        self._trainer, self._left = trainer, TimeLeft(trainer)
        self._losses = [] if trainer.last is None else loss_words(trainer.last, trainer.best)
        self._spoken = time.monotonic() if self._spoken is None else self._spoken
        if self._live is None and self._stderr.is_terminal():
            self._live = LiveLine(self._stderr, self._stderr.width)
        self._show("")

    def on_cg(self, iteration: int, q: float) -> None:
        hf = self._trainer is not None and self._trainer.config.optimizer == "hf"
        self._show(f"{'CG' if hf else 'step'} {iteration}")

    def on_update(self, record: Record) -> bool | None:
        if self._left is not None and self._trainer is not None:
            self._left.note(record)
            self._losses = loss_words(record, self._trainer.best)
        if self._live is not None:
            self._live.erase()
        return None

    def on_end(self, result: TrainingResult) -> None:
        said = self._said or self._live is not None
        self.close()
        if said:
            self._stderr.say(result.describe())

    def close(self) -> None:
        """Remove the live line."""
        if self._live is not None:
            self._live.close()
            self._live = None

    def _show(self, doing: str) -> None:
        """Show the state of the run, if that is due."""
        if self._trainer is None or self._left is None or self._spoken is None:
            return
        now = time.monotonic()
        if self._live is None and now - self._spoken < live_line.PLAIN_SECONDS:
            return
        config, restart = self._trainer.config, self._trainer.restart
        most = "" if config.updates is None else f" of {config.updates:,}"
        update = f"update {self._trainer.update + 1:,}{most}"
        begin = [] if restart is None else [f"restart {restart.number} of {restart.count}"]
        left, elapsed = self._left(), self._left.elapsed()
        if self._live is not None:
            share = 0.0 if left is None or elapsed + left == 0 else elapsed / (elapsed + left)
            parts = [*begin, update, bar(share, CELLS), f"left {clock(left)}", doing, *self._losses]
            self._live.show("  ".join(part for part in parts if part))
        else:
            self._spoken, self._said = now, True
            self._stderr.say(", ".join([*begin, update, *self._losses, f"left {clock(left)}"]))


def loss_words(record: Record, best: Record | None) -> list[str]:
    """Return the training loss of a record and the best validation loss; those of a text in bits."""
    in_bits = record.get("train_bits") is not None
    name, unit = ("bits", " bits") if in_bits else ("loss", "")
    figures = {"train": record.get(f"train_{name}"), "best valid": (best or {}).get(f"valid_{name}")}
    words = [f"{part} {four_digits(value)}" for part, value in figures.items() if value is not None]
    return [*words[:-1], words[-1] + unit] if words else []
