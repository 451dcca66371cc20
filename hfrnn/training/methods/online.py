"""The optimizer `online`: the online rule of the first LSTM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.runs.optimizers import Optimizer
from hfrnn.training.methods.first_order_options import MOMENTUM, STEPWISE

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.training.methods.online_rule import OnlineMethod


class Online(Optimizer):
    """The online rule of the first LSTM (SPEC 7): an update at every time step."""

    about = "the online rule of the first LSTM"
    options = (*STEPWISE, *MOMENTUM)
    defaults: ClassVar[Mapping[str, Any]] = {
        "arch": "lstm-krause", "learning_rate": 0.1, "momentum": 0.0, "schedule": "constant",
    }  # fmt: skip
    on_gpu = False
    on_ranks = False

    @classmethod
    def make(cls, config: Any, source: Any, net: Network) -> OnlineMethod:
        from hfrnn.training.methods.online_rule import OnlineMethod

        return OnlineMethod(config, source, net)
