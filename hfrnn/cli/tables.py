"""What a command prints about a training run: its opening lines, the table of updates, its result and its profile."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hfrnn.engine.plan import Keep, Plan
from hfrnn.names import UNITS
from hfrnn.runs.metrics import Record, clock

if TYPE_CHECKING:
    from hfrnn.runs.config import TrainConfig
    from hfrnn.training.dry_run import DryRun
    from hfrnn.training.trainer import Trainer, TrainingResult

RECOMPUTATION = {
    Keep.STATES: "each product computes the predictions again",
    Keep.NOTHING: "a product runs forward twice and R-forward once more",
}
"""What each product computes again, by what is kept in memory."""


def header(strength: str | None = "mu", errors: bool = False) -> str:
    """Return the names of the columns of `row`.

    Parameters
    ----------
    strength : str, optional
        The strength of damping that is shown for Hessian-free optimization; None for another optimizer.
    errors : bool
        Whether the share of wrong answers is shown.
    """
    if strength is None:
        wrong = "  wrong" if errors else ""
        return f"update     time    left  train  valid   epoch     rate  gradient  clipped{wrong}"
    return f"update     time    left  train  valid   CG  ended by          rho {strength:>8}  step"


def row(record: Record, left: float | None) -> str:
    """Return a record of the log as a line of the table, at most 80 columns wide."""
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
    """Return a number in at most six characters; - for None."""
    if value is None:
        return "-"
    forms = (format(value, form) for form in (".3f", ".2f", ".1f", ".0f"))
    return next((text for text in forms if len(text) <= 6), format(value, ".0e"))


def opening_lines(trainer: Trainer) -> list[str]:
    """Return what a run trains, how, with what limits, and the head of its table."""
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
        f"backend   {trainer.net.backend.name}",
        f"limit     {' or '.join(limits)}",
    ]
    lines = [*folded(lines), f"folder    {trainer.path}"]
    if trainer.update:
        lines.append(f"continuing after update {trainer.update}")
    strength = None if config.optimizer != "hf" else "lambda" if config.damping == "tikhonov" else "mu"
    unit = f"{'bits' if trainer.source.in_bits else 'loss'} per {trainer.source.unit}"
    return [*lines, "", f"{'':24}{unit}", header(strength, trainer.source.counts_errors)]


def plan_lines(plans: dict[str, Plan], expected: int, config: TrainConfig) -> list[str]:
    """Return how batches are split and what they keep in memory."""
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
    """Return what a run would do, its memory and its time."""
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
    """Return lines wrapped at 80 columns; a continuation is indented under the text."""
    fold = textwrap.TextWrapper(80, subsequent_indent=" " * 10, break_long_words=False, break_on_hyphens=False).wrap
    return [part for line in lines for part in fold(line)]


def profile_lines(records: list[Record]) -> list[str]:
    """Return how the time of a run's updates was spent."""
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
    """Return why a run stopped, its best result and its folder."""
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
