"""The optimizer `soap`: Adam in the eigenbasis of Shampoo's factors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.training.methods.first_order_options import AVERAGE, FirstOrderOptimizer

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.optim.first_order import FirstOrder


class SOAP(FirstOrderOptimizer):
    """SOAP on all matrices of the network (`optim/soap.py`)."""

    about = "Adam in the eigenbasis of Shampoo's factors"
    defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 0.005, "average": AVERAGE}

    @classmethod
    def step(cls, config: Any, net: Network, threads: int) -> FirstOrder:
        from hfrnn.optim.soap import SOAP as Step
        from hfrnn.optim.soap import SOAPOptions

        return Step(net.matrix_blocks, SOAPOptions(decay=config.weight_decay), threads)
