"""Figures of trials by their condition, and of the last answer of each trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.arrays.backend import HostArray, get_backend
from hfrnn.data.named_arrays import read_labels
from hfrnn.data.ragged import first_rows
from hfrnn.engine.batch import Batch, chosen_states
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import InputError
from hfrnn.wording import one_line

MOST_CONDITIONS = 200
"""Most conditions of a table of figures."""


def masked(batch: Batch, kept: NDArray[np.bool_]) -> Batch:
    """Return a batch with weights of 0 where `kept`, (T, B), is False."""
    batch = batch.padded()
    weights = np.where(kept[:, :, None], batch.output_weights(get_backend("numpy")), 0)
    weights = weights[:, :, 0] if weights.shape[2] == 1 else weights
    return Batch(batch.inputs, batch.targets, weights, batch.lengths, batch.initial_state)


def at_last_step(batch: Batch) -> Batch:
    """Return a copy of a batch that scores only the last scored step of each sequence, with the same weight in all."""
    if isinstance(batch, RaggedBatch):
        pool = batch.pool
        if pool.last_only:
            return batch
        at, starts = pool.rows(), first_rows(pool.lengths)
        given = np.ones(len(pool.y), np.float32) if pool.w is None else pool.w
        last = np.maximum.reduceat(np.where(_above_zero(given[at]), np.arange(at.size), -1), starts)
        weights = np.zeros_like(given)
        weights[at[last[last >= 0]]] = 1
        return RaggedBatch(replace(pool, w=weights), batch.numbers, batch.initial_state)
    scored = _scored_steps(batch)
    steps = np.arange(batch.T)[:, None]
    last = scored & (steps == np.where(scored, steps, -1).max(axis=0))
    return Batch(batch.inputs, batch.targets, last.astype(np.float64), batch.lengths, batch.initial_state)


def by_condition(
    labels: NDArray[Any], batch: Batch, figures: Callable[[Batch], Mapping[str, Any]], most: int = MOST_CONDITIONS
) -> dict[str, dict[str, Any]]:
    """Return the number of trials of each condition, and their figures.

    Parameters
    ----------
    labels : (B,) or (T, B) array of strings
        The condition of each sequence, or of each of its steps; "" for steps without one.
    batch : Batch
    figures : callable
        Returns the figures of a batch with at least one scored step.
    most : int
        Most conditions.
    """
    names = in_order({*labels.ravel().tolist()} - {""})
    if len(names) > most:
        raise InputError(
            f"there are {len(names):,} conditions, and at most {most} are shown: name a column or array "
            "with fewer values"
        )
    found = {}
    for name in names:
        chosen = labels == name
        part = masked(batch, chosen) if labels.ndim == 2 else _sequences(batch, np.flatnonzero(chosen))
        trials = _trials(part)
        if trials:
            found[one_line(name)] = {"trials": trials, **figures(part)}
    return found


def _sequences(batch: Batch, which: HostArray) -> Batch:
    """Return some sequences of a batch, by their numbers, with their initial states."""
    state = chosen_states(batch.initial_state, which)
    if isinstance(batch, RaggedBatch):
        return RaggedBatch(batch.pool, batch.numbers[which], state)
    inputs, targets, weights = (
        None if each is None else each[:, which] for each in (batch.inputs, batch.targets, batch.weights)
    )
    return Batch(inputs, targets, weights, None if batch.lengths is None else batch.lengths[which], state)


def _trials(batch: Batch) -> int:
    """Return the number of sequences with a scored step."""
    if isinstance(batch, RaggedBatch):
        pool, numbers = batch.pool, batch.numbers
        if pool.w is None:
            return int(numbers.size)
        scored = _above_zero(pool.w[pool.rows(numbers)])
        return int(np.logical_or.reduceat(scored, first_rows(pool.lengths[numbers])).sum())
    return int(_scored_steps(batch).any(axis=0).sum())


def _scored_steps(batch: Batch) -> NDArray[np.bool_]:
    """Return which steps (T, B) have a weight above 0."""
    return np.asarray((batch.output_weights(get_backend("numpy")) > 0).any(axis=2))


def _above_zero(weights: HostArray) -> NDArray[np.bool_]:
    """Return which rows of weights, (rows,) or (rows, n_out), have one above 0."""
    return np.asarray((weights.reshape(len(weights), -1) > 0).any(axis=1))


def in_order(names: set[str]) -> list[str]:
    """Return names in alphabetic order, or numbers by their size."""
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names)


def array_labels(paths: Sequence[str], name: str) -> NDArray[Any]:
    """Return the conditions of the sequences in files of arrays, strings from the arrays of one name."""
    return np.concatenate([read_labels(path, name) for path in paths])
