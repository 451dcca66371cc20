"""Tasks of dynamics with real inputs and outputs at every step: the flip-flop and the sine generator.

Both are those of Sussillo and Barak 2013 [SB], on a grid of whole steps:

    flip-flop   Each of three input lines is 0, or has a pulse of +1 or -1 with probability 0.05 a step. Each output is
                the last pulse of its line, and 0 before the first one. A pulse counts at its own step.
    sine        The input is a constant level u = j/51 + 0.25 for one of 51 frequencies j = 0..50. The output is
                sin(omega_j t) at step t = 1, 2, ..., with omega_j from 0.1 to 0.6 radians a step, in equal distances.

[SB] give the pulses by a rate and the frequencies in radians per time constant; the numbers per step are our choice.
An answer of the flip-flop is wrong if it is off by 0.5, half of the distance between two states, or more; one of the
sine generator if it is off by more than 0.1.

References
----------
[SB] D. Sussillo and O. Barak, Opening the black box: low-dimensional dynamics in high-dimensional recurrent neural
networks, Neural Computation 25, 2013.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FLIP_FLOP_LINES = 3
"""Number of input lines and of outputs of the flip-flop."""
PULSES = 0.05
"""Probability of a pulse of the flip-flop, for each line and step."""
FREQUENCIES = 51
"""Number of frequencies of the sine generator."""
SLOWEST, FASTEST = 0.1, 0.6
"""The lowest and highest frequency of the sine generator, in radians a step."""


def flip_flop(steps: int, count: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw pulses, and return them with the last pulse of each line: inputs and targets (T, B, 3) in float32."""
    shape = (steps, count, FLIP_FLOP_LINES)
    pulses = np.where(rng.random(shape) < PULSES, rng.integers(0, 2, shape) * 2 - 1, 0).astype(np.float32)
    step = np.arange(steps)[:, None, None]
    last = np.maximum.accumulate(np.where(pulses != 0, step, 0), axis=0)  # (T, B, 3) step of the last pulse, else 0
    return pulses, np.take_along_axis(pulses, last, axis=0)


def sine(steps: int, count: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw frequencies, and return their levels and sine waves: inputs and targets (T, B, 1) in float32."""
    j = rng.integers(0, FREQUENCIES, count)
    omega = SLOWEST + (FASTEST - SLOWEST) * j / (FREQUENCIES - 1)  # (B,)
    inputs = np.broadcast_to((j / FREQUENCIES + 0.25).astype(np.float32), (steps, count))
    targets = np.sin(np.arange(1, steps + 1)[:, None] * omega).astype(np.float32)
    return np.ascontiguousarray(inputs)[..., None], targets[..., None]
