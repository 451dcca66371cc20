"""What a method of training is: from one line of the log to the next, and a state that can be resumed exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.data.streams import SequenceSampler
from hfrnn.engine.plan import Plan
from hfrnn.errors import InputError
from hfrnn.optim.schedules import Plateau, Schedule, Stepped
from hfrnn.runs.config import TrainConfig
from hfrnn.training.sources import Pool, Source

LEAST_RATE = 2.0**-12
"""A run ends when its schedule has made the learning rate smaller than this share of the first one."""

Record = dict[str, Any]
Progress = Callable[[int, float], None]
Stop = Callable[[], bool]


class Method:
    """One way to train.

    plans : how its batches are run, by role
    expected_bytes : what they take
    epoch : passes over the training part that are over
    """

    config: TrainConfig
    plans: dict[str, Plan]
    expected_bytes: int
    remedy = ""
    """What may help where the loss is no longer finite, with a comma after it."""

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def ended(self) -> str | None:
        """Why the method itself wants to stop, or None."""
        return "epochs" if self.config.epochs is not None and self.epoch >= self.config.epochs else None

    def resolved(self) -> dict[str, Any]:
        """Options whose defaults are the method's own, with their values."""
        return {}

    def advance(
        self, theta: Array, progress: Progress, should_stop: Stop, most: int | None = None
    ) -> tuple[Array, Record]:
        """Go on to the next line of the log, by `most` updates at most: new parameters, and what to write about them.

        The record holds `updates` and `symbols` made, `train_loss`, `validate` (whether it is time to), and more.

        Raises
        ------
        UpdateInterrupted
            `should_stop` said so; nothing that was done since the last line counts.
        NonFiniteError
            The loss or the gradient is no longer finite.
        """
        raise NotImplementedError

    def validated(self, loss: float | None) -> None:
        """Hear of the validation loss where the record asked for it, None without validation data."""

    def weights(self, theta: Array) -> Array:
        """What is validated, kept as the best and drawn from after `advance` gave theta."""
        return theta

    def lines(self) -> list[str]:
        """How it trains, for the screen."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Arrays, and values that JSON holds, from which `load_state_dict` goes on to the same bits."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        raise NotImplementedError


class Stepwise(Method):
    """A method of many small updates, of which many are a line: its learning rate, when to validate, its state.

    parts : what holds its state, each with a `state_dict`, by name
    """

    parts: dict[str, Any]

    @property
    def fraction(self) -> float:
        """How much of the present epoch is over."""
        raise NotImplementedError

    def __init__(self, config: TrainConfig, source: Source) -> None:
        if config.schedule in ("halve", "divide") and source.validation is None:
            raise InputError(f"--schedule {config.schedule} watches the validation loss: give a validation part")
        self.config, self.schedule = config, make_schedule(config)
        self.parts = {"schedule": self.schedule}
        self._epoch_ended, self._since_validation = False, 0

    @property
    def ended(self) -> str | None:
        return "learning rate" if self.schedule.lr is None else super().ended

    def validated(self, loss: float | None) -> None:
        self._since_validation = 0
        if self._epoch_ended:
            self.schedule.after_epoch(loss)

    def _begin(self, most: int | None) -> tuple[int, int, float]:
        """The updates that a line wants, `most` at most; the epoch and the learning rate that it has."""
        assert self.schedule.lr is not None, "a run whose schedule has ended goes no further"
        interval = self.config.log_interval
        return interval if most is None else min(interval, most), self.epoch, self.schedule.lr

    def _line(self, updates: int, symbols: int, loss: float, epoch: int, rate: float, **more: float | None) -> Record:
        """What to write about so many updates, begun in that epoch at that rate."""
        self._since_validation, self._epoch_ended = self._since_validation + updates, self.epoch != epoch
        every = self.config.validate_every
        return {
            "updates": updates,
            "symbols": symbols,
            "validate": self._epoch_ended or (every is not None and self._since_validation >= every),
            "train_loss": loss,
            "epoch": round(self.epoch + self.fraction, 4),
            "learning_rate": rate,
            "gradient_norm": None,
            "clipped": None,
            **more,
        }

    def _rate(self) -> str:
        """The learning rate, for the screen."""
        rate = "used up" if self.schedule.lr is None else format(self.schedule.lr, "g")
        return f"learning rate {rate} ({self.config.schedule})"

    def state_dict(self) -> dict[str, Any]:
        state = {f"{part}.{key}": x for part, owner in self.parts.items() for key, x in owner.state_dict().items()}
        return {**state, "since_validation": self._since_validation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for part, owner in self.parts.items():
            prefix = f"{part}."
            owner.load_state_dict({key.removeprefix(prefix): x for key, x in state.items() if key.startswith(prefix)})
        self._since_validation = int(state["since_validation"])


class Sequences:
    """Subsets of a source's training sequences, and the pool of the epoch that they are from."""

    def __init__(
        self, source: Source, symbols: int | None, count: int | None, seed: int, first: int | None = None,
        growth: float = 1.0,
    ) -> None:  # fmt: skip
        self.source = source
        self._pool: tuple[int, Pool] = (0, source.pool(0))
        T, N = self._pool[1].inputs.shape[:2]
        if count is not None:
            symbols = min(count, N) * T
        self.sampler = SequenceSampler(N, T, symbols, seed, first, growth)

    @property
    def pool(self) -> Pool:
        """The sequences of the present epoch."""
        if self.source.fresh and self._pool[0] != self.sampler.epoch:
            self._pool = (self.sampler.epoch, self.source.pool(self.sampler.epoch))
        return self._pool[1]

    @property
    def epoch(self) -> int:
        """The epochs that are over."""
        return self.sampler.epoch + self.sampler.epoch_is_over


def make_schedule(config: TrainConfig) -> Schedule:
    """SPEC 7: [S] halves, [M] divides by 1.5 when the validation loss does not fall; on text8 5 epochs, then halves."""
    rate = config.learning_rate
    assert rate is not None, "resolved() gives every first-order optimizer a rate"
    least = rate * LEAST_RATE
    if config.schedule in ("halve", "divide"):
        return Plateau(rate, 2.0 if config.schedule == "halve" else 1.5, least=least)
    return Stepped(rate, config.constant_epochs, least=least) if config.schedule == "text8" else Schedule(rate)
