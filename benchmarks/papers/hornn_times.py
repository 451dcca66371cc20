"""[S thesis] table 6.3: the time of an update of each network of hornn_ptb.py, on one thread.

An epoch has the same number of updates for all networks, so the ratios of times are those of epochs. The networks are
timed in turn, several times over, in runs that are thrown away. The medians of the processor seconds per update go to
`results/papers/hornn_times.json`.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import click
import hornn_ptb
from cells import Cell

# isort: split
import common
from timed_runs import updates_per_second

SECONDS = "seconds_epoch"
FILE = "hornn_times.json"
COMMAND = "python benchmarks/papers/hornn_times.py"


def timed_cells() -> list[Cell]:
    """Return the cells whose time of an epoch is published."""
    return [cell for cell in hornn_ptb.TABLE.cells if SECONDS in cell.published]


@click.command(cls=common.Command)
@click.option("--rounds", type=click.IntRange(1), default=5, help="Times that each network is timed.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), default=10.0, help="Processor seconds of a run.")
@click.option("--backend", type=click.Choice(("numpy", "numba")), default="numba", help="What to compute with.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS / "papers", help="Folder of the JSON.")
def main(rounds: int, seconds: float, backend: str, out: Path) -> None:
    """Time the networks in turn and write the medians."""
    facts = {**common.machine(1), "backend": backend}
    cells = timed_cells()
    found: dict[str, list[float]] = {cell.name: [] for cell in cells}
    for number in range(rounds):
        for cell in cells:
            ((_, options),) = hornn_ptb.TABLE.recipe(cell).items()
            shared = {"backend": backend, "threads": 1, "sample_length": 0}
            found[cell.name].append(1.0 / updates_per_second({**options, **shared}, seconds))
            click.echo(f"round {number + 1} of {rounds}: {cell.name}, {found[cell.name][-1]:.4f} s per update")
    medians = {name: statistics.median(times) for name, times in found.items()}
    common.write_result(out / FILE, {"machine": facts, "seconds_update": medians, "rounds": found})


if __name__ == "__main__":
    main()
