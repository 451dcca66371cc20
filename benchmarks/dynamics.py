"""Compare Hessian-free optimization with first-order methods on tasks of neuroscience and system identification.

All runs use one thread and the same network. A cell is one run: a task, a method, a trial and a seed. Each cell is
written to its own JSON file when it ends:

    python benchmarks/dynamics.py --list                          what there is
    python benchmarks/dynamics.py --task lorenz --method hf       some cells
    python benchmarks/dynamics.py --summary                       the table and a picture for each task

A first-order method has three learning rates, compared on every task in short runs with one seed; the best one is used.
Hessian-free optimization has its defaults. See README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from comparison import read_cells, thin
from dynamics_results import LOSS, METHODS, best_loss, chosen_trial, draw, print_table
from rich.console import Console
from rich.table import Table
from timed_runs import ENDLESS, is_done, progress, records, run_within, spent, updates_per_second, validations

from hfrnn.data.tasks import make_task
from hfrnn.engine.batch import Batch

sys.path.insert(0, str(common.HERE.parent / "examples"))
import context_integration
import lorenz
import wiener_hammerstein

STEPS = 100
"""Steps of the built-in tasks."""
COUNT, HELD_OUT = 1000, 500
"""Number of training sequences, which every epoch draws anew, and number of validation sequences."""
WINDOW, BURN_IN, SAMPLES, VALID_SAMPLES = 200, 50, 60_000, 20_000
"""Steps of a window of the recording, steps of it that are not scored, and samples of both parts."""

Drawn = Batch | Mapping[str, Any]


def built_in(name: str) -> Callable[[int, np.random.Generator], Drawn]:
    """Return a function that draws sequences of a built-in task."""
    task = make_task(name, STEPS)
    return lambda count, rng: Batch(*task.sequences(count, rng))


DRAWN: dict[str, Callable[[int, np.random.Generator], Drawn]] = {
    "flip-flop": built_in("flip-flop"),
    "sine": built_in("sine"),
    "context": context_integration.trials,
    "lorenz": lorenz.pieces,
}
"""Tasks whose training sequences are new in every epoch: functions that draw a number of sequences."""


def windows(samples: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a recording of the Wiener-Hammerstein system in windows that overlap by half."""
    u, y = wiener_hammerstein.recording(samples, rng)
    at = np.arange(0, samples - WINDOW + 1, WINDOW // 2)[:, None] + np.arange(WINDOW)
    mask = np.ones(at.shape, dtype=np.float32)
    mask[:, :BURN_IN] = 0
    return {"x": u[at][..., None].astype(np.float32), "y": y[at][..., None].astype(np.float32), "mask": mask}


def data_of(task: str) -> dict[str, Any]:
    """Return the data of a task as arguments of `hfrnn.train`. They do not depend on the seed of the run."""
    if task in DRAWN:
        draw = DRAWN[task]
        return {"batches": lambda rng: draw(COUNT, rng), "valid": draw(HELD_OUT, np.random.default_rng(1))}
    train, valid = windows(SAMPLES, np.random.default_rng(0)), windows(VALID_SAMPLES, np.random.default_rng(1))
    return {"data": {**train, **{f"valid_{name}": array for name, array in valid.items()}}}


RNN = {"arch": "rnn", "hidden": 100}
TASKS: dict[str, dict[str, Any]] = {
    "flip-flop": RNN,
    "sine": RNN,
    "context": RNN,
    "wiener-hammerstein": {"arch": "rnn", "hidden": 50},
    "lorenz": RNN,
}
"""The network of each task."""
BUDGET, TRIAL_BUDGET = 150.0, 60.0
"""Processor seconds of a run, and of one that compares learning rates."""
RATES = {
    "adam": (3e-4, 1e-3, 3e-3),
    "sgd": (0.003, 0.01, 0.03),
    "soap": (1e-3, 3e-3, 0.01),
    "muon": (1e-3, 3e-3, 0.01),
}
TRIALS: dict[str, dict[str, dict[str, Any]]] = {"hf": {"default": {"optimizer": "hf"}}}
TRIALS |= {name: {f"{rate:g}": {"optimizer": name, "learning_rate": rate} for rate in RATES[name]} for name in RATES}
"""The trials of each method."""
VALIDATION_SECONDS = 2
"""Approximate seconds of training between two validations of a first-order method. HF has its own rule."""
POINTS = 150
"""Approximate number of points of a curve that are kept."""
FOLDER = "dynamics"


@dataclass(frozen=True)
class Cell:
    """One run of the benchmark."""

    task: str
    method: str
    trial: str
    seed: int
    tunes: bool = False
    """Whether the run only compares learning rates."""

    @property
    def name(self) -> str:
        """The name of the run folder and of the JSON file."""
        return f"{self.task}-{self.method}-{self.trial}-{'trial' if self.tunes else self.seed}"

    @property
    def budget(self) -> float:
        """Processor seconds of the run."""
        return TRIAL_BUDGET if self.tunes else BUDGET

    def options(self) -> dict[str, Any]:
        """Return the options of the run without its data."""
        same = {"seed": self.seed, "threads": 1, "backend": "numpy"}
        return {**TASKS[self.task], **TRIALS[self.method][self.trial], **same}


def measured_options(options: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that depend on the speed of the machine: records and validations."""
    if options["optimizer"] == "hf":
        return {"updates": ENDLESS}
    pace = updates_per_second({**options, **data}, 2.0)
    every = max(1, round(VALIDATION_SECONDS * pace))
    return {"updates": ENDLESS, "log_interval": max(1, round(pace)), "validate_every": every}


def wanted_cells(tasks: Iterable[str], methods: Iterable[str], seeds: Sequence[int], out: Path) -> Iterator[Cell]:
    """Yield the trials of each task and method. After them, yield a run with the best trial for each seed."""
    for task, method in product(tasks, methods):
        trials = TRIALS[method]
        if len(trials) > 1:
            yield from (Cell(task, method, trial, 0, tunes=True) for trial in trials)
        chosen = next(iter(trials)) if len(trials) == 1 else chosen_trial(read_cells(out), task, method, trials)
        if chosen:
            yield from (Cell(task, method, chosen, seed) for seed in seeds)
        else:
            click.echo(f"{task}, {method}: left out until its trials are done")


def run_cell(cell: Cell, budget: float, runs: Path, out: Path) -> None:
    """Begin the run of a cell or resume it, and write its result; leave a cell with a result unchanged."""
    path, folder = out / f"{cell.name}.json", runs / cell.name
    if path.is_file():
        click.echo(f"{cell.name}: done, left as it is")
        return
    options, data = cell.options(), data_of(cell.task)
    if not (folder / "config.toml").is_file():
        click.echo(f"{cell.name}: {budget:g} processor seconds")
        options |= measured_options(options, data)
    run_within(folder, budget, options, data)
    if is_done(folder, budget):
        common.write_result(path, result_of(cell, budget, folder))


def result_of(cell: Cell, budget: float, folder: Path) -> dict[str, Any]:
    """Return the result of a run that is done: its options, machine and learning curve."""
    points, lines = validations(folder, ("update", "valid_loss"), budget), records(folder)
    last = lines[-1] if lines else {"seconds": 0.0, "update": 0}
    return {
        "machine": common.machine(1),
        "cell": asdict(cell),
        "budget": budget,
        "options": cell.options(),
        "stopped": progress(folder)[1],
        "updates": last["update"],
        "seconds_processor": spent(last),
        "best": best_loss(points),
        "curve": thin(points, POINTS, LOSS),
    }


def print_list(cells: Iterable[Cell], runs: Path, out: Path) -> None:
    """Print the state of every cell and its lowest validation loss."""
    table = Table("cell", "state", "processor seconds", "lowest loss")
    done = {Cell(**found["cell"]): found for found in read_cells(out)}
    for cell in cells:
        found, lines = done.get(cell), records(runs / cell.name)
        used = found["seconds_processor"] if found else spent(lines[-1]) if lines else 0.0
        state = "done" if found else "begun" if lines else "not begun"
        table.add_row(cell.name, state, f"{used:.0f}", f"{found['best']:.3g}" if found else "")
    Console().print(table)


@click.command(cls=common.Command)
@click.option("--task", "tasks", type=click.Choice(tuple(TASKS)), multiple=True, default=tuple(TASKS), help="Tasks.")
@click.option("--method", "methods", type=click.Choice(METHODS), multiple=True, default=METHODS, help="Methods.")
@click.option("--seed", "seeds", type=click.IntRange(0), multiple=True, default=(0, 1, 2), help="Seeds.")
@click.option("--list", "listing", is_flag=True, help="Print the state of the cells; train nothing.")
@click.option("--summary", is_flag=True, help="Print the table and write the pictures; train nothing.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True),
              help="Processor seconds of a run, to try the script; give other --runs and --out too.")  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs") / FOLDER, help="Folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS / FOLDER, help="Folder of the JSON.")
def main(
    tasks: tuple[str, ...], methods: tuple[str, ...], seeds: tuple[int, ...], listing: bool, summary: bool,
    seconds: float | None, runs: Path, out: Path,
) -> None:  # fmt: skip
    """Train the cells that are not done, one after another."""
    if summary:
        results = read_cells(out)
        print_table(results)
        for task in dict.fromkeys(each["cell"]["task"] for each in results):
            draw(out / f"{task}.svg", task, results)
        return
    cells = wanted_cells(tasks, methods, seeds, out)
    if listing:
        print_list(cells, runs, out)
        return
    for cell in cells:
        run_cell(cell, seconds or cell.budget, runs, out)


if __name__ == "__main__":
    main()
