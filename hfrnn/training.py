"""The training loop: batches, updates, validation, log and checkpoints, interruption and resume."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hfrnn.backend import Array
from hfrnn.config import TrainConfig, checked_options, option_key
from hfrnn.data.synthetic import SUCCESS
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, HfrnnError, InputError, NonFiniteError
from hfrnn.interruption import interruption
from hfrnn.methods import METHODS
from hfrnn.model import Network
from hfrnn.objective import Objective
from hfrnn.optim.hessian_free import UpdateInterrupted
from hfrnn.optim.schedules import EarlyStopping
from hfrnn.plan import Plan, Use, make_plan
from hfrnn.run_folder import RunFolder, checked_theta, versions
from hfrnn.sources import LN2, Source, open_source

NOT_APPLICABLE = ("cg_iterations", "cg_stop", "mu", "lambda", "rho", "step_size")
"""What every line of metrics.jsonl has, null where the method has nothing of the kind."""

Record = dict[str, Any]


class Callback:
    """What a caller of `train` may watch; every method may be left out."""

    def on_start(self, trainer: Trainer) -> None:
        """Before the first update."""

    def on_cg(self, iteration: int, q: float) -> None:
        """After a CG iteration, with the quadratic's value; after a step of SGD or Adam, with the mean loss so far."""

    def on_update(self, record: Record) -> bool | None:
        """After an update (an interval of SGD or Adam), with its line of metrics.jsonl; True ends the training."""

    def on_interrupt(self) -> None:
        """At the first SIGINT or SIGTERM; training ends after the CG iteration or the step that is running."""

    def on_end(self, result: TrainingResult) -> None:
        """After the last update, unless training failed or was interrupted."""


@dataclass(frozen=True)
class TrainingResult:
    """How a training run ended."""

    net: Network
    theta: Array
    """The parameters with the lowest validation loss; the last ones where none was validated."""
    vocabulary: Vocabulary | None
    """The symbols of a text."""
    config: TrainConfig
    folder: Path
    summary: dict[str, Any]


class Interrupted(HfrnnError):
    """Training was interrupted; the last finished update is on disk."""

    exit_code = 130


