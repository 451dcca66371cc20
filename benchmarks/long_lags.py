"""Do Hessian-free optimization and first-order methods with clipping learn long time lags, and in how much time?

Each method trains a plain network of 100 units on three synthetic tasks. A cell is a task, a length, a method and a
seed. Each cell is one run on one thread. It ends when fewer than 1% of the fresh sequences of a validation are wrong,
or when its processor seconds are used. With `--curriculum` a cell is several runs: the first has sequences of length
50, each of the others has twice the length and starts from the best weights of the run before. A cell that was stopped
resumes; one that is done is left alone. See README.md beside this file.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import click
import common
import opponents
from rich.console import Console
from rich.table import Table
from timed_runs import ENDLESS, UNFINISHED, is_done, progress, records, run_within, spent, validations

TASKS = ("addition", "temporal-order", "random-permutation")
LENGTHS = (50, 100, 200)
SEQUENCES = 500
"""Sequences of the final gradient and curvature batches of hf-published."""
START = {"initializer": "sutskever", "spectral_radius": 1.0, "input_scale": 0.1}
"""The first weights, the same for all methods; with the initializer's own N(0, 1) at the inputs HF learns nothing."""
FIRST_ORDER = {"streams": 20, "sequences": 10_000, "clip_norm": 1.0}
"""An epoch is 500 updates, after which follows a validation: with fewer, validations take a third of the minutes."""
METHODS: dict[str, dict[str, Any]] = {
    "hf": {"optimizer": "hf", "preset": "tuned"},
    "hf-published": {"optimizer": "hf", "preset": "published", "cg_iterations": 150, "curvature_fraction": 1.0},
    "sgd": {**FIRST_ORDER, "optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9},
    "adam": {**FIRST_ORDER, "optimizer": "adam", "learning_rate": 3e-4},
    "soap": {**FIRST_ORDER, "optimizer": "soap", "learning_rate": 1e-3},
    "muon": {**FIRST_ORDER, "optimizer": "muon", "learning_rate": 1e-3},
    "psgd": {**FIRST_ORDER, "optimizer": "psgd", "learning_rate": 1e-3},
}
"""PSGD is that of another package (opponents.py)."""
SUCCESS = "success"
NEARLY = 0.02
"""Share of wrong answers below which a task is nearly learned."""
POINTS = 100
"""Approximate number of points of a curve that are kept."""


@dataclass(frozen=True)
class Cell:
    """One run of the benchmark."""

    task: str
    length: int
    method: str
    seed: int
    curriculum: bool = False
    rate: float | None = None
    """Learning rate of a trial, in place of that of the method."""

    @property
    def name(self) -> str:
        rate = "" if self.rate is None else f"-{self.rate:g}"
        return f"{self.task}-{self.length}-{self.method}{rate}-{self.seed}" + ("-curriculum" if self.curriculum else "")

    @property
    def label(self) -> str:
        """What the table calls its method."""
        rate = "" if self.rate is None else f", {self.rate:g}"
        return f"{self.method}{rate}{', curriculum' if self.curriculum else ''}"

    def lengths(self) -> list[int]:
        """Return the lengths of its runs: the cell's own, and with a curriculum all shorter ones before it."""
        found = [self.length]
        while self.curriculum and found[0] // 2 >= LENGTHS[0]:
            found.insert(0, found[0] // 2)
        return found

    def folders(self, runs: Path) -> list[Path]:
        """Return the folders of its runs."""
        if not self.curriculum:
            return [runs / self.name]
        return [runs / f"{self.name}-{length}" for length in self.lengths()]

    def options(self, length: int, start: Path | None = None) -> dict[str, Any]:
        """Return the options of its run at a length, which starts from another run or from random weights."""
        own = METHODS[self.method]
        if self.method == "hf-published":
            own = {**own, "gradient_symbols": SEQUENCES * length}
        if self.rate is not None:
            own = {**own, "learning_rate": self.rate}
        return {
            "data": self.task,
            "length": length,
            "arch": "rnn",
            "hidden": 100,
            "seed": self.seed,
            **(START if start is None else {"init_from": str(start)}),
            **own,
        }


def seconds_below(points: Sequence[Mapping[str, Any]], share: float) -> float | None:
    """Return the processor seconds of the first validation with a smaller share of wrong answers; None without one.

    Results of older versions of this benchmark have seconds only.
    """
    return next((spent(p) for p in points if p["valid_errors"] is not None and p["valid_errors"] < share), None)


def validation_updates(points: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the median number of updates between two validations of a whole curve; None without a validation."""
    updates = [0, *(p["update"] for p in points)]
    return statistics.median(b - a for a, b in pairwise(updates)) if points else None


def used(folder: Path) -> float:
    """Return the processor seconds that a run has trained."""
    lines = records(folder)
    return spent(lines[-1]) if lines else 0.0


def result_path(cell: Cell, out: Path) -> Path:
    """Return the path of the JSON file of a cell."""
    return out / "long_lags" / f"{cell.name}.json"


def has_ended(found: Mapping[str, Any], budget: float) -> bool:
    """Return whether the result of a cell needs no more training within a budget of processor seconds.

    Results of older versions have minutes only, and stopped before an update that would have exceeded them.
    """
    if "seconds_processor" in found:
        over = bool(found["seconds_processor"] >= budget)
    else:
        over = bool(60 * found["minutes"] >= 0.9 * budget)
    return over or found["stopped"] not in UNFINISHED


def write(cell: Cell, folders: list[Path], out: Path) -> None:
    """Write the result of a cell: whether it was learned, when, and how the errors of its last run fell.

    The seconds of the curve count from the start of the first run.
    """
    processor = [used(folder) for folder in folders]
    before, stopped = sum(processor[:-1]), progress(folders[-1])[1]
    at_full_length = len(folders) == len(cell.lengths())
    names = ("update", "seconds", "symbols", "valid_loss", "valid_errors")
    points = validations(folders[-1], names, math.inf)
    points = [{**point, "seconds_processor": round(before + spent(point), 3)} for point in points]
    result = {
        "machine": common.machine(1),
        "cell": cell.__dict__,
        "options": cell.options(cell.lengths()[0]),
        "learned": stopped == SUCCESS and at_full_length,
        "stopped": stopped,
        "seconds_processor": sum(processor),
        "minutes": sum(progress(folder)[0] for folder in folders) / 60,
        "seconds_below_2_percent": seconds_below(points, NEARLY) if at_full_length else None,
        "validation_updates": validation_updates(points),
        "errors": min((p["valid_errors"] for p in points if p["valid_errors"] is not None), default=None),
        "curve": [*points[: -1 : max(1, len(points) // POINTS)], *points[-1:]],
    }
    if cell.curriculum:
        result["runs"] = [
            {"length": length, "seconds_processor": seconds}
            for length, seconds in zip(cell.lengths(), processor, strict=False)
        ]
    common.write_result(result_path(cell, out), result)


def print_table(cells: list[Cell], out: Path) -> None:
    """Print what there is: when a task was learned, or the lowest share of wrong answers."""
    table = Table("task", "length", "method", "seed", "learned in", "below 2% wrong in", "least wrong")
    for cell in cells:
        path = result_path(cell, out)
        if not path.is_file():
            continue
        found = json.loads(path.read_text("utf-8"))
        seconds = found.get("seconds_processor", 60 * found["minutes"])
        nearly = found.get("seconds_below_2_percent", seconds_below(found["curve"], NEARLY))
        table.add_row(
            cell.task, str(cell.length), cell.label, str(cell.seed),
            f"{seconds:.0f} s" if found["learned"] else f"not in {seconds:.0f} s",
            "" if nearly is None else f"{nearly:.0f} s",
            "" if found["errors"] is None else f"{found['errors']:.1%}",
        )  # fmt: skip
    Console().print(table)


def run_cell(cell: Cell, budget: float, backend: str, runs: Path, out: Path) -> None:
    """Begin the runs of a cell or resume them, and write its result; leave a cell that is done unchanged.

    The runs of a curriculum share its processor seconds. The next one begins when a length is learned.
    """
    path = result_path(cell, out)
    if path.is_file() and has_ended(json.loads(path.read_text("utf-8")), budget):
        click.echo(f"{cell.name}: done, left as it is")
        return
    done: list[Path] = []
    for length, folder in zip(cell.lengths(), cell.folders(runs), strict=True):
        new = {"updates": ENDLESS} if not (folder / "config.toml").is_file() else {}
        start = done[-1] if done else None
        run_within(folder, budget, {**cell.options(length, start), "threads": 1, "backend": backend, **new})
        if not is_done(folder, budget):
            return
        done.append(folder)
        budget -= used(folder)
        if progress(folder)[1] != SUCCESS or budget <= 0:
            break
    write(cell, done, out)


@click.command(cls=common.Command)
@click.option("--task", "tasks", type=click.Choice(TASKS), multiple=True, default=TASKS, help="Tasks.")
@click.option("--length", "lengths", type=int, multiple=True, default=LENGTHS, help="Lengths.")
@click.option(
    "--method", "methods", type=click.Choice(tuple(METHODS)), multiple=True, default=tuple(METHODS), help="Methods."
)
@click.option("--seed", "seeds", type=int, multiple=True, default=(0, 1, 2), help="Seeds.")
@click.option("--curriculum", is_flag=True, help="Begin with length 50, and double it whenever it is learned.")
@click.option("--rate", type=click.FloatRange(0, min_open=True),
              help="Learning rate of a trial of a first-order method.")  # fmt: skip
@click.option("--minutes", default=10.0, type=click.FloatRange(0, min_open=True),
              help="Largest number of processor minutes of a cell.")  # fmt: skip
@click.option("--backend", type=click.Choice(("numpy", "numba")), default="numpy",
              help="What to compute with; give other --runs and --out for another backend.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Print what there is; train nothing.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs/long_lags"), help="The folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(
    tasks: tuple[str, ...], lengths: tuple[int, ...], methods: tuple[str, ...], seeds: tuple[int, ...],
    curriculum: bool, rate: float | None, minutes: float, backend: str, listing: bool, runs: Path, out: Path,
) -> None:  # fmt: skip
    """Train the cells that are asked for, one after another, and print what was learned."""
    opponents.register()
    cells = [Cell(*cell, curriculum, rate) for cell in product(tasks, lengths, methods, seeds)]
    for cell in [] if listing else cells:
        run_cell(cell, 60 * minutes, backend, runs, out)
    print_table(cells, out)


if __name__ == "__main__":
    main()
