"""What a command shows while it runs: a live line on a terminal, or a line every few seconds elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from hfrnn.cli.tables import number, opening_lines, row
from hfrnn.runs.metrics import Record, clock
from hfrnn.training.trainer import Callback, Trainer, TrainingResult

PLAIN_SECONDS = 10.0
"""Seconds between lines that report progress where there is no terminal."""


class Display(Callback):
    """Shows a training run on a console: its opening lines, a table of updates and a live line.

    Parameters
    ----------
    console : rich.console.Console
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._spoken = 0.0
        self._trainer: Trainer | None = None
        self._start = 0.0
        self._first = 0
        self._bits: float | None = None
        self._hf = True
        self.records: list[Record] = []

    def on_start(self, trainer: Trainer) -> None:
        self._trainer, self._start, self._first = trainer, time.monotonic(), trainer.update
        for line in opening_lines(trainer):
            self._print(line)
        if self.console.is_interactive:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                TextColumn("{task.fields[status]}"),
                console=self.console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, status="")
        self._spoken = time.monotonic()
        self._bits = None if trainer.last is None else trainer.last["train_bits"]
        self._hf = trainer.config.optimizer == "hf"
        self._show("gradient")

    def on_cg(self, iteration: int, q: float) -> None:
        self._show(f"CG {iteration:3d}  q {q:.4g}" if self._hf else f"step {iteration:4d}  loss {q:.4g}")
        now = time.monotonic()
        if self._bar is None and now - self._spoken >= PLAIN_SECONDS and self._trainer is not None:
            self._print(
                f"{self._trainer.update + 1:6d} {clock(now - self._start):>8} {clock(self._left()):>7} "
                f"{'':14}{iteration:4d}  running, {'q' if self._hf else 'loss'} {q:.4g}"
            )
            self._spoken = now

    def on_update(self, record: Record) -> bool | None:
        self.records.append(record)
        self._print(row(record, self._left()))
        self._spoken, self._bits = time.monotonic(), record["train_bits"]
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

    def _show(self, doing: str) -> None:
        """Update the live line, if there is one."""
        if self._bar is None or self._task is None or self._trainer is None:
            return
        bits = "" if self._bits is None else f"  {number(self._bits)} bits"
        self._bar.update(
            self._task,
            description=f"update {self._trainer.update + 1}",
            completed=self._fraction(),
            status=f"{doing}{bits}  left {clock(self._left())}",
        )

    def _left(self) -> float | None:
        """Estimated seconds until the first limit; None if there is no estimate."""
        if self._trainer is None:
            return None
        config, elapsed = self._trainer.config, time.monotonic() - self._start
        guesses = []
        if config.time_limit is not None:
            guesses.append(config.time_limit - elapsed)
        done = self._trainer.update - self._first
        if config.updates is not None and done > 0:
            guesses.append(elapsed / done * (config.updates - self._trainer.update))
        return max(min(guesses), 0.0) if guesses else None

    def _fraction(self) -> float:
        left, elapsed = self._left(), time.monotonic() - self._start
        return 0.0 if left is None or elapsed + left == 0 else elapsed / (elapsed + left)

    def _print(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class LogLines(Callback):
    """Passes every record of the log to `echo`, as a line of JSON."""

    def __init__(self, echo: Callable[[str], object]) -> None:
        self.echo = echo

    def on_update(self, record: Record) -> bool | None:
        self.echo(json.dumps(record))
        return None


def make_console(stderr: bool = False) -> Console:
    """Return a console on stdout or stderr. Only a terminal gets a live line, even if FORCE_COLOR is set."""
    on_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, force_terminal=None if on_terminal else False)


@contextmanager
def live_bar() -> Iterator[Callable[[str, float, float], None]]:
    """Show a progress bar on stderr if it is a terminal; yields a function of a text, the work done and the total."""
    bar = Progress(
        BarColumn(bar_width=24), TextColumn("{task.description}"), console=make_console(stderr=True), transient=True
    )
    if not bar.console.is_interactive:
        yield lambda text, done, total: None
        return
    with bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)
