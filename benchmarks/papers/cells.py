"""Cells of the papers' tables: trained in a few trials, chosen by validation perplexity, then scored once.

A script beside this file is a `Table` of them and script.py's command. See ../README.md.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

import click
from common import machine, write_result

from hfrnn.analysis.evaluation import evaluate
from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.threads import default_threads
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.load import load
from hfrnn.runs.run_folder import RunFolder
from hfrnn.training.trainer import Callback, train

ENDLESS = 10**6
"""Epochs that a run is given: those of the recipe are counted here, so that --epochs may lengthen a run."""
NOT_FINITE = "a loss or gradient that is not finite"
ENDED = ("learning rate", "patience", NOT_FINITE)
"""What summary.json says of a run that does not go on; any other reason is a limit."""
QUIET_SECONDS = 30.0
"""The least time between two lines on the screen that do not tell of a validation."""
PARTS = {"valid": "valid", "test": "test", "perplexity": "a part that is not named"}
"""What perplexities are published of."""

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A published number and where it stands."""

    value: float
    source: str


@dataclass(frozen=True)
class Cell:
    """One entry of a table: the options of `hfrnn.train` and what was published.

    `published` has figures under the names of `PARTS`, and under `seconds_epoch` and `weights`. `trials` are the
    cell's own, instead of the table's.
    """

    name: str
    options: Options
    published: Mapping[str, Figure] = field(default_factory=dict)
    trials: Mapping[str, Options] | None = None


@dataclass(frozen=True)
class Table:
    """Cells that one script trains.

    name : of the folders of runs and results, and of the script
    trials : by name, options over the cells': the grid that validation chooses from
    epochs : of every trial, unless its schedule or its patience ends it before
    part : what is scored in the end, "test", or "valid" where a corpus has no test part
    quoted : figures of other authors that the paper's table holds
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    trials: Mapping[str, Options]
    epochs: int
    part: str = "test"
    quoted: Mapping[str, Figure] = field(default_factory=dict)

    def recipe(self, cell: Cell) -> dict[str, dict[str, Any]]:
        """The options of every trial of a cell."""
        trials = self.trials if cell.trials is None else cell.trials
        return {name: {**cell.options, **options} for name, options in trials.items()}


# ---------------------------------------------------------------------- runs


class Watch(Callback):
    """Prints every validation, and now and then how it goes; ends the training after so many epochs or at a deadline.

    A deadline ends it between two lines of the log, as a signal does: what follows is as if it had never stopped.
    """

    def __init__(self, label: str, epochs: int, deadline: float) -> None:
        self.label, self.epochs, self.deadline, self.spoken = label, epochs, deadline, time.monotonic()

    def on_update(self, record: dict[str, Any]) -> bool:
        now, valid = time.monotonic(), record["valid_perplexity"]
        if valid is not None or now - self.spoken >= QUIET_SECONDS:
            self.spoken = now
            click.echo(
                f"{self.label}: epoch {record['epoch']:.2f}, {record['seconds']:,.0f} s, "
                f"rate {record['learning_rate']:.3g}, perplexity {math.exp(min(record['train_loss'], 700.0)):.1f} in "
                f"training{'' if valid is None else f', {valid:.2f} in validation'}"
            )
        return _is_over(record, self.epochs) or now >= self.deadline

    def on_interrupt(self) -> None:
        click.echo("stopping after the step that is running")


def _is_over(record: dict[str, Any], epochs: int) -> bool:
    """Whether so many epochs are over; a validation ends the last of them, `epoch` alone may be rounded up."""
    return record["epoch"] > epochs or (record["epoch"] == epochs and record["valid_loss"] is not None)


@dataclass(frozen=True)
class Progress:
    """How far a trial is: the lines of its log, and why it will not go on (None if it may)."""

    records: list[dict[str, Any]]
    ended: str | None = None

    @classmethod
    def of(cls, run: Path) -> Progress:
        """Of a run folder, which need not be there."""
        if not (run / "config.toml").is_file():
            return cls([])
        summary = run / "summary.json"
        stopped = json.loads(summary.read_text("utf-8"))["stopped"] if summary.is_file() else None
        return cls(RunFolder(run).metrics(), stopped if stopped in ENDED else None)

    @property
    def epochs(self) -> float:
        return float(self.records[-1]["epoch"]) if self.records else 0.0

    @property
    def seconds(self) -> float:
        return float(self.records[-1]["seconds"]) if self.records else 0.0

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The validated lines: epoch, seconds and validation perplexity."""
        names = ("epoch", "seconds", "valid_perplexity")
        return [{name: r[name] for name in names} for r in self.records if r["valid_loss"] is not None]

    @property
    def best(self) -> dict[str, Any] | None:
        """The first of the least in `curve`, which are the weights that a run keeps as its best."""
        return min(self.curve, key=lambda point: point["valid_perplexity"], default=None)

    @property
    def seconds_epoch(self) -> float | None:
        """Seconds of training an epoch, validation left out."""
        spent = sum(record["seconds_update"] - record["seconds_validation"] for record in self.records)
        return spent / self.epochs if self.epochs else None

    def is_done(self, epochs: int) -> bool:
        return self.ended is not None or any(_is_over(record, epochs) for record in self.records)


