"""What a caller sees of a training run: callbacks while it goes on, and its result at the end."""

from __future__ import annotations

import copy
import html
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfrnn.arrays.backend import Array
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.metrics import Record
from hfrnn.wording import clock, counted, four_digits

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.engine.objective import Objective
    from hfrnn.ranks.one import Ranks
    from hfrnn.sources.open import Source
    from hfrnn.training.methods.method import Method, Work
    from hfrnn.training.run_state import RunState


@dataclass(frozen=True)
class Restart:
    """Which of several restarts a run is: its number from 1, how many there are, and its seed."""

    number: int
    count: int
    seed: int

    def __str__(self) -> str:
        return f"{self.number} of {self.count}, seed {self.seed}"


class TrainingRun:
    """A training run as callbacks see it.

    `source` has the data, and `vocabulary` the symbols of a text. `validation` is None without validation data.
    `why_backend` says why the option `backend` with the value auto chose the backend; it is "" if another one was
    named. `ranks` are the processes that train together. `restart` says which of several restarts the run is; it
    is None for a single run. `state` is what training changes; the properties have what
    callbacks need of it.
    """

    net: Network
    source: Source
    vocabulary: Vocabulary | None
    method: Method
    validation: Objective | None
    why_backend: str
    ranks: Ranks
    state: RunState
    restart: Restart | None = None

    @property
    def config(self) -> TrainConfig:
        """The options, resolved."""
        return self.state.config

    @property
    def folder(self) -> RunFolder:
        """The run folder, locked while the run writes to it."""
        return self.state.folder

    @property
    def path(self) -> Path:
        """The path of the run folder."""
        return self.state.folder.path

    @property
    def theta(self) -> Array:
        """The parameters; with constraints, the variables that they are made of."""
        return self.state.theta

    @property
    def weights(self) -> Array:
        """The weights that are validated: the parameters, or an average of them."""
        return self.state.weights

    @property
    def update(self) -> int:
        """The number of updates so far."""
        return self.state.update

    @property
    def seconds(self) -> float:
        """The training time so far, without validation."""
        return self.state.seconds

    @property
    def symbols(self) -> int:
        """The number of symbols used for gradients so far."""
        return self.state.symbols

    @property
    def last(self) -> Record | None:
        """A copy of the record after the last update; None before there is one."""
        return copy.deepcopy(self.state.last)

    @property
    def best(self) -> Record | None:
        """A copy of the record after the best update; None before there is one."""
        return copy.deepcopy(self.state.best)


class Callback:
    """Base class of objects that watch a training run. A subclass overrides the methods that it needs.

    Examples
    --------
    >>> import hfrnn
    >>> class Print(hfrnn.Callback):
    ...     def on_update(self, record):
    ...         print(record["update"])
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run", callbacks=[Print()])
    1
    2
    """

    def on_start(self, trainer: TrainingRun) -> None:
        """Called before the first update.

        Parameters
        ----------
        trainer : TrainingRun
            The run: `config`, `net`, `source`, `vocabulary`, `method`, `validation`, `folder`, `path`, and the current
            `theta`, `weights`, `update`, `seconds`, `symbols`, `last` and `best`.
        """

    def on_cg(self, iteration: int, q: float) -> None:
        """Called after a CG iteration with the quadratic's value, or after a first-order step with the mean loss.

        On a GPU the mean loss is NaN: it is known at the next record.
        """

    def on_update(self, record: Record) -> bool | None:
        """Called after an update, or an interval of first-order steps, with a copy of its record; True ends it."""

    def on_interrupt(self) -> None:
        """Called at the first SIGINT, SIGTERM or SIGHUP; training ends after the current CG iteration or step."""

    def on_end(self, result: TrainingResult) -> None:
        """Called after the last update, unless training failed or was interrupted."""


