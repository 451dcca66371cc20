"""Training by the online rule of the first LSTM (SPEC 7)."""

from __future__ import annotations

from typing import Any

from hfrnn.backend import Array
from hfrnn.config import TrainConfig
from hfrnn.data.streams import TextStreams
from hfrnn.errors import InputError
from hfrnn.methods.base import Progress, Record, Stepwise, Stop, refuse
from hfrnn.model import Network
from hfrnn.online import OnlineLSTM
from hfrnn.optim.first_order import SGDOptions
from hfrnn.optim.hessian_free import UpdateInterrupted
from hfrnn.sources import Source

STEPS = 50
"""Steps, each of them an update, between two signs of progress."""


class OnlineMethod(Stepwise):
    """The online rule of the first LSTM, an update at every step of every stream; many updates are a line."""

    remedy = "a smaller --learning-rate, "

    def __init__(self, config: TrainConfig, source: Source, net: Network) -> None:
        super().__init__(config, source)
        text = source.text()
        if text is None:
            raise InputError(f"--optimizer online learns from a text, and {source.name} is none: use sgd, adam or hf")
        refuse(config, ("clip_norm", "clip_value", "max_norm"), "--optimizer online bounds nothing")
        refuse(config, ("update_every",), "--optimizer online updates at every step")
        self.streams = TextStreams(text, config.streams, 1, 1)
        options = SGDOptions(config.momentum or 0.0, config.nesterov, config.weight_decay)
        self.rule = OnlineLSTM(net, config.streams, options)
        self.plans, self._over, self.position = {}, 0, 0
        sizes = self.rule.state_dict().values()
        self.expected_bytes = 2 * sum(value.nbytes for value in sizes if hasattr(value, "nbytes"))

    @property
    def epoch(self) -> int:
        return self._over

    def advance(
        self, theta: Array, progress: Progress, should_stop: Stop, most: int | None = None
    ) -> tuple[Array, Record]:
        wanted = self.config.log_interval if most is None else min(self.config.log_interval, most)
        rate, epoch, losses, updates = self.schedule.lr, self.epoch, 0.0, 0
        assert rate is not None, "a run whose schedule has ended goes no further"
        theta = theta.copy()
        while updates < wanted and self.epoch == epoch:
            if should_stop():
                raise UpdateInterrupted("Training was interrupted between two updates.")
            inputs, targets = self.streams.steps(self.position, self.position + min(STEPS, wanted - updates))
            T = inputs.shape[0]
            losses, updates = losses + T * self.rule.run(theta, inputs, targets, rate), updates + T
            self.position += T
            if not self.streams.has(self.position):
                self._over, self.position = self._over + 1, 0
                self.rule.reset()
            progress(updates, losses / updates)
        record = {
            "updates": updates,
            "symbols": updates * self.streams.count,
            "validate": self._due(updates, epoch_ended=self.epoch != epoch),
            "train_loss": losses / updates,
            "epoch": round(self.epoch + self.position / self.streams.length, 4),
            "learning_rate": rate,
            "gradient_norm": None,
            "clipped": None,
        }
        return theta, record

    def lines(self) -> list[str]:
        return [f"training  online, {self._rate()}, {self.streams.count} streams, every step"]

    def state_dict(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"rule": self.rule, "schedule": self.schedule}
        state = {f"{part}.{key}": value for part, owner in parts.items() for key, value in owner.state_dict().items()}
        numbers = {"epoch": self._over, "position": self.position, "since_validation": self._since_validation}
        return {**state, **numbers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for part, owner in (("rule", self.rule), ("schedule", self.schedule)):
            found = {key.split(".", 1)[1]: value for key, value in state.items() if key.startswith(f"{part}.")}
            owner.load_state_dict(found)
        self._over, self.position = int(state["epoch"]), int(state["position"])
        self._since_validation = int(state["since_validation"])
