"""Restarts: runs that differ only in their seeds. The best of them becomes the result.

RUN/restart-1, RUN/restart-2, ...   the run folders, with the seeds `seed`, `seed` + 1, ...
RUN/restarts.json                   the seeds, what became of each run that has ended, and which one is the best
RUN/config.toml, ...                the files of the best run, copied when all have ended
RUN/.lock                           exists while the restarts are running

The runs are trained one after another, each with all threads and with limits of its own, so each has the bits of a
single run with its seed. An interrupted run gets what is left of its time limit. A process may be killed at any
moment: `best` in restarts.json is written last.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfrnn.errors import CheckpointError, HfrnnError, InputError, Message, NonFiniteError
from hfrnn.files import CHECKPOINT_SHARE, CONFIGURATION, is_regular, memory_share, read_bytes, write_atomic
from hfrnn.option import argument
from hfrnn.runs.folder import (
    RESTARTS,
    RunFolder,
    delete_leftovers,
    is_unused,
    make_empty_folder,
    make_numbered_folder,
    occupied,
)
from hfrnn.runs.lock import NAME as LOCK
from hfrnn.runs.lock import FolderLock
from hfrnn.runs.resume import LIMITS, resumed_config
from hfrnn.training.callbacks import Restart, TrainingResult
from hfrnn.training.run_state import default_folder

if TYPE_CHECKING:
    from hfrnn.ranks.one import Ranks
    from hfrnn.runs.config import TrainConfig
    from hfrnn.training.run_state import RunState

FIGURES = ("train_loss", "train_bits", "valid_loss", "valid_bits", "valid_errors")
"""Names of the figures of the best record that the table has."""
GOALS = (*LIMITS, "target_bits", "patience")
"""Options that must be the same in all restarts, for their results to be comparable."""
LEAST_SECONDS = 1e-3
"""Time limit of an interrupted run that has used up its own: it ends after one update."""

NewRun = Callable[["TrainConfig", "Restarts"], TrainingResult]
"""Trains a new run, after `Restarts.place` has chosen its folder."""
ResumedRun = Callable[[Path, "Restarts"], TrainingResult]
"""Trains a run that was interrupted."""


class Restarts:
    """The restarts of a run: their seeds, their folder, and what became of those that have ended.

    Attributes
    ----------
    path : Path or None
        The folder of all; None before `place`.
    seeds : list of int
    runs : list of dict
        For each run that has ended: its number, seed, figures and folder.
    best : int or None
        The number of the best run, from 1; None until all have ended.
    """

    def __init__(self, seeds: list[int], path: Path | None = None) -> None:
        self.seeds, self.path = seeds, path
        self.runs: list[dict[str, Any]] = []
        self.best: int | None = None
        self._lock: FolderLock | None = None

    @classmethod
    def read(cls, path: str | Path) -> Restarts | None:
        """Return the restarts in a folder; None if it has none."""
        file = Path(path) / RESTARTS
        if not is_regular(file):
            return None
        try:
            stored = json.loads(read_bytes(file, CONFIGURATION, links=False))
            found = cls([int(seed) for seed in stored["seeds"]], Path(path))
            found.runs, found.best = list(stored["runs"]), stored["best"]
            numbers = [row["restart"] for row in found.runs]
            if numbers != list(range(1, len(numbers) + 1)) or len(numbers) > len(found.seeds):
                raise ValueError("its runs are out of order")
            if not all({"seed", "train_loss", "valid_loss"} <= row.keys() for row in found.runs):
                raise ValueError("its runs lack figures")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{file} is damaged ({error}): restore it from a copy") from error
        return found

    @property
    def number(self) -> int:
        """The number of the run that is next or running, from 1."""
        return len(self.runs) + 1

    @property
    def next(self) -> Restart:
        """The run that is next or running."""
        return Restart(self.number, len(self.seeds), self.seeds[self.number - 1])

    def folder(self, number: int | None = None) -> Path:
        """Return the run folder of a restart, by default of the one that is next or running."""
        assert self.path is not None
        return self.path / f"restart-{number or self.number}"

    def place(self, state: RunState) -> None:
        """Choose the folder of a new run, when everything else was checked. The first one creates that of all."""
        if self.path is None:
            config = state.config.completed(**state.method.resolved())
            if config.out is None:
                self.path = make_numbered_folder(Path(default_folder(config)))
            else:
                self.path = Path(config.out)
                make_empty_folder(self.path, config.out)
            self.acquire()
            if not is_unused(self.path):  # another process was faster
                raise occupied(self.path)
            delete_leftovers(self.path)
            self._write()
        state.config = state.config.replace(out=str(self.folder()))
        state.command_path = self.path

    def acquire(self) -> None:
        """Take the lock of the folder of all."""
        assert self.path is not None
        lock = FolderLock(self.path)
        lock.acquire()
        self._lock = lock

    def release(self) -> None:
        """Release the lock, if it is held. A folder in which no run was created is deleted."""
        if self._lock is None or self.path is None:
            return
        empty = not self.folder(1).exists()
        with contextlib.suppress(OSError):
            if empty:
                (self.path / RESTARTS).unlink()
        self._lock.release()
        with contextlib.suppress(OSError):  # it is not empty
            if empty:
                self.path.rmdir()

    def note(self, summary: dict[str, Any]) -> None:
        """Note how the present run has ended."""
        best = summary["best"] or {}
        self.runs.append({
            "restart": self.number, "seed": self.next.seed, "stopped": summary["stopped"],
            "updates": summary["updates"], "seconds": summary["seconds"], "best_update": best.get("update"),
            "best_seconds": best.get("seconds"), **{name: best.get(name) for name in FIGURES},
        })  # fmt: skip
        self._write()

    def choose(self) -> int:
        """Return the number of the best run: by validation loss, or by training loss where none was validated."""
        return self.runs.index(min(self.runs, key=_score)) + 1

    def copy_best(self) -> dict[str, Any]:
        """Make the folder of all a copy of the best run; return its summary, which has the table of all runs."""
        assert self.path is not None
        assert self._lock is not None
        self._lock.check()
        best = self.choose()
        source = self.folder(best)
        files = [file for file in source.iterdir() if is_regular(file) and file.name not in (LOCK, "summary.json")]
        for file in sorted(files, key=lambda file: file.name == "config.toml"):  # which makes it a run folder: last
            write_atomic(self.path / file.name, read_bytes(file, memory_share(CHECKPOINT_SHARE), links=False))
        folder, summary = RunFolder(self.path), json.loads((source / "summary.json").read_text("utf-8"))
        folder.rewrite_config(folder.config().replace(out=str(self.path)))
        summary = {"restart": best, "restarts": self.runs, **summary}
        folder.write_summary(summary)
        self.best = best
        self._write()
        return summary

    def _write(self) -> None:
        assert self.path is not None
        assert self._lock is not None
        self._lock.check()
        content = {"seeds": self.seeds, "best": self.best, "runs": self.runs}
        write_atomic(self.path / RESTARTS, json.dumps(content, indent=2) + "\n")


def _score(row: dict[str, Any]) -> float:
    """Return the loss that runs are compared by; infinity if there is none."""
    loss = row["train_loss"] if row["valid_loss"] is None else row["valid_loss"]
    return math.inf if loss is None else float(loss)


# ------------------------------------------------------------------ training


def wanted_restarts(config: TrainConfig, ranks: Ranks) -> Restarts | None:
    """Return the restarts that the options of a new run ask for; None for a single run."""
    count = config.restarts or 1
    if count == 1:
        return None
    if ranks.size > 1:
        raise InputError(Message(
            "{restarts} is {0}, and restarts are trained in one process, but {1} ranks were started: start it without "
            "mpiexec, or one run for each {seed!s}", count, ranks.size,
        ))  # fmt: skip
    return Restarts([config.seed + number for number in range(count)])


def unfinished(run: str | Path) -> Restarts | None:
    """Return the restarts in a folder if some of them have not ended; None if it is a run folder, or none at all."""
    found = Restarts.read(run)
    return None if found is None or found.best is not None else found


def folder_to_resume(run: str | Path) -> RunFolder:
    """Return the folder with the configuration of a run that is resumed: of restarts, that of the first one."""
    restarts = unfinished(run)
    if restarts is None:
        return RunFolder(run)
    if not (restarts.folder(1) / "config.toml").is_file():
        raise CheckpointError(f"{run} holds no run: its process was killed at the start; delete it, and start again")
    return RunFolder(restarts.folder(1))


def with_time_left(config: TrainConfig, folder: RunFolder) -> TrainConfig:
    """Return the options of an interrupted restart, whose time limit is what its updates have left of it."""
    if config.time_limit is None:
        return config
    used = sum(float(record["seconds_update"]) for record in folder.metrics())
    return config.replace(minutes=max(config.time_limit - used, LEAST_SECONDS) / 60)


def train_restarts(restarts: Restarts, config: TrainConfig, new: NewRun, resumed: ResumedRun) -> TrainingResult:
    """Train all restarts that have not ended, and return the best one.

    `config` has the options of every run; its seed is replaced. A run whose loss is no longer finite counts with the
    best state that it had.
    """
    from hfrnn.runs.load import load_run

    failure: HfrnnError | None = None
    try:
        while restarts.number <= len(restarts.seeds):
            try:
                if restarts.path is not None and (restarts.folder() / "config.toml").is_file():
                    summary = resumed(restarts.folder(), restarts).summary
                else:
                    summary = new(config.replace(restarts=None, seed=restarts.next.seed), restarts).summary
            except NonFiniteError as error:
                if restarts.path is None or not (restarts.folder() / "summary.json").is_file():
                    raise
                failure, summary = error, json.loads((restarts.folder() / "summary.json").read_text("utf-8"))
            restarts.note(summary)
        if failure is not None and math.isinf(_score(restarts.runs[restarts.choose() - 1])):
            raise failure
        summary = restarts.copy_best()
    finally:
        restarts.release()
    assert restarts.path is not None
    folder = RunFolder(restarts.path)
    net, theta, vocabulary = load_run(folder, "best", folder.config().backend)
    return TrainingResult(net, theta, vocabulary, folder.config(), folder.path, summary)


def resume_restarts(
    restarts: Restarts, changes: dict[str, Any], new: NewRun, resumed: ResumedRun
) -> TrainingResult:  # fmt: skip
    """Go on with restarts that were interrupted; `changes` are options that may differ from the stored ones."""
    assert restarts.path is not None
    if goals := [name for name in GOALS if name in changes]:
        raise InputError(Message(
            f"{argument(goals[0])} was given, and {{0}} of {{1}} restarts in {{2}} have ended: leave it out, because "
            "all have the same limits, or resume one of them, such as {resume:{3}}",
            len(restarts.runs), len(restarts.seeds), restarts.path, restarts.folder(),
        ))  # fmt: skip
    stored = folder_to_resume(restarts.path).config()
    config = resumed_config(stored, changes)
    restarts.acquire()
    return train_restarts(restarts, config, new, resumed)
