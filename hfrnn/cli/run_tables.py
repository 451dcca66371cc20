"""What a command prints about a training run: its opening lines and its result."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hfrnn.choices import UNITS
from hfrnn.cli.arguments import told
from hfrnn.engine.connectivity import constraint_words
from hfrnn.engine.plan import Keep, Plan
from hfrnn.errors import Message
from hfrnn.ranks.one import ALONE_IN_SLURM, alone_in_slurm
from hfrnn.runs.metrics import Record
from hfrnn.training.hints import no_updates_left, overfitting
from hfrnn.wording import clock, counted, four_digits

if TYPE_CHECKING:
    from hfrnn.engine.constraints import Constraints
    from hfrnn.runs.config import TrainConfig
    from hfrnn.training.callbacks import TrainingResult, TrainingRun
    from hfrnn.training.dry_run import DryRun

WIDTH = 80
"""Width of a whole table."""


@dataclass(frozen=True)
class Column:
    """A column of the table: its heading, its width with the space before it, and the text of a record.

    `text` takes the record and the seconds left. On a narrow screen, the column with the smallest `keep` is left out
    first. With `left`, the text starts at the left.
    """

    name: str
    width: int
    text: Callable[[Record, float | None], str]
    keep: int
    left: bool = False

    def cell(self, text: str) -> str:
        """Return a text at its place in the column."""
        return f"  {text:<{self.width - 2}}" if self.left else f"{text:>{self.width}}"


class RunTable:
    """The heading and the rows of a run's updates, with as many columns as fit into `width` characters.

    `strength` is the strength of damping that is shown for Hessian-free optimization, None for another optimizer. With
    `errors`, the share of wrong answers is shown. Losses that are not in bits have four significant digits.
    """

    def __init__(
        self, strength: str | None = "mu", errors: bool = False, width: int = WIDTH, in_bits: bool = True
    ) -> None:
        own = _steps(in_bits) if strength is None else _hessian_free(strength, in_bits)
        wanted: list[Column] = [*CLOCK, *(BITS if in_bits else LOSS_COLUMNS), *own, *(ERRORS if errors else ())]
        while sum(column.width for column in wanted) > width and len(wanted) > 1:
            wanted.remove(min(wanted, key=lambda column: column.keep))
        self.columns = wanted

    def header(self) -> str:
        """Return the names of the columns."""
        return "".join(column.cell(column.name) for column in self.columns).rstrip()

    def unit(self, name: str) -> str:
        """Return a line with the unit of the losses, above their columns."""
        before = next((n for n, column in enumerate(self.columns) if column.name == "train"), 0)
        return " " * (sum(column.width for column in self.columns[:before]) + 1) + name

    def row(self, record: Record, left: float | None) -> str:
        """Return a record of the log as a line, given the seconds left."""
        return "".join(column.cell(column.text(record, left)) for column in self.columns).rstrip()


def short_number(value: float | None) -> str:
    """Return a number in at most six characters; - for None. A small number keeps its significant digits."""
    if value is None:
        return "-"
    if 0 < abs(value) < 0.0995:
        forms = [format(value, ".3g"), format(value, ".2g"), _short(format(value, ".1e")), _short(format(value, ".0e"))]
    else:
        forms = [format(value, form) for form in (".3f", ".2f", ".1f", ".0f")]
    return next((text for text in forms if len(text) <= 6), format(value, ".0e"))


def _short(text: str) -> str:
    """Return a number like 1.2e-05 as 1.2e-5."""
    return text.replace("e-0", "e-")


def _bits(part: str) -> Callable[[Record, float | None], str]:
    return lambda record, left: short_number(record.get(f"{part}_bits"))


def _loss(part: str) -> Callable[[Record, float | None], str]:
    def text(record: Record, left: float | None) -> str:
        loss = record.get(f"{part}_loss")
        return "-" if loss is None else four_digits(loss)

    return text


CLOCK = (
    Column("update", 6, lambda record, left: str(record["update"]), 9),
    Column("time", 9, lambda record, left: clock(record["seconds"]), 7),
    Column("left", 8, lambda record, left: clock(left), 6),
)
BITS = (Column("train", 7, _bits("train"), 9), Column("valid", 7, _bits("valid"), 8))
LOSS_COLUMNS = (Column("train", 9, _loss("train"), 9), Column("valid", 9, _loss("valid"), 8))
ERRORS = (Column("wrong", 7, lambda record, left: _share(record["valid_errors"], ".1%"), 5),)


def _hessian_free(strength: str, in_bits: bool) -> list[Column]:
    """The columns of Hessian-free optimization; narrower ones beside losses that are not in bits."""
    prefix, spared = ("", 0) if in_bits else ("max_", 4)
    return [
        Column("CG", 5, lambda record, left: str(record["cg_iterations"]), 5),
        Column(
            "ended by", 16 - spared,
            lambda record, left: record["cg_stop"].removeprefix(prefix).replace("_", " "), 1, left=True,
        ),
        Column("rho", 7, lambda record, left: short_number(record.get("rho")), 2),
        Column(strength, 9, lambda record, left: _strength(record["mu"] or record["lambda"]), 3),
        Column("step", 6, lambda record, left: format(record["step_size"], ".2f"), 4),
    ]  # fmt: skip


def _steps(in_bits: bool) -> list[Column]:
    """The columns of the other optimizers; narrower ones beside losses that are not in bits."""
    spared = 0 if in_bits else 1
    return [
        Column("epoch", 8 - spared, lambda record, left: _epoch(record["epoch"]), 4),
        Column("rate", 9 - spared, lambda record, left: _short(format(record["learning_rate"], ".3g")), 3),
        Column("gradient", 10 - spared, lambda record, left: short_number(record["gradient_norm"]), 1),
        Column("clipped", 9 - spared, lambda record, left: _share(record["clipped"], ".0%"), 2),
    ]


def _epoch(value: float) -> str:
    return format(value, ".2f" if value < 1000 else ".1f")


def _strength(value: float | None) -> str:
    return format(value, ".3g") if value else "-"


def _share(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


# ------------------------------------------------------------------ around a run


RECOMPUTATION = {
    Keep.STATES: "each product computes the predictions again",
    Keep.NOTHING: "a product runs forward twice and R-forward once more",
}
"""What each product computes again, by what is kept in memory."""


def opening_lines(trainer: TrainingRun, width: int = WIDTH) -> list[str]:
    """Return what a run trains, how, and with what limits."""
    config, method = trainer.config, trainer.method
    limits = [] if config.updates is None else [f"update {config.updates}"]
    limits += [] if config.epochs is None else [f"epoch {config.epochs}"]
    if config.time_limit is not None:
        limits.append(clock(config.time_limit))
    limits += [] if config.target_bits is None else [f"{config.target_bits:g} bits"]
    lines = [
        *([] if trainer.restart is None else [f"restart   {trainer.restart}"]),
        f"network   {trainer.net.describe()}",
        *constraint_lines(method.constraints),
        *trainer.source.lines(),
        *method.lines(),
        *plan_lines(method.plans, method.expected_bytes, config),
        f"backend   {trainer.net.backend.name}{f' (auto: {trainer.why_backend})' if trainer.why_backend else ''}",
        *rank_lines(trainer.ranks.size, method.plans),
        *([f"hint      {ALONE_IN_SLURM.format(tasks)}"] if (tasks := alone_in_slurm()) else []),
        f"limit     {' or '.join(limits)}",
    ]
    lines = [*folded(lines, width), f"folder    {trainer.path}"]
    if trainer.update:
        left = no_updates_left(trainer)
        lines.append(f"continuing after update {trainer.update}{f': {told(left)}' if left else ''}")
    return [*lines, ""]


def next_lines(trainer: TrainingRun) -> list[str]:
    """Return what is new about a restart after the first one."""
    return ["", f"restart   {trainer.restart}", f"folder    {trainer.path}", ""]


def run_table(trainer: TrainingRun, width: int = WIDTH) -> tuple[RunTable, list[str]]:
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


def constraint_lines(constraints: Constraints | None) -> list[str]:
    """Return which weights of a run are absent or keep a sign, if there are any."""
    return [] if constraints is None else [f"weights   {constraint_words(constraints)}"]


def rank_lines(size: int, plans: dict[str, Plan]) -> list[str]:
    """Return how many ranks share the work, if there are several, and which batches have too few shards for them."""
    if size == 1:
        return []
    few = {role: counted(len(plan.shards) - 1, "shard") for role, plan in plans.items() if len(plan.shards) - 1 < size}
    advice = f"give --shards {size} or larger batches"
    return [f"ranks     {size:,}", *(f"{'':10}the {role} batch has {own}: {advice}" for role, own in few.items())]


def dry_run_lines(dry_run: DryRun, config: TrainConfig) -> list[str]:
    """Return what a run would do, its memory and its time."""
    first = "update" if dry_run.product is None else "gradient"
    parts = ((first, dry_run.gradient), ("loss", dry_run.loss), ("product", dry_run.product))
    lines: list[str | Message] = [Message("hint      {0}", hint) for hint in dry_run.hints]
    lines += [f"network   {dry_run.network}", *constraint_lines(dry_run.constraints)]
    lines += plan_lines(dry_run.plans, dry_run.expected_bytes, config)
    lines += [f"{name:<9} {_time(seconds)}" for name, seconds in parts if seconds is not None]
    if dry_run.product is not None:
        counts = [*(n for n in (10, 30) if n < config.cg_iterations), config.cg_iterations]
        updates = [f"{_time(dry_run.update_seconds(n))} with {n}" for n in counts]
        lines.append(f"update    about {', '.join(updates)} CG iterations")
    if config.restarts is not None and config.restarts > 1:
        lines.append(f"restarts  {config.restarts} such runs, one after another")
    return folded(lines)


def _time(seconds: float) -> str:
    """Return a measured time with three significant digits."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"


