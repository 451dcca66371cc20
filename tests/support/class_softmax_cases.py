"""A small recurrent network with a class softmax, and a problem for it."""

from __future__ import annotations

from typing import Any

import numpy as np

import hfrnn

from .engine_cases import CLASSES, random_batch


def network(classes: Any = CLASSES, hidden: Any = (4, 3), n_out: int = 6, **arguments: Any) -> hfrnn.Network:
    """Return a recurrent network with a class softmax, in float64 unless said."""
    options = {"dtype": "float64", "output_bias": True, **arguments}
    return hfrnn.Network("rnn", 5, hidden, n_out, "class-softmax", classes=classes, **options)


def problem(net: hfrnn.Network, **batch: Any) -> tuple[hfrnn.Batch, Any, Any]:
    """Return a batch of mixed lengths, parameters and a direction."""
    rng = np.random.default_rng(3)
    n = net.n_parameters
    return random_batch(net, rng, ragged=True, **batch), 0.7 * rng.standard_normal(n), rng.standard_normal(n)
