"""What a command shows while it runs: a table of updates, and a live line on a terminal or timed lines elsewhere."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from hfrnn.engine.plan import Keep, Plan
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.metrics import Record
from hfrnn.training.trainer import Callback, Trainer, TrainingResult

if TYPE_CHECKING:
    from hfrnn.training.dry_run import DryRun

PLAIN_SECONDS = 10.0
"""Without a terminal, a line says that CG is still running after so many seconds."""

RECOMPUTATION = {
    Keep.STATES: "each product computes the predictions again",
    Keep.NOTHING: "a product runs forward twice and R-forward once more",
}
"""What is computed again, by what is kept."""

UNITS = {"char": "character", "byte": "byte", "word": "word"}
"""What a symbol is called, by level."""


def clock(seconds: float | None) -> str:
    """Seconds as 1:05 or 2:01:05."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def header(strength: str | None = "mu", errors: bool = False) -> str:
    """The names of the columns of `row`: of HF with that damping, or of another optimizer for None."""
    if strength is None:
        wrong = "  wrong" if errors else ""
        return f"update     time    left  train  valid   epoch     rate  gradient  clipped{wrong}"
    return f"update     time    left  train  valid   CG  ended by          rho {strength:>8}  step"


def row(record: Record, left: float | None) -> str:
    """One line of the log as a line of the table, at most 80 columns wide."""
    kind = "loss" if record["train_bits"] is None else "bits"
    train, valid, rho = (number(record.get(key)) for key in (f"train_{kind}", f"valid_{kind}", "rho"))
    if record["cg_iterations"] is None:
        wrong = "" if record["valid_errors"] is None else f" {record['valid_errors']:>6.1%}"
        return (
            f"{record['update']:6d} {clock(record['seconds']):>8} {clock(left):>7} {train:>6} {valid:>6} "
            f"{record['epoch']:7.2f} {record['learning_rate']:8.3g} {number(record['gradient_norm']):>9} "
            f"{'-' if record['clipped'] is None else format(record['clipped'], '.0%'):>8}{wrong}"
        )
    strength = record["mu"] or record["lambda"]
    return (
        f"{record['update']:6d} {clock(record['seconds']):>8} {clock(left):>7} {train:>6} {valid:>6} "
        f"{record['cg_iterations']:4d}  {record['cg_stop'].replace('_', ' '):<14} {rho:>6} "
        f"{'-' if not strength else format(strength, '.3g'):>8} {record['step_size']:5.2f}"
    )


