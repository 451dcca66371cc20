"""What a training run shows: a table of updates, with a live line for CG on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from hfrnn.training import Callback, Record, Trainer, TrainingResult

HEADER = "update    time   left  train  valid   CG  ended by       rho        mu  step"
PLAIN_SECONDS = 10.0
"""Without a terminal, a line says that CG is still running after so many seconds."""


def clock(seconds: float | None) -> str:
    """Seconds as 1:05 or 2:01:05."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def row(record: Record, left: float | None) -> str:
    """One update as a line of the table, at most 80 columns wide."""
    train, valid, rho = (_number(record[key], ".3f") for key in ("train_bits", "valid_bits", "rho"))
    mu = _number(record["mu"] or record["lambda"], ".3g")
    return (
        f"{record['update']:6d} {clock(record['seconds']):>7} {clock(left):>6} {train:>6} {valid:>6} "
        f"{record['cg_iterations']:4d}  {record['cg_stop']:<14} {rho[:6]:>6} {mu:>9} {record['step_size']:5.2f}"
    )


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


class Display(Callback):
    """Shows a training run on a console.

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

    def on_start(self, trainer: Trainer) -> None:
        self._trainer, self._start, self._first = trainer, time.monotonic(), trainer.update
        config, corpus = trainer.config, trainer.corpus
        self._print(f"{trainer.net.describe()}")
        self._print(
            f"{corpus.name}: {len(corpus.train):,} symbols to train on, {len(corpus.valid):,} to validate; "
            f"{config.optimizer} with {config.damping} damping; run folder {trainer.path}"
        )
        if trainer.update:
            self._print(f"going on after update {trainer.update}")
        self._print(HEADER)
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[status]}"),
                console=self.console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, status="gradient")
        self._spoken = time.monotonic()

    def on_cg(self, iteration: int, q: float) -> None:
        now = time.monotonic()
        left = self._left()
        status = f"CG {iteration}  q {q:.4g}  left {clock(left)}"
        if self._bar is not None and self._task is not None and self._trainer is not None:
            self._bar.update(
                self._task, completed=self._fraction(), status=status, description=f"update {self._trainer.update + 1}"
            )
        elif self._bar is None and now - self._spoken >= PLAIN_SECONDS and self._trainer is not None:
            self._print(f"{self._trainer.update + 1:6d} {clock(now - self._start):>7} {status}")
            self._spoken = now

    def on_update(self, record: Record) -> bool | None:
        self._print(row(record, self._left()))
        self._spoken = time.monotonic()
        return None

    def on_end(self, result: TrainingResult) -> None:
        self.close()

    def close(self) -> None:
        """Take the live line away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _left(self) -> float | None:
        """Seconds until the first of the limits, as far as it can be told."""
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


def result_lines(result: TrainingResult) -> list[str]:
    """What a finished run says of itself."""
    summary: dict[str, Any] = result.summary
    best = summary["best"]
    lines = [f"stopped by {summary['stopped']} after {summary['updates']} updates and {clock(summary['seconds'])}"]
    if best is not None:
        measure, bits = (
            ("validation", best["valid_bits"]) if best["valid_bits"] is not None else ("training", best["train_bits"])
        )
        lines.append(f"best: {_number(bits, '.3f')} bits per symbol in {measure} after update {best['update']}")
    lines.append(f"run folder: {result.folder}")
    return lines