def folded(lines: Iterable[str | Message], width: int = WIDTH) -> list[str]:
    """Return lines wrapped at a width, in words of the command line; a continuation is indented under the text."""
    how: dict[str, Any] = {"subsequent_indent": " " * 10, "break_long_words": False, "break_on_hyphens": False}
    return [part for line in lines for part in textwrap.wrap(told(line), max(width, 20), **how)]


def result_lines(result: TrainingResult) -> list[str]:
    """Return why a run stopped, its best result and its folder."""
    summary: dict[str, Any] = result.summary
    best = summary["best"]
    updates = counted(summary["updates"], "update")
    lines = [f"stopped by {summary['stopped']} after {updates} and {clock(summary['seconds'])}"]
    if best is not None:
        part, measure = ("train", "training") if best["valid_loss"] is None else ("valid", "validation")
        if best[f"{part}_bits"] is not None:
            figure = f"{short_number(best[f'{part}_bits'])} bits per {UNITS[result.config.level]}"
        else:
            figure = f"loss {four_digits(best[f'{part}_loss'])}"
        wrong = "" if best["valid_errors"] is None else f", {best['valid_errors']:.1%} wrong"
        lines.append(f"best: {figure} in {measure}{wrong}, after update {best['update']}")
        if (hint := overfitting(result)) is not None:
            lines += folded([Message("hint      {0}", hint)])
    if "restarts" in summary:
        lines = [
            *restarts_table(summary["restarts"]),
            "",
            f"restart {summary['restart']} is the best: {lines[0]}",
            *lines[1:],
        ]
    return [*lines, f"run folder: {result.folder}"]


