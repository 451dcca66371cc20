"""Training methods: Hessian-free updates, SGD, Adam, SOAP and Muon, and the online rule of the first LSTM."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hfrnn.training.methods.first_order import FirstOrderMethod
from hfrnn.training.methods.hessian_free import HessianFreeMethod
from hfrnn.training.methods.online import OnlineMethod

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.runs.config import TrainConfig
    from hfrnn.sources.source import Source
    from hfrnn.training.methods.method import Method

METHODS: dict[str, Callable[[TrainConfig, Source, Network], Method]] = {
    "hf": HessianFreeMethod,
    "sgd": FirstOrderMethod,
    "adam": FirstOrderMethod,
    "soap": FirstOrderMethod,
    "muon": FirstOrderMethod,
    "online": OnlineMethod,
}
"""The methods by the names of `--optimizer`."""
