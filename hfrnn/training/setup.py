"""What a run starts from: its network and its initial parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.engine.network import Network
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig


def build_network(config: TrainConfig, data: Mapping[str, Any]) -> Network:
    """Return the network of a run.

    Parameters
    ----------
    config : TrainConfig
    data : mapping
        What the data determine: `n_in`, `n_out`, `loss`, and the classes of a class softmax.

    Returns
    -------
    Network

    Raises
    ------
    InputError
        The weights alone exceed the memory budget.
    """
    net = Network(**config.network_arguments(data))
    taken = net.n_parameters * net.dtype.itemsize
    if taken > config.memory_bytes:
        raise InputError(
            f"the network has {net.n_parameters:,} weights, which take {taken / 2**20:,.1f} MiB, and --memory "
            f"is {config.memory}: give a smaller network or more memory"
        )
    return net


def initial_parameters(config: TrainConfig, net: Network, first: HostArray | None) -> Array:
    """Return the parameters that a run starts from: given ones, or random ones by the options.

    Parameters
    ----------
    config : TrainConfig
    net : Network
    first : ndarray, shape (net.n_parameters,), or None
        The parameters to start from, of any floating-point type; None for random ones.

    Returns
    -------
    array, shape (net.n_parameters,)
    """
    if first is not None:
        return net.backend.asarray(first, dtype=net.dtype)
    given = {"scale": config.init_scale, "W_x": config.input_scale}
    scales = {name: scale for name, scale in given.items() if scale is not None}
    with np.errstate(over="ignore"):  # the first update reports a scale beyond the range of the type
        return net.init(config.seed, config.initializer, config.spectral_radius, **scales)
