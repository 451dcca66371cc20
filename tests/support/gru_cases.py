"""A small gated network and a batch for it, for test_gru.py, test_gru_torch.py and test_lstm_1997.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import hfrnn

H, V, T, B = 3, 5, 6, 4


def network(arch: str, **changes: Any) -> tuple[hfrnn.Network, Any, dict[str, Any]]:
    """Return a network, random parameters, and their views."""
    net = hfrnn.Network(arch, **{"n_in": V, "hidden": H, "n_out": V, "dtype": "float64", **changes})
    theta = 0.8 * np.random.default_rng(0).standard_normal(net.n_parameters)
    return net, theta, net.views(theta)


def batch(state: Any = None) -> hfrnn.Batch:
    """Return random symbols, with a random initial state unless one is given."""
    rng = np.random.default_rng(1)
    inputs, targets, h = rng.integers(V, size=(T, B)), rng.integers(V, size=(T, B)), rng.uniform(-1, 1, (B, H))
    return hfrnn.Batch(inputs, targets, initial_state=[{"h": h}] if state is None else state)


def sigma(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))
