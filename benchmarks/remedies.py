"""What helps Hessian-free optimization to learn xor and temporal order of 200 steps, which it does not by default?

A cell is a task, a length, a trial and a seed. A trial changes one thing of the default run, or a few that belong
together. Each cell is one run on one thread. It ends when fewer than 1% of the sequences of a validation are wrong, or
when its processor seconds are used. See README.md beside this file.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import common
from long_lags import START, SUCCESS, used
from rich.console import Console
from rich.table import Table
from timed_runs import ENDLESS, is_done, progress, records, run_within, spent, validations

from hfrnn.option import option_key
from hfrnn.training.trainer import Interrupted

NAMES = ("update", "valid_loss", "valid_errors")
"""Values of a record that a curve has."""
MEANS = ("loss_before", "train_loss", "rho", "mu", "gradient_norm", "step_norm")
"""Values that are averaged over the plateau."""
PLATEAU = range(20, 60)
"""Updates whose losses, reduction ratios and damping are averaged in `means`."""
POINTS = 40
"""Approximate number of points of a curve that are kept."""
LEAST = {"xor": 21, "temporal-order": 10}
"""The least lengths of the tasks."""


@dataclass(frozen=True)
class Trial:
    """What a trial tries, where that comes from, and its options.

    `runs` says that each run starts from the best weights of a shorter length; `batch` is the sequences of a batch.
    """

    about: str
    source: str
    options: dict[str, Any]
    runs: bool = False
    batch: int | None = None

    def lengths(self, task: str, length: int) -> list[int]:
        """Return the lengths of its runs: one, or the least length, doubled until the last."""
        found = [LEAST[task] if self.runs else length]
        while found[-1] < length:
            found.append(min(2 * found[-1], length))
        return found

    def options_for(self, task: str, length: int, seed: int) -> dict[str, Any]:
        """Return the options of a run."""
        found = {"data": task, "length": length, "seed": seed, **self.options}
        if "length_rise" in found or "shortest" in found:
            found["shortest"] = LEAST[task]
        if self.batch is not None:
            symbols = self.batch * length
            found |= {"sequences": 4 * self.batch, "gradient_symbols": symbols, "first_gradient_symbols": symbols}
        return found


TRIALS: dict[str, Trial] = {
    "default": Trial("the defaults of the task", "", {}),
    "curriculum": Trial("several runs from the least length on, doubled when it is learned", "[ZS]", {}, runs=True),
    "rise-10": Trial("lengths from the least one on; the largest rises in 10 epochs", "[ZS]", {"length_rise": 10}),
    "rise-50": Trial(
        "lengths from the least one on; the largest rises in 50 epochs; first input weights 0.3", "[ZS], [MS]",
        {"length_rise": 50, "input_scale": 0.3},
    ),
    "mixed": Trial("lengths from the least one on", "[P], [ZS]", {"shortest": None}),
    "batch-500": Trial("500 sequences in a batch", "[MS]", {}, batch=500),
    "cg-30": Trial("500 sequences in a batch, 30 iterations of CG", "[MS]", {"cg_iterations": 30}, batch=500),
    "separate": Trial("rho on sequences of its own", "[MS]", {"rho_objective": "separate"}),
    "damped": Trial("at least mu 1", "[MS]", {"mu": 1.0, "least_damping": 1.0}),
    "inputs-0.3": Trial("first input weights 0.3", "[MS]", {"input_scale": 0.3}),
    "inputs-1": Trial("first input weights 1", "[MS]", {"input_scale": 1.0}),
    "radius-1.2": Trial("spectral radius 1.2", "[MS]", {"spectral_radius": 1.2}),
}  # fmt: skip


def command_line(options: dict[str, Any]) -> str:
    """Return the command with these options."""
    flags = [f"--{option_key(name).replace('_', '-')} {value}" for name, value in options.items()]
    return " ".join(["hfrnn train", *flags])


def means(folder: Path) -> dict[str, float]:
    """Return the means over the updates of the plateau: `loss_before` and `train_loss` are those of one batch."""
    lines = [line for line in records(folder) if line["update"] in PLATEAU]
    values = {name: [line[name] for line in lines if line.get(name) is not None] for name in MEANS}
    return {name: statistics.fmean(each) for name, each in values.items() if each}


def run_cell(cell: tuple[str, int, str, int], budget: float, runs: Path, out: Path) -> dict[str, Any]:
    """Begin the runs of a cell or resume them, and write its result; its seconds count from the first run on."""
    task, full, name, seed = cell
    trial = TRIALS[name]
    label = f"{task}-{full}-{name}-{seed}"
    before, curve, commands, start = 0.0, [], [], None
    for length in trial.lengths(task, full):
        folder = runs / (label if length == full else f"{label}-{length}")
        given = trial.options_for(task, length, seed)
        if start is not None:
            given = {name: value for name, value in given.items() if name not in START} | {"init_from": str(start)}
        run_within(folder, budget - before, {**given, "threads": 1, "backend": "numpy", "updates": ENDLESS})
        if not is_done(folder, budget - before):
            raise Interrupted
        points = validations(folder, NAMES, math.inf)
        curve = [{**point, "seconds_processor": round(before + spent(point), 1)} for point in points]
        shown = {**given, "out": folder.name} | ({} if start is None else {"init_from": start.name})
        commands.append(command_line(shown))
        before, start, learned = before + used(folder), folder, progress(folder)[1] == SUCCESS
        if not learned:
            break
    result = {
        "machine": common.machine(1),
        "cell": {"task": task, "length": full, "trial": name, "seed": seed},
        "about": trial.about,
        "source": trial.source,
        "options": trial.options_for(task, full, seed),
        "commands": commands,
        "learned": learned and length == full,
        "last_length": length,
        "seconds_processor": before,
        "updates": curve[-1]["update"],
        "means": means(folder) if len(commands) == 1 else {},
        "errors": min(point["valid_errors"] for point in curve),
        "curve": [*curve[: -1 : max(1, len(curve) // POINTS)], curve[-1]],
    }
    common.write_result(out / "remedies" / f"{label}.json", result)
    return result


@click.command(cls=common.Command)
@click.option("--task", "tasks", type=click.Choice(tuple(LEAST)), multiple=True, default=("xor",), help="Tasks.")
@click.option("--length", "lengths", type=int, multiple=True, default=(100,), help="Lengths.")
@click.option("--trial", "trials", type=click.Choice(tuple(TRIALS)), multiple=True, default=tuple(TRIALS),
              help="Trials.")  # fmt: skip
@click.option("--seed", "seeds", type=int, multiple=True, default=(0, 1, 2), help="Seeds.")
@click.option("--minutes", default=2.0, type=click.FloatRange(0, min_open=True),
              help="Largest number of processor minutes of a cell.")  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs/remedies"), help="The folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(
    tasks: tuple[str, ...], lengths: tuple[int, ...], trials: tuple[str, ...], seeds: tuple[int, ...], minutes: float,
    runs: Path, out: Path,
) -> None:  # fmt: skip
    """Train the cells that are asked for, one after another, and print what was learned."""
    table = Table("task", "length", "trial", "seed", "learned in", "least wrong")
    for cell in product(tasks, lengths, trials, seeds):
        path = out / "remedies" / f"{'-'.join(map(str, cell))}.json"
        found = json.loads(path.read_text("utf-8")) if path.is_file() else run_cell(cell, 60 * minutes, runs, out)
        used = f"{found['seconds_processor']:.0f} s"
        table.add_row(*map(str, cell), used if found["learned"] else f"not in {used}", f"{found['errors']:.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
