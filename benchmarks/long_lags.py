"""Do Hessian-free optimization, SGD with clipping and Adam learn over long time lags, and in how many minutes?

A plain network of 100 units on three synthetic tasks. A cell is a task, a length, a method and a seed; each is a run of
at most so many minutes that ends when fewer than 1% of the fresh sequences it is validated on are wrong. A cell that
was stopped goes on where it was; one that is done is left alone. See README.md beside this file.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import common
from rich.console import Console
from rich.table import Table
from timed_runs import curve, progress, run_for

from hfrnn.arrays.threads import default_threads

TASKS = ("addition", "temporal-order", "random-permutation")
LENGTHS = (50, 100, 200)
SEQUENCES = 500
"""Of a gradient and of a curvature batch of Hessian-free optimization."""
START = {"initializer": "sutskever", "spectral_radius": 1.0, "input_scale": 0.1}
"""The first weights, the same for all methods; with the initializer's own N(0, 1) at the inputs HF learns nothing."""
FIRST_ORDER = {"streams": 20, "sequences": 10_000, "clip_norm": 1.0}
"""An epoch is 500 updates, after which follows a validation: with fewer, validations take a third of the minutes."""
METHODS: dict[str, dict[str, Any]] = {
    "hf": {"optimizer": "hf", "preset": "published", "cg_iterations": 150, "curvature_fraction": 1.0},
    "sgd": {**FIRST_ORDER, "optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9},
    "adam": {**FIRST_ORDER, "optimizer": "adam", "learning_rate": 3e-4},
}
SUCCESS = "success"
POINTS = 100
"""Of a curve that are kept, about."""


@dataclass(frozen=True)
class Cell:
    """What one run is of."""

    task: str
    length: int
    method: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task}-{self.length}-{self.method}-{self.seed}"

    def options(self) -> dict[str, Any]:
        """The options of its run."""
        own = METHODS[self.method]
        if self.method == "hf":
            own = {**own, "gradient_symbols": SEQUENCES * self.length}
        return {
            "data": self.task,
            "length": self.length,
            "arch": "rnn",
            "hidden": 100,
            "seed": self.seed,
            **START,
            **own,
        }


def write(cell: Cell, folder: Path, out: Path, threads: int) -> None:
    """The result of a cell: whether it was learned, when, and how the errors fell."""
    seconds, stopped = progress(folder)
    points = curve(folder, ("update", "seconds", "symbols", "valid_loss", "valid_errors"), math.inf)
    result = {
        "machine": common.machine(threads),
        "cell": cell.__dict__,
        "options": cell.options(),
        "learned": stopped == SUCCESS,
        "stopped": stopped,
        "minutes": seconds / 60,
        "errors": min((point["valid_errors"] for point in points), default=None),
        "curve": [*points[: -1 : max(1, len(points) // POINTS)], *points[-1:]],
    }
    (out / "long_lags").mkdir(parents=True, exist_ok=True)
    common.write_result(out / "long_lags" / f"{cell.name}.json", result)


def print_table(cells: list[Cell], out: Path) -> None:
    """What there is: minutes until a task was learned, or the least share of wrong answers."""
    table = Table("task", "length", "method", "seed", "learned in", "least wrong")
    for cell in cells:
        path = out / "long_lags" / f"{cell.name}.json"
        if not path.is_file():
            continue
        found = json.loads(path.read_text("utf-8"))
        minutes = f"{found['minutes']:.1f} min" if found["learned"] else f"not in {found['minutes']:.1f} min"
        errors = "" if found["errors"] is None else f"{found['errors']:.1%}"
        table.add_row(cell.task, str(cell.length), cell.method, str(cell.seed), minutes, errors)
    Console().print(table)


@click.command(cls=common.Command)
@click.option("--task", "tasks", type=click.Choice(TASKS), multiple=True, default=TASKS, help="Tasks.")
@click.option("--length", "lengths", type=int, multiple=True, default=LENGTHS, help="Lengths.")
@click.option("--method", "methods", type=click.Choice(tuple(METHODS)), multiple=True, default=METHODS, help="Methods.")
@click.option("--seed", "seeds", type=int, multiple=True, default=(0, 1, 2), help="Seeds.")
@click.option("--minutes", default=10.0, type=click.FloatRange(0, min_open=True), help="Of a cell, at most.")
@click.option("--threads", type=click.IntRange(1), help="Threads (default: all processors).")
@click.option("--list", "listing", is_flag=True, help="Print what there is; train nothing.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs/long_lags"), help="The folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(
    tasks: tuple[str, ...], lengths: tuple[int, ...], methods: tuple[str, ...], seeds: tuple[int, ...], minutes: float,
    threads: int | None, listing: bool, runs: Path, out: Path,
) -> None:  # fmt: skip
    """Train the cells that are asked for, one after another, and print what was learned."""
    cells = [Cell(*cell) for cell in product(tasks, lengths, methods, seeds)]
    for cell in [] if listing else cells:
        run_for(runs / cell.name, minutes, {**cell.options(), "threads": threads})
        write(cell, runs / cell.name, out, threads or default_threads())
    print_table(cells, out)


if __name__ == "__main__":
    main()
