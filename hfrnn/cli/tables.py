"""What a command prints about a training run: its opening lines and its result."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hfrnn.cli.columns import WIDTH, RunTable, number
from hfrnn.engine.plan import Keep, Plan
from hfrnn.names import UNITS
from hfrnn.runs.metrics import clock
from hfrnn.wording import counted, four_digits

if TYPE_CHECKING:
    from hfrnn.runs.config import TrainConfig
    from hfrnn.training.callbacks import TrainingResult
    from hfrnn.training.dry_run import DryRun
    from hfrnn.training.trainer import Trainer

RECOMPUTATION = {
    Keep.STATES: "each product computes the predictions again",
    Keep.NOTHING: "a product runs forward twice and R-forward once more",
}
"""What each product computes again, by what is kept in memory."""


def opening_lines(trainer: Trainer, width: int = WIDTH) -> list[str]:
    """Return what a run trains, how, and with what limits."""
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
        f"backend   {trainer.net.backend.name}{f' (auto: {trainer.why_backend})' if trainer.why_backend else ''}",
        *rank_lines(trainer.ranks.size, method.plans),
        f"limit     {' or '.join(limits)}",
    ]
    lines = [*folded(lines, width), f"folder    {trainer.path}"]
    if trainer.update:
        done = config.updates is not None and trainer.update >= config.updates
        lines.append(f"continuing after update {trainer.update}")
        if done:
            lines[-1] += (
                f": --updates {config.updates} counts from the first update, so none is left; give a larger --updates, "
                "or --minutes"
            )
    return [*lines, ""]


def run_table(trainer: Trainer, width: int = WIDTH) -> tuple[RunTable, list[str]]:
    """Return the table of a run's updates, and the two lines of its head."""
    config, source = trainer.config, trainer.source
    strength = None if config.optimizer != "hf" else "lambda" if config.damping == "tikhonov" else "mu"
    table = RunTable(strength, source.counts_errors, width, source.in_bits)
    return table, [table.unit(f"{'bits' if source.in_bits else 'loss'} per {source.unit}"), table.header()]


def plan_lines(plans: dict[str, Plan], expected: int, config: TrainConfig) -> list[str]:
    """Return how batches are split and what they keep in memory."""
    lines = []
    for role, plan in plans.items():
        sequences, shards = counted(plan.shards[-1], "sequence"), counted(len(plan.shards) - 1, "shard")
        steps = counted(plan.segment or config.sequence_length, "step")
        lines.append(f"{role:<9} {sequences} in {shards}, {steps} at a time, keeps {plan.keep.value}")
        if plan.keep is not Keep.ALL and role == "curvature":
            lines.append(f"          {RECOMPUTATION[plan.keep]}")
    return [*lines, f"memory    {expected / 2**20:,.0f} MiB expected, of {config.memory}"]


def rank_lines(size: int, plans: dict[str, Plan]) -> list[str]:
    """Return how many ranks share the work, if there are several, and which batches have too few shards for them."""
    if size == 1:
        return []
    lines = [f"ranks     {size:,}"]
    few = {role: len(plan.shards) - 1 for role, plan in plans.items() if len(plan.shards) - 1 < size}
    for role, shards in few.items():
        lines.append(
            f"          the {role} batch has {counted(shards, 'shard')}: give --shards {size} or larger batches"
        )
    return lines


def dry_run_lines(dry_run: DryRun, config: TrainConfig) -> list[str]:
    """Return what a run would do, its memory and its time."""
    first = "update" if dry_run.product is None else "gradient"
    parts = ((first, dry_run.gradient), ("loss", dry_run.loss), ("product", dry_run.product))
    most = config.cg_iterations
    counts = [*(n for n in (10, 30) if n < most), most]
    updates = [f"{_time(dry_run.update_seconds(n))} with {n}" for n in counts]
    hf = [f"update    about {', '.join(updates)} CG iterations"] if dry_run.product is not None else []
    return folded(
        [
            f"network   {dry_run.network}",
            *plan_lines(dry_run.plans, dry_run.expected_bytes, config),
            *(f"{name:<9} {_time(seconds)}" for name, seconds in parts if seconds is not None),
            *hf,
        ]
    )


def _time(seconds: float) -> str:
    """Return a measured time with three significant digits."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"


def folded(lines: Iterable[str], width: int = WIDTH) -> list[str]:
    """Return lines wrapped at a width; a continuation is indented under the text."""
    fold = textwrap.TextWrapper(
        max(width, 20), subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False
    ).wrap
    return [part for line in lines for part in fold(line)]


def result_lines(result: TrainingResult) -> list[str]:
    """Return why a run stopped, its best result and its folder."""
    summary: dict[str, Any] = result.summary
    best = summary["best"]
    updates = counted(summary["updates"], "update")
    lines = [f"stopped by {summary['stopped']} after {updates} and {clock(summary['seconds'])}"]
    if best is not None:
        part = "train" if best["valid_loss"] is None else "valid"
        measure = {"train": "training", "valid": "validation"}[part]
        if best[f"{part}_bits"] is not None:
            figure = f"{number(best[f'{part}_bits'])} bits per {UNITS[result.config.level]}"
        else:
            figure = f"loss {four_digits(best[f'{part}_loss'])}"
        wrong = "" if best["valid_errors"] is None else f", {best['valid_errors']:.1%} wrong"
        lines.append(f"best: {figure} in {measure}{wrong}, after update {best['update']}")
    return [*lines, f"run folder: {result.folder}"]
