"""Runs of the cells' trials: begun, watched, resumed and looked at."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from cells import Limit, Options
from common import machine

from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.threads import default_threads
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.outcome import End
from hfrnn.ranks.one import ALONE, Ranks
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.folder import RunFolder
from hfrnn.training.trainer import Callback, train
from hfrnn.wording import clock

ENDLESS = {"hf": {"updates": 10**9}}
"""The limit of a run by its optimizer, `EPOCHS_WITHOUT_END` for others: the table's limit is counted here."""
EPOCHS_WITHOUT_END = {"epochs": 10**6}
NOT_FINITE = "a loss or gradient that is not finite"
ENDED = ("learning rate", "patience", NOT_FINITE, *(end.value for end in End))
"""What summary.json says of a run that does not go on; any other reason is a limit."""
QUIET_SECONDS = 30.0
"""The least time between two lines on the screen that do not tell of a validation."""
CURVES = {
    "perplexity": ("epoch", "seconds", "valid_perplexity"),
    "bits": ("update", "seconds", "seconds_processor", "symbols", "train_bits", "valid_bits"),
}
"""What a curve holds, by the metric of a table. The last is compared."""
DIGITS = {"perplexity": 2, "bits": 4}
"""Digits after the point of a validation on the screen."""


class Watch(Callback):
    """Prints every validation, and now and then how it goes; ends the training at its limit or at a deadline.

    A deadline ends it between two lines of the log, as a signal does: what follows is as if it had never stopped.
    """

    def __init__(self, label: str, metric: str, limit: Limit, deadline: float) -> None:
        self.label, self.metric, self.limit, self.deadline = label, metric, limit, deadline
        self.spoken = time.monotonic()

    def on_update(self, record: dict[str, Any]) -> bool:
        now, valid = time.monotonic(), record[f"valid_{self.metric}"]
        if valid is not None or now - self.spoken >= QUIET_SECONDS:
            self.spoken = now
            place = f"epoch {record['epoch']:.2f}" if "epoch" in record else f"update {record['update']}"
            rate = f", rate {record['learning_rate']:.3g}" if "learning_rate" in record else ""
            train = math.exp(min(record["train_loss"], 700.0)) if self.metric == "perplexity" else record["train_bits"]
            shown = "" if valid is None else f", {valid:.{DIGITS[self.metric]}f} in validation"
            click.echo(
                f"{self.label}: {place}, {record['seconds']:,.0f} s{rate}, {self.metric} "
                f"{train:.{DIGITS[self.metric] - 1}f} in training{shown}, left {clock(self.seconds_left(record))}"
            )
        return self.limit.is_over(record) or now >= self.deadline

    def seconds_left(self, record: dict[str, Any]) -> float | None:
        """The time to the limit at the mean speed so far, None at the start; patience may end it before."""
        share = self.limit.share(record)
        return record["seconds"] * (1 - share) / share if share else None

    def on_interrupt(self) -> None:
        click.echo("stopping after the step that is running")


@dataclass(frozen=True)
class Progress:
    """How far a trial is: the lines of its log, the metric, and why it will not go on (None if it may)."""

    records: list[dict[str, Any]]
    metric: str = "perplexity"
    ended: str | None = None

    @classmethod
    def of(cls, run: Path, metric: str = "perplexity") -> Progress:
        """Of a run folder, which need not be there."""
        if not (run / "config.toml").is_file():
            return cls([], metric)
        summary = run / "summary.json"
        stopped = json.loads(summary.read_text("utf-8"))["stopped"] if summary.is_file() else None
        return cls(RunFolder(run).metrics(), metric, stopped if stopped in ENDED else None)

    def last(self, name: str) -> float:
        """A figure of the last line, 0 before the first; 0 also for what this optimizer does not count."""
        return float(self.records[-1].get(name, 0.0)) if self.records else 0.0

    def __str__(self) -> str:
        place = f"epoch {self.last('epoch'):.2f}" if self.last("epoch") else f"update {self.last('update'):.0f}"
        return self.ended or place

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The validated lines, as `CURVES` names them."""
        names = CURVES[self.metric]
        return [{name: r[name] for name in names} for r in self.records if r["valid_loss"] is not None]

    @property
    def best(self) -> dict[str, Any] | None:
        """The first of the least in `curve`, which are the weights that a run keeps as its best."""
        return min(self.curve, key=lambda point: point[f"valid_{self.metric}"], default=None)

    @property
    def seconds_epoch(self) -> float | None:
        """Seconds of training an epoch, validation left out."""
        spent = sum(record["seconds_update"] - record["seconds_validation"] for record in self.records)
        return spent / self.last("epoch") if self.last("epoch") else None

    def is_done(self, limit: Limit) -> bool:
        return self.ended is not None or any(limit.is_over(record) for record in self.records)


@dataclass(frozen=True)
class Settings:
    """Where and how long a command trains: its folders, what it computes with, its limit and its deadline."""

    runs: Path
    out: Path
    limit: Limit
    deadline: float = math.inf
    backend: str = "numpy"
    threads: int | None = None
    ranks: Ranks = ALONE


def train_trial(run: Path, options: Options, metric: str, settings: Settings) -> Progress:
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
    found, ranks = Progress.of(run, metric), settings.ranks
    if ranks.broadcast(found.is_done(settings.limit) or time.monotonic() >= settings.deadline):
        return found
    if ranks.leads:
        log_machine(run.parent, run.name, settings)
    watch = Watch(f"{run.parent.name} {run.name}", metric, settings.limit, settings.deadline)
    shared: dict[str, Any] = {"callbacks": [watch], "progress": False, "backend": settings.backend, "comm": ranks}
    shared |= {} if settings.threads is None else {"threads": settings.threads}
    try:
        if begun:
            train(resume=run, **shared)
        else:
            endless = ENDLESS.get(options["optimizer"], EPOCHS_WITHOUT_END)
            shards = {} if settings.threads is None else {"shards": settings.threads * ranks.size}
            train(**{**options, "out": run, **endless, **shards, **shared})
    except NonFiniteError as error:
        click.echo(f"{watch.label} has ended: {error}")
    return Progress.of(run, metric)


def _check_options(run: Path, options: Options) -> None:
    stored = RunFolder(run).config()
    given = checked_options(options, "the cell")
    full = TrainConfig(**given).resolved()
    changed = [name for name in given if getattr(full, name) != getattr(stored, name)]
    if changed:
        raise InputError(
            f"the run in {run} was begun with another {', '.join(changed)}: move it away, or give another --runs"
        )


def machine_facts(backend: str, threads: int | None) -> dict[str, Any]:
    """What `common.machine` tells, and the backend."""
    gpu = get_backend(backend) if backend == "cupy" else None
    return {**machine(threads or default_threads(), gpu), "backend": backend}


def log_machine(folder: Path, trial: str, settings: Settings) -> None:
    """Note where a trial is trained from now on, in machines.jsonl of the cell's runs."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"trial": trial, **machine_facts(settings.backend, settings.threads), "ranks": settings.ranks.size}
    with (folder / "machines.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def trained_on(folder: Path, trial: str) -> list[dict[str, Any]]:
    """The different machines that a trial was trained on."""
    log = folder / "machines.jsonl"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.is_file() else []
    names = ("backend", "processor", "processors", "gpu", "threads", "ranks")
    machines = [{name: line.get(name, 1) for name in names} for line in lines if line["trial"] == trial]
    return [each for n, each in enumerate(machines) if each not in machines[:n]]
