"""How long a recorded system remembers its inputs, by linear models that are fitted with least squares.

Two models are fitted to inputs u and an output y, each scaled:

M1  y_t = c + sum_k w_k m_k(t), m_k(t) the mean of u over the lags e_k to e_{k+1} - 1 (a finite impulse response)
M2  y_t = c + a_1 y_{t-1} + ... + a_p y_{t-p} + b_0 u_t + ... + b_p u_{t-p}, whose poles solve z^p = a_1 z^{p-1} + ...

The lags of M1 grow geometrically. Its memory is the least number of lags that predict rows left out of the fit nearly
as well as the best number. It is safe against noise, but cannot follow an oscillation longer than a lag of the same
length. The memory of M2 is the number of steps after which its slowest pole has fallen to 1%. Noise shortens it, and a
drift makes it infinite, so it counts up to `MOST` times the memory of M1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GROWTH = 1.3
"""Factor from one edge of the lags of M1 to the next."""
ORDER = 4
"""p of M2."""
LEFT = 0.01
"""Share of the effect of an input that is left after the memory of M2."""
NEARLY = 1.05, 0.001
"""The error of M1 may be the least one times the first number, plus the second one times the variance of the output."""
MOST_UNEXPLAINED = 0.95
"""Share of the variance above which M1 explains nothing."""
MOST = 10
"""Largest ratio of the memories of M2 and M1 that is believed."""
FOLDS = 10
"""Pieces of a recording; M1 is fitted on every second one and tested on the others, and the other way round."""
COLUMNS, ROWS = 8, 20_000
"""Most inputs and outputs that are looked at, and about the most rows of all recordings."""

Values = NDArray[Any]


class Recorded(NamedTuple):
    """The inputs (steps, n_in) and targets (steps, n_out) of a recording, and which targets are known."""

    inputs: Values
    targets: Values
    known: NDArray[np.bool_]


def memory_of(recordings: Sequence[Recorded]) -> int | None:
    """Return how many steps the recorded system remembers its inputs; None if linear models do not tell.

    With more than one output, it is the longest memory. At most a quarter of the longest recording is returned.
    """
    recordings = _scaled(_first_rows(recordings))
    longest = max(len(each.inputs) for each in recordings)
    found = []
    for k in range(min(recordings[0].targets.shape[1], COLUMNS)):
        each = [one._replace(targets=one.targets[:, k], known=one.known[:, k]) for one in recordings]
        lags = _memory_of_lags(each, longest // 4)
        if lags is not None:
            found.append(max(lags, round(min(_memory_of_poles(each), float(MOST * lags)))))
    return min(max(found), longest // 4) if found else None


def _first_rows(recordings: Sequence[Recorded]) -> list[Recorded]:
    """Return the longest recordings with at most `ROWS` rows, or the first rows of the longest one."""
    found: list[Recorded] = []
    left = ROWS
    for each in sorted(recordings, key=lambda one: -len(one.inputs)):
        if found and len(each.inputs) > left:
            break
        found.append(Recorded(*(values[:ROWS] for values in each)))
        left -= len(each.inputs)
    return found


def _scaled(recordings: Sequence[Recorded]) -> list[Recorded]:
    """Return recordings with mean 0 and deviation 1; many inputs become their largest principal components."""
    every = np.concatenate([each.inputs for each in recordings])
    mean, deviation = every.mean(axis=0), every.std(axis=0)
    deviation = np.where(deviation > 1e-9 * (1 + np.abs(mean)), deviation, np.inf)
    basis = np.eye(every.shape[1])
    if every.shape[1] > COLUMNS:
        basis = np.linalg.svd((every - mean) / deviation, full_matrices=False)[2][:COLUMNS].T
    targets = np.concatenate([each.targets for each in recordings])
    known = np.concatenate([each.known for each in recordings])
    count = np.maximum(known.sum(axis=0), 1)
    middle = np.where(known, targets, 0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, targets - middle, 0) ** 2).sum(axis=0) / count)
    spread = np.where(spread > 1e-9 * (1 + np.abs(middle)), spread, np.inf)
    return [
        Recorded((each.inputs - mean) / deviation @ basis, (each.targets - middle) / spread, each.known)
        for each in recordings
    ]


# ---------------------------------------------------------------------- M1


def _edges(most: int) -> list[int]:
    """Return e_0, e_1, ... of M1, up to `most`."""
    found = [0, 1]
    while (following := max(found[-1] + 1, math.ceil(found[-1] * GROWTH))) <= most:
        found.append(following)
    return found


def _means(inputs: Values, edges: Sequence[int]) -> Values:
    """Return m_k(t) of M1 with a 1 in front, (steps, 1 + lags*n_in); lags before the recording count as 0."""
    sums = np.concatenate([np.zeros((1, inputs.shape[1])), np.cumsum(inputs, axis=0)])
    t = np.arange(len(inputs))
    parts = [np.ones((len(t), 1))]
    for first, end in pairwise(edges):
        parts.append((sums[np.maximum(t - first + 1, 0)] - sums[np.maximum(t - end + 1, 0)]) / (end - first))
    return np.concatenate(parts, axis=1)


def _memory_of_lags(recordings: Sequence[Recorded], most: int) -> int | None:
    """Return the memory of M1 in steps; None if it explains nothing, or there are too few rows."""
    n_in = recordings[0].inputs.shape[1]
    rows = sum(int(each.known.sum()) for each in recordings)
    edges = _edges(most)[: max(rows // (10 * n_in), 0)]
    if len(edges) < 3:
        return None
    A, b, squares = np.zeros((2, size := 1 + (len(edges) - 1) * n_in, size)), np.zeros((2, size)), np.zeros(2)
    for each in recordings:
        steps = len(each.inputs)
        scored = each.known & (np.arange(steps) >= min(edges[-1], steps // 2))
        fold = np.arange(steps) * FOLDS // steps % 2
        F = _means(each.inputs, edges)
        for n in (0, 1):
            own = scored & (fold == n)
            A[n] += F[own].T @ F[own]
            b[n] += F[own].T @ each.targets[own]
            squares[n] += (each.targets[own] ** 2).sum()
    variance = squares.sum()
    if not (squares > 0).all():
        return None
    errors = np.zeros(len(edges) - 1)  # of the rows left out, for each number of lags
    for lags in range(1, len(edges)):
        size = 1 + lags * n_in
        for n in (0, 1):
            ridge = 1e-8 * np.trace(A[n]) / len(A[n]) * np.eye(size)
            w = np.linalg.solve(A[n][:size, :size] + ridge, b[n][:size])
            errors[lags - 1] += squares[1 - n] - 2 * w @ b[1 - n][:size] + w @ A[1 - n][:size, :size] @ w
    if errors.min() > MOST_UNEXPLAINED * variance:
        return None
    enough = NEARLY[0] * errors.min() + NEARLY[1] * variance
    return edges[1 + int(np.argmax(errors <= enough))]


# ---------------------------------------------------------------------- M2


def _memory_of_poles(recordings: Sequence[Recorded]) -> float:
    """Return the memory of M2 in steps; infinity if it is not stable, 0 if there are too few rows."""
    rows, values = [], []
    for inputs, targets, known in recordings:
        t = np.arange(ORDER, len(inputs))
        t = t[np.all([known[t - lag] for lag in range(ORDER + 1)], axis=0)] if len(t) else t
        past = [targets[t - lag, None] for lag in range(1, ORDER + 1)]
        driven = [inputs[t - lag] for lag in range(ORDER + 1)]
        rows.append(np.concatenate([*past, *driven, np.ones((len(t), 1))], axis=1))
        values.append(targets[t])
    A = np.concatenate(rows)
    if len(A) < 2 * A.shape[1]:
        return 0.0
    a = np.linalg.lstsq(A, np.concatenate(values), rcond=None)[0][:ORDER]
    slowest = float(np.abs(np.roots([1.0, *-a])).max(initial=0.0))
    return math.inf if slowest >= 1 else math.log(LEFT) / math.log(slowest) if slowest > 0 else 0.0
