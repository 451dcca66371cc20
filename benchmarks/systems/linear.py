"""Linear models of a recording, those of hfrnn's own baseline: ARX, and a subspace model.

The first nine tenths of the training recording fit them. The error of simulation on the last tenth chooses the orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.linear_arx import arx_models
from hfrnn.analysis.linear_data import Block, simulation_error, units_of
from hfrnn.analysis.linear_subspace import subspace_models

Values = NDArray[Any]
KINDS: dict[str, Callable[..., Any]] = {"ARX": arx_models, "subspace": subspace_models}
BURN_IN = 100
"""Steps of the last tenth that are not judged, at most half of it."""


def block(u: Values, y: Values) -> Block:
    """Return a recording as one sequence; targets that are not numbers are unknown."""
    weights = np.ones((len(u), 1, 1))
    weights[np.isnan(y)] = 0
    return Block(u[:, None, None], np.nan_to_num(y)[:, None, None], weights)


def fitted(kind: str, train: tuple[Values, Values]) -> Any:
    """Return a function of inputs that simulates the best model of a kind, and its name."""
    cut = len(train[0]) * 9 // 10
    first, last = (block(*(each[part] for each in train)) for part in (slice(cut), slice(cut, None)))
    last.weights[: min(BURN_IN, len(last.weights) // 2)] = 0
    units = units_of([first])
    assert units is not None
    found = min(KINDS[kind]([first], units), key=lambda model: simulation_error(model, [last]))
    return (lambda u: found.simulate(u[:, None, None])[:, 0, 0]), str(found)
