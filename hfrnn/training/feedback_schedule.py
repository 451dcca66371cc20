"""The closed loop of a run: how the share of the network's own outputs among its inputs rises from update to update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hfrnn.data.feedback import feedback_columns
from hfrnn.engine.closed_loop import ClosedLoop
from hfrnn.errors import InputError, Message

if TYPE_CHECKING:
    from hfrnn.arrays.backend import HostArray
    from hfrnn.runs.config import TrainConfig
    from hfrnn.sources.open import Source


class FeedbackSchedule:
    """The loops of the updates of a run; all of them are None without the option `closed_loop`.

    The share rises from 0, before the first update, in equal steps to its full value after `closed_loop_rise` updates.
    A sequence is read from the data up to its first scored step.

    Raises
    ------
    InputError
        The data or the options have no use for a closed loop.
    """

    def __init__(self, config: TrainConfig, source: Source) -> None:
        self.config = config
        self._how: dict[str, Any] | None = None
        if not config.closed_loop:
            return
        n_in, n_out, loss = (source.network[name] for name in ("n_in", "n_out", "loss"))
        if loss != "squared":
            raise InputError(Message(
                "{closed_loop} was given, and the loss is {0}: it is for real targets with {loss:squared}", loss
            ))  # fmt: skip
        if config.values.get("clip_error") is not None:
            raise InputError(Message(
                "{closed_loop} and {clip_error} were given, and errors that go through the outputs have no limit: "
                "leave one of them out"
            ))  # fmt: skip
        columns = feedback_columns(
            config.values.get("feedback"), source.input_names, source.output_names, source.ahead, n_in, n_out
        )
        if columns is None and n_in != n_out:
            raise InputError(Message(
                "{closed_loop} was given, and the network has {0} inputs and {1} outputs: give with {feedback} the "
                "input that each output is one step later", n_in, n_out,
            ))  # fmt: skip
        self._how = {"feedback": columns, "scaling": source.scaling, "warm_up": source.burn_in + 1}

    def loop(self, updates: int, sequences: HostArray | None = None) -> ClosedLoop | None:
        """Return the loop of the update after `updates` earlier ones.

        `sequences` (B,) numbers the sequences in their pool, if several batches of the update hold some of them.
        """
        if self._how is None:
            return None
        rise = self.config.closed_loop_rise
        share = self.config.closed_loop * (min(updates / rise, 1.0) if rise else 1.0)
        return ClosedLoop(share, **self._how, seed=self.config.seed, draw=updates, sequences=sequences)

    def whole(self) -> ClosedLoop | None:
        """Return the loop of a free run, for validation."""
        return None if self._how is None else ClosedLoop(1.0, **self._how)
