"""Training with the online rule of the first LSTM (SPEC 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hfrnn.arrays.backend import Array
from hfrnn.data.streams import TextStreams
from hfrnn.engine.online_lstm import OnlineLSTM
from hfrnn.errors import InputError, Message
from hfrnn.optim.first_order import SGDOptions
from hfrnn.training.methods.method import Progress, Stepwise, Stop

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.runs.config import TrainConfig
    from hfrnn.runs.metrics import Record
    from hfrnn.sources.open import Source

STEPS = 50
"""Number of time steps, each an update, between two calls of the progress callback."""


class OnlineMethod(Stepwise):
    """The online rule of the first LSTM: an update at every time step of parallel streams of a text."""

    remedy = Message("a smaller {learning_rate!s}, ")

    def __init__(self, config: TrainConfig, source: Source, net: Network) -> None:
        super().__init__(config, source)
        text = source.text()
        if text is None:
            raise InputError(Message(
                "{optimizer:online} learns from a text, and {0} is not a text: use sgd, adam or hf", source.name
            ))  # fmt: skip
        if config.schedule == "cosine":
            raise InputError(
                Message("{schedule} is cosine, which {optimizer:online} does not have: use another schedule")
            )
        self.streams = TextStreams(text, config.streams, 1, 1)
        options = SGDOptions(config.momentum or 0.0, config.nesterov, config.weight_decay)
        self.rule = OnlineLSTM(net, config.streams, options)
        self.parts |= {"rule": self.rule}
        self.plans, self._epoch, self.position = {}, 0, 0
        sizes = self.rule.state_dict().values()
        self.expected_bytes = 2 * sum(value.nbytes for value in sizes if hasattr(value, "nbytes"))

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def fraction(self) -> float:
        return self.position / self.streams.length

    @property
    def epoch_updates(self) -> float:
        return float(self.streams.length)

    @property
    def updates(self) -> int:
        return self._epoch * self.streams.length + self.position

    def advance(
        self, theta: Array, progress: Progress, should_stop: Stop, most: int | None = None
    ) -> tuple[Array, Record]:
        (wanted, epoch), rate = self._begin(most), self._rate()
        losses, updates, theta = 0.0, 0, theta.copy()
        while updates < wanted and self.epoch == epoch:
            if self._ends_early(updates, should_stop):
                break
            inputs, targets = self.streams.steps(self.position, self.position + min(STEPS, wanted - updates))
            T = inputs.shape[0]
            losses, updates = losses + T * self.rule.run(theta, inputs, targets, rate), updates + T
            self.position += T
            if not self.streams.has(self.position):
                self._epoch, self.position = self._epoch + 1, 0
                self.rule.reset()
            progress(updates, losses / updates)
        return theta, self._record(updates, updates * self.streams.count, losses / updates, epoch, rate)

    def lines(self) -> list[str | Message]:
        return [Message("training  online, {0}, {1} streams, every step", self._rate_line(), self.streams.count)]

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "epoch": self._epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._epoch, self.position = int(state["epoch"]), int(state["position"])