def train(
    config: TrainConfig | None = None,
    *,
    resume: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> TrainingResult:
    """Train a network on a text, a synthetic task or music, and write a run folder.

    Parameters
    ----------
    config : TrainConfig, optional
        All options; by default those of `hfrnn train`.
    resume : path, optional
        A run folder to go on with, from its last update and with its configuration; of the options only `updates`,
        `minutes`, `epochs`, `patience`, `threads`, `backend`, `checkpoint`, `memory` and `sample_length` may differ.
        `updates` and `epochs` count from the beginning of the run, `minutes` from now; a new limit of these three
        replaces all old ones. A run that was ended by a limit had the same updates, to the last bit, as one that goes
        on beyond it; its log has a shorter last line, and a validation there that nothing but `best` heeds.
    callbacks : sequence of Callback
    **options
        Single options by name, over `config`: `text="book.txt", arch="mlstm", updates=20, out="runs/book"`.

    Returns
    -------
    TrainingResult

    Raises
    ------
    InputError
        An option, the data or the run folder is not as it should be; nothing was written.
    NonFiniteError
        The loss or the gradient is no longer finite; the last good state is in the run folder.
    Interrupted
        On SIGINT or SIGTERM; the last finished update is in the run folder.
    """
    values = checked_options(options, "train()")
    if resume is not None:
        trainer = Trainer.resumed(resume, values, callbacks)
    else:
        trainer = Trainer.new(replace(config or TrainConfig(), **values), callbacks)
    return trainer.run()


RESUMABLE = (
    "updates", "minutes", "epochs", "patience", "threads", "backend", "checkpoint", "memory", "sample_length",
)  # fmt: skip
"""Options that may differ when a run is resumed."""


class Trainer:
    """One training run: its data, network, method and state. Made by `new` or `resumed`, used once by `run`."""

    def __init__(
        self, config: TrainConfig, source: Source, vocabulary: Vocabulary | None, callbacks: Sequence[Callback]
    ) -> None:
        self.config, self.source, self.vocabulary, self.callbacks = config, source, vocabulary, tuple(callbacks)
        self.net = Network(**config.network_arguments(source.network))
        self.method = METHODS[config.optimizer](config, source, self.net)
        self.validation = self._validation()
        scales = {} if config.init_scale is None else {"scale": config.init_scale}
        with np.errstate(over="ignore"):  # a scale beyond the type's range is reported by the first update
            self.theta = self.net.init(config.seed, config.initializer, **scales)
        self.best_theta = self.theta
        self.update, self.seconds, self.symbols = 0, 0.0, 0
        self.best: Record | None = None
        self.last: Record | None = None
        self.stopping = None if config.patience is None else EarlyStopping(config.patience)
        self.folder: RunFolder | None = None
        self._saved: dict[str, Any] = {}
        self._begin, self._longest, self._time_is_up = 0.0, 0.0, False

    @classmethod
    def new(cls, config: TrainConfig, callbacks: Sequence[Callback] = ()) -> Trainer:
        """A run from the beginning; makes its folder once everything else has been checked."""
        config = config.resolved()
        source, vocabulary = open_source(config)
        trainer = cls(config, source, vocabulary, callbacks)
        config = trainer.config = replace(config, **trainer.method.resolved())
        manner = config.damping if config.optimizer == "hf" else config.optimizer
        out = config.out or f"runs/{config.arch}-{manner}-{time.strftime('%Y%m%d-%H%M%S')}"
        trainer.folder = RunFolder.create(out, config, {**versions(), "data_sha256": source.sha256}, vocabulary)
        trainer._save("last")
        trainer._save("best")
        return trainer

    @classmethod
    def resumed(cls, run: str | Path, changes: dict[str, Any], callbacks: Sequence[Callback] = ()) -> Trainer:
        """A run that goes on after its last update."""
        folder = RunFolder(run)
        stored = folder.config()
        foreign = [key for key, value in changes.items() if key not in RESUMABLE and value != getattr(stored, key)]
        if foreign:
            names = ", ".join(map(option_key, foreign))
            raise InputError(f"a resumed run keeps its {names}: leave it out, only {', '.join(RESUMABLE)} may differ")
        if {"updates", "minutes", "epochs"} & changes.keys():  # a new limit replaces all old ones
            stored = replace(stored, updates=None, minutes=None, epochs=None)
        config = replace(stored, **changes)
        source, vocabulary = open_source(config, folder)
        trainer = cls(config, source, vocabulary, callbacks)
        trainer.folder = folder
        trainer._restore(replanned="checkpoint" in changes or "memory" in changes)
        return trainer

    @property
    def path(self) -> Path:
        """The run folder."""
        assert self.folder is not None
        return self.folder.path

    def run(self) -> TrainingResult:
        """Train until a limit is reached."""
        with interruption(self._on_interrupt) as interrupted, warnings.catch_warnings():
            # an overflow in a trial step is expected and dealt with
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hfrnn\.")
            try:
                for callback in self.callbacks:
                    callback.on_start(self)
                reason = self._loop(interrupted)
            except (UpdateInterrupted, KeyboardInterrupt):
                update = self._summarize("interruption")["updates"]
                raise Interrupted(
                    f"interrupted after update {update}, which is saved: go on with hfrnn train --resume {self.path}"
                ) from None
            except NonFiniteError as error:
                update = self._summarize("a loss or gradient that is not finite")["updates"]
                raise NonFiniteError(
                    f"the training loss or its gradient is not finite after update {update}, whose state is kept in "
                    f"{self.path}: start a new run with {self.method.remedy if update else ''}a smaller --init-scale "
                    "or --dtype float64"
                ) from error
        summary = self._summarize(reason)
        theta = self.theta if self.best is None else self.best_theta
        result = TrainingResult(self.net, theta, self.vocabulary, self.config, self.path, summary)
        for callback in self.callbacks:
            callback.on_end(result)
        return result

    def _summarize(self, reason: str) -> dict[str, Any]:
        """Write summary.json: the state that is on disk, and why the run ended."""
        assert self.folder is not None
        saved = self._saved
        summary = {
            "stopped": reason,
            "architecture": self.config.arch,
            "parameters": self.net.n_parameters,
            "updates": saved["update"],
            "seconds": round(saved["seconds"], 3),
            "best": saved["best"],
            "last": saved["last"],
        }
        self.folder.write_summary(summary)
        return summary

    def _on_interrupt(self) -> None:
        for callback in self.callbacks:
            callback.on_interrupt()

    def _loop(self, interrupted: Callable[[], bool]) -> str:
        self._begin, before = time.perf_counter(), self.seconds
        while (reason := self._ended()) is None:
            if interrupted():
                raise UpdateInterrupted("Training was interrupted between two updates.")
            start = time.perf_counter()
            record = self._advance(interrupted, start)
            record["seconds_update"] = round(time.perf_counter() - start, 4)
            self.seconds = before + time.perf_counter() - self._begin
            record["seconds"] = round(self.seconds, 3)
            if self._finish(record):
                return "callback"
            if record["valid_errors"] is not None and record["valid_errors"] < SUCCESS:
                return "success"
        return reason

    def _ended(self) -> str | None:
        """Why there is nothing more to do, or None."""
        if self.stopping is not None and self.stopping.idle >= self.stopping.patience:
            return "patience"
        if self.config.updates is not None and self.update >= self.config.updates:
            return "updates"
        return self.method.ended or ("time" if self._time_is_up else None)

    def _advance(self, interrupted: Callable[[], bool], start: float) -> Record:
        """The next line of the log. Of an update that raises, only what is on disk counts."""
        left = None if self.config.updates is None else self.config.updates - self.update
        self.theta, found = self.method.advance(self.theta, self._progress, interrupted, left)
        self.update += found.pop("updates")
        self.symbols += found.pop("symbols")
        begin, valid, errors = time.perf_counter(), None, None
        self._longest = max(self._longest, begin - start)
        limit = self.config.time_limit  # another line of the log must not go beyond it
        self._time_is_up = limit is not None and begin - self._begin + self._longest > limit
        due = found.pop("validate")
        if due or self._ended() is not None:
            valid, errors = self._validate()
        if due:
            self.method.validated(valid)
            if self.stopping is not None and valid is not None:
                self.stopping.after_evaluation(valid)
        loss = found["train_loss"]
        record = {
            "update": self.update,
            "seconds": 0.0,
            "train_loss": loss,
            "train_bits": loss / LN2 if self.source.in_bits else None,
            "valid_loss": valid,
            "valid_bits": None if valid is None or not self.source.in_bits else valid / LN2,
            "valid_perplexity": None if valid is None or not self.source.in_bits else math.exp(min(valid, 700.0)),
            "valid_errors": errors,
            **dict.fromkeys(NOT_APPLICABLE),
            "symbols": self.symbols,
            **found,
            "seconds_validation": round(time.perf_counter() - begin, 4),
        }
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}

    def _progress(self, iteration: int, value: float) -> None:
        for callback in self.callbacks:
            callback.on_cg(iteration, value)

    def _finish(self, record: Record) -> bool:
        """Log and save an update; whether a callback asks to end."""
        assert self.folder is not None
        self.last = record
        better = self._score(record) < self._score(self.best)
        if better or self.best is None:  # until one is validated, the last state stands for the best
            self.best, self.best_theta = record if better else None, self.theta.copy()
            self._save("best")
        self.folder.append_metrics(record)
        self._save("last")
        answers = [callback.on_update(record) for callback in self.callbacks]
        return any(answers)

    def _score(self, record: Record | None) -> float:
        """What `best` is chosen by: validation loss, or training loss without validation; not finite is worst."""
        loss = None if record is None else record["train_loss" if self.validation is None else "valid_loss"]
        return math.inf if loss is None else float(loss)

    # ------------------------------------------------------------------ state

    def _save(self, name: str) -> None:
        assert self.folder is not None
        to_host = self.net.backend.to_host
        arrays, plain = {"theta": to_host(self.theta)}, {}
        for key, value in self.method.state_dict().items():
            if hasattr(value, "shape"):
                arrays[f"method.{key}"] = to_host(value)
            else:
                plain[key] = value
        meta = {
            "update": self.update, "seconds": self.seconds, "symbols": self.symbols, "method": plain,
            "stopping": None if self.stopping is None else self.stopping.state_dict(),
            "best": self.best, "last": self.last, "network": self.source.network,
            "plans": {role: plan.to_json() for role, plan in self.method.plans.items()},
        }  # fmt: skip
        self.folder.save(name, arrays, meta)
        if name == "last":
            self._saved = meta

    def _restore(self, replanned: bool) -> None:
        assert self.folder is not None
        arrays, meta = self.folder.restore("last")
        self.theta = checked_theta(self.net, arrays, self.folder.path)
        as_array = self.net.backend.asarray
        try:
            vectors = {key.split(".", 1)[1]: as_array(v) for key, v in arrays.items() if key.startswith("method.")}
            self.method.load_state_dict({**meta["method"], **vectors})
            self.update, self.seconds, self.symbols = int(meta["update"]), float(meta["seconds"]), int(meta["symbols"])
            self.best, self.last, self._saved = meta["best"], meta["last"], meta
            if self.stopping is not None and meta["stopping"] is not None:
                self.stopping.load_state_dict(meta["stopping"])
            if not replanned:
                self.method.plans = {role: Plan.from_json(plan) for role, plan in meta["plans"].items()}
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise CheckpointError(
                f"the checkpoint in {self.folder.path} lacks {error}: it is not a training state"
            ) from error
        self.best_theta = checked_theta(self.net, self.folder.restore("best")[0], self.folder.path)
        self.folder.cut_metrics(self.update)

    # ------------------------------------------------------------------ validation

    def _validation(self) -> Objective | None:
        """The objective on what a run is validated on; None without such data."""
        batch = self.source.validation
        if batch is None:
            return None
        net, symbols = copy.copy(self.net), batch.inputs.ndim == 2
        net.l2 = 0.0  # a penalty on the weights is no part of how well they predict
        plan = make_plan(net, batch.T, batch.B, "auto", self.config.memory_bytes, symbols, Use.LOSS)
        return Objective(net, batch, self.config.threads, plan=plan)

    def _validate(self) -> tuple[float | None, float | None]:
        """The validation loss, and the share of wrong answers where the task defines it."""
        if self.validation is None:
            return None, None
        loss = self.validation.loss(self.theta)
        if not self.source.counts_errors or self.source.validation is None:
            return loss, None
        logits, _ = self.net.run(self.theta, self.source.validation)
        return loss, self.source.errors(self.net.backend.to_host(logits))
