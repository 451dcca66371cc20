"""Training with a step for every mini-batch: windows of a text with carried states, or whole sequences (SPEC 7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.arrays.threads import default_threads
from hfrnn.arrays.vectors import Scalar, fetch
from hfrnn.data.streams import TextStreams
from hfrnn.engine.batch import Batch
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.max_norm import MaxNorm
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Use
from hfrnn.engine.planner import footprint_of, make_plan
from hfrnn.errors import CheckpointError, Message, NonFiniteError
from hfrnn.optim.clipping import lazy_clip_values
from hfrnn.option import by_name
from hfrnn.training.feedback_schedule import FeedbackSchedule
from hfrnn.training.methods.method import Progress, SequenceSubsets, Stepwise, Stop, make_average, state_noise

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.optim.first_order import FirstOrder
    from hfrnn.runs.config import TrainConfig
    from hfrnn.runs.metrics import Record
    from hfrnn.sources.open import Source


class FirstOrderMethod(Stepwise):
    """A step from the gradient of every mini-batch, with a record for an interval of updates.

    A text is read in parallel streams, window by window, with carried states. Other data are drawn as whole sequences.
    `step` returns what makes the steps, given the options, the network and the number of threads.
    """

    remedy = Message("a smaller {learning_rate!s} or {clip_norm!s}, ")

    def __init__(
        self, config: TrainConfig, source: Source, net: Network, step: Callable[[TrainConfig, Network, int], FirstOrder]
    ) -> None:
        super().__init__(config, source)
        self.net, text = net, source.text()
        self.feedback = FeedbackSchedule(config, source)
        self.batches: StreamBatches | SequenceBatches
        if text is not None:
            self.batches = StreamBatches(config, net, text)
        else:
            self.batches = SequenceBatches(config, source)
        (T, B), symbols = self.batches.shape, self.batches.symbols
        weighs, clips, loops = self.batches.weighs_outputs, config.clip_error is not None, config.closed_loop > 0
        plan = make_plan(
            net, T, B, config.checkpoint_argument, config.memory_bytes, symbols, Use.GRADIENT, weighs, config.shards,
            clips, loops=loops,
        )  # fmt: skip
        self.plans = {"gradient": plan}
        self.expected_bytes = footprint_of(net, symbols, clips, loops).bytes(plan, T, B, Use.GRADIENT, weighs)
        self.threads = config.threads or default_threads()
        self.optimizer = step(config, net, self.threads)
        self.parts |= {"optimizer" if self.optimizer.like_theta else "kronecker": self.optimizer}
        self.parts |= {"batches": self.batches}
        self._plan()
        self.average = make_average(config, net)
        self.max_norm = None if config.max_norm is None else MaxNorm(net, by_name(config.max_norm))
        self._last: Objective | None = None
        self._gradient: Array | None = None
        self._theta: Array | None = None
        self._spare: Array | None = None

    @property
    def epoch(self) -> int:
        return self.batches.epoch

    @property
    def fraction(self) -> float:
        return self.batches.fraction

    @property
    def epoch_updates(self) -> float:
        return self.batches.epoch_updates

    @property
    def updates(self) -> int:
        return self.optimizer.steps

    def advance(
        self, theta: Array, progress: Progress, should_stop: Stop, most: int | None = None
    ) -> tuple[Array, Record]:
        (wanted, epoch), config = self._begin(most), self.config
        interval, rate = Interval(config.clip_norm), 0.0
        while interval.updates < wanted and self.epoch == epoch:
            if self._ends_early(interval.updates, should_stop):
                break
            batch = self.batches.next()
            noise = state_noise(config, self.optimizer.steps)
            whole = self.batches.shape[1] == batch.B  # else its epoch has few sequences with a scored step
            plain = Objective(
                self.net, batch, config.threads, memory=config.memory_bytes,
                plan=self.plans["gradient"] if whole else None, like=self._last if whole else None, noise=noise,
                comm=self.ranks, shards=config.shards, closed_loop=self.feedback.loop(self.optimizer.steps),
            )  # fmt: skip
            objective = plain if self.constraints is None else ConstrainedObjective(plain, self.constraints)
            loss, gradient = objective.data_loss_and_gradient(theta, self._gradient, config.clip_error)
            self._gradient = gradient
            self.batches.done(plain)
            self._last = plain
            interval.add(loss, self._clip(gradient), plain.total_weight)
            rate = self._rate()
            new = self.optimizer.lazy_step(theta, gradient, rate, out=self._spare)
            self._spare = theta if theta is self._theta else None  # the caller's vector is not written to
            self._theta = theta = self._bounded(new)
            self.average.add(super().weights(theta))
            progress(interval.updates, interval.loss)
        interval.fetch()
        self.optimizer.check()
        updates, symbols, loss = interval.updates, round(interval.weight), interval.loss
        return theta, self._record(updates, symbols, loss, epoch, rate, **interval.means)

    def weights(self, theta: Array) -> Array:
        """Return the average of the parameters over the updates, or the last ones if there is no average."""
        return super().weights(theta) if self.average.value is None else self.average.value

    def restored(self, weights: Array, theta: Array) -> Array:
        self.average.restart()
        return super().restored(weights, theta)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), **self.average.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.average.load_state_dict(state)

    def _clip(self, gradient: Array) -> Scalar:
        """Clip the gradient for the next step; return its norm before that."""
        if self.config.clip_value is not None:
            lazy_clip_values(gradient, self.config.clip_value)
        return self.optimizer.lazy_clip(gradient, self.config.clip_norm)

    def _bounded(self, theta: Array) -> Array:
        """Return theta, changed in place, with 0 for absent weights and with bounded units."""
        constraints, bound = self.constraints, self.max_norm
        if constraints is not None:
            constraints.restrict(theta)  # SOAP and Muon mix the entries of a matrix
        if bound is not None and constraints is None:
            bound.impose(theta)
        elif bound is not None and constraints is not None:
            weights = constraints.weights(theta)
            bound.impose(weights)
            theta[...] = constraints.lazy_variables(weights, like=theta)
        return theta

    def lines(self) -> list[str | Message]:
        rate, batches = self._rate_line(), self.batches.describe()
        return [Message("training  {0}, {1}, {2}", self.config.optimizer, rate, batches)]


class StreamBatches:
    """Windows of a text in parallel streams, with the state carried from one window to the next (SPEC 7)."""

    symbols = True
    """Whether the inputs are symbols."""
    weighs_outputs = False
    """Whether every output has its own weight."""

    def __init__(self, config: TrainConfig, net: Network, text: np.ndarray[Any, Any]) -> None:
        back = config.sequence_length
        self.net, self.streams = net, TextStreams(text, config.streams, back, config.update_every or back)
        self.epoch, self.position = 0, 0
        self.states: list[Any] = [None]

    @property
    def shape(self) -> tuple[int, int]:
        """Maximum number of time steps and of sequences of a batch."""
        return self.streams.back, self.streams.count

    @property
    def fraction(self) -> float:
        """The share of the current epoch that is done."""
        return self.position / self.streams.length

    @property
    def epoch_updates(self) -> float:
        """The number of windows in an epoch."""
        return float(self.streams.length // self.streams.every)

    def describe(self) -> str:
        """Return a phrase for the screen."""
        s = self.streams
        every = "" if s.every == s.back else f" every {s.every}"
        return f"{s.count} streams, {s.back} steps back{every}"

    def next(self) -> Batch:
        """Return the window that ends `every` steps later; only those steps are scored."""
        inputs, targets, weights = self.streams.window(self.position)
        return Batch(inputs, targets, weights).with_state(self.states[0])

    def done(self, objective: Objective) -> None:
        """Move to the next window after an update, and carry the states of the network."""
        self.position += self.streams.every
        self.states.append(objective.final_state())
        del self.states[: -self.streams.back // self.streams.every]
        if not self.streams.has(self.position):
            self.epoch, self.position = self.epoch + 1, 0
            self.states = [None]

    def state_dict(self) -> dict[str, Any]:
        """Return the position and the states; a beginning is stored as zeros, unless the network has learned it."""
        state: dict[str, Any] = {"epoch": self.epoch, "position": self.position, "states": len(self.states)}
        learned = self.net.learn_initial_state
        for n, layers in enumerate(self.states):
            stored = [] if learned else self.net.zero_state(self.streams.count)
            for l, layer in enumerate(stored if layers is None else layers):
                state.update({f"state.{n}.{l}.{key}": value for key, value in layer.items()})
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        shapes = self.net.zero_state(self.streams.count)
        self.states = []
        for n in range(int(state["states"])):
            if self.net.learn_initial_state and not any(key.startswith(f"state.{n}.") for key in state):
                self.states.append(None)  # the learned beginning
                continue
            layers = [{key: state[f"state.{n}.{l}.{key}"] for key in layer} for l, layer in enumerate(shapes)]
            for layer, zeros in zip(layers, shapes, strict=True):
                if any(getattr(layer[key], "shape", ()) != getattr(zero, "shape", ()) for key, zero in zeros.items()):
                    raise CheckpointError("the stored states do not fit the network: the checkpoint is damaged")
            self.states.append(layers)


class SequenceBatches:
    """Random whole sequences, without carried states."""

    def __init__(self, config: TrainConfig, source: Source) -> None:
        self.sequences = SequenceSubsets(source, None, config.streams, config.seed)

    @property
    def shape(self) -> tuple[int, int]:
        return self.sequences.pool.longest, self.sequences.sampler.subset

    @property
    def symbols(self) -> bool:
        return self.sequences.pool.symbols

    @property
    def weighs_outputs(self) -> bool:
        return self.sequences.pool.weighs_outputs

    @property
    def epoch(self) -> int:
        return self.sequences.epoch

    @property
    def fraction(self) -> float:
        sampler = self.sequences.sampler
        return 0.0 if sampler.epoch_is_over else sampler.fraction

    @property
    def epoch_updates(self) -> float:
        sampler = self.sequences.sampler
        return float(sampler.sequences // sampler.subset)

    def describe(self) -> str:
        return f"{self.sequences.sampler.subset} sequences at a time"

    def next(self) -> Batch:
        columns = self.sequences.sampler.draw()
        return self.sequences.source.batch(self.sequences.pool, columns)

    def done(self, objective: Objective) -> None:
        """Do nothing: there is no state to carry."""

    def state_dict(self) -> dict[str, Any]:
        return {"sampler": self.sequences.sampler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sequences.sampler.load_state_dict(state["sampler"])


# ------------------------------------------------------------------ figures between two lines of the log


class Interval:
    """Sums over some updates. Figures on a device stay there until `fetch`."""

    def __init__(self, clip_norm: float | None) -> None:
        self.updates, self.weight = 0, 0.0
        self._clip_norm = clip_norm or math.inf
        self._losses, self._norms, self._known, self._clipped = 0.0, 0.0, 0.0, 0
        self._waiting: list[tuple[Scalar, Scalar, float]] = []

    def add(self, loss: Scalar, norm: Scalar, weight: float) -> None:
        """Add the loss of an update, the norm of its gradient and the weight of its batch."""
        self.updates, self.weight = self.updates + 1, self.weight + weight
        self._waiting.append((loss, norm, weight))
        if isinstance(loss, float):
            self.fetch()

    def fetch(self) -> None:
        """Take all figures to the host, in one transfer; a loss that is not finite raises NonFiniteError."""
        waiting, self._waiting = self._waiting, []
        found = iter(fetch(*(each for loss, norm, _ in waiting for each in (loss, norm))))
        for loss, norm, (_, _, weight) in zip(found, found, waiting, strict=True):
            if not math.isfinite(loss):
                raise NonFiniteError("The training loss is not finite.")
            self._losses, self._known = self._losses + loss * weight, self._known + weight
            self._norms += norm
            self._clipped += norm > self._clip_norm

    @property
    def loss(self) -> float:
        """The mean of the losses that are on the host; NaN if there are none."""
        return self._losses / self._known if self._known else math.nan

    @property
    def means(self) -> dict[str, float]:
        """The mean norm of the gradients, and the share of those that were longer than the bound; after `fetch`."""
        return {"gradient_norm": self._norms / self.updates, "clipped": self._clipped / self.updates}
