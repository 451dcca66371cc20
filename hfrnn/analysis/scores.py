"""Figures of how well outputs agree with their targets: errors of real values, accuracy of bits and classes.

For one output with targets y, outputs z and weights w (sums over all scored steps; W = sum w, m = sum w y / W):

    mean squared error   MSE   = sum w (z - y)^2 / W
    its root             RMSE  = sqrt(MSE)
    R2                   R2    = 1 - MSE / (sum w (y - m)^2 / W)
    normalized root      NRMSE = RMSE / the standard deviation of y = sqrt(1 - R2)
    fit                        = 100 (1 - NRMSE), in percent    L. Ljung, System Identification, 1999
    cross-entropy              = -sum w log p(y) / W, in nats
    accuracy                   = share of the weight where the prediction is right

R2, NRMSE and fit are None for an output with constant targets. Accuracy is None for an output with targets other than
0 and 1. All figures are None for an output without a scored target. The overall figures are means over the outputs for
which they are not None. Each of these has the same share, whatever its unit; the overall R2 is that of scikit-learn's
`r2_score` with its default. The overall RMSE is the root of the overall MSE, the overall NRMSE the root of 1 - R2, and
the overall fit 100 (1 - NRMSE). For classes, the overall figures are means over all scored steps. The figures of one
class are means over the steps with that class as the target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.errors import InputError
from hfrnn.wording import brief

Row = dict[str, float | None]


@brief
@dataclass(frozen=True)
class Score:
    """How well outputs agree with their targets.

    Examples
    --------
    >>> import hfrnn
    >>> found = hfrnn.Score(2, {"cross_entropy": 0.5, "accuracy": None}, {})
    >>> found.to_json()
    {'steps': 2, 'cross_entropy': 0.5, 'accuracy': None, 'outputs': {}}
    """

    steps: int
    """Number of scored steps."""
    overall: Mapping[str, float | None]
    """The figures by name: `mse, rmse, r2, nrmse, fit` for real values, `cross_entropy, accuracy` for bits and classes.
    A figure that is not defined is None."""
    outputs: Mapping[str, Mapping[str, float | None]]
    """The same figures for each output, or for each class that occurs, by its name. They are None for an output
    without a scored target, and `overall` does not cover it."""

    def to_json(self) -> dict[str, Any]:
        """Return all figures by name."""
        outputs = {name: dict(figures) for name, figures in self.outputs.items()}
        return {"steps": self.steps, **self.overall, "outputs": outputs}


def figures(
    loss: str, outputs: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any], names: Sequence[str] | None = None
) -> Score:
    """Return the figures that belong to a loss, of N steps.

    `outputs` (N, n_out) are those before any softmax or logistic function. `targets` are (N, n_out) real values, or
    (N,) classes or (N, n_out) probabilities for the two softmax losses. `weights`, (N,) or (N, n_out), are 0 or more;
    targets of weight 0 are ignored. Outputs or classes without names are called by their numbers, counted from 0.
    """
    z, w = np.asarray(outputs, np.float64), np.asarray(weights, np.float64)
    if not (w > 0).any():
        raise InputError("no step has a weight above 0, so there is nothing to score: give more targets")
    with np.errstate(over="ignore"):
        if w.sum() == math.inf:
            raise InputError("the weights sum to infinity: give smaller weights")
    used = (w > 0).reshape(len(w), -1).any(axis=1)
    z, w, y = z[used], w[used], np.asarray(targets)[used]
    known = [str(n) for n in range(z.shape[1])] if names is None else list(names)
    if loss in ("softmax", "class-softmax"):
        overall, rows = _classes(z, y, w, known)
    else:
        one_output = _squared if loss == "squared" else _logistic
        w = np.broadcast_to(w[:, None] if w.ndim == 1 else w, z.shape)
        found = {
            name: one_output(z[w[:, k] > 0, k], y[w[:, k] > 0, k].astype(np.float64), w[w[:, k] > 0, k])
            for k, name in enumerate(known) if (w[:, k] > 0).any()
        }  # fmt: skip
        unknown: Row = dict.fromkeys(next(iter(found.values())))
        rows = {name: found.get(name, unknown) for name in known}
        overall = {figure: _mean([row[figure] for row in rows.values()]) for figure in unknown}
        if loss == "squared":
            overall["rmse"] = _root(overall["mse"])
            errors = [None if row["nrmse"] is None else row["nrmse"] ** 2 for row in rows.values()]
            overall["nrmse"] = _root(_mean(errors))  # the root of 1 - R2 has no digits left where R2 is nearly 1
            overall["fit"] = None if overall["nrmse"] is None else 100 * (1 - overall["nrmse"])
    return Score(int(used.sum()), overall, rows)


def _squared(z: NDArray[Any], y: NDArray[Any], w: NDArray[Any]) -> Row:
    """Return the figures of one real output."""
    mse = float(np.average((z - y) ** 2, weights=w))
    variance = float(np.average((y - np.average(y, weights=w)) ** 2, weights=w))
    varies = variance > (1e-12 * float(np.abs(y).max())) ** 2
    found: Row = {"mse": mse, "rmse": math.sqrt(mse), "r2": None, "nrmse": None, "fit": None}
    if varies:
        nrmse = math.sqrt(mse / variance)
        found |= {"r2": 1 - mse / variance, "nrmse": nrmse, "fit": 100 * (1 - nrmse)}
    return found


def _logistic(z: NDArray[Any], y: NDArray[Any], w: NDArray[Any]) -> Row:
    """Return the figures of one bit."""
    entropy = float(np.average(np.logaddexp(0.0, z) - y * z, weights=w))
    bits = ((y == 0) | (y == 1)).all()
    return {"cross_entropy": entropy, "accuracy": float(np.average((z > 0) == (y == 1), weights=w)) if bits else None}


def _classes(z: NDArray[Any], y: NDArray[Any], w: NDArray[Any], names: list[str]) -> tuple[Row, dict[str, Row]]:
    """Return the overall figures of classes, and those of each class."""
    top = z.max(axis=1, keepdims=True)
    chosen = z[np.arange(len(y)), y] if y.ndim == 1 else (y * z).sum(axis=1)
    surprisal = np.log(np.exp(z - top).sum(axis=1)) + top[:, 0] - chosen
    y = y if y.ndim == 1 else y.argmax(axis=1)
    right = z.argmax(axis=1) == y

    def row(chosen: Any) -> Row:
        return {
            "cross_entropy": float(np.average(surprisal[chosen], weights=w[chosen])),
            "accuracy": float(np.average(right[chosen], weights=w[chosen])),
        }

    return row(slice(None)), {names[n]: row(y == n) for n in np.unique(y).tolist()}


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are defined."""
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(max(value, 0.0))
