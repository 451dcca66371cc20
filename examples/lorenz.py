"""The Lorenz attractor: a network gets the first point of a piece of a trajectory and continues it on its own.

Pieces of 33 points, 0.01 time units apart, are cut from long trajectories and scaled to mean 0 and variance 1, as in
the Lorenz task of SOFO (Yu et al. 2024). The input is the first point at the first step, and 0 afterwards. The targets
are the next 32 points.

    pip install .                                   in a copy of the project
    python examples/lorenz.py                       trains for a minute and a half

References
----------
E. Lorenz, Deterministic nonperiodic flow, Journal of the Atmospheric Sciences 20, 1963.
Y. Yu, R. Xia, Q. Ma, M. Lengyel, G. Hennequin, Second-order forward-mode optimization of recurrent neural networks for
neuroscience, NeurIPS 2024.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import hfrnn

SIGMA, RHO, BETA = 10.0, 28.0, 8.0 / 3.0
STEP = 0.01
"""Time between two points."""
POINTS = 33
"""Points of a piece; the first is the input."""
TRANSIENT = 1000
"""Steps after which a trajectory is on the attractor."""
MEAN, DEVIATION = np.array([0.0, 0.0, 23.6]), np.array([7.9, 9.0, 8.6])
"""Shift and scale that bring x, y and z close to mean 0 and variance 1."""


def flow(state: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the velocity of states (..., 3)."""
    x, y, z = np.moveaxis(state, -1, 0)
    return np.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z], axis=-1)


def trajectories(count: int, points: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return trajectories (points, count, 3) on the attractor, by the classical Runge-Kutta method of order 4."""
    state = MEAN + DEVIATION * rng.standard_normal((count, 3))
    found = np.empty((points, count, 3))
    for n in range(-TRANSIENT, points):
        if n >= 0:
            found[n] = state
        k1 = flow(state)
        k2 = flow(state + STEP / 2 * k1)
        k3 = flow(state + STEP / 2 * k2)
        k4 = flow(state + STEP * k3)
        state = state + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return found


def pieces(count: int, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Draw pieces of trajectories.

    Parameters
    ----------
    count : int
        Number of pieces.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        `x` (pieces, 32, 3), the first point at the first step, else 0; `y` (pieces, 32, 3), the next points.
    """
    scaled = ((trajectories(count, POINTS, rng) - MEAN) / DEVIATION).astype(np.float32).swapaxes(0, 1)
    x = np.zeros_like(scaled[:, 1:])
    x[:, 0] = scaled[:, 0]
    return {"x": x, "y": np.ascontiguousarray(scaled[:, 1:])}


def main(minutes: float = 1.5, out: str = "runs/lorenz") -> float:
    """Train a network on new pieces, and return the mean squared error of the last points of held-out pieces."""
    held_out = pieces(500, np.random.default_rng(1))
    result = hfrnn.train(
        batches=lambda rng: pieces(1000, rng), valid=held_out, arch="rnn", hidden=100, minutes=minutes, out=out
    )
    outputs, _ = result.net.run(result.theta, hfrnn.Batch(held_out["x"].swapaxes(0, 1)))  # (steps, pieces, 3)
    error = float(((outputs[-1] - held_out["y"][:, -1]) ** 2).mean())
    updates, loss = result.summary["updates"], result.summary["best"]["valid_loss"]
    print(f"{updates} updates, loss {loss:.4g}, mean squared error of the last points {error:.4g} (variance 1)")
    return error


if __name__ == "__main__":
    main()
