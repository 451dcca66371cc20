"""The command of a table's script: train and score cells, list them, write the table beside the published figures."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from cells import PARTS, Cell, Progress, Table, has_recipe, is_finished, read_result, run_cell
from common import RESULTS, Command
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from hfrnn.atomic import write_atomic


def published_text(cell: Cell) -> str:
    """The published perplexities in words."""
    named = {"valid": "valid {:g}", "test": "test {:g}", "perplexity": "{:g} (part not named)"}
    return ", ".join(named[part].format(cell.published[part].value) for part in PARTS if part in cell.published)


def state_text(table: Table, cell: Cell, runs: Path, out: Path) -> str:
    """Whether a cell is finished, or which of its trials is how far."""
    result = read_result(table, cell, out)
    if result is not None:
        if is_finished(table, cell, out, table.epochs):
            return "finished"
        same = has_recipe(result, table, cell)
        return f"finished with --epochs {result['epochs_asked']}" if same else "a result of another recipe"
    found = {trial: Progress.of(runs / table.name / cell.name / trial) for trial in table.recipe(cell)}
    begun = [f"{trial} {each.ended or f'epoch {each.epochs:.2f}'}" for trial, each in found.items() if each.records]
    return ", ".join(begun) or "not begun"


def number(value: float | None, form: str = ".1f") -> str:
    """A figure, or nothing where there is none."""
    return "" if value is None or not math.isfinite(value) else format(value, form)


def figures(table: Table, cell: Cell, out: Path) -> dict[str, str]:
    """What was published of a cell and what was reached, under the headings of a row."""
    result = read_result(table, cell, out) or {"ours": {"perplexity": {}}}
    ours, there = result["ours"], cell.published
    seconds, weights = there.get("seconds_epoch"), there.get("weights")
    return {
        "cell": cell.name,
        "published": published_text(cell),
        "ours, valid": number(ours["perplexity"].get("valid")),
        **({} if table.part == "valid" else {f"ours, {table.part}": number(ours["perplexity"].get(table.part))}),
        "best epoch": number(ours.get("best_epoch"), "g"),
        "trial": result.get("chosen", ""),
        "s an epoch, published": "" if seconds is None else f"{seconds.value:g}",
        "s an epoch, ours": number(ours.get("seconds_epoch")),
        "weights, published": "" if weights is None else f"{weights.value:,.0f}",
        "weights, ours": number(ours.get("weights"), ",d"),
    }


def print_list(table: Table, runs: Path, out: Path) -> None:
    rows = [{**figures(table, cell, out), "state": state_text(table, cell, runs, out)} for cell in table.cells]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    grid = Grid(*shown, title=escape(f"{table.title}: {table.epochs} epochs, trials {', '.join(table.trials)}"))
    for row in rows:
        grid.add_row(*(row[name] for name in shown))
    Console().print(grid)


def markdown(table: Table, out: Path) -> str:
    """The table of what is there beside what was published, and below it what the paper quotes."""
    rows = [figures(table, cell, out) for cell in table.cells]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = [
        f"# {table.title}",
        "",
        f"Perplexities; written by `python benchmarks/papers/{table.name}.py --table`.",
        "",
    ]
    lines += [f"| {' | '.join(shown)} |", f"|{' --- |' * len(shown)}"]
    lines += [f"| {' | '.join(row[name] for name in shown)} |" for row in rows]
    if table.quoted:
        lines += ["", "Quoted in the paper:", "", "| model | perplexity | source |", "| --- | --- | --- |"]
        lines += [f"| {name} | {figure.value:g} | {figure.source} |" for name, figure in table.quoted.items()]
    return "\n".join([*lines, ""])


def chosen_cells(table: Table, names: Sequence[str]) -> list[Cell]:
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
    return [known[name] for name in names] if names else list(known.values())


def command(table: Table) -> Callable[..., Any]:
    """The command line of a table's script."""

    @click.command(cls=Command, help=f"{table.title}: train and score the cells, by default all that are not finished.")
    @click.argument("names", metavar="[CELL]...", nargs=-1)
    @click.option("--list", "listing", is_flag=True, help="Print all cells: published, reached, how far.")
    @click.option("--table", "written", is_flag=True, help="Print and save table.md: what is there beside the paper.")
    @click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Stop a cell after so long; it can go on.")
    @click.option("--epochs", type=click.IntRange(1), default=table.epochs, help="Epochs of a trial.")
    @click.option("--backend", type=click.Choice(("numpy", "numba", "cupy")), default="numpy", help="Where to compute.")
    @click.option(
        "--runs", type=click.Path(path_type=Path), default=Path("runs/papers"), help="The folder of the runs."
    )
    @click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "papers", help="The folder of the JSON.")
    def main(
        names: tuple[str, ...], listing: bool, written: bool, minutes: float | None, epochs: int, backend: str,
        runs: Path, out: Path,
    ) -> None:  # fmt: skip
        cells = chosen_cells(table, names)
        if listing:
            print_list(table, runs, out)
        if written:
            text, path = markdown(table, out), out / table.name / "table.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
            click.echo(f"{text}\nwrote {path}")
        if listing or written:
            return
        for cell in cells:
            deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
            run_cell(table, cell, runs, out, backend, epochs, deadline)

    return main
