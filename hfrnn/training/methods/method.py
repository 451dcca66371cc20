"""What every training method has: it trains until its next record, and its state can be stored and loaded exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.data.ragged import RaggedPool
from hfrnn.data.sampler import SequenceSampler
from hfrnn.engine.noise import StateNoise
from hfrnn.errors import InputError, Message
from hfrnn.kernels.registry import vector_passes
from hfrnn.optim.average import Average
from hfrnn.optim.compiled_steps import OnePassAverage
from hfrnn.optim.outcome import UpdateInterrupted
from hfrnn.optim.schedules import Cosine, Plateau, Schedule, Stepped, warm_up
from hfrnn.ranks.one import ALONE, Ranks
from hfrnn.runs.metrics import Record

if TYPE_CHECKING:
    from hfrnn.data.kinds.data_kind import Pool
    from hfrnn.engine.constraints import Constraints
    from hfrnn.engine.network import Network
    from hfrnn.engine.plan import Plan
    from hfrnn.runs.config import TrainConfig
    from hfrnn.sources.open import Source

LEAST_RATE = 2.0**-12
"""A run ends when its schedule has made the learning rate smaller than this share of the first one.

The schedule cosine keeps this share after its horizon.
"""

BEST = "best_epoch"
"""Name of the weights of the best epoch in the state of a method."""

Progress = Callable[[int, float], None]
"""Called with the number of an iteration or update, and the value of its objective."""
Work = dict[str, float]
"""Amounts of work by kind, each in a unit of its own."""
Stop = Callable[[], bool]
"""Returns whether to stop."""


class Method:
    """Base class of the training methods.

    Attributes
    ----------
    config : TrainConfig
    plans : dict of str to Plan
        How batches are computed, by role: gradient, curvature.
    expected_bytes : int
        Memory that the batches need.
    work : dict
        The work of the last call of `advance`.
    constraints : Constraints or None
        Absent weights and signs. The theta of `advance` and of `weights` are then variables, not weights.
    ranks : Ranks
        The processes that share the work.
    remedy : str or Message
        What to change when the loss is no longer finite, with a comma and a space after it, or nothing.
    deadline : float
        The value of `time.perf_counter` at which a record of many updates ends early.
    """

    config: TrainConfig
    plans: dict[str, Plan]
    expected_bytes: int
    work: Work
    remedy: str | Message = ""
    constraints: Constraints | None = None
    ranks: Ranks = ALONE
    deadline = math.inf

    @property
    def epoch(self) -> int:
        """The number of completed passes over the training part."""
        raise NotImplementedError

    @property
    def ended(self) -> str | None:
        """Why the method ends the training, or None."""
        return "epochs" if self.config.epochs is not None and self.epoch >= self.config.epochs else None

    def resolved(self) -> dict[str, Any]:
        """Return options whose defaults the method has chosen, with their values."""
        return {}

    def advance(
        self, theta: Array, progress: Progress, should_stop: Stop, most: int | None = None
    ) -> tuple[Array, Record]:
        """Train until the next record.

        Parameters
        ----------
        theta : array, shape (n_parameters,)
            The parameters; not written to.
        progress : callable
            Called after each CG iteration or update.
        should_stop : callable
            Returns True to interrupt the training.
        most : int, optional
            Maximum number of updates.

        Returns
        -------
        theta : array, shape (n_parameters,)
            The new parameters.
        record : dict
            `updates` made, `symbols` used, `train_loss`, `validate` (whether to validate now), and figures of the
            method.

        Raises
        ------
        UpdateInterrupted
            `should_stop` returned True; everything since the last record must be discarded.
        NonFiniteError
            The loss or the gradient is no longer finite.
        """
        raise NotImplementedError

    def work_left(self, updates: int | None) -> Work | None:
        """Return the work until the limit on epochs, or of so many updates if that is less; None without a limit."""
        raise NotImplementedError

    def seconds(self, record: Record, whole: float) -> Work:
        """Return the seconds that each kind of work took, of `whole` seconds between two records."""
        raise NotImplementedError

    def validated(self, loss: float | None, theta: Array) -> Array:
        """Process the validation loss that a record asked for, and return the parameters to continue from.

        Parameters
        ----------
        loss : float or None
            Loss of `weights(theta)`; None without validation data.
        theta : array, shape (n_parameters,)
            The parameters that `advance` returned; not written to.
        """
        return theta

    def weights(self, theta: Array) -> Array:
        """Return the weights to validate, sample from and keep as the best, for the theta that `advance` returned."""
        return theta if self.constraints is None else self.constraints.weights(theta)

    def lines(self) -> list[str | Message]:
        """Return lines for the screen about how the method trains."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state: arrays, and values that JSON can hold. After loading it, training gives the same bits."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state that `state_dict` has returned."""
        raise NotImplementedError


class Stepwise(Method):
    """Base class of methods with many small updates in a record: their learning rate and their state.

    `parts` has the objects that hold the state, each with a `state_dict`, by name.
    """

    parts: dict[str, Any]

    def __init__(self, config: TrainConfig, source: Source) -> None:
        if config.schedule in ("halve", "divide") and source.validation is None:
            raise InputError(
                Message("{schedule} is {0}, which watches the validation loss: give a validation part", config.schedule)
            )
        watched = source.text() is not None and source.validation is not None
        self.config = config.replace(schedule=config.schedule or ("divide" if watched else "constant"))
        self.schedule, self._pace = make_schedule(self.config), Pace(config.time_limit)
        if not isinstance(self.schedule, Plateau):
            why = Message("{schedule} is {0}, which does not watch the validation loss", self.config.schedule)
            config.refuse(("restore_best",), why)
        self._best: Array | None = None  # the weights of the best epoch, with the option restore_best
        self.parts = {"schedule": self.schedule}
        self._epoch_ended, self._since_validation = False, 0
        self._in_interval = 0  # updates already made in the current log interval

    @property
    def fraction(self) -> float:
        """The share of the current epoch that is done."""
        raise NotImplementedError

    @property
    def updates(self) -> int:
        """The number of updates since the beginning of the run."""
        raise NotImplementedError

    @property
    def ended(self) -> str | None:
        return "learning rate" if self.schedule.lr is None else super().ended

    def resolved(self) -> dict[str, Any]:
        return {"schedule": self.config.schedule}

    def validated(self, loss: float | None, theta: Array) -> Array:
        self._since_validation = 0
        if not self._epoch_ended:
            return theta
        if self.config.restore_best and isinstance(self.schedule, Plateau):
            return self._after_epoch(self.schedule, loss, theta)
        self.schedule.after_epoch(loss)
        return theta

    def _after_epoch(self, schedule: Plateau, loss: float | None, theta: Array) -> Array:
        """Return theta, or the parameters of the best epoch if the schedule lowers the rate after this epoch."""
        best, rate = schedule.best, schedule.lr
        schedule.after_epoch(loss)
        if schedule.best != best:
            self._best = self.weights(theta).copy()
        elif schedule.lr != rate and self._best is not None:
            return self.restored(self._best, theta)
        return theta

    def restored(self, weights: Array, theta: Array) -> Array:
        """Return the parameters that have the given weights. Training continues from them instead of from theta."""
        return weights.copy() if self.constraints is None else self.constraints.lazy_variables(weights, like=theta)

    @property
    def epoch_updates(self) -> float:
        """The number of updates in an epoch."""
        raise NotImplementedError

    def work_left(self, updates: int | None) -> Work | None:
        counts = [] if updates is None else [float(updates)]
        if self.config.epochs is not None:
            counts.append(max(self.config.epochs - self.epoch - self.fraction, 0.0) * self.epoch_updates)
        return {"updates": min(counts)} if counts else None

    def seconds(self, record: Record, whole: float) -> Work:
        return {"updates": whole}

    def _begin(self, most: int | None) -> tuple[int, int]:
        """Return the number of updates until the next record (`most` at most), and the epoch."""
        if isinstance(self.schedule, Cosine) and not self.schedule.fixed:
            horizon = self.ranks.broadcast(self._pace.horizon(self.updates))
            if horizon is not None:
                self.schedule.shorten(horizon)
        wanted, every = self.config.log_interval - self._in_interval, self.config.validate_every
        if every is not None and every < self.config.log_interval:
            wanted = min(wanted, max(every - self._since_validation, 1))
        return wanted if most is None else min(wanted, most), self.epoch

    def _ends_early(self, updates: int, should_stop: Stop) -> bool:
        """Return whether the time limit ends a record after so many updates; a signal raises UpdateInterrupted."""
        if should_stop():
            raise UpdateInterrupted("Training was interrupted between two updates.")
        timed = updates > 0 and self.deadline < math.inf
        return timed and self.ranks.any_rank(time.perf_counter() >= self.deadline)

    def _rate(self) -> float:
        """Return the learning rate of the next update."""
        done = self.updates
        return self.schedule.rate(done) * warm_up(done, self.config.warm_up)

    def _plan(self) -> None:
        """Tell the schedule how many updates the limits on updates and epochs allow."""
        if isinstance(self.schedule, Cosine):
            config = self.config
            limits = [] if config.updates is None else [config.updates]
            if config.epochs is not None:
                limits.append(config.epochs * max(int(self.epoch_updates), 1))
            self.schedule.plan(min(limits, default=None), fixed=config.time_limit is None)

    def _record(self, updates: int, symbols: int, loss: float, epoch: int, rate: float, **more: float | None) -> Record:
        """Return the record of some updates that began in an epoch; the last one had a learning rate."""
        self.work = {"updates": float(updates)}
        self._since_validation, self._epoch_ended = self._since_validation + updates, self.epoch != epoch
        done, every, interval = self._in_interval + updates, self.config.validate_every, self.config.log_interval
        self._in_interval = 0 if self._epoch_ended else done % interval
        due = every is not None and self._since_validation >= every and (every < interval or self._in_interval == 0)
        return {
            "updates": updates,
            "symbols": symbols,
            "validate": self._epoch_ended or due,
            "train_loss": loss,
            "epoch": round(self.epoch + self.fraction, 4),
            "learning_rate": rate,
            "gradient_norm": None,
            "clipped": None,
            **more,
        }

    def _rate_line(self) -> Message:
        """Return the first learning rate of the schedule for the screen."""
        rate = "used up" if self.schedule.lr is None else format(self.schedule.lr, "g")
        ended: str | Message = ""
        if isinstance(self.schedule, Cosine) and self.updates >= (self.schedule.horizon or math.inf):
            ended = Message("; it has fallen to {0:.3g}, and {updates!s} gives it a new horizon", self._rate())
        return Message("learning rate {0} ({1}{2})", rate, self.config.schedule, ended)

    def state_dict(self) -> dict[str, Any]:
        state = {f"{part}.{key}": x for part, owner in self.parts.items() for key, x in owner.state_dict().items()}
        best = {} if self._best is None else {BEST: self._best}
        return {**state, **best, "since_validation": self._since_validation, "in_interval": self._in_interval}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for part, owner in self.parts.items():
            prefix = f"{part}."
            owner.load_state_dict({key.removeprefix(prefix): x for key, x in state.items() if key.startswith(prefix)})
        self._best = state.get(BEST)
        self._since_validation = int(state["since_validation"])
        self._in_interval = int(state["in_interval"]) % self.config.log_interval


def make_average(config: TrainConfig, net: Network) -> Average:
    """Return the running average of the parameters; it is turned off if the option `average` is 0."""
    decay, passes = config.average or 0.0, vector_passes(net.backend.variants)
    return Average(decay) if passes is None else OnePassAverage(passes, decay)


def make_schedule(config: TrainConfig) -> Schedule:
    """Return the schedule of the learning rate that the options name (SPEC 7).

    "halve" is the schedule of [S], "divide" that of [M] (by 1.5), each when the validation loss does not fall. "text8"
    keeps the rate for some epochs and then halves it after each. "cosine" has no horizon yet.
    """
    rate = config.learning_rate
    assert rate is not None, "resolved() gives every first-order optimizer a rate"
    least = rate * LEAST_RATE
    if config.schedule in ("halve", "divide"):
        return Plateau(rate, 2.0 if config.schedule == "halve" else 1.5, least=least)
    if config.schedule == "cosine":
        return Cosine(rate, least=least)
    return Stepped(rate, config.constant_epochs, least=least) if config.schedule == "text8" else Schedule(rate)


# ------------------------------------------------------------------ updates within a time limit


MEASURED = 0.1
"""Share of the time limit after which the number of updates is estimated; the schedule cosine is still almost flat."""


class Pace:
    """Estimate the number of updates that a run makes within its time limit, from the first call of `horizon` on."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds, self._clock = seconds, clock
        self._marks: list[tuple[float, int]] = []  # time and updates at the first two calls and at the last one

    def horizon(self, updates: int) -> int | None:
        """Return the number of updates until the limit, given those so far; None if it is too early to tell.

        Call it before every record. The speed is that of the updates after the first record, which may include
        compilation, unless the first record alone takes long enough.
        """
        if self.seconds is None:
            return None
        now = self._clock()
        self._marks = [*self._marks[:2], (now, updates)]
        start = self._marks[0][0]
        if now - start < MEASURED * self.seconds:
            return None
        begin, done = self._marks[-2]
        return updates + int(max(start + self.seconds - now, 0.0) * (updates - done) / (now - begin))


