"""What `hfrnn train` shows while it runs: a live line on a terminal, or a line every few seconds elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column

from hfrnn.cli.output import make_console, raise_broken_pipe, say_json
from hfrnn.cli.run_tables import (
    WIDTH,
    RunTable,
    folded,
    next_lines,
    opening_lines,
    run_table,
    short_number,
)
from hfrnn.errors import Message
from hfrnn.live_line import BAR_CELLS, PLAIN_SECONDS, LiveLine, bar
from hfrnn.runs.metrics import Record
from hfrnn.sources.open import LN2
from hfrnn.training.callbacks import Callback, TimeLeft, TrainingResult, TrainingRun
from hfrnn.training.hints import Improvement
from hfrnn.wording import clock, four_digits, one_line

ROW_SECONDS = 1.0
"""Least time between two rows of the table for updates that were not validated."""


class Display(Callback):
    """Shows a training run on a console: its opening lines, a table of updates and a live line."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: LiveLine | None = None
        self._bar_cells = 0
        self._spoken = self._row = 0.0
        self._trainer: TrainingRun | None = None
        self._table = RunTable()
        self._left: TimeLeft | None = None
        self._improvement: Improvement | None = None
        self._last = ""
        self._hf = True
        self._hinted, self._width = False, WIDTH

    def on_start(self, trainer: TrainingRun) -> None:
        self.close()  # of a restart whose loss was not finite
        first, self._trainer = self._trainer is None, trainer
        width = self._width = min(self.console.width, WIDTH) if self.console.is_terminal else WIDTH
        self._table, head = run_table(trainer, width)
        for line in (*(opening_lines(trainer, width) if first else next_lines(trainer)), *head):
            self.print(line)
        if self.console.is_interactive and not self.console.legacy_windows:
            self._live = LiveLine(self.console.file, lambda: self.console.width)
            self._bar_cells = BAR_CELLS if width >= WIDTH else 0
        self._hf = trainer.config.optimizer == "hf"
        self._left = TimeLeft(trainer)
        self._improvement = Improvement(trainer.best) if trainer.config.patience is None and not self._hinted else None
        self._spoken = time.monotonic()
        self._last = "" if trainer.last is None else self._loss(trainer.last["train_loss"])
        self._show("gradient", at_once=True)

    def on_cg(self, iteration: int, q: float) -> None:
        if self._trainer is None:
            return
        name, value = ("CG", f"q {q:.4g}") if self._hf else ("step", self._loss(q))
        if math.isnan(q):  # a GPU tells the loss at the next record
            value = self._last or "loss not known yet"
        self._show(f"{name} {iteration:3d}  {value}", at_once=iteration == 1)
        now = time.monotonic()
        if self._live is None and now - self._spoken >= PLAIN_SECONDS and self._left is not None:
            self.print(
                f"{self._trainer.update + 1:6d} {clock(self._left.elapsed()):>8} {clock(self._left()):>7} "
                f"{'':14}{iteration:4d}  running, {value}"
            )
            self._spoken = now

    def on_update(self, record: Record) -> bool | None:
        now = time.monotonic()
        if self._left is not None:
            self._left.note(record)
            if self._shows(record, now):
                self.print(self._table.row(record, self._left()))
                self._row = now
        if self._improvement is not None and (hint := self._improvement.hint(record)) is not None:
            self._improvement, self._hinted = None, True
            for line in folded([Message("hint      {0}", hint)], self._width):
                self.print(line)
        self._spoken = now
        self._last = self._loss(record["train_loss"])
        self._show("gradient", at_once=True)
        return None

    def _shows(self, record: Record, now: float) -> bool:
        """Return whether a record gets a row: short updates of a run with validation get one when validated."""
        watched = self._hf and self._trainer is not None and self._trainer.validation is not None
        return not watched or record["valid_loss"] is not None or now - self._row >= ROW_SECONDS

    def on_interrupt(self) -> None:
        self.print("Stopping after this update; finished work is saved. Press Ctrl-C again to stop now.")

    def on_end(self, result: TrainingResult) -> None:
        self.close()

    def close(self) -> None:
        """Remove the live line."""
        if self._live is not None:
            self._live.close()
            self._live = None

    def _loss(self, nats: float | None) -> str:
        """Return a loss in the unit of the table: bits for a text."""
        if nats is None or self._trainer is None:
            return ""
        return f"{short_number(nats / LN2)} bits" if self._trainer.source.in_bits else f"loss {four_digits(nats)}"

    def _show(self, doing: str, at_once: bool = False) -> None:
        """Update the live line, if there is one."""
        if self._live is None or self._trainer is None or self._left is None:
            return
        left, elapsed = self._left(), self._left.elapsed()
        share = 0.0 if left is None or elapsed + left == 0 else elapsed / (elapsed + left)
        last = self._last if self._hf or doing == "gradient" else ""
        parts = (f"update {self._trainer.update + 1}", bar(share, self._bar_cells), doing, last, f"left {clock(left)}")
        self._live.show("  ".join(part for part in parts if part), at_once)

    def print(self, text: str) -> None:
        """Print a line, above the live line if there is one."""
        if self._live is not None:
            self._live.print(one_line(text))
        else:
            self.console.file.write(one_line(text) + "\n")
            self.console.file.flush()


class LogLines(Callback):
    """Prints every record of the log as a line of JSON, with its restart, if any. A full disk does not end the run."""

    def __init__(self) -> None:
        self._restart: dict[str, int] = {}

    def on_start(self, trainer: TrainingRun) -> None:
        self._restart = {} if trainer.restart is None else {"restart": trainer.restart.number}

    def on_update(self, record: Record) -> bool | None:
        try:
            say_json({**self._restart, **record})
        except OSError as error:
            raise_broken_pipe(error)
        return None


def _text_column(text: str) -> ProgressColumn:
    """Return a column of a live line with plain text, which is cut rather than wrapped on a narrow screen."""
    return TextColumn(text, markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))


@contextmanager
def live_bar() -> Iterator[Callable[[str, float, float], None]]:
    """Show a progress bar on stderr if it is a terminal; yields a function of a text, the work done and the total."""
    bar = Progress(
        BarColumn(bar_width=24), _text_column("{task.description}"), console=make_console(stderr=True), transient=True
    )
    if not bar.console.is_interactive:
        yield lambda text, done, total: None
        return
    with bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(task, description=one_line(text), completed=done, total=total)
