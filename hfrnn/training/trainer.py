"""The training loop: batches, updates, validation, limits, interruption and failure."""

from __future__ import annotations

import contextlib
import copy
import math
import shlex
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.data.synthetic import SUCCESS
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Use
from hfrnn.engine.planner import make_plan
from hfrnn.engine.sampling import beginning, sample
from hfrnn.errors import CheckpointError, HfrnnError, MissingExtraError, NonFiniteError, StorageError
from hfrnn.optim.hessian_free import UpdateInterrupted
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.run_folder import RunFolder
from hfrnn.training.run_state import RESUMABLE, Record, RunState, continued
from hfrnn.training.signals import Interruption, interruption
from hfrnn.training.sources import LN2, Source, open_source

__all__ = ["RESUMABLE", "Callback", "Interrupted", "Record", "TrainConfig", "Trainer", "TrainingResult", "train"]

NOT_APPLICABLE = ("cg_iterations", "cg_stop", "mu", "lambda", "rho", "step_size")
"""What every line of metrics.jsonl has, null where the method has nothing of the kind."""


class Callback:
    """What a caller of `train` may watch; every method may be left out."""

    def on_start(self, trainer: Trainer) -> None:
        """Before the first update."""

    def on_cg(self, iteration: int, q: float) -> None:
        """After a CG iteration, with the quadratic's value; after a step of SGD or Adam, with the mean loss so far."""

    def on_update(self, record: Record) -> bool | None:
        """After an update (an interval of SGD or Adam), with its line of metrics.jsonl; True ends the training."""

    def on_interrupt(self) -> None:
        """At the first SIGINT, SIGTERM or SIGHUP; training ends after the CG iteration or step that is running."""

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
        A run folder to go on with, from its last update and with its configuration; of the options only those in
        `RESUMABLE` may differ. `updates` and `epochs` count from the beginning of the run, `minutes` from now; a new
        limit of these three replaces all old ones. A run that was ended by a limit had the same updates, to the last
        bit, as one that goes on beyond it; its log has a shorter last line, and a validation there that nothing but
        `best` and `target_bits` heed. A run that was killed goes on from its last line as if it had not been.
    callbacks : sequence of Callback
    **options
        Single options by name, over `config`: `text="book.txt", arch="mlstm", updates=20, out="runs/book"`.

    Returns
    -------
    TrainingResult

    Raises
    ------
    InputError
        An option, the data or the run folder is not as it should be, or another process writes to the folder; nothing
        was written.
    StorageError
        A file cannot be written; the last update that is on the disk is whole.
    NonFiniteError
        The loss or the gradient is no longer finite; the last good state is in the run folder.
    Interrupted
        On SIGINT, SIGTERM or SIGHUP; the last finished update is in the run folder.
    """
    values = checked_options(options, "train()")
    with interruption() as interrupted:
        if resume is None:
            trainer = Trainer.new(replace(config or TrainConfig(), **values), callbacks, interrupted)
        else:
            try:
                trainer = Trainer.resumed(resume, values, callbacks, interrupted)
            except KeyboardInterrupt:
                command = shlex.join(["hfrnn", "train", "--resume", str(resume)])
                raise Interrupted(f"interrupted before the next update: go on with {command}") from None
        return trainer.run()


class Trainer(RunState):
    """One training run, made by `new` or `resumed`, used once by `run`."""

    def __init__(
        self,
        config: TrainConfig,
        source: Source,
        vocabulary: Vocabulary | None,
        callbacks: Sequence[Callback] = (),
        interrupted: Interruption | None = None,
    ) -> None:
        super().__init__(config, source, vocabulary, interrupted or Interruption())
        self.callbacks = tuple(callbacks)
        self.validation = self._validation()
        self._begin, self._longest, self._time_is_up = 0.0, 0.0, False
        self._drawn: str | None = None  # at the end, from what the run gives

    @classmethod
    def new(
        cls, config: TrainConfig, callbacks: Sequence[Callback] = (), interrupted: Interruption | None = None
    ) -> Trainer:
        """A run from the beginning; makes its folder once everything else has been checked."""
        config = config.resolved()
        trainer = cls(config, *open_source(config), callbacks, interrupted)
        trainer.create()
        return trainer

    @classmethod
    def resumed(
        cls,
        run: str | Path,
        changes: dict[str, Any],
        callbacks: Sequence[Callback] = (),
        interrupted: Interruption | None = None,
    ) -> Trainer:
        """A run that goes on after its last update."""
        folder = RunFolder(run)
        config = continued(folder.config(), changes)
        folder.lock.acquire()
        try:
            trainer = cls(config, *open_source(config, folder), callbacks, interrupted)
            trainer.folder, trainer.changes = folder, changes
            trainer.go_on(replanned="checkpoint" in changes or "memory" in changes)
        except BaseException as error:
            folder.lock.release()
            if isinstance(error, MissingExtraError) and config.backend != "numpy":
                raise MissingExtraError(
                    f"{error}: hfrnn train {shlex.join(['--resume', str(run)])} --backend numpy goes on without it"
                ) from error
            raise
        return trainer

    def run(self) -> TrainingResult:
        """Train until a limit is reached; gives the folder's lock back."""
        assert self.folder is not None
        self.interrupted.noted = self._on_interrupt
        try:
            with warnings.catch_warnings():
                # an overflow in a trial step is expected and dealt with
                warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hfrnn\.")
                for callback in self.callbacks:
                    callback.on_start(self)
                summary = self._summarize(self._loop())
        except (UpdateInterrupted, KeyboardInterrupt, OSError) as error:
            if isinstance(error, OSError) and not self.interrupted():
                raise
            self.interrupted.closed = True  # of a closed terminal comes SIGHUP, and an error where something is shown
            update = self._summarize("interruption")["updates"]
            raise Interrupted(f"interrupted after update {update}, which is saved: go on with {self.command}") from None
        except NonFiniteError as error:
            update = self._summarize("a loss or gradient that is not finite")["updates"]
            raise NonFiniteError(
                f"the training loss or its gradient is not finite after update {update}, whose state is kept in "
                f"{self.path}: start a new run with {self.method.remedy if update else ''}a smaller --init-scale "
                "or --dtype float64"
            ) from error
        except StorageError as error:
            with contextlib.suppress(StorageError, CheckpointError):
                self._summarize("a disk that cannot be written to")
            raise StorageError(
                f"{error}; update {self.saved['update']} is saved, and {self.command} goes on from there"
            ) from error
        finally:
            self.folder.lock.release()
        result = TrainingResult(self.net, self._chosen, self.vocabulary, self.config, self.path, summary)
        for callback in self.callbacks:
            callback.on_end(result)
        return result

    @property
    def _chosen(self) -> Array:
        """What the run gives: the best parameters, the last ones where none was validated."""
        return self.weights if self.best is None else self.best_theta

    def _summarize(self, reason: str) -> dict[str, Any]:
        """Write summary.json: the state that is on disk, and why the run ended."""
        assert self.folder is not None
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
            "best": saved["best"],
            "last": saved["last"],
            "sample": self._drawn,
        }
        self.folder.write_summary(summary)
        return summary

    def _on_interrupt(self) -> None:
        for callback in self.callbacks:
            callback.on_interrupt()

    def _loop(self) -> str:
        """Go on until there is nothing more to do; says why."""
        assert self.folder is not None
        self._begin, before = time.perf_counter(), self.seconds
        while (reason := self._ended()) is None:
            if self.interrupted():
                raise UpdateInterrupted("Training was interrupted between two updates.")
            start = time.perf_counter()
            record = self._advance(start)
            record["seconds_update"] = round(time.perf_counter() - start, 4)
            self.seconds = before + time.perf_counter() - self._begin
            record["seconds"] = round(self.seconds, 3)
            record["seconds_before"] = round(before, 3)
            self.folder.drop_summary()
            self.finish(record)
            answers = [callback.on_update(record) for callback in self.callbacks]
            if any(answers):
                reason = "callback"
                break
        self._drawn = self._sample(self._chosen)
        return reason

    def _ended(self) -> str | None:
        """Why there is nothing more to do, or None."""
        if self.stopping is not None and self.stopping.idle >= self.stopping.patience:
            return "patience"
        if self.last is not None and self.last["valid_errors"] is not None and self.last["valid_errors"] < SUCCESS:
            return "success"
        if self.reached():
            return "target"
        return self._limit()

    def _limit(self) -> str | None:
        """The limit that is reached, or None."""
        if self.config.updates is not None and self.update >= self.config.updates:
            return "updates"
        return self.method.ended or ("time" if self._time_is_up else None)

    def _advance(self, start: float) -> Record:
        """The next line of the log. Of an update that raises, only what is on disk counts."""
        left, earlier = None if self.config.updates is None else self.config.updates - self.update, self.update
        self.theta, found = self.method.advance(self.theta, self._progress, self.interrupted, left)
        self.update += found.pop("updates")
        self.symbols += found.pop("symbols")
        begin, valid, errors = time.perf_counter(), None, None
        self._longest = max(self._longest, begin - start)
        limit = self.config.time_limit  # another line of the log must not go beyond it
        self._time_is_up = limit is not None and begin - self._begin + self._longest > limit
        due = found.pop("validate")
        if due or self._limit() is not None:
            with self.interrupted.raising():
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
            "sample": self._sample(self.weights) if self.update.bit_length() > earlier.bit_length() else None,
        }
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}

    def _sample(self, theta: Array) -> str | None:
        """What the network writes with those parameters; None where it learns no text or nobody asked for a sample."""
        if self.vocabulary is None or not self.config.sample_length:
            return None
        try:
            drawn = list(sample(self.net, theta, beginning(self.vocabulary), self.config.sample_length))
        except NonFiniteError:
            return None
        return self.vocabulary.decode([step.symbol for step in drawn])

    def _progress(self, iteration: int, value: float) -> None:
        for callback in self.callbacks:
            callback.on_cg(iteration, value)

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
        loss = self.validation.loss(self.weights)
        if not self.source.counts_errors or self.source.validation is None:
            return loss, None
        logits, _ = self.net.run(self.weights, self.source.validation)
        return loss, self.source.errors(self.net.backend.to_host(logits))