def train_trial(run: Path, options: Options, backend: str, epochs: int, deadline: float) -> Progress:
    """Begin a run or go on with it, unless it is done, and say how far it is.

    Raises
    ------
    InputError
        The folder holds a run with other options.
    Interrupted
        On SIGINT or SIGTERM; the next call goes on.
    """
    begun = (run / "config.toml").is_file()
    if begun:
        _check_options(run, options)
    found = Progress.of(run)
    if found.is_done(epochs) or time.monotonic() >= deadline:
        return found
    log_machine(run.parent, run.name, backend)
    watch = Watch(f"{run.parent.name} {run.name}", epochs, deadline)
    try:
        if begun:
            train(resume=run, callbacks=[watch], backend=backend)
        else:
            train(callbacks=[watch], **{**options, "out": run, "backend": backend, "epochs": ENDLESS})
    except NonFiniteError as error:
        click.echo(f"{watch.label} has ended: {error}")
    return Progress.of(run)


def _check_options(run: Path, options: Options) -> None:
    stored = RunFolder(run).config()
    given = checked_options(options, "the cell")
    full = TrainConfig(**given).resolved()
    changed = [name for name in given if getattr(full, name) != getattr(stored, name)]
    if changed:
        raise InputError(
            f"the run in {run} was begun with another {', '.join(changed)}: move it away, or give another --runs"
        )


def machine_facts(backend: str) -> dict[str, Any]:
    """What `common.machine` tells, and the backend."""
    return {**machine(default_threads(), get_backend(backend) if backend == "cupy" else None), "backend": backend}


def log_machine(folder: Path, trial: str, backend: str) -> None:
    """Note where a trial is trained from now on, in machines.jsonl of the cell's runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "machines.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"trial": trial, **machine_facts(backend)}) + "\n")


def trained_on(folder: Path, trial: str) -> list[dict[str, Any]]:
    """The different machines that a trial was trained on."""
    log = folder / "machines.jsonl"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.is_file() else []
    names = ("backend", "processor", "processors", "gpu", "threads")
    machines = [{name: line[name] for name in names} for line in lines if line["trial"] == trial]
    return [each for n, each in enumerate(machines) if each not in machines[:n]]


# ---------------------------------------------------------------------- results


def run_cell(table: Table, cell: Cell, runs: Path, out: Path, backend: str, epochs: int, deadline: float) -> None:
    """Train what is left of a cell's trials; once all are done, score the chosen one and write the result."""
    if is_finished(table, cell, out, epochs):
        click.echo(f"{cell.name}: finished, left as it is")
        return
    folder = runs / table.name / cell.name
    found = {}
    for trial, options in table.recipe(cell).items():
        found[trial] = train_trial(folder / trial, options, backend, epochs, deadline)
        if not found[trial].is_done(epochs):
            click.echo(f"{cell.name}: time is up at epoch {found[trial].epochs:.2f} of {trial}; run it again to go on")
            return
    scored = {trial: each.best["valid_perplexity"] for trial, each in found.items() if each.best is not None}
    if not scored:
        click.echo(f"{cell.name}: no trial has reached a finite validation loss")
        return
    chosen = min(scored, key=lambda trial: scored[trial])
    result = score(table, cell, folder / chosen, found[chosen], backend)
    result["epochs_asked"] = epochs
    result["trials"] = {
        trial: {
            "valid_perplexity": scored.get(trial),
            "epochs": each.epochs,
            "seconds": each.seconds,
            "ended": each.ended,
        }
        for trial, each in found.items()
    }
    write_result(result_path(table, cell, out), result)


def score(table: Table, cell: Cell, run: Path, progress: Progress, backend: str) -> dict[str, Any]:
    """The result of a cell: its part read once, as one unbroken stream, with the best weights of the run chosen."""
    folder = RunFolder(run)
    net, theta, vocabulary = load(run, "best", backend)
    if vocabulary is None:
        raise InputError(f"{run} was not trained on a text: the cells of these tables are")
    text = getattr(folder.corpus(), table.part)
    evaluation = evaluate(net, theta, vocabulary, text, folder.config().unknown)
    best = progress.best
    assert best is not None
    return {
        "table": table.name,
        "cell": cell.name,
        "published": {name: {"value": each.value, "source": each.source} for name, each in cell.published.items()},
        "ours": {
            "perplexity": {"valid": best["valid_perplexity"], table.part: evaluation.perplexity},
            "symbols_scored": evaluation.symbols,
            "epochs": progress.epochs,
            "best_epoch": best["epoch"],
            "seconds": progress.seconds,
            "seconds_epoch": progress.seconds_epoch,
            "weights": net.n_parameters,
        },
        "part": table.part,
        "chosen": run.name,
        "recipe": table.recipe(cell),
        "versions": folder.versions(),
        "machine": machine_facts(backend),
        "trained_on": trained_on(run.parent, run.name),
        "curve": progress.curve,
    }


def result_path(table: Table, cell: Cell, out: Path) -> Path:
    return out / table.name / f"{cell.name}.json"


def read_result(table: Table, cell: Cell, out: Path) -> dict[str, Any] | None:
    """The result that is there, None if there is none."""
    path = result_path(table, cell, out)
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def is_finished(table: Table, cell: Cell, out: Path, epochs: int) -> bool:
    """Whether there is a result of the same recipe with as many epochs or more."""
    result = read_result(table, cell, out)
    return result is not None and has_recipe(result, table, cell) and result["epochs_asked"] >= epochs


def has_recipe(result: Mapping[str, Any], table: Table, cell: Cell) -> bool:
    """Whether a result is of the trials that the cell has now."""
    return bool(result["recipe"] == json.loads(json.dumps(table.recipe(cell))))