@dataclass(frozen=True)
class TrainingResult:
    """How a training run ended.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run")
    >>> result.summary["stopped"], len(result.log)
    ('updates', 2)
    """

    net: Network
    theta: Array
    """The weights with the lowest validation loss, or the last ones if none were validated."""
    vocabulary: Vocabulary | None
    """The symbols of a text."""
    config: TrainConfig
    """The options, resolved."""
    folder: Path
    """The run folder."""
    summary: dict[str, Any]
    """The content of summary.json."""

    @property
    def log(self) -> list[Record]:
        """The records of metrics.jsonl."""
        return RunFolder(self.folder).metrics()

    def describe(self) -> str:
        """Return one line: the network, why the run ended, the best loss and the folder."""
        best = self.summary["best"] or {}
        names = [name for name in ("valid_bits", "valid_loss", "train_loss") if best.get(name) is not None][:1]
        loss = "".join(f", best {name.replace('_', ' ')} {best[name]:.4g}" for name in names)
        updates, reason = counted(self.summary["updates"], "update"), self.summary["stopped"]
        return f"{self.net.describe()}: {updates}, ended by {reason}{loss}, in {self.folder}"

    def __repr__(self) -> str:
        return f"<TrainingResult {self.describe()}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.describe())}</p>{log_table(self.log)}"


# ------------------------------------------------------------------ the log as an HTML table


ROWS = 8
"""Largest number of rows of a table."""
COLUMNS = {
    "update": "update", "seconds": "time", "train_loss": "training loss", "valid_loss": "validation loss",
    "valid_bits": "bits", "valid_errors": "wrong", "cg_iterations": "CG", "rho": "rho", "mu": "mu",
    "learning_rate": "learning rate",
}  # fmt: skip
"""The figures of a record that a table shows if a run has them, and their headings."""


def log_table(records: Sequence[Record]) -> str:
    """Return the log of a run as an HTML table with a few rows: the first and the last record and some between.

    Records with a validation are preferred.
    """
    watched = [record for record in records if record.get("valid_loss") is not None] or list(records)
    step = max(1, -(-(len(watched) - 1) // (ROWS - 1)))
    rows = watched[:-1:step] + watched[-1:]
    names = [name for name in COLUMNS if any(record.get(name) is not None for record in rows)]
    head = "".join(f"<th>{COLUMNS[name]}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{_shown(name, record.get(name))}</td>' for name in names)}</tr>" for record in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "seconds":
        return clock(value)
    if name == "valid_errors":
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else four_digits(value)


# ------------------------------------------------------------------ time left


MEMORY = 0.8
"""Weight of an update in the measured speed, relative to the next update."""


class TimeLeft:
    """Estimate the seconds until the first limit of a run: on time, updates or epochs.

    The work that is left is known from the limits and the sizes of the coming batches; the seconds for a unit of each
    kind of work are measured. Goals, such as `target_bits`, do not count.
    """

    def __init__(self, trainer: TrainingRun) -> None:
        self._trainer = trainer
        self._start = self._noted = time.monotonic()
        self._seconds: Work = {}
        self._done: Work = {}
        self._work_seconds: float | None = None

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._start

    def note(self, record: Record) -> None:
        """Note the work of a record and its time."""
        now = time.monotonic()
        method, config = self._trainer.method, self._trainer.config
        for total, new in ((self._done, method.work), (self._seconds, method.seconds(record, now - self._noted))):
            for kind, value in new.items():
                total[kind] = MEMORY * total.get(kind, 0.0) + value
        self._noted = now
        left = method.work_left(None if config.updates is None else max(config.updates - self._trainer.update, 0))
        if left is not None:
            self._work_seconds = sum(self._seconds[kind] / self._done[kind] * more for kind, more in left.items())

    def __call__(self) -> float | None:
        """Return the seconds left; None if there is no estimate yet."""
        now, limit = time.monotonic(), self._trainer.config.time_limit
        guesses = [] if limit is None else [limit - (now - self._start)]
        if self._work_seconds is not None:
            guesses.append(self._work_seconds - (now - self._noted))
        return max(min(guesses), 0.0) if guesses else None
