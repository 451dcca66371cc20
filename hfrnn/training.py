"""The training loop: batches, updates, validation, log and checkpoints, interruption and resume."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hfrnn.backend import Array
from hfrnn.batch import Batch
from hfrnn.config import TrainConfig, checked_options, option_key
from hfrnn.data.corpora import Corpus
from hfrnn.data.streams import SequenceSampler, evaluation_streams, part_size, training_sequences
from hfrnn.data.vocabulary import Text, Vocabulary, frequency_classes
from hfrnn.errors import CheckpointError, HfrnnError, InputError, NonFiniteError
from hfrnn.interruption import interruption
from hfrnn.model import Network
from hfrnn.objective import Objective
from hfrnn.optim.damping import Damping
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions, Update, UpdateInterrupted
from hfrnn.plan import Plan, Use, footprint_of, make_plan
from hfrnn.run_folder import RunFolder, checked_theta, load_run_corpus, versions

LN2 = math.log(2)
VALIDATION_STREAMS = 64
"""Pieces that the validation part is cut into, side by side."""
VALIDATION_WARM_UP = 100
"""Symbols that each piece but the first is fed before it is scored, to have a state."""

Record = dict[str, Any]


class Callback:
    """What a caller of `train` may watch; every method may be left out."""

    def on_start(self, trainer: Trainer) -> None:
        """Before the first update."""

    def on_cg(self, iteration: int, q: float) -> None:
        """After a CG iteration, with the quadratic's value."""

    def on_update(self, record: Record) -> bool | None:
        """After an update, with its line of metrics.jsonl; True ends the training."""

    def on_interrupt(self) -> None:
        """At the first SIGINT or SIGTERM; training ends after the CG iteration that is running."""

    def on_end(self, result: TrainingResult) -> None:
        """After the last update, unless training failed or was interrupted."""


