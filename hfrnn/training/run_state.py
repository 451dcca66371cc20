"""The state of a run between two updates: in memory, and in the files of its run folder."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.engine.plan import Plan
from hfrnn.entries import file_of
from hfrnn.errors import CheckpointError, Message, OfCommand, Wording
from hfrnn.optim.schedules import EarlyStopping
from hfrnn.ranks.one import ALONE, Ranks
from hfrnn.runs.checkpoint import check_description
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder, UnwrittenFolder, versions
from hfrnn.runs.metrics import Record
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.run_constraints import CONSTRAINTS, stored_constraints
from hfrnn.wording import shell_command

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.sources.open import Source
    from hfrnn.training.methods.method import Method

SAVE_SECONDS = 1.0
"""Least time between two checkpoints of updates that were not validated.

A killed run makes the updates since its checkpoint again, with the same bits.
"""


class RunState:
    """What training changes, with the methods that write it to a run folder and read it back.

    The state of the method is part of it. Only the rank that leads writes to the folder.

    Attributes
    ----------
    theta : array, shape (net.n_parameters,)
        The parameters; with constraints, the variables that they are made of.
    best_theta : array, shape (net.n_parameters,)
        The weights with the lowest validation loss, or training loss without validation data.
    seconds, seconds_processor : float
        Training time so far, and the processor time of all threads. Validation and saving do not count.
    last, best : dict or None
        The records after the last update and after the best one; None before there is one.
    stopping : EarlyStopping or None
        Counts validations without improvement; None without the option `patience`.
    changes : dict
        Options that a resumed run was given.
    saved : dict
        The description of the state in the file of `last`.
    command_path : Path or None
        The folder that the command to resume names; None for the run folder. It is that of all restarts.
    """

    def __init__(
        self, config: TrainConfig, source: Source, net: Network, method: Method, theta: Array, ranks: Ranks = ALONE
    ) -> None:
        self.config, self.source = config, source
        self.net, self.method = net, method
        self.theta, self.best_theta = theta, method.weights(theta)
        self.update, self.seconds, self.symbols = 0, 0.0, 0
        self.seconds_processor = 0.0
        self.best: Record | None = None
        self.last: Record | None = None
        self.stopping = None if config.patience is None else EarlyStopping(config.patience)
        self.ranks = ranks
        self._folder: RunFolder | None = None
        self.changes: dict[str, Any] = {}
        self.saved: dict[str, Any] = {}
        self.command_path: Path | None = None
        self._best_is_last = False
        self._unsaved: tuple[dict[str, HostArray], dict[str, Any]] | None = None
        self._saved_at = 0.0

    @property
    def weights(self) -> Array:
        """What is validated, sampled from and kept as the best: the parameters, or the method's average of them."""
        return self.method.weights(self.theta)

    @property
    def result(self) -> Array:
        """The weights that the run returns: the best ones, or the last ones if none were validated."""
        return self.weights if self.best is None else self.best_theta

    @property
    def folder(self) -> RunFolder:
        """The run folder; there is one after `create` or `load`."""
        assert self._folder is not None
        return self._folder

    @property
    def resume_command(self) -> Message:
        """The shell command, or the call in Python, that resumes the run."""
        return self.command_to_resume({})

    def command_to_resume(self, changed: dict[str, str]) -> Message:
        """Return `resume_command` with other values of some options, by name."""
        kind, kernels = self.config.kind, (type(layer.kernel) for layer in self.net.layers)
        classes = (OPTIMIZERS[self.config.optimizer], kind, *kernels)
        files = sorted({file for each in classes if (file := file_of(each))})
        given = kind.keyword(self.config.values) if kind.in_memory else ""
        return ResumeCommand(self.command_path or self.folder.path, {**self.changes, **changed}, files, given)

    @property
    def interrupted(self) -> Message:
        """What to tell the user if the run is interrupted: which update is on disk, and how to go on."""
        where = "" if self.command_path is None else f" in {self.folder.path.name}"
        return Message(
            "interrupted after update {0}{2}, which is saved: resume with {1}", self.saved["update"],
            self.resume_command, where,
        )  # fmt: skip

    # ------------------------------------------------------------------ writing

    def create(self) -> None:
        """Create the run folder, with the state before the first update, and hold its lock."""
        config = self.config = self.config.completed(**self.method.resolved())
        out = config.out or default_folder(config)
        vocabulary = self.source.vocabulary
        known = {} if vocabulary is None else {"vocabulary_sha256": vocabulary.to_json()["sha256"]}
        described = {**versions(), **self.source.checksums, **known}
        if self.ranks.leads:
            self._folder = RunFolder.create(
                out, config, described, vocabulary, numbered=config.out is None, scaling=self.source.scaling
            )
        path = self.ranks.broadcast(str(self.folder.path) if self.ranks.leads else None)
        if not self.ranks.leads:
            self._folder = UnwrittenFolder(path)
        try:
            self._save(best=True)
        except BaseException:
            self.folder.lock.release()
            raise

    def commit(self, record: Record) -> None:
        """Finish an update: append its record to metrics.jsonl and save the state."""
        self.last = record
        better = self._score(record) < self._score(self.best)
        is_best = better or self.best is None  # until one is validated, the last state stands for the best
        if is_best:
            self.best, self.best_theta = record if better else None, self.weights.copy()
        self.folder.append(record)
        important = is_best or record["valid_loss"] is not None or self.config.keep
        if not important and time.monotonic() < self._saved_at + SAVE_SECONDS:
            arrays, meta = self._state()
            self._unsaved = {name: np.array(value) for name, value in arrays.items()}, meta
        else:
            self._save(is_best)

    def flush(self) -> None:
        """Write the state after the last finished update, if it is not on the disk yet."""
        if self._unsaved is not None:
            (arrays, meta), self._unsaved = self._unsaved, None
            self.folder.save(arrays, meta, False, self.config.keep)
            self.saved = meta

    def write_summary(self, reason: str, sample: str | None) -> dict[str, Any]:
        """Write summary.json about the state on disk, with why the run ended and a text of the network; return it."""
        self.folder.lock.check()
        self.flush()
        on_disk = self.folder.restore("last")[1]
        if on_disk["update"] != self.saved["update"]:  # stopped between two writes of an update
            self.saved = on_disk
        saved = self.saved
        summary = {
            "stopped": reason,
            "architecture": self.config.arch,
            "parameters": self.net.n_parameters,
            "updates": saved["update"],
            "seconds": round(saved["seconds"], 3),
            "sample": sample,
            "best": saved["best"],
            "last": saved["last"],
        }
        self.folder.write_summary(summary)
        return summary

    def _score(self, record: Record | None) -> float:
        """Return the loss that `best` is chosen by; infinity if it is missing or not finite."""
        loss = None if record is None else record["train_loss" if self.source.validation is None else "valid_loss"]
        return math.inf if loss is None else float(loss)

    def _save(self, best: bool) -> None:
        """Write the state as `last`, and as `best` if it is the best."""
        arrays, meta = self._state()
        self.folder.save(arrays, meta, best, self.config.keep)
        self.saved, self._unsaved, self._saved_at = meta, None, time.monotonic()

    def _state(self) -> tuple[dict[str, HostArray], dict[str, Any]]:
        """Return the arrays and the description of a checkpoint."""
        to_host = self.net.backend.to_host
        arrays, plain = {"theta": to_host(self.theta)}, {}
        if self.method.constraints is not None:
            arrays[CONSTRAINTS] = self.method.constraints.codes
        for key, value in self.method.state_dict().items():
            if hasattr(value, "shape"):
                arrays[f"method.{key}"] = to_host(value)
            else:
                plain[key] = value
        meta = {
            "update": self.update, "seconds": self.seconds, "seconds_processor": self.seconds_processor,
            "symbols": self.symbols, "method": plain,
            "stopping": None if self.stopping is None else self.stopping.state_dict(),
            "best": self.best, "last": self.last, "network": self.source.network,
            "plans": {role: plan.to_json() for role, plan in self.method.plans.items()},
            "on_host": self.net.backend.on_host,
        }  # fmt: skip
        return arrays, meta

    # ------------------------------------------------------------------ reading

    def load(self, folder: RunFolder, replan: bool) -> None:
        """Read the state of a run folder into memory. Nothing is written.

        A folder without a state leaves the initial state in memory: its process was killed before the first update.
        With `replan`, new plans are made from the configuration; else the stored ones are used.
        """
        self._folder = folder
        if folder.begun:
            self._load_best(self._load_last(replan))

    def repair(self) -> None:
        """Make the files of the folder agree with the loaded state, after a process was killed at any moment."""
        if not self.ranks.leads:
            self._folder = UnwrittenFolder(self.folder.path, self.saved)
            if not self.saved:
                self._save(best=True)
            return
        if self.folder.begun:
            self.folder.make_consistent(self.update, self._best_is_last, self.config.keep)
            return
        self.folder.delete_leftovers()
        if self.source.vocabulary is not None:
            self.source.vocabulary.save(self.folder.path / "vocabulary.json")
        if self.source.scaling is not None:
            self.source.scaling.save(self.folder.path / "scaling.json")
        self._save(best=True)

    def _load_last(self, replan: bool) -> int:
        """Load the file of `last`; return the update of the best state."""
        from hfrnn.runs.load import checked_theta

        path = self.folder.path
        arrays, meta = self.folder.restore("last")
        check_description(meta, path / "last.safetensors")
        self.theta = checked_theta(self.net, arrays, path)
        self.method.constraints = stored_constraints(self.net, arrays, path)
        if self.method.constraints is None and self.config.is_constrained:
            raise CheckpointError(
                f"the checkpoint in {path} lacks the constraints that config.toml asks for: restore both from a copy"
            )
        as_array = self.net.backend.asarray
        try:
            vectors = {key.split(".", 1)[1]: v for key, v in arrays.items() if key.startswith("method.")}
            self._check_vectors(vectors)
            self.method.load_state_dict({**meta["method"], **{key: as_array(v) for key, v in vectors.items()}})
            self.update, self.seconds, self.symbols = meta["update"], float(meta["seconds"]), meta["symbols"]
            self.seconds_processor = float(meta["seconds_processor"])
            self.best, self.last, self.saved = meta["best"], meta["last"], meta
            if self.stopping is not None and meta["stopping"] is not None:
                self.stopping.load_state_dict(meta["stopping"])
            moved = meta["on_host"] != self.net.backend.on_host  # to a GPU or from one
            if not (replan or moved):
                self.method.plans = {role: _plan(meta["plans"][role], own) for role, own in self.method.plans.items()}
            return int(self.update if self.best is None else self.best["update"])
        except (KeyError, IndexError, TypeError, AttributeError, OverflowError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else f"does not fit ({error})"
            raise CheckpointError(
                f"{path / 'last.safetensors'} {what}: it is not a state of this run, restore it from a copy"
            ) from error

    def _check_vectors(self, vectors: dict[str, HostArray]) -> None:
        """Check the arrays of the method; raise ValueError for a wrong type, a wrong size or NaN.

        The objects that load states of the network or traces check the sizes of those arrays themselves.
        """
        for key, vector in vectors.items():
            like_theta = "optimizer." in key or not key.startswith(("batches.", "rule.", "kronecker."))
            if vector.dtype != self.net.dtype or (like_theta and vector.shape != self.theta.shape):
                raise ValueError(f"{key} has shape {vector.shape} and type {vector.dtype}")
            if np.isnan(vector).any():
                raise ValueError(f"{key} holds NaN")

    def _load_best(self, update: int) -> None:
        """Load the file of `best`, which must hold the given update or a newer one."""
        from hfrnn.runs.load import checked_weights

        is_last, path = update == self.update, self.folder.path / "best.safetensors"
        if is_last and self.update == 0 and not path.exists():  # killed before the first update
            self.best_theta, self._best_is_last = self.weights, True
            return
        arrays, meta = self.folder.restore("best")
        check_description(meta, path)
        theta = checked_weights(self.net, arrays, self.folder.path)
        found = meta["update"]
        if is_last and (self.best is None or found <= update):  # killed between writing `last` and `best`
            self.best_theta, self._best_is_last = self.weights, True
            return
        if found != update and found <= self.update:
            raise CheckpointError(
                f"{path} holds update {found}, but the best update is {update}: restore it from a copy"
            )
        if found > self.update:  # an older `last` was put back from a copy: this state is better than all before it
            self.best = self.saved["best"] = meta["best"]
        self.best_theta = theta


def default_folder(config: TrainConfig) -> str:
    """Return the run folder of a run that was given none."""
    return f"runs/{config.arch}-{OPTIMIZERS[config.optimizer].manner(config)}-{time.strftime('%Y%m%d-%H%M%S')}"


def _plan(stored: dict[str, Any], own: Plan) -> Plan:
    """Return the plan that a checkpoint holds; raise ValueError unless it covers the same sequences as `own`."""
    plan = Plan.from_json(stored)
    edges = plan.shards
    counts = [*edges, plan.workers, *([] if plan.segment is None else [plan.segment])]
    if not all(type(count) is int for count in counts) or min(counts[len(edges) :]) < 1:
        raise ValueError("its plan does not hold whole numbers")
    if (edges[0], edges[-1]) != (0, own.shards[-1]) or any(a >= b for a, b in pairwise(edges)):
        raise ValueError("its plan is of another batch")
    return plan


# ------------------------------------------------------------------ how to go on


class ResumeCommand(Message):
    """The command or the call that resumes a run with some options, for a message; options that are None are left out.

    `files` are those with the architectures and optimizers of a user. `data` is the argument for data in memory; such a
    run can only be resumed in Python.

    Examples
    --------
    >>> from hfrnn.training.run_state import ResumeCommand
    >>> command = ResumeCommand("runs/a", {"updates": 7})
    >>> str(command)
    "hfrnn.train(resume='runs/a', updates=7)"
    >>> command.worded(lambda name, value: f"--{name}")
    'hfrnn train --resume runs/a --updates 7'
    """

    def __init__(
        self, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None, files: Sequence[str] = (),
        data: str = "",
    ) -> None:  # fmt: skip
        super().__init__("")
        self._path, self._files, self._data = str(path), files, data
        self._options = {name: value for name, value in (options or {}).items() if value is not None}

    def worded(self, wording: Wording | None = None) -> str:
        if wording is None or self._data:
            given = [f"resume={self._path!r}", *([f"{self._data}=..."] if self._data else [])]
            given += [f"{name}={value!r}" for name, value in self._options.items()]
            return f"hfrnn.train({', '.join(given)})"
        files = [("kernel", file) for file in self._files]
        words = ["hfrnn", "train"]
        for name, value in [*files, ("resume", self._path), *self._options.items()]:
            if isinstance(value, bool):
                words.append(wording(OfCommand(name), str(value)))
            else:
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [wording(OfCommand(name), ""), text]
        return shell_command(words)


def before_next_update(folder: RunFolder, path: str | os.PathLike[str] | None = None) -> Message | None:
    """Return what to tell the user if a run is interrupted before it is resumed; None if its folder holds no state.

    `path` is what the command to resume names, if it is not the run folder but that of several restarts.
    """
    if not folder.begun:
        return None
    return Message("interrupted before the next update: resume with {0}", ResumeCommand(path or folder.path))
