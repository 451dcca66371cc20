"""Weights read from a checkpoint, checked against the network that will use them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.errors import CheckpointError
from hfrnn.optim.average import AVERAGE
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.engine.network import Network


def checked_weights(net: Network, arrays: dict[str, HostArray], path: Path) -> Array:
    """Return the weights that were validated: the average of the parameters if it is stored, else the parameters.

    Parameters and errors are those of `checked_theta`.
    """
    theta, name = checked_theta(net, arrays, path), f"method.{AVERAGE}"
    return checked_theta(net, arrays, path, name) if name in arrays else theta


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
