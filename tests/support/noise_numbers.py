"""The numbers of noise on the states, computed one by one from their definition with Python's own integers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15
NORMAL = statistics.NormalDist()


def mix(z: int) -> int:
    """The output function of SplitMix64."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


@cache
def values() -> NDArray[np.float64]:
    """The 65,536 values of a number of deviation 1."""
    quantiles = np.array([NORMAL.inv_cdf((k + 0.5) / 2**16) for k in range(2**16)])
    return quantiles / np.sqrt(np.mean(quantiles**2))


def noise(seed: int, draw: int, layer: int, sequences: Sequence[int], T: int, width: int) -> NDArray[np.float64]:
    """The noise of deviation 1 on `width` columns of a layer, (T, B, width)."""
    result = np.empty((T, len(sequences), width))
    words = (width + 3) // 4
    for b, sequence in enumerate(sequences):
        key = 0
        for part in (seed, draw, layer, sequence):
            key = mix((key + (part + 1) * GOLDEN) % 2**64)
        for t in range(T):
            for column in range(width):
                z = mix((key + (t * words + column // 4 + 1) * GOLDEN) % 2**64)
                result[t, b, column] = values()[z >> 16 * (column % 4) & 0xFFFF]
    return result