@dataclass(frozen=True)
class TrainingResult:
    """How a training run ended."""

    net: Network
    theta: Array
    """The parameters with the lowest validation loss."""
    vocabulary: Vocabulary
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
    """Train a network on text and write a run folder.

    Parameters
    ----------
    config : TrainConfig, optional
        All options; by default those of `hfrnn train`.
    resume : path, optional
        A run folder to go on with, from its last update and with its configuration; of the options only `updates`,
        `minutes`, `threads`, `backend`, `checkpoint`, `memory` and `sample_length` may differ. `updates` counts from
        the beginning of the run, `minutes` from now; a new limit replaces both old ones.
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


RESUMABLE = ("updates", "minutes", "threads", "backend", "checkpoint", "memory", "sample_length")
"""Options that may differ when a run is resumed."""


class Trainer:
    """One training run: its data, network, optimizer and state. Made by `new` or `resumed`, used once by `run`."""

    def __init__(
        self, config: TrainConfig, corpus: Corpus, vocabulary: Vocabulary, callbacks: Sequence[Callback]
    ) -> None:
        self.config, self.corpus, self.vocabulary, self.callbacks = config, corpus, vocabulary, tuple(callbacks)
        symbols = vocabulary.encode(corpus.train)
        classes = None
        if config.classes:
            counts = np.bincount(symbols, minlength=vocabulary.size)
            classes = frequency_classes(counts, config.classes).tolist()
        self.net = Network(**config.network_arguments(vocabulary.size, classes))
        self.inputs, self.targets = training_sequences(symbols, config.sequence_length)
        self.sampler = SequenceSampler(
            self.inputs.shape[1], config.sequence_length, config.gradient_symbols or None, config.seed
        )
        self.plans, self.expected_bytes = self._plans()
        self.validation = self._validation(corpus.valid)
        names = ("cg_iterations", "cg_epsilon", "warm_start", "rho_model", "rho_objective", "line_search")
        options = {name: getattr(config, name) for name in names}
        self.optimizer = HessianFree(
            Damping(config.damping, config.mu, config.lambda_, config.metric),
            HessianFreeOptions(mu_growth=config.mu_growth or None, **options),
        )
        if config.damping.startswith("structural") and config.metric not in self.net.metrics:
            raise InputError(
                f"architecture {config.arch!r} has no metric {config.metric!r}: use {' or '.join(self.net.metrics)}"
            )
        scales = {} if config.init_scale is None else {"scale": config.init_scale}
        with np.errstate(over="ignore"):  # a scale beyond the type's range is reported by the first update
            self.theta = self.net.init(config.seed, config.initializer, **scales)
        self.best_theta = self.theta
        self.update, self.seconds, self.symbols = 0, 0.0, 0
        self.best: Record | None = None
        self.last: Record | None = None
        self.folder: RunFolder | None = None
        self._saved: dict[str, Any] = {}

    @classmethod
    def new(cls, config: TrainConfig, callbacks: Sequence[Callback] = ()) -> Trainer:
        """A run from the beginning; makes its folder once everything else has been checked."""
        config = config.resolved()
        corpus = load_run_corpus(config)
        trainer = cls(config, corpus, Vocabulary.build(corpus.train, config.level), callbacks)
        damping = trainer.optimizer.damping
        config = trainer.config = replace(config, mu=damping.mu, lambda_=damping.lambda_)
        out = config.out or f"runs/{config.arch}-{config.damping}-{time.strftime('%Y%m%d-%H%M%S')}"
        trainer.folder = RunFolder.create(out, config, {**versions(), "data_sha256": corpus.sha256}, trainer.vocabulary)
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
        if "updates" in changes or "minutes" in changes:  # a new limit replaces both old ones
            stored = replace(stored, updates=None, minutes=None)
        config = replace(stored, **changes)
        trainer = cls(config, folder.corpus(), folder.vocabulary(), callbacks)
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
                damping = "stronger damping (--mu, --lambda), " if update else ""
                raise NonFiniteError(
                    f"the training loss or its gradient is not finite after update {update}, whose state is kept in "
                    f"{self.path}: start a new run with {damping}a smaller --init-scale or --dtype float64"
                ) from error
        summary = self._summarize(reason)
        result = TrainingResult(self.net, self.best_theta, self.vocabulary, self.config, self.path, summary)
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
        begin, before = time.perf_counter(), self.seconds
        limit, longest = self.config.time_limit, 0.0
        while True:
            elapsed = time.perf_counter() - begin
            if self.config.updates is not None and self.update >= self.config.updates:
                return "updates"
            if limit is not None and self.update > 0 and elapsed + longest > limit:
                return "time"
            if interrupted():
                raise UpdateInterrupted("Training was interrupted between two updates.")
            start = time.perf_counter()
            record = self._one_update(interrupted)
            longest = time.perf_counter() - start
            record["seconds_update"] = round(longest, 4)
            self.seconds = before + time.perf_counter() - begin
            record["seconds"] = round(self.seconds, 3)
            if self._finish(record):
                return "callback"

    def _one_update(self, interrupted: Callable[[], bool]) -> Record:
        """Draw, update and validate. Of an update that raises, only what is on disk counts."""
        columns = self.sampler.draw()
        part = self.sampler.draw_part(columns, fraction=self.config.curvature_fraction)
        gradient, curvature = self.objective(columns, "gradient"), self.objective(part, "curvature")
        step = self.optimizer.update(self.theta, gradient, curvature, on_cg=self._on_cg, should_stop=interrupted)
        self.theta = step.theta
        self.update += 1
        self.symbols += columns.size * self.config.sequence_length
        begin = time.perf_counter()
        valid = None if self.validation is None else self.validation.loss(self.theta)
        return self._record(step, valid, time.perf_counter() - begin)

    def objective(self, columns: np.ndarray[Any, Any], role: str) -> Objective:
        """The objective on some training sequences, by the plan for its role, `gradient` or `curvature`."""
        batch = Batch(self.inputs[:, columns], self.targets[:, columns])
        return Objective(self.net, batch, self.config.threads, plan=self.plans[role])

    def _on_cg(self, iteration: int, q: float) -> None:
        for callback in self.callbacks:
            callback.on_cg(iteration, q)

    def _record(self, step: Update, valid: float | None, seconds: float) -> Record:
        """A line of metrics.jsonl; null where something does not apply or is not finite."""
        record = {
            "update": self.update,
            "seconds": 0.0,
            "train_loss": step.loss_after,
            "train_bits": step.loss_after / LN2,
            "valid_bits": None if valid is None else valid / LN2,
            "valid_perplexity": None if valid is None else math.exp(min(valid, 700.0)),
            "cg_iterations": step.cg_iterations,
            "cg_stop": step.cg_stop.value,
            "mu": step.mu,
            "lambda": step.lambda_,
            "rho": step.rho,
            "step_size": step.step_size,
            "symbols": self.symbols,
            "loss_before": step.loss_before,
            "chosen_iteration": step.chosen_iteration,
            "q": step.q,
            "gradient_norm": step.gradient_norm,
            "step_norm": step.step_norm,
            "smallest_curvature": step.smallest_curvature,
            "products": step.products,
            "evaluations": step.evaluations,
            **{f"seconds_{name}": round(value, 4) for name, value in step.seconds.items()},
            "seconds_validation": round(seconds, 4),
        }
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}

    def _finish(self, record: Record) -> bool:
        """Log and save an update; whether a callback asks to end."""
        assert self.folder is not None
        self.last = record
        if self.best is None or self._score(record) < self._score(self.best):
            self.best, self.best_theta = record, self.theta
            self._save("best")
        self.folder.append_metrics(record)
        self._save("last")
        answers = [callback.on_update(record) for callback in self.callbacks]
        return any(answers)

    # ------------------------------------------------------------------ state

    def _save(self, name: str) -> None:
        assert self.folder is not None
        to_host = self.net.backend.to_host
        arrays, plain = {"theta": to_host(self.theta)}, {}
        for key, value in self.optimizer.state_dict().items():
            if hasattr(value, "shape"):
                arrays[f"optimizer.{key}"] = to_host(value)
            else:
                plain[key] = value
        meta = {
            "update": self.update, "seconds": self.seconds, "symbols": self.symbols, "optimizer": plain,
            "sampler": self.sampler.state_dict(), "best": self.best, "last": self.last,
            "plans": {role: plan.to_json() for role, plan in self.plans.items()}, "classes": self.net.head.classes,
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
            vectors = {key.split(".", 1)[1]: as_array(v) for key, v in arrays.items() if key.startswith("optimizer.")}
            self.optimizer.load_state_dict({**meta["optimizer"], **vectors})
            self.sampler.load_state_dict(meta["sampler"])
            self.update, self.seconds, self.symbols = int(meta["update"]), float(meta["seconds"]), int(meta["symbols"])
            self.best, self.last, self._saved = meta["best"], meta["last"], meta
            if not replanned:
                self.plans = {role: Plan.from_json(plan) for role, plan in meta["plans"].items()}
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise CheckpointError(
                f"the checkpoint in {self.folder.path} lacks {error}: it is not a training state"
            ) from error
        self.best_theta = checked_theta(self.net, self.folder.restore("best")[0], self.folder.path)
        self.folder.cut_metrics(self.update)

    # ------------------------------------------------------------------ helpers

    def _validation(self, text: Text) -> Objective | None:
        """The validation part as parallel pieces that are scored as one stream; None without such a part."""
        symbols = self.vocabulary.encode(text, self.config.unknown)
        self.skipped = len(text) - symbols.size
        if symbols.size < 2 and self.config.valid is None:
            return None
        batch = Batch(*evaluation_streams(symbols, VALIDATION_STREAMS, VALIDATION_WARM_UP))
        plan = make_plan(self.net, batch.T, batch.B, memory=self.config.memory_bytes, use=Use.LOSS)
        return Objective(self.net, batch, self.config.threads, plan=plan)

    def _plans(self) -> tuple[dict[str, Plan], int]:
        """How gradient and curvature batches are run, and the bytes that both take.

        The gradient may take half of the budget; the curvature takes what is left.
        """
        T, rows = self.config.sequence_length, self.sampler.subset
        part = part_size(rows, self.config.curvature_fraction)
        checkpoint, budget = self.config.checkpoint_argument, self.config.memory_bytes
        footprint = footprint_of(self.net)
        plans = {"gradient": make_plan(self.net, T, rows, checkpoint, budget // 2, use=Use.GRADIENT)}
        taken = footprint.bytes(plans["gradient"], T, rows, Use.GRADIENT)
        plans["curvature"] = make_plan(self.net, T, part, checkpoint, max(budget - taken, 1), use=Use.OPERATOR)
        return plans, taken + footprint.bytes(plans["curvature"], T, part, Use.OPERATOR)

    def _score(self, record: Record) -> float:
        """What `best` is chosen by: validation bits, or training bits without validation; not finite is worst."""
        bits = record["train_bits" if self.validation is None else "valid_bits"]
        return math.inf if bits is None else float(bits)
