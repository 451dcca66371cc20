"""Conversion between the state of a network, dicts of arrays, and its vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import HostArray
from hfrnn.checks import instance
from hfrnn.dynamics.state_vectors import StateVectors, on_host
from hfrnn.engine.network import Network
from hfrnn.errors import InputError


def to_vectors(net: Network, state: Any) -> HostArray:
    """Return the vectors (..., B, n) of a state, in the memory of the host.

    Parameters
    ----------
    net : Network
    state : list of dict
        One dict of arrays per layer, as `net.run` returns it: the state of B sequences, or their states after every
        step (`net.run(..., states=True)`, `hfrnn.predict(..., states=True).states`), with time on the first axis.

    Returns
    -------
    (B, n) or (T, B, n) array
        The entries layer by layer, the names of a layer sorted, the latest state of a history first.

    Raises
    ------
    InputError
        The state does not fit the network.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("lstm", n_in=2, hidden=3, n_out=1)
    >>> _, state = net.run(net.init(seed=0), hfrnn.Batch(np.zeros((5, 4, 2))))
    >>> hfrnn.dynamics.to_vectors(net, state).shape  # c and h of 4 sequences
    (4, 6)
    """
    places = _places(net)
    steps = None
    if isinstance(state, list | tuple) and state and all(isinstance(layer, dict) for layer in state):
        l, name, shape, _ = places.parts[0]
        first = state[l].get(name)
        if np.ndim(first) == len(shape) + 2:
            steps = len(first)
    if steps is None:
        return places.checked("state", state)[0]
    return np.stack([
        places.checked("state", [{key: x[t] for key, x in layer.items()} for layer in state])[0] for t in range(steps)
    ])  # fmt: skip


def to_state(net: Network, vectors: Any) -> list[dict[str, Any]]:
    """Return the state whose vectors are given: the inverse of `to_vectors`. Integers, as a time, are 0.

    Parameters
    ----------
    net : Network
    vectors : (B, n) array

    Returns
    -------
    list of dict
        One dict of arrays per layer, in float64, as in `Batch(initial_state=...)`.

    Raises
    ------
    InputError
        The vectors do not fit the network.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("lstm", n_in=2, hidden=3, n_out=1)
    >>> state = hfrnn.dynamics.to_state(net, np.zeros((4, 6)))
    >>> {name: array.shape for name, array in state[0].items()}
    {'c': (4, 3), 'h': (4, 3)}
    """
    places = _places(net)
    found = array("vectors", on_host("vectors", vectors), (None, places.n), finite=True).astype(np.float64)
    if not len(found):
        raise InputError("vectors are empty: give one vector or more")
    return places.unpack(found, places.clock())


def _places(net: Network) -> StateVectors:
    """Return the places of a network's state, after checking that it has one."""
    places = StateVectors(instance("net", net, Network, "a hfrnn.Network").layers)
    if places.n == 0:
        raise InputError(f"{net.describe()} has no state: its outputs depend on the present input only")
    return places
