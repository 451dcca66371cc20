"""The training loop: updates, validation, limits, interruption and failure."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.random import Generator

from hfrnn.arrays.backend import Array
from hfrnn.arrays.threads import one_blas_thread
from hfrnn.checks import flag, shown, wrong
from hfrnn.data.kinds.memory import Given
from hfrnn.data.tasks import SUCCESS
from hfrnn.engine.batch import Batch
from hfrnn.engine.sampling import draw_text
from hfrnn.errors import (
    CheckpointError,
    HfrnnError,
    HfrnnWarning,
    InputError,
    Message,
    MissingExtraError,
    NonFiniteError,
    RankError,
    StorageError,
)
from hfrnn.optim.hessian_free import UpdateInterrupted
from hfrnn.ranks.mpi import ranks_of
from hfrnn.ranks.one import ALONE, ALONE_IN_SLURM, Ranks, alone_in_slurm
from hfrnn.runs.config import PATHS, TrainConfig, checked_options
from hfrnn.runs.first_weights import as_file, first_weights, with_network
from hfrnn.runs.folder import RunFolder, check_unused
from hfrnn.runs.metrics import Record
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.resume import needs_plans, resumed_config, run_to_resume
from hfrnn.sources.given import given_objects
from hfrnn.sources.open import LN2, Source, open_source
from hfrnn.training.callbacks import Callback, TrainingResult, TrainingRun
from hfrnn.training.hints import Warnings
from hfrnn.training.live_progress import with_progress
from hfrnn.training.restarts import (
    Restarts,
    resume_restarts,
    train_restarts,
    unfinished,
    wanted_restarts,
    with_time_left,
)
from hfrnn.training.run_state import ResumeCommand, RunState, before_next_update
from hfrnn.training.setup import (
    after_an_update,
    before_updates,
    build_network,
    ending_together,
    initial_parameters,
    prepared,
    refuse_idle_options,
    run_constraints,
    validate,
    validation_objective,
)
from hfrnn.training.signals import (
    Interrupted,
    Interruption,
    Response,
    handle_signals,
    is_closed_output,
    saying_what_is_saved,
)


def train(
    config: TrainConfig | None = None,
    *,
    resume: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    data: str | Path | Sequence[Any] | Mapping[str, Any] | Any = None,
    batches: Callable[[Generator], Any] | None = None,
    valid: str | Path | Sequence[Any] | Mapping[str, Any] | Batch | Any = None,
    test: str | Path | Sequence[Any] | Any = None,
    init_from: Any = None,
    comm: Any = None,
    **options: Any,
) -> TrainingResult:
    """Train a network on a text, a synthetic task, music, arrays or a table, and write a run folder.

    Parameters
    ----------
    config : TrainConfig, optional
        All options. By default those of `hfrnn train`.
    resume : path, optional
        A run folder. The run resumes after its last update, with its stored configuration; options in
        `hfrnn.runs.resume.RESUMABLE` may differ. `updates` and `epochs` count from its beginning, `minutes` from now. A
        new limit of these three replaces all old ones. Leave `config` out.
    callbacks : sequence of Callback
        Objects that watch the run.
    progress : bool
        Whether to show the run: on stderr, with the time left (no terminal: every ten seconds), or in a notebook.
    data : str, path, mapping of str to array, or DataFrame, optional
        The option `data`: a name, a file, or a list of tables. Or arrays by the names of docs/data.md: `x`, `y`, ... Or
        a DataFrame, an xarray Dataset, or a list of them. To resume such a run, give the same objects again.
    batches : callable, optional
        Called as `batches(rng)` with a `numpy.random.Generator`; returns new sequences for an epoch, which depend on
        `rng` only, as a dict of such arrays or a `hfrnn.Batch`. To resume, give the function and `valid` again.
    valid, test : str, path, DataFrame, mapping of str to array or Batch, optional
        The options `valid` and `test`, or objects like those of `data`; with `batches`, the sequences to validate on.
    init_from : path, or (net, theta), optional
        The weights to start from: a run, a file of `hfrnn.save`, or a network and its weights. They give the options
        of the network too; a file and a pair give no scaling: data are scaled only with `standardize=True`.
    comm : mpi4py.MPI.Comm, optional
        Ranks that train together. Each makes the same call; rank 0 writes the run folder and calls the callbacks.
    **options
        Single options by name, which override `config`: `text="book.txt", arch="mlstm", updates=20`.

    Returns
    -------
    TrainingResult
        With `restarts`, that of the best run; `summary["restarts"]` is the table of all.

    Raises
    ------
    InputError
        An option, the data or the run folder is wrong, or another process writes to the folder; nothing was written.
    RankError
        Another rank has failed, does not answer or has other weights; the last update on the disk is complete.
    StorageError
        A file cannot be written; the last update on the disk is complete.
    NonFiniteError, DeviceMemoryError
        The loss or gradient is no longer finite, or the memory of the GPU is used up; the last good state is saved.
    Interrupted, KeyboardInterrupt
        SIGINT, SIGTERM or SIGHUP was received, or the output was closed; the last finished update is in the run folder.
        KeyboardInterrupt if the folder held no state before.

    Notes
    -----
    A HfrnnWarning gives each hint that the command prints: about the data, tasks of Slurm, limits and validation.
    A resumed run makes the same updates, bit for bit, as a run that never stopped, also if the first process was
    killed. Where it was at a limit, it has one more validation, perhaps after a shorter interval, which can change
    which state is the best, and end the run at a goal; `patience` does not count it.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run")
    >>> result.summary["updates"]
    2
    >>> result.net
    <Network rnn 4, 1 in, 1 out (squared), 28 weights>
    """
    if resume is not None or not isinstance(config, TrainConfig | None):
        resume = run_to_resume(config, resume)
    callbacks, progress = _checked_callbacks(callbacks), flag("progress", progress)
    given, named = _objects_and_names(data, batches, valid, test)
    ranks = comm if isinstance(comm, Ranks) else ranks_of(comm)
    with as_file(init_from, ranks.size) as first, with_progress(callbacks, progress and ranks.leads) as watching:
        values = checked_options({**options, **named, **({} if first is None else {"init_from": first})}, "train()")
        with handle_signals() as interruption, ending_together(ranks), saying_what_is_saved(interruption):
            if resume is None:
                config = _configured(config, values)
            return _trained(config or resume, values, ([*watching, Warnings()], interruption, given, ranks))


def _configured(config: TrainConfig | None, values: dict[str, Any]) -> TrainConfig:
    """Return the options of a new run: `config` changed by `values`, with those of the network of `init_from`."""
    if config is None:
        return TrainConfig(**with_network(values))
    options = with_network({**config.given, **values})
    of_network = {name: value for name, value in options.items() if name not in config.given}
    return config.replace(**{**of_network, **values})


def _trained(
    what: Any, values: dict[str, Any], others: tuple[Sequence[Callback], Interruption, Given | None, Ranks]
) -> TrainingResult:
    """Train one run, or its restarts: new ones by their options, or those in a folder with changed `values`."""
    ranks = others[-1]

    def new(config: TrainConfig, restarts: Restarts | None = None) -> TrainingResult:
        trainer = Trainer.new(config, *others, restarts)
        if restarts is None or restarts.number == 1:
            _warn_of(trainer.source, ranks, 5 if restarts is None else 6)
        return trainer.run()

    def resumed(run: str | Path, restarts: Restarts | None = None) -> TrainingResult:
        return Trainer.resumed(run, values, *others, restarts).run()

    if not isinstance(what, TrainConfig):
        found = unfinished(what)
        return resumed(what) if found is None else resume_restarts(found, values, new, resumed)
    if (wanted := wanted_restarts(what, ranks)) is not None:
        return train_restarts(wanted, what, new, resumed)
    return new(what if what.restarts is None else what.replace(restarts=None))


def _objects_and_names(data: Any, batches: Any, valid: Any, test: Any) -> tuple[Given | None, dict[str, Any]]:
    """Return the data that were given as objects of Python, if any, and the options that name data."""
    given = None
    if batches is not None or not all(each is None or isinstance(each, str) for each in (data, valid, test)):
        given = given_objects(data, batches, valid, test)
    named = {"data": data, "valid": valid, "test": test}
    if given is not None:
        named = {"data": given.name}
    return given, {name: value for name, value in named.items() if value is not None}


def _warn_of(source: Source, ranks: Ranks, stacklevel: int) -> None:
    """Warn users of Python of what is unusual about the data and the start of a run; they called so many calls up."""
    tasks = alone_in_slurm()
    for hint in [*source.hints(), *([ALONE_IN_SLURM.format(tasks)] if tasks else [])] if ranks.leads else ():
        warnings.warn(str(hint), HfrnnWarning, stacklevel=stacklevel)


def _checked_callbacks(callbacks: Sequence[Callback]) -> Sequence[Callback]:
    """Return the given callbacks, checked."""
    if not isinstance(callbacks, list | tuple):
        raise wrong("callbacks", callbacks, "give a list of objects of subclasses of hfrnn.Callback")
    for each in callbacks:
        if not isinstance(each, Callback):
            raise InputError(f"callbacks holds {shown(each)}: give objects of subclasses of hfrnn.Callback")
    return callbacks


class Trainer(TrainingRun):
    """One training run. `new` or `resumed` makes it, and `run` is called once.

    The options are resolved. `folder` is that of a run to be resumed, and `given` has data that were given as objects
    of Python. Ranks that do not lead have no callbacks and write nothing.
    """

    def __init__(
        self, config: TrainConfig, folder: RunFolder | None = None, callbacks: Sequence[Callback] = (),
        interruption: Interruption | None = None, given: Given | None = None, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        if folder is None:
            refuse_idle_options(config)
        self.ranks, config = ranks, prepared(ranks, config)
        self.source = open_source(config, folder, given)
        if config.patience is not None and self.source.validation is None:
            raise InputError(
                Message("{patience} is {0}, which counts validations: give a validation part", config.patience)
            )
        chosen = self.source.chosen.items()
        config = config.completed(**{n: each for n, each in chosen if n not in config.given and config.uses(n)})
        self.vocabulary = self.source.vocabulary
        ranks.check_data(f"the data {self.source.name}", json.dumps(self.source.checksums, sort_keys=True))
        new = folder is None or not folder.begun
        first = None
        if new and config.init_from is not None:
            first = first_weights(config, self.source.network, self.source.name)
        self.net = build_network(config, self.source.network)
        if self.source.state_width:
            self.net.check_state_width(self.source.state_width)
        with before_updates(self.net.backend, config):
            constraints = run_constraints(config, self.net) if new else None  # else from the checkpoint
            theta = initial_parameters(config, self.net, first, constraints)
            self.method = OPTIMIZERS[config.optimizer].make(config, self.source, self.net)  # its plans compile loops
            self.method.ranks, self.method.constraints = ranks, constraints
            self.state = RunState(config, self.source, self.net, self.method, theta, ranks)
            self.validation = validation_objective(self.net, self.source, config, ranks)
        self.why_backend = config.why_backend
        self.callbacks = tuple(callbacks) if ranks.leads else ()
        self.interruption = interruption or Interruption()
        self._time = TimeLimit(config.time_limit)
        self._sample: str | None = None  # drawn at the end, from the weights that the run returns

    @classmethod
    def new(
        cls, config: TrainConfig, callbacks: Sequence[Callback] = (), interruption: Interruption | None = None,
        given: Given | None = None, ranks: Ranks = ALONE, restarts: Restarts | None = None,
    ) -> Trainer:  # fmt: skip
        """Return a run from its beginning. Its folder is created after everything else was checked."""
        if config.out is not None and ranks.leads and (restarts is None or restarts.path is None):
            check_unused(Path(config.out), config.out)
        trainer = cls(config.resolved(), None, callbacks, interruption, given, ranks)
        if trainer._stops():  # the signal came during an import
            raise KeyboardInterrupt
        trainer.interruption.response = Response.NOTED  # until `run` begins
        if restarts is not None:
            restarts.place(trainer.state)
            trainer.restart = restarts.next
        trainer.state.create()
        trainer.interruption.saved = trainer.state.interrupted
        return trainer

    @classmethod
    def resumed(
        cls, run: str | Path, changes: dict[str, Any], callbacks: Sequence[Callback] = (),
        interruption: Interruption | None = None, given: Given | None = None, ranks: Ranks = ALONE,
        restarts: Restarts | None = None,
    ) -> Trainer:  # fmt: skip
        """Return a run that continues after its last update, with changed options by field name."""
        folder, interruption = RunFolder(run), interruption or Interruption()
        interruption.saved = before_next_update(folder, None if restarts is None else restarts.path)
        stored = folder.config()
        config = resumed_config(stored, changes)
        if restarts is not None:
            config = with_time_left(config, folder)
        if ranks.leads:
            folder.lock.acquire()
        try:
            trainer = cls(config, folder, callbacks, interruption, given, ranks)
            if restarts is not None:
                trainer.restart, trainer.state.command_path = restarts.next, restarts.path
            trainer.state.changes = {name: value for name, value in changes.items() if name not in PATHS}
            trainer.state.load(folder, needs_plans(stored, config))
            ranks.check_data(f"the run folder {run}", json.dumps(trainer.state.saved, sort_keys=True))
            trainer.state.repair()
            moved = {name: config.values[name] for name in PATHS if config.values[name] != stored.values[name]}
            if moved and ranks.leads:
                folder.rewrite_config(stored.completed(**moved))
            interruption.response = Response.NOTED  # until `run` begins
            interruption.saved = trainer.state.interrupted
        except BaseException as error:
            folder.lock.release()
            if isinstance(error, MissingExtraError) and f"backend {config.backend!r}" in str(error):
                command = ResumeCommand(run, {"backend": "numpy"})
                raise MissingExtraError(Message("{0}: {1} resumes without it", error, command)) from error
            raise
        return trainer

    # ------------------------------------------------------------------ the run and its end

    def run(self) -> TrainingResult:
        """Train until a limit is reached, and release the lock of the folder."""
        state, interruption = self.state, self.interruption
        interruption.on_first = self._on_interrupt
        try:
            interruption.response = Response.SECOND
            with warnings.catch_warnings():
                # an overflow in a trial step is expected: the step is rejected
                warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hfrnn\.")
                self._call(lambda callback: callback.on_start(self))
                summary = state.write_summary(self._loop(), self._sample)
        except (UpdateInterrupted, KeyboardInterrupt, OSError) as error:
            if isinstance(error, OSError) and not interruption.seen and not is_closed_output(error):
                raise
            interruption.response = Response.NOTED
            self.folder.lock.check()
            with contextlib.suppress(StorageError):  # the checkpoint is what matters
                state.write_summary("interruption", self._sample)
            raise Interrupted(state.interrupted) from None
        except NonFiniteError as error:
            update = state.write_summary("a loss or gradient that is not finite", self._sample)["updates"]
            raise NonFiniteError(Message(
                "the training loss or its gradient is not finite after update {0}, whose state is kept in {1}: start a "
                "new run with {2}a smaller {init_scale!s} or {dtype:float64}", update, self.path, self.method.remedy,
            )) from error  # fmt: skip
        except self.net.backend.memory_errors as error:
            state.write_summary("a GPU without free memory", self._sample)
            raise after_an_update(state) from error
        except RankError as error:
            interrupted = error.exit_code == Interrupted.exit_code  # a signal to another rank, in mid-validation
            with contextlib.suppress(StorageError, CheckpointError):
                state.write_summary("interruption" if interrupted else "an error on several ranks", self._sample)
            saved = f"update {state.saved['update']} is saved: " * self.ranks.leads
            error.args = (Message("{0}; {1}resume with {2}", error.args[0], saved, state.resume_command),)
            raise
        except StorageError as error:
            self.folder.lock.check()
            with contextlib.suppress(StorageError, CheckpointError):
                state.write_summary("a disk that cannot be written to", self._sample)
            raise StorageError(
                Message("{0}; update {1} is saved: resume with {2}", error, state.saved["update"], state.resume_command)
            ) from error
        finally:
            with contextlib.suppress(HfrnnError):  # another error is on its way
                state.flush()
            self.folder.lock.release()
        interruption.response, interruption.saved = Response.AT_ONCE, state.interrupted
        summary = self.ranks.broadcast(summary)
        result = TrainingResult(self.net, state.result, self.vocabulary, self.config, self.path, summary)
        for callback in self.callbacks:
            callback.on_end(result)
        return result

    def _on_interrupt(self) -> None:
        for callback in self.callbacks:
            callback.on_interrupt()

    def _on_progress(self, iteration: int, value: float) -> None:
        self._call(lambda callback: callback.on_cg(iteration, value))

    def _call(self, call: Callable[[Callback], Any]) -> list[Any]:
        """Call a method of every callback. A signal ends it at once, because output may block."""
        with self.interruption.responding(Response.AT_ONCE):
            return [call(callback) for callback in self.callbacks]

    # ------------------------------------------------------------------ the loop

    def _loop(self) -> str:
        """Make updates until a limit is reached; return the reason for the end."""
        state, before = self.state, self.state.seconds
        self.method.deadline = self._time.begin()
        while (reason := reason_to_end(state, self._time)) is None:
            if self._stops():
                raise UpdateInterrupted("Training was interrupted between two updates.")
            start = time.perf_counter()
            with one_blas_thread():  # setting it once for all products of an update saves time
                record = self._advance(start)
            record["seconds_update"] = round(time.perf_counter() - start, 4)
            record["seconds"] = round(state.seconds, 3)
            record["seconds_processor"] = round(state.seconds_processor, 3)
            record["seconds_before"] = round(before, 3)
            with self.interruption.responding(Response.NOTED):
                self.folder.delete_summary()
                state.commit(record)
                self.interruption.saved = state.interrupted
            answers = self._call(lambda callback: callback.on_update(copy.deepcopy(record)))  # noqa: B023
            if self.ranks.any_rank(any(answers)):
                reason = "callback"
                break
        with self.interruption.responding(Response.AT_ONCE):
            self._sample = self._draw(state.result)
        return reason

    def _stops(self) -> bool:
        """Return whether a signal has asked any rank to stop."""
        return self.ranks.any_rank(self.interruption())

    def _check_time(self, now: float) -> None:
        """Find out whether any rank has no time for another update."""
        self._time.check(now)
        self._time.reached = self.ranks.any_rank(self._time.reached)

    def _draw(self, weights: Array) -> str | None:
        """Return a text that the network writes; None if it has no symbols, or on a rank that does not lead."""
        length = self.config.sample_length
        return draw_text(self.net, weights, self.vocabulary, length) if self.ranks.leads else None

    def _advance(self, start: float) -> Record:
        """Train until the next record, validate if it is time to, and return the record.

        If this raises, only the state on disk is valid.
        """
        state, earlier = self.state, self.update
        left = None if self.config.updates is None else self.config.updates - earlier
        processor = time.process_time()
        state.theta, found = self.method.advance(state.theta, self._on_progress, self._stops, left)
        state.seconds_processor += time.process_time() - processor
        updates = found.pop("updates")
        state.update += updates
        state.symbols += found.pop("symbols")
        begin, valid, errors = time.perf_counter(), None, None
        state.seconds += begin - start
        self._time.note(start, begin, updates)
        self._check_time(begin)
        due = found.pop("validate")
        if due or reached_limit(state, self._time) is not None:
            with self.interruption.responding(Response.AT_ONCE):
                valid, errors = validate(self.validation, self.source, self.weights)
            self._check_time(time.perf_counter())
        if due:
            state.theta = self.method.validated(valid, state.theta)
            if state.stopping is not None and valid is not None:
                state.stopping.after_evaluation(valid)
        seconds = time.perf_counter() - begin
        draws = self.update.bit_length() > earlier.bit_length()  # after updates 1, 2, 4, 8, ...
        with self.interruption.responding(Response.AT_ONCE):
            drawn = self._draw(self.weights) if draws else None
        return make_record(state, found, valid, errors, seconds, drawn)


# ------------------------------------------------------------------ limits and goals


@dataclass
class TimeLimit:
    """A time limit. It ends a run before an update that would probably exceed it.

    A record of many updates ends at the limit, wherever it is, so that it is their mean time that counts: `longest` is
    the largest mean of a record. `reached` says whether there is no time for another update.
    """

    seconds: float | None
    start: float = 0.0
    longest: float = 0.0
    reached: bool = False

    def begin(self) -> float:
        """Start the clock, and return the time at which the limit is reached."""
        self.start = time.perf_counter()
        return self.start + (math.inf if self.seconds is None else self.seconds)

    def note(self, begin: float, end: float, updates: int = 1) -> None:
        """Note a record of so many updates that took from one time to another."""
        self.longest = max(self.longest, (end - begin) / max(updates, 1))

    def check(self, now: float) -> None:
        """Find out whether another update would end after the limit."""
        self.reached = self.seconds is not None and now - self.start + self.longest > self.seconds


def reason_to_end(state: RunState, time_limit: TimeLimit) -> str | None:
    """Return why training ends before the next update, or None if it continues."""
    if state.stopping is not None and state.stopping.idle >= state.stopping.patience:
        return "patience"
    if _solved(state):
        return "success"
    if _target_reached(state):
        return "target"
    return reached_limit(state, time_limit)


def reached_limit(state: RunState, time_limit: TimeLimit) -> str | None:
    """Return which limit on updates, epochs or time is reached, or None."""
    if state.config.updates is not None and state.update >= state.config.updates:
        return "updates"
    return state.method.ended or ("time" if time_limit.reached else None)


def _solved(state: RunState) -> bool:
    """Return whether a synthetic task is solved: the last validation found few wrong answers."""
    if state.last is None or not state.source.ends_by_success:
        return False
    errors = state.last["valid_errors"]
    return errors is not None and errors < SUCCESS


def _target_reached(state: RunState) -> bool:
    """Return whether the best record is as good as the option `target_bits` asks for."""
    if state.config.target_bits is None or state.best is None:
        return False
    bits = state.best["train_bits" if state.source.validation is None else "valid_bits"]
    return bits is not None and bits <= state.config.target_bits


# ------------------------------------------------------------------ records of metrics.jsonl


NOT_APPLICABLE = ("cg_iterations", "cg_stop", "mu", "lambda", "rho", "step_size")
"""Names in every record; the value is None where the method has no such figure."""


def make_record(
    state: RunState, found: Record, valid: float | None, errors: float | None, seconds: float, sample: str | None
) -> Record:
    """Return the record of an update. Its times are filled in later; infinities and NaN become None.

    `found` has the figures of the method, `valid` is the validation loss in nats, `errors` the share of wrong answers.
    `seconds` is the duration of the validation.
    """
    loss, in_bits = found["train_loss"], state.source.in_bits
    record = {
        "update": state.update,
        "seconds": 0.0,
        "seconds_processor": 0.0,
        "train_loss": loss,
        "train_bits": loss / LN2 if in_bits else None,
        "valid_loss": valid,
        "valid_bits": None if valid is None or not in_bits else valid / LN2,
        "valid_perplexity": None if valid is None or not in_bits else math.exp(min(valid, 700.0)),
        "valid_errors": errors,
        **dict.fromkeys(NOT_APPLICABLE),
        "symbols": state.symbols,
        **found,
        "seconds_validation": round(seconds, 4),
        "sample": sample,
    }
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
