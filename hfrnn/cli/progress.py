"""What a command shows while it runs: a live line on a terminal, or a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn
from rich.table import Column

from hfrnn.cli.columns import WIDTH, RunTable, number
from hfrnn.cli.screen import make_console, raise_broken_pipe, say_json
from hfrnn.cli.tables import opening_lines, run_table
from hfrnn.runs.metrics import Record, clock
from hfrnn.training.sources import LN2
from hfrnn.training.time_left import TimeLeft
from hfrnn.training.trainer import Callback, Trainer, TrainingResult
from hfrnn.wording import one_line

PLAIN_SECONDS = 10.0
"""Seconds between lines that report progress where there is no terminal."""


class Display(Callback):
    """Shows a training run on a console: its opening lines, a table of updates and a live line.

    Parameters
    ----------
    console : rich.console.Console

    Attributes
    ----------
    first : int
        The number of updates before this part of the run.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.first = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._spoken = 0.0
        self._trainer: Trainer | None = None
        self._table = RunTable()
        self._left: TimeLeft | None = None
        self._last = ""
        self._hf = True

    def on_start(self, trainer: Trainer) -> None:
        self._trainer, self.first = trainer, trainer.update
        width = min(self.console.width, WIDTH) if self.console.is_terminal else WIDTH
        self._table, head = run_table(trainer, width)
        for line in (*opening_lines(trainer, width), *head):
            self._print(line)
        if self.console.is_interactive:
            bar = [BarColumn(bar_width=16)] if width >= WIDTH else []
            self._bar = Progress(
                _text_column("{task.description}"), *bar, _text_column("{task.fields[status]}"), console=self.console,
                transient=True,
            )  # fmt: skip
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, status="")
        self._hf = trainer.config.optimizer == "hf"
        self._left = TimeLeft(trainer)
        self._spoken = time.monotonic()
        self._last = "" if trainer.last is None else self._loss(trainer.last["train_loss"])
        self._show("gradient")

    def on_cg(self, iteration: int, q: float) -> None:
        if self._trainer is None:
            return
        name, value = ("CG", f"q {q:.4g}") if self._hf else ("step", self._loss(q))
        self._show(f"{name} {iteration:3d}  {value}")
        now = time.monotonic()
        if self._bar is None and now - self._spoken >= PLAIN_SECONDS and self._left is not None:
            self._print(
                f"{self._trainer.update + 1:6d} {clock(self._left.elapsed()):>8} {clock(self._left()):>7} "
                f"{'':14}{iteration:4d}  running, {value}"
            )
            self._spoken = now

    def on_update(self, record: Record) -> bool | None:
        if self._left is not None:
            self._left.note(record)
            self._print(self._table.row(record, self._left()))
        self._spoken = time.monotonic()
        self._last = self._loss(record["train_loss"])
        self._show("gradient")
        return None

    def on_interrupt(self) -> None:
        self._print("Stopping after this update; finished work is saved. Press Ctrl-C again to stop now.")

    def on_end(self, result: TrainingResult) -> None:
        self.close()

    def close(self) -> None:
        """Remove the live line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _loss(self, nats: float | None) -> str:
        """Return a loss in the unit of the table: bits for a text."""
        if nats is None or self._trainer is None:
            return ""
        return f"{number(nats / LN2)} bits" if self._trainer.source.in_bits else f"loss {number(nats)}"

    def _show(self, doing: str) -> None:
        """Update the live line, if there is one."""
        if self._bar is None or self._task is None or self._trainer is None or self._left is None:
            return
        left, elapsed = self._left(), self._left.elapsed()
        last = f"  {self._last}" if self._last and (self._hf or doing == "gradient") else ""
        self._bar.update(
            self._task,
            description=f"update {self._trainer.update + 1}",
            completed=0.0 if left is None or elapsed + left == 0 else elapsed / (elapsed + left),
            status=f"{doing}{last}  left {clock(left)}",
        )

    def _print(self, text: str) -> None:
        self.console.print(one_line(text), highlight=False, markup=False, emoji=False, soft_wrap=True)


class LogLines(Callback):
    """Prints every record of the log as a line of JSON. A full disk does not end the run."""

    def on_update(self, record: Record) -> bool | None:
        try:
            say_json(record)
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