def number(value: float | None) -> str:
    """A number in at most six characters; - for none."""
    if value is None:
        return "-"
    forms = (format(value, form) for form in (".3f", ".2f", ".1f", ".0f"))
    return next((text for text in forms if len(text) <= 6), format(value, ".0e"))


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
        """Take the live line away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self, doing: str) -> None:
        """Renew the live line, where there is one."""
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


class LogLines(Callback):
    """Gives every line of the log to `echo`, as JSON."""

    def __init__(self, echo: Callable[[str], object]) -> None:
        self.echo = echo

    def on_update(self, record: Record) -> bool | None:
        self.echo(json.dumps(record))
        return None


def make_console(stderr: bool = False) -> Console:
    """A console on stdout or stderr, with a live line on a terminal only, whatever FORCE_COLOR says."""
    on_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, force_terminal=None if on_terminal else False)


def opening_lines(trainer: Trainer) -> list[str]:
    """What a run is about, and the head of its table."""
    config, method = trainer.config, trainer.method
    limits = [] if config.updates is None else [f"update {config.updates}"]
    limits += [] if config.epochs is None else [f"epoch {config.epochs}"]
    if config.time_limit is not None:
        limits.append(clock(config.time_limit))
    limits += [] if config.target_bits is None else [f"{config.target_bits:g} bits"]
    lines = [
        f"network   {trainer.net.describe()}",
        *trainer.source.lines(),
        *method.lines(),
        *plan_lines(method.plans, method.expected_bytes, config),
        f"limit     {' or '.join(limits)}",
    ]
    lines = [*folded(lines), f"folder    {trainer.path}"]
    if trainer.update:
        lines.append(f"going on after update {trainer.update}")
    strength = None if config.optimizer != "hf" else "lambda" if config.damping == "tikhonov" else "mu"
    article = "an" if trainer.source.unit[0] in "aeiou" else "a"
    unit = f"{'bits' if trainer.source.in_bits else 'loss'} {article} {trainer.source.unit}"
    return [*lines, "", f"{'':24}{unit}", header(strength, trainer.source.counts_errors)]


def plan_lines(plans: dict[str, Plan], expected: int, config: TrainConfig) -> list[str]:
    """How batches are run."""
    lines = []
    for role, plan in plans.items():
        shards = len(plan.shards) - 1
        lines.append(
            f"{role:<9} {plan.shards[-1]:,} sequences in {shards} shard{'s' if shards > 1 else ''}, "
            f"{plan.segment or config.sequence_length} steps at a time, keeps {plan.keep.value}"
        )
        if plan.keep is not Keep.ALL and role == "curvature":
            lines.append(f"          {RECOMPUTATION[plan.keep]}")
    return [*lines, f"memory    {expected / 2**20:,.0f} MiB expected, of {config.memory}"]


def dry_run_lines(dry_run: DryRun, config: TrainConfig) -> list[str]:
    """What a run would do and cost."""
    first = "update" if dry_run.product is None else "gradient"
    parts = ((first, dry_run.gradient), ("loss", dry_run.loss), ("product", dry_run.product))
    updates = [f"{dry_run.update_seconds(n):.1f} s with {n}" for n in sorted({10, 30, config.cg_iterations})]
    hf = [f"update    about {', '.join(updates)} CG iterations"] if dry_run.product is not None else []
    return folded(
        [
            f"network   {dry_run.network}",
            *plan_lines(dry_run.plans, dry_run.expected_bytes, config),
            *(f"{name:<9} {seconds:.3f} s" for name, seconds in parts if seconds is not None),
            *hf,
        ]
    )


def folded(lines: Iterable[str]) -> list[str]:
    """The lines at most 80 columns wide, what follows below what was said."""
    fold = textwrap.TextWrapper(80, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False).wrap
    return [part for line in lines for part in fold(line)]


def profile_lines(records: list[Record]) -> list[str]:
    """Where the time of a run's updates went."""
    if not records:
        return []

    def total(name: str) -> float:
        return sum(float(record[f"seconds_{name}"]) for record in records)

    whole = sum(float(record["seconds_update"]) for record in records)
    if records[0]["cg_iterations"] is None:
        validation = total("validation")
        parts = {"updates": whole - validation, "validation": validation}
        head = f"time of {records[-1]['update']:,} updates: {whole:.1f} s"
        return ["", head, *(f"  {name:<22} {seconds:8.2f} s {seconds / whole:6.1%}" for name, seconds in parts.items())]
    products = total("products")
    parts = {
        "gradients": total("gradient"),
        f"products ({sum(record['products'] for record in records):,})": products,
        "CG's own vectors": total("cg") - products,
        "preconditioner": total("preconditioner"),
        f"trial losses ({sum(record['evaluations'] for record in records):,})": total("search"),
        "validation": total("validation"),
    }
    parts["saving and the rest"] = whole - sum(parts.values())
    head = f"time of {len(records)} updates: {whole:.1f} s"
    return ["", head, *(f"  {name:<22} {seconds:8.2f} s {seconds / whole:6.1%}" for name, seconds in parts.items())]


def result_lines(result: TrainingResult) -> list[str]:
    """What a finished run says of itself."""
    summary: dict[str, Any] = result.summary
    best = summary["best"]
    lines = [f"stopped by {summary['stopped']} after {summary['updates']} updates and {clock(summary['seconds'])}"]
    if best is not None:
        part = "train" if best["valid_loss"] is None else "valid"
        measure = {"train": "training", "valid": "validation"}[part]
        if best[f"{part}_bits"] is not None:
            figure = f"{number(best[f'{part}_bits'])} bits per {UNITS[result.config.level]}"
        else:
            figure = f"loss {best[f'{part}_loss']:.4g}"
        wrong = "" if best["valid_errors"] is None else f", {best['valid_errors']:.1%} wrong"
        lines.append(f"best: {figure} in {measure}{wrong}, after update {best['update']}")
    return [*lines, f"run folder: {result.folder}"]


@contextmanager
def live_bar() -> Iterator[Callable[[str, float, float], None]]:
    """A bar on the terminal of stderr, moved by calls with a text, what is done and the whole; gone at the end."""
    bar = Progress(
        BarColumn(bar_width=24), TextColumn("{task.description}"), console=make_console(stderr=True), transient=True
    )
    if not bar.console.is_interactive:
        yield lambda text, done, total: None
        return
    with bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)
