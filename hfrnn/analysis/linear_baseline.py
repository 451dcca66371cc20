"""The linear model that stands beside the scores of a network on real values: the best of several kinds and orders."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hfrnn.analysis.linear_arx import arx_models
from hfrnn.analysis.linear_data import Block, LinearModel, limited, simulation_error, units_of
from hfrnn.analysis.linear_subspace import subspace_models


def fit_linear(train: Iterable[Block], valid: Iterable[Block] | None = None) -> LinearModel | None:
    """Return the best of the ARX and subspace models; None if the training part is too short for any of them.

    The best model has the smallest error of simulation on the validation part. A simulation reads the same inputs as
    the network and begins like one with a state of zeros.

    Parameters
    ----------
    train : iterable of Block
        Targets of weight 0 are taken as unknown, and so is what came before a sequence.
    valid : iterable of Block, optional
        Without it, the error on the training part decides.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.analysis.linear_data import Block
    >>> u, y = np.random.default_rng(0).standard_normal((200, 5, 1)), np.zeros((200, 5, 1))
    >>> for t in range(1, 200):
    ...     y[t] = 0.9 * y[t - 1] + u[t] + 2
    >>> print(fit_linear([Block(u, y, np.ones(y.shape))]))
    ARX, 1 past output, the input and 1 past input
    """
    blocks = list(limited(train))
    judged, units = blocks if valid is None else list(valid), units_of(blocks)
    if units is None:
        return None
    best: LinearModel | None = None
    least, models = float("inf"), chain[LinearModel](arx_models(blocks, units), subspace_models(blocks, units))
    for model in models:
        error = simulation_error(model, judged)
        if error < least:
            best, least = model, error
    return best
