"""The optimizer `adam`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.training.methods.first_order_options import AVERAGE, FirstOrderOptimizer

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.optim.first_order import FirstOrder


class Adam(FirstOrderOptimizer):
    """Adam with decoupled weight decay (A1 and A2 of `optim/first_order.py`)."""

    about = "Adam"
    defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 0.002, "average": AVERAGE}

    @classmethod
    def step(cls, config: Any, net: Network, threads: int) -> FirstOrder:
        from hfrnn.kernels.registry import vector_passes
        from hfrnn.optim.compiled_steps import OnePassAdam
        from hfrnn.optim.first_order import Adam as Step
        from hfrnn.optim.first_order import AdamOptions

        options, passes = AdamOptions(decay=config.weight_decay), vector_passes(net.backend.variants)
        return Step(options, threads) if passes is None else OnePassAdam(passes, options, threads)
