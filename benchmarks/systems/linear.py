"""Linear models of a recording: ARX by least squares (hfrnn's own baseline), and a subspace model.

The subspace model (past-output MOESP: M. Verhaegen, *Identification of the deterministic part of MIMO state space
models*, 1994) has the form x' = A x + B u, y = C x + D u. Its order is chosen by the error of simulation on the last
tenth of the training part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.linear_arx import arx_models
from hfrnn.analysis.linear_data import Block, simulation_error, units_of

Values = NDArray[Any]
HORIZON = 20
"""Block rows of the Hankel matrices."""
ORDERS = (1, 2, 3, 4, 6, 8)
BURN_IN = 100


def block(u: Values, y: Values) -> Block:
    """Return a recording as one sequence; targets that are not numbers are unknown."""
    weights = np.ones((len(u), 1, 1))
    weights[np.isnan(y)] = 0
    return Block(u[:, None, None], np.nan_to_num(y)[:, None, None], weights)


def arx(train: tuple[Values, Values]) -> Any:
    """Return a function of inputs that simulates the best ARX model, and its name."""
    cut = len(train[0]) * 9 // 10
    first, last = (block(*(each[part] for each in train)) for part in (slice(cut), slice(cut, None)))
    weights = last.weights.copy()
    weights[: min(BURN_IN, len(weights) // 2)] = 0
    units, judged = units_of([first]), [last._replace(weights=weights)]
    assert units is not None
    found = min(arx_models([first], units), key=lambda model: simulation_error(model, judged))
    return (lambda u: found.simulate(u[:, None, None])[:, 0, 0]), str(found)


def hankel(values: Values, rows: int, columns: int) -> Values:
    """Return the Hankel matrix (rows, columns) of a signal."""
    return values[np.arange(rows)[:, None] + np.arange(columns)]


def subspace(train: tuple[Values, Values]) -> Any:
    """Return a function of inputs that simulates the best subspace model, and its name."""
    means, units = [np.nanmean(each) for each in train], [np.nanstd(each) for each in train]
    known = np.flatnonzero(~np.isnan(train[1]))
    train = train[0], np.interp(np.arange(len(train[1])), known, train[1][known])  # no Hankel matrix has gaps
    u, y = ((each - mean) / unit for each, mean, unit in zip(train, means, units, strict=True))
    cut = len(u) * 9 // 10
    judged = slice(cut + min(BURN_IN, (len(u) - cut) // 2), None)
    best: tuple[float, int, Any] = (np.inf, 0, None)
    for order, system in _systems(u[:cut], y[:cut]).items():
        error = float(np.mean((simulated(system, u) - y)[judged] ** 2))
        if error < best[0]:
            best = error, order, system
    assert best[2] is not None

    def predict(inputs: Values) -> Values:
        return simulated(best[2], (inputs - means[0]) / units[0]) * units[1] + means[1]

    return predict, f"subspace, order {best[1]}"


def simulated(system: tuple[Values, ...], u: Values) -> Values:
    """Return the outputs of a system from a state of zeros; infinities if it is unstable."""
    A, B, C, D = system
    x, y = np.zeros(len(A)), np.empty(len(u))
    with np.errstate(over="ignore", invalid="ignore"):
        for t, each in enumerate(u):
            y[t] = C @ x + D * each
            x = A @ x + B * each
    return np.nan_to_num(y, nan=np.inf)


def _systems(u: Values, y: Values) -> dict[int, tuple[Values, ...]]:
    """Return systems (A, B, C, D) of several orders."""
    s, columns = HORIZON, len(u) - 2 * HORIZON + 1
    past_u, past_y = hankel(u, s, columns), hankel(y, s, columns)
    future_u, future_y = hankel(u[s:], s, columns), hankel(y[s:], s, columns)
    R = np.linalg.qr(np.concatenate([future_u, past_u, past_y, future_y]).T, mode="r").T
    U, _, _ = np.linalg.svd(R[3 * s :, s : 3 * s])  # the part that the past explains beyond future inputs
    found = {}
    for n in ORDERS:
        O = U[:, :n]
        C, A = O[0], np.linalg.lstsq(O[:-1], O[1:], rcond=None)[0]
        if np.abs(np.linalg.eigvals(A)).max() < 1:
            found[n] = (A, *_inputs_of(A, C, u, y))
    return found


def _inputs_of(A: Values, C: Values, u: Values, y: Values) -> tuple[Values, Values, Values]:
    """Return B, C and D: outputs are linear in B, D and the first state, by least squares."""
    n, T = len(A), len(u)
    columns = np.zeros((T, 2 * n + 1))
    free, driven = C.copy(), np.zeros((n, n))  # driven[i]: the state if B is unit vector i
    for t in range(T):
        columns[t, :n] = driven @ C
        columns[t, n] = u[t]
        columns[t, n + 1 :] = free
        driven = driven @ A.T + np.eye(n) * u[t]
        free = free @ A
    w = np.linalg.lstsq(columns, y, rcond=None)[0]
    return w[:n], C, w[n]
