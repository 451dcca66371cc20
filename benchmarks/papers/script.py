"""The command of a table's script: list its cells, train and score them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from cells import CLOCKS, PARTS, Cell, Limit, Table
from common import RESULTS, Command
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from scores import has_recipe, is_finished, read_result, score_cell, train_cell
from trials import Progress, Settings

from hfrnn.cli.under_mpi import launched_together, silence_followers

LIMITS = {"epochs": "--epochs", "minutes": "--budget"}
"""The option for the limit of a trial, by its unit."""
FORMS = {"perplexity": ".1f", "bits": ".3f"}
PUBLISHED = {"perplexity": "g", "bits": ".2f"}
"""How our figures and published ones are written, by their metric."""


def published_text(table: Table, cell: Cell) -> str:
    """The published figures in words."""
    form = PUBLISHED[table.metric]
    named = {part: f"{part} {{:{form}}}" for part in PARTS} | {"perplexity": f"{{:{form}}} (part not named)"}
    return ", ".join(named[part].format(cell.published[part].value) for part in PARTS if part in cell.published)


def state_text(table: Table, cell: Cell, runs: Path, out: Path) -> str:
    """Whether a cell is finished, or which of its trials is how far."""
    result = read_result(table, cell, out)
    if result is not None:
        if is_finished(table, cell, out, table.limit):
            return "finished"
        asked = f"{LIMITS[table.limit.unit]} {result.get(f'{table.limit.unit}_asked', 0):g}"
        return f"finished with {asked}" if has_recipe(result, table, cell) else "a result of another recipe"
    folder = runs / table.name / cell.name
    found = {trial: Progress.of(folder / trial, table.metric) for trial in table.recipe(cell)}
    return ", ".join(f"{trial} {each}" for trial, each in found.items() if each.records) or "not begun"


def number(value: float | None, form: str) -> str:
    """A figure, or nothing where there is none."""
    return "" if value is None or not math.isfinite(value) else format(value, form)


def figures(table: Table, cell: Cell, out: Path) -> dict[str, str]:
    """What was published of a cell and what was reached, under the headings of a row."""
    result = read_result(table, cell, out) or {"ours": {table.metric: {}}}
    ours, there, form = result["ours"], cell.published, FORMS[table.metric]
    seconds, weights = there.get("seconds_epoch"), there.get("weights")
    parts = dict.fromkeys(("train", "valid", table.part))
    return {
        "cell": cell.name,
        "published": published_text(table, cell),
        **{f"ours, {part}": number(ours[table.metric].get(part), form) for part in parts},
        "best": number(ours.get("best_epoch", ours.get("best_update")), "g"),
        "trial": result.get("chosen", ""),
        "s an epoch, published": "" if seconds is None else f"{seconds.value:g}",
        "s an epoch, ours": number(ours.get("seconds_epoch"), ".1f"),
        "weights, published": "" if weights is None else f"{weights.value:,.0f}",
        "weights": number(ours.get("weights", table.weights(cell)), ",d"),
    }


def print_list(table: Table, cells: Sequence[Cell], runs: Path, out: Path) -> None:
    rows = [{**figures(table, cell, out), "state": state_text(table, cell, runs, out)} for cell in cells]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    grid = Grid(*shown, title=escape(f"{table.title}: {table.limit}, trials {', '.join(table.trials)}"))
    for row in rows:
        grid.add_row(*(row[name] for name in shown))
    Console().print(grid)


def chosen_cells(table: Table, names: Sequence[str], seed: int) -> list[Cell]:
    """The cells of those names, all where none is given.

    Raises
    ------
    click.UsageError
        A name is not known.
    """
    known = {cell.name: cell for cell in table.cells}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"there is no cell {', '.join(unknown)}: use {', '.join(known)}")
    return [known[name].seeded(seed) for name in names or known]


def run_cells(table: Table, cells: Sequence[Cell], settings: Settings, minutes: float | None) -> None:
    """Train and score cells. Several ranks train all of them first, because only one of them scores."""
    ranks, left = settings.ranks, []
    for cell in cells:
        if minutes is not None:
            settings = replace(settings, deadline=time.monotonic() + 60 * minutes)
        if ranks.broadcast(is_finished(table, cell, settings.out, settings.limit)):
            click.echo(f"{cell.name}: finished, left as it is")
            continue
        found = train_cell(table, cell, settings)
        if found is not None and ranks.size == 1:
            score_cell(table, cell, found, settings)
        elif found is not None and ranks.leads:
            left.append((cell, found))
    for cell, found in left:
        score_cell(table, cell, found, settings)


def limit_option(limit: Limit) -> Callable[[Any], Any]:
    """The option that gives trials another limit than the table's."""
    if limit.unit == "epochs":
        return click.option("--epochs", "amount", type=click.IntRange(1), help=f"Epochs of a trial: {limit.amount:g}.")
    return click.option(
        "--budget", "amount", type=click.FloatRange(0, min_open=True),
        help="Minutes of training of a trial, validation left out (default: the scale's).",
    )  # fmt: skip


def command(tables: Table | Mapping[str, Table]) -> Callable[..., Any]:
    """The command line of a script with one table, or with one for each scale; the last scale is the default."""
    scales = {"paper": tables} if isinstance(tables, Table) else dict(tables)
    *_, (usual, largest) = scales.items()

    @click.command(cls=Command, help=f"{largest.title}: train and score the cells, by default all not finished.")
    @click.argument("names", metavar="[CELL]...", nargs=-1)
    @click.option("--list", "listing", is_flag=True, help="Print all cells: published, reached, weights, how far.")
    @click.option("--scale", type=click.Choice(list(scales)), default=usual, help="Size of networks, batches and data.")
    @limit_option(largest.limit)
    @click.option("--clock", type=click.Choice(list(CLOCKS)), default="processor", help="The clock of --budget.")
    @click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Stop a cell after so long; it can go on.")
    @click.option("--seed", type=click.IntRange(0), default=0, help="Seed; each has results of its own.")
    @click.option("--backend", type=click.Choice(("numpy", "numba", "cupy")), default="numpy", help="Where to compute.")
    @click.option("--threads", type=click.IntRange(1), help="Threads (default: all processors).")
    @click.option(
        "--runs", type=click.Path(path_type=Path), default=Path("runs/papers"), help="The folder of the runs."
    )
    @click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "papers", help="The folder of the JSON.")
    def main(
        names: tuple[str, ...], listing: bool, scale: str, amount: float | None, clock: str, minutes: float | None,
        seed: int, backend: str, threads: int | None, runs: Path, out: Path,
    ) -> None:  # fmt: skip
        table = scales[scale]
        cells, usual = chosen_cells(table, names, seed), table.limit
        if listing:
            print_list(table, cells, runs, out)
            return
        limit = replace(usual, amount=amount or usual.amount, clock=clock if usual.unit == "minutes" else usual.clock)
        silence_followers()
        with launched_together() as ranks:
            settings = Settings(runs, out, limit, backend=backend, threads=threads, ranks=ranks)
            run_cells(table, cells, settings, minutes)

    return main
