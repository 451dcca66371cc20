"""What do the cells, with the defaults of hfrnn alone, and linear models reach on recorded systems?

    python benchmarks/systems/run.py --system cascaded-tanks --cell gru --seeds 10 --seconds 60

Each run gets some processor seconds on one thread. It trains on the training recording only; the run's own validation
part keeps its best weights, and the median of the validation error chooses the cell. The test recordings are read once
from a state of zeros, and once from a state estimated from the outputs before the published step; both are scored from
that step on. Nothing is chosen by them. One JSON for each system.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common
import linear
from recordings import SYSTEMS, Recording, System

import hfrnn

FOLDER = common.RESULTS / "systems"


class ProcessorTime(hfrnn.Callback):
    """Ends a run after some processor seconds, and notes the best validation loss over them."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.start, self.used = seconds, 0.0, 0.0
        self.best, self.at = float("inf"), 0.0

    def on_start(self, trainer: Any) -> None:
        self.start = time.process_time()

    def on_update(self, record: dict[str, Any]) -> bool:
        self.used = time.process_time() - self.start
        if record["valid_loss"] is not None and record["valid_loss"] < self.best:
            self.best, self.at = record["valid_loss"], self.used
        return self.used > self.seconds


def scores(system: System, predict: Any, tests: dict[str, Recording]) -> dict[str, float]:
    """Return the root mean squared error of each test recording, in its units."""
    return {
        name: float(np.sqrt(np.mean((predict(u, y) - y)[system.washout :] ** 2))) for name, (u, y) in tests.items()
    }  # fmt: skip


def deviations(system: System) -> dict[str, float]:
    """Return the standard deviation of the outputs of each test recording, where they are scored."""
    return {name: float(np.std(y[system.washout :])) for name, (_, y) in system.load()[1].items()}


def trained(system: System, cell: str, seed: int, seconds: float, options: dict[str, Any]) -> dict[str, Any]:
    """Train one network, and return its errors."""
    import pandas

    train, tests = system.load()
    clock = ProcessorTime(seconds)
    with tempfile.TemporaryDirectory() as folder:
        result = hfrnn.train(
            data=pandas.DataFrame({"u": train[0], "y": train[1]}), inputs=["u"], targets=["y"], arch=cell, seed=seed,
            threads=1, minutes=1e4, callbacks=[clock], out=f"{folder}/run", **options,
        )  # fmt: skip
        net, theta, _ = hfrnn.load(f"{folder}/run")
        scaling = hfrnn.load_scaling(f"{folder}/run")

    def predict(u: Any, y: Any, estimated: int | None = None) -> Any:
        batch = hfrnn.Batch(u[:, None, None], y[:, None, None])
        found = hfrnn.predict(net, theta, batch, scaling=scaling, estimate_state=estimated)
        return found.outputs[:, 0, 0]

    config = result.config
    return {
        "seed": seed,
        "options": {name: getattr(config, name) for name in ("hidden", "window", "burn_in", "valid_blocks", "backend")},
        "updates": result.summary["updates"],
        "seconds_processor": round(clock.used, 1),
        "best_after": round(clock.at, 1),
        "valid_nrmse": (2 * clock.best) ** 0.5,  # the loss is half of the squared error
        "test": scores(system, predict, tests),
        "test_estimated": scores(system, partial(predict, estimated=system.washout), tests),
    }


def linear_models(system: System) -> dict[str, Any]:
    """Return the errors of the linear models."""
    train, tests = system.load()
    found = {}
    for name in linear.KINDS:
        predict, about = linear.fitted(name, train)
        found[name] = {"about": about, "test": scores(system, lambda u, y, f=predict: f(u), tests)}
    return found


@click.command(cls=common.Command)
@click.option("--system", "names", type=click.Choice(tuple(SYSTEMS)), multiple=True, default=("cascaded-tanks",),
              help="Systems.")  # fmt: skip
@click.option("--cell", "cells", multiple=True, default=("gru",), help="Architectures; linear for the linear models.")
@click.option("--seeds", default=10, type=click.IntRange(1), help="Number of seeds, from 0.")
@click.option("--seconds", default=60.0, type=click.FloatRange(0, min_open=True), help="Processor seconds of a run.")
@click.option("--option", "given", multiple=True, help="NAME=VALUE as JSON: an option other than the default.")
def main(names: tuple[str, ...], cells: tuple[str, ...], seeds: int, seconds: float, given: tuple[str, ...]) -> None:
    """Train and score; runs that the JSON holds already are not made again."""
    options = {name: json.loads(value) for name, _, value in (each.partition("=") for each in given)}
    label = "".join(f" {each}" for each in given)
    for name in names:
        path = FOLDER / f"{name}.json"
        found = json.loads(path.read_text("utf-8")) if path.is_file() else {"cells": {}}
        found["deviations"] = deviations(SYSTEMS[name])
        for cell in cells:
            if cell == "linear":
                found["linear"] = {"machine": common.machine(1), "models": linear_models(SYSTEMS[name])}
                common.write_result(path, found)
                click.echo(f"{name}: {found['linear']['models']}")
                continue
            own = found["cells"].setdefault(
                cell + label, {"machine": common.machine(1), "seconds": seconds, "runs": []}
            )
            for seed in sorted({*range(seeds)} - {run["seed"] for run in own["runs"]}):
                own["runs"].append(trained(SYSTEMS[name], cell, seed, seconds, options))
                common.write_result(path, found)
                run = own["runs"][-1]
                click.echo(f"{name} {cell}{label} seed {seed}: valid {run['valid_nrmse']:.4g}, test {run['test']}")
            tests = own["runs"][0]["test"]
            medians = {each: statistics.median(run["test"][each] for run in own["runs"]) for each in tests}
            click.echo(f"{name} {cell}{label}: median {medians}")


if __name__ == "__main__":
    main()
