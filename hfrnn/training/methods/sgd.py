"""The optimizer `sgd`: gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.training.methods.first_order_options import AVERAGE, MINI_BATCHES, MOMENTUM, STEPWISE, FirstOrderOptimizer

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.optim.first_order import FirstOrder


class SGD(FirstOrderOptimizer):
    """Gradient descent with momentum (S1 to S3 of `optim/first_order.py`)."""

    about = "gradient descent with momentum"
    options = (*STEPWISE, *MOMENTUM, *MINI_BATCHES)
    defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 0.5, "momentum": 0.9, "average": AVERAGE}

    @classmethod
    def step(cls, config: Any, net: Network, threads: int) -> FirstOrder:
        from hfrnn.kernels.registry import vector_passes
        from hfrnn.optim.compiled_steps import OnePassSGD
        from hfrnn.optim.first_order import SGD as Step
        from hfrnn.optim.first_order import SGDOptions

        options = SGDOptions(config.momentum or 0.0, nesterov=config.nesterov, decay=config.weight_decay)
        passes = vector_passes(net.backend.variants)
        return Step(options, threads) if passes is None else OnePassSGD(passes, options, threads)
