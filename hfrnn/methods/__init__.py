"""How a run trains: Hessian-free updates, steps of SGD or Adam, or the online rule of the first LSTM."""

from __future__ import annotations

from collections.abc import Callable

from hfrnn.config import TrainConfig
from hfrnn.methods.base import Method
from hfrnn.methods.first_order import FirstOrderMethod
from hfrnn.methods.hessian_free import HessianFreeMethod
from hfrnn.methods.online import OnlineMethod
from hfrnn.model import Network
from hfrnn.sources import Source

METHODS: dict[str, Callable[[TrainConfig, Source, Network], Method]] = {
    "hf": HessianFreeMethod,
    "sgd": FirstOrderMethod,
    "adam": FirstOrderMethod,
    "online": OnlineMethod,
}
"""By the names of `--optimizer`."""