OF_RESTARTS: dict[str, Callable[[Record], str]] = {
    "restart": lambda row: str(row["restart"]),
    "seed": lambda row: str(row["seed"]),
    "train": lambda row: _best_loss(row, "train"),
    "valid": lambda row: _best_loss(row, "valid"),
    "wrong": lambda row: _share(row["valid_errors"], ".1%"),
    "at update": lambda row: "-" if row["best_update"] is None else str(row["best_update"]),
    "after": lambda row: clock(row["best_seconds"]),
}
"""The columns of the table of restarts: the heading, and the text of a run, whose figures are those of its best."""


def restarts_table(rows: list[Record]) -> list[str]:
    """Return the table of restarts: the seed of each, its best losses and when it had them."""
    texts = {name: [text(row) for row in rows] for name, text in OF_RESTARTS.items()}
    shown = {name: column for name, column in texts.items() if set(column) != {"-"}}
    widths = {name: max(map(len, (name, *column))) for name, column in shown.items()}
    head = "  ".join(f"{name:>{width}}" for name, width in widths.items())
    lines = ["  ".join(f"{column[k]:>{widths[name]}}" for name, column in shown.items()) for k in range(len(rows))]
    return [f"{head}  ended by", *(f"{line}  {row['stopped']}" for line, row in zip(lines, rows, strict=True))]


def _best_loss(row: Record, part: str) -> str:
    """Return the training or validation loss of a run's best record, in bits where it is counted in bits."""
    bits, loss = row[f"{part}_bits"], row[f"{part}_loss"]
    return short_number(bits) if bits is not None else "-" if loss is None else four_digits(loss)
