"""Weights read from a checkpoint, checked against the network that will use them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.errors import CheckpointError
from hfrnn.optim.average import AVERAGE
from hfrnn.runs.run_constraints import stored_constraints
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.runs.config import TrainConfig


LIKE_THETA = 16
"""More arrays of the size of the parameters than any optimizer stores for a batch, beside square matrices."""
LIKE_FACTORS = 8
"""More pairs of square matrices, of the rows and of the columns of a matrix, than any optimizer stores for it."""
LIKE_TRACES = 4
"""More arrays of the size of the parameters than the online rule stores for each stream."""
SPARE = 2**26
"""Bytes for what does not grow with the network."""


def largest_state(config: TrainConfig, network: Mapping[str, Any]) -> int:
    """Return the most bytes that the arrays of a run's checkpoint may take.

    Parameters
    ----------
    config : TrainConfig
        The options of the run.
    network : mapping
        `n_in`, `n_out` and `loss` of its network, and its classes.
    """
    from hfrnn.engine.network import Network

    net = Network(**{**config.network_arguments(network), "backend": "numpy"})
    states = sum(math.prod(shape) for layer in net.layers for shape in layer.kernel.state_shapes(1).values())
    vectors = net.n_parameters * (LIKE_THETA + LIKE_TRACES * config.streams)
    squares = LIKE_FACTORS * sum(block.rows**2 + block.columns**2 for block in net.matrix_blocks)
    return int(SPARE + 8 * (vectors + squares + states * config.streams * (config.sequence_length + 1)))


def checked_weights(net: Network, arrays: dict[str, HostArray], path: Path) -> Array:
    """Return the weights that were validated: the average of the parameters if it is stored, else the parameters.

    Parameters and errors are those of `checked_theta`.
    """
    theta, name = checked_theta(net, arrays, path), f"method.{AVERAGE}"
    constraints = stored_constraints(net, arrays, path)
    if name not in arrays:
        return theta if constraints is None else constraints.weights(theta)
    average = checked_theta(net, arrays, path, name)
    if constraints is not None and not constraints.allows(average):
        raise CheckpointError(
            f"the checkpoint in {path} has weights that its constraints do not allow: restore it from a copy"
        )
    return average


def checked_theta(net: Network, arrays: dict[str, HostArray], path: Path, name: str = "theta") -> Array:
    """Return one vector of parameters of a checkpoint, on the device of the network.

    Parameters
    ----------
    net : Network
    arrays : dict of str to ndarray
        The arrays of the checkpoint.
    path : path
        The run folder, for error messages.
    name : str
        Which of the arrays to return.

    Returns
    -------
    array, shape (net.n_parameters,)

    Raises
    ------
    CheckpointError
        The vector is missing, does not fit the network, or is not finite.
    """
    theta = arrays.get(name)
    if theta is None or theta.shape != (net.n_parameters,) or theta.dtype != net.dtype:
        found = "no parameters"
        if theta is not None:
            found = f"{counted(theta.size, 'parameter')} of type {theta.dtype}, of shape {theta.shape}"
        raise CheckpointError(
            f"the checkpoint in {path} holds {found}: this network has {net.n_parameters} of type {net.dtype}"
        )
    if not np.isfinite(theta).all():
        raise CheckpointError(f"the checkpoint in {path} holds parameters that are not finite: use another one")
    return net.backend.asarray(theta)
