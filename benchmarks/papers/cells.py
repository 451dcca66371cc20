"""Cells of the papers' tables: what is trained, and what was published.

A script beside this file is a `Table` of them, or one for each scale, and script.py's command. See ../README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

from hfrnn.engine.network import Network
from hfrnn.runs.config import TrainConfig, checked_options

PARTS = {"train": "train", "valid": "valid", "test": "test", "perplexity": "a part that is not named"}
"""What figures are published of."""
WORDS = 10_000
"""Words of the Penn Treebank."""
CLOCKS = {"processor": "seconds_processor", "wall": "seconds"}
"""The clocks that count the minutes of a trial, and their names in metrics.jsonl. Validation is not counted."""

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

    def seeded(self, seed: int) -> Cell:
        """The same cell with another seed, under another name; seed 0 is the default, and has the name alone."""
        return replace(self, name=f"{self.name}-seed-{seed}", options={**self.options, "seed": seed}) if seed else self


@dataclass(frozen=True)
class Limit:
    """How long a trial is: so many epochs, or minutes of training by a clock."""

    amount: float
    unit: str = "epochs"
    clock: str = "processor"

    def __str__(self) -> str:
        return f"{self.amount:g} epochs" if self.unit == "epochs" else f"{self.amount:g} {self.clock} minutes"

    def is_over(self, record: Mapping[str, Any]) -> bool:
        """Whether a line of a log is at the limit. A validation ends an epoch; `epoch` alone may be rounded up."""
        if self.unit == "minutes":
            return bool(record[CLOCKS[self.clock]] >= 60 * self.amount)
        epoch = record["epoch"]
        return bool(epoch > self.amount or (epoch == self.amount and record["valid_loss"] is not None))

    def share(self, record: Mapping[str, Any]) -> float:
        """The share of the limit that a line of a log has reached, from 0 to 1."""
        done = record[CLOCKS[self.clock]] / 60 if self.unit == "minutes" else record["epoch"]
        return min(float(done) / self.amount, 1.0)

    def asked(self) -> dict[str, Any]:
        """The limit as a result holds it."""
        clock = {"clock": self.clock} if self.unit == "minutes" else {}
        return {f"{self.unit}_asked": self.amount, **clock}


@dataclass(frozen=True)
class Table:
    """Cells that one script trains.

    name : of the folders of runs and results
    trials : by name, options over the cells': the grid that validation chooses from
    epochs, minutes : the limit of every trial, one of them, unless its schedule or its patience ends it before
    part : what is scored in the end, "test", or "valid" where a corpus has no test part
    metric : what is published and compared, "perplexity" or "bits"
    symbols : V, to count weights before the data are read; None to leave that out
    quoted : figures of other authors that the paper's table holds
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    trials: Mapping[str, Options]
    epochs: int | None = None
    minutes: float | None = None
    part: str = "test"
    metric: str = "perplexity"
    symbols: int | None = None
    quoted: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def limit(self) -> Limit:
        """The limit of a trial that is not asked for another."""
        return Limit(self.epochs) if self.epochs is not None else Limit(float(self.minutes or 0), "minutes")

    def recipe(self, cell: Cell) -> dict[str, dict[str, Any]]:
        """The options of every trial of a cell."""
        trials = self.trials if cell.trials is None else cell.trials
        return {name: {**cell.options, **options} for name, options in trials.items()}

    def weights(self, cell: Cell) -> int | None:
        """The trained weights of a cell's network; None without `symbols`."""
        if self.symbols is None:
            return None
        config = TrainConfig(**checked_options(cell.options, cell.name)).resolved()
        loss = {"loss": "class-softmax", "classes": config.classes} if config.classes else {"loss": "softmax"}
        return Network(**config.network_arguments({"n_in": self.symbols, "n_out": self.symbols, **loss})).n_parameters
