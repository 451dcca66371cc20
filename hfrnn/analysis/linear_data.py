"""Recordings as linear models read them: blocks of sequences, their units, and the error of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

UNSEEN = 1e-3
"""Smallest singular value that `first_states` uses, as a share of the largest.

Parts of a state that the outputs hardly show stay 0.
"""
_STEPS = 2_000_000  # most training steps that are read


class Block(NamedTuple):
    """Some sequences side by side, in the units of the data."""

    inputs: Values  # (T, B, n_in)
    targets: Values  # (T, B, n_out)
    weights: Values  # (T, B, n_out), 0 where a target is not known or not scored


class Units(NamedTuple):
    """Means and deviations of the training part, (n_in,) and (n_out,); a deviation of 0 becomes 1."""

    input_mean: Values
    input_deviation: Values
    target_mean: Values
    target_deviation: Values

    def inputs(self, values: NDArray[Any]) -> Values:
        """Return inputs in units of their deviation from the mean."""
        return np.asarray((values - self.input_mean) / self.input_deviation)

    def targets(self, values: NDArray[Any]) -> Values:
        """Return targets in units of their deviation from the mean."""
        return np.asarray((values - self.target_mean) / self.target_deviation)

    def outputs(self, values: Values) -> Values:
        """Return scaled outputs in the units of the data."""
        return np.asarray(values * self.target_deviation + self.target_mean)


class LinearModel(Protocol):
    """A linear model that runs on inputs alone; its text names its kind and its orders."""

    @property
    def units(self) -> Units:
        """The means and deviations of the training part."""
        ...

    def simulate(self, inputs: NDArray[Any], first: NDArray[Any] | None = None) -> Values:
        """Return the outputs (T, B, n_out) for inputs (T, B, n_in), in the units of the data; not finite if unstable.

        `first` (k, B, n_out) holds the targets of the first k steps, NaN where they are not known. With it, the state
        before the first step is estimated from them; without it, the state is that of the mean.
        """
        ...


def limited(train: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks until they have `_STEPS` steps."""
    steps = 0
    for block in train:
        yield block
        steps += block.inputs.shape[0] * block.inputs.shape[1]
        if steps >= _STEPS:
            return


def units_of(blocks: Sequence[Block]) -> Units | None:
    """Return the mean and the deviation of the inputs and of the known targets; None if a target is never known."""
    x = np.concatenate([_flat(block.inputs) for block in blocks])
    y = np.concatenate([_flat(block.targets) for block in blocks])
    known = np.concatenate([_flat(block.weights) for block in blocks]) > 0
    if not known.any(axis=0).all():
        return None
    mean = np.mean(y, axis=0, where=known)
    deviation = np.std(y, axis=0, where=known)
    return Units(x.mean(axis=0), _above_zero(x.std(axis=0)), mean, _above_zero(deviation))


def first_states(shown: Values, off: Values) -> Values:
    """Return the states before the first step that explain the first k targets best, by least squares, (B, n).

    Parameters
    ----------
    shown : (k, n_out, n) array
        The outputs that each entry of the state adds.
    off : (k, B, n_out) array
        The targets minus the outputs from the state 0; NaN where a target is not known.
    """
    found = np.zeros((off.shape[1], shown.shape[2]))
    for b in range(off.shape[1]):
        known = np.isfinite(off[:, b])
        found[b] = np.linalg.lstsq(shown[known], off[:, b][known], rcond=UNSEEN)[0]
    return found


def simulation_error(model: LinearModel, blocks: Iterable[Block]) -> float:
    """Return the mean squared error of simulation in units of the targets' deviation; infinite if it is unstable."""
    total, weight = np.zeros(len(model.units.target_mean)), np.zeros(len(model.units.target_mean))
    for block in blocks:
        with np.errstate(over="ignore", invalid="ignore"):
            off = (model.simulate(block.inputs) - block.targets) / model.units.target_deviation
            total += np.where(block.weights > 0, block.weights * off * off, 0).sum(axis=(0, 1))
        weight += block.weights.sum(axis=(0, 1))
    error = float(np.mean(total[weight > 0] / weight[weight > 0])) if (weight > 0).any() else np.inf
    return error if np.isfinite(error) else np.inf


def _flat(values: NDArray[Any]) -> Values:
    return values.reshape(-1, values.shape[-1])


def _above_zero(deviation: Values) -> Values:
    return np.where(deviation > 0, deviation, 1.0)