# ------------------------------------------------------------------ random subsets of sequences


class SequenceSubsets:
    """Random subsets of a source's training sequences.

    A subset has `symbols` symbols or `count` sequences; None stands for all sequences. The first subset may be smaller,
    with `first` symbols; `growth` is the growth factor until the subsets have full size. A subset of a number of
    sequences, which is small, has sequences of similar lengths.
    """

    def __init__(
        self, source: Source, symbols: int | None, count: int | None, seed: int, first: int | None = None,
        growth: float = 1.0,
    ) -> None:  # fmt: skip
        self.source = source
        self._pool: tuple[int, Pool | RaggedPool] | None = None
        pool = self._pool_of(0)
        length, lengths = pool.mean_length, self._lengths if isinstance(pool, RaggedPool) else None
        if count is not None:
            symbols = round(min(count, pool.sequences) * length)
        self.sampler = SequenceSampler(
            pool.sequences, length, symbols, seed, first, growth, lengths, alike=count is not None
        )

    def _lengths(self, epoch: int) -> HostArray:
        pool = self._pool_of(epoch if self.source.fresh else 0)
        assert isinstance(pool, RaggedPool)
        return pool.lengths

    @property
    def pool(self) -> Pool | RaggedPool:
        """The sequences of the current epoch."""
        return self._pool_of(self.sampler.epoch if self.source.fresh else 0)

    def _pool_of(self, epoch: int) -> Pool | RaggedPool:
        if self._pool is None or self._pool[0] != epoch:
            self._pool = None  # two epochs are never in memory together
            self._pool = epoch, self.source.pool(epoch)
        return self._pool[1]

    @property
    def epoch(self) -> int:
        """The number of completed epochs."""
        return self.sampler.epoch + self.sampler.epoch_is_over


def state_noise(config: TrainConfig, draw: int, sequences: HostArray | None = None) -> StateNoise | None:
    """Return the noise on the states in an update, after `draw` earlier ones; None if the run has none.

    `sequences` (B,) numbers the sequences in their pool, if several batches of the update hold some of them.
    """
    return StateNoise(config.state_noise, config.seed, draw, sequences) if config.state_noise else None
