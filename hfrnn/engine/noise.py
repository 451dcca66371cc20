"""Gaussian noise on the states of a network during training, the same for a sequence in every pass of an update.

N1  U_t += S * xi_t                        in the slots marked w (SPEC 2), those that the layer below can feed
N2  xi = quantile[k],  k = 16 bits of z    the 65,536 quantiles at (k + 1/2) / 65,536, divided by their deviation
N3  z_n = mix(key + n * GOLDEN)            SplitMix64; n = 1, 2, ... counts the steps, and in a step each four columns
N4  key' = mix(key + (part + 1) * GOLDEN)  from key = 0, for the parts seed, draw, layer and sequence in turn

So every number is a function of the seed, the draw, the layer, the sequence, the step and the column only. Shards,
threads, segments of time and backends cannot change it. It is computed again whenever a segment runs forward.
R-forward and backward do not need it, because xi does not depend on the parameters.

References: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014 (N3); Song, Yang and Wang 2016
(N1, for networks of rates).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import Array, Backend, HostArray, get_backend
from hfrnn.checks import NOT_NEGATIVE, count, number
from hfrnn.engine.layers import Columns, Layer
from hfrnn.errors import InputError

GOLDEN = np.array([0x9E3779B97F4A7C15], np.uint64)
FACTORS = np.array([0xBF58476D1CE4E5B9], np.uint64), np.array([0x94D049BB133111EB], np.uint64)
"""The constants of SplitMix64."""
PIECE = 2**13
"""Approximate number of 64-bit integers that are made at a time, so that they and their numbers stay in the cache."""


class StateNoise:
    """Gaussian noise that is added to the input U of every hidden unit at every step.

    Parameters
    ----------
    scale : float
        Standard deviation of the noise, 0 or more, in units of U.
    seed : int
        0 or more.
    draw : int
        Number of the draw, 0 or more: the same draw repeats the same noise, and another draw has other noise. Training
        makes one draw per update.
    sequences : (B,) integers, optional
        A number, 0 or more, for each sequence of the batch. A sequence has the same noise in every batch where it has
        the same number. By default 0, 1, ..., B-1.

    Raises
    ------
    InputError
        A number is out of its range.

    Notes
    -----
    Noise is added to U in the slots that the layer below can feed: to every pre-activation, and not to the factors `m`
    of the multiplicative networks. In a `rate` network, S is the deviation `sqrt(2/leak) * sigma` of Song, Yang and
    Wang (2016).

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> noisy = hfrnn.Objective(net, batch, noise=hfrnn.StateNoise(0.1, seed=0))
    >>> theta = net.init(seed=0)
    >>> noisy.loss(theta) == noisy.loss(theta) != net.loss(theta, batch)  # the same noise in every call
    True
    """

    def __init__(self, scale: float, seed: int = 0, draw: int = 0, sequences: Any = None) -> None:
        self.scale: float = number("scale", scale, NOT_NEGATIVE)
        self.seed: int = count("seed", seed)
        self.draw: int = count("draw", draw)
        self.sequences = checked_sequences(sequences)

    def __repr__(self) -> str:
        return f"StateNoise(scale={self.scale:g}, seed={self.seed}, draw={self.draw})"

    def of_batch(self, layers: Sequence[Layer], backend: Backend, dtype: Any, B: int) -> NoiseOfBatch:
        """Return this noise for the layers of a network and a batch of B sequences."""
        numbers = numbers_of("noise", self.sequences, B)
        start = stream_keys(stream_keys(np.zeros(1, np.uint64), self.seed), self.draw)
        keys = [stream_keys(stream_keys(start, l), numbers) for l in range(len(layers))]
        table = backend.asarray(self.scale * _quantiles(), dtype=dtype)
        return NoiseOfBatch([layer.noisy for layer in layers], backend, table, keys)


class NoiseOfBatch:
    """The noise of the sequences of one batch, or of a shard of it.

    For each layer, it is added to some `columns` of U, and `keys` (B,), on the host, are the streams of the sequences
    (N4). `table` holds the 65,536 values that the noise can have (N2), times S.
    """

    def __init__(self, columns: list[Columns], backend: Backend, table: Array, keys: list[HostArray]) -> None:
        self._columns, self._backend, self._table, self._host_keys = columns, backend, table, keys
        self._golden, *self._factors = (self._backend.asarray(factor) for factor in (GOLDEN, *FACTORS))
        self._keys = [self._backend.asarray(key).reshape(1, key.size, 1) for key in keys]

    def part(self, start: int, stop: int) -> NoiseOfBatch:
        """Return the noise of the sequences from `start` up to, but not including, `stop`."""
        keys = [keys[start:stop] for keys in self._host_keys]
        return NoiseOfBatch(self._columns, self._backend, self._table, keys)

    def add(self, l: int, span: slice, U: Array) -> None:
        """Add the noise of the steps of `span` to U (K, B, slots) of layer l."""
        columns, B = self._columns[l], U.shape[1]
        words = -(-columns.width // 4)
        most = 1 + PIECE // (1 + B * words)
        for start in range(span.start, span.stop, most):
            stop = min(start + most, span.stop)
            n = self._backend.xp.arange(start * words + 1, stop * words + 1, dtype="uint64")
            z = n.reshape(stop - start, 1, words) * self._golden + self._keys[l]  # (steps, B, words)
            k = _mixed(z, *self._factors).view("uint16")  # N3
            xi = self._backend.empty(k.shape, self._table.dtype)
            self._backend.take_rows(self._table, k, xi)  # N2
            for first, own, width in columns.runs:
                U[start - span.start : stop - span.start, :, first : first + width] += xi[:, :, own : own + width]  # N1


@functools.cache
def _quantiles() -> HostArray:
    """Return the quantiles of N2, with variance 1, in float64."""
    found = ndtri((np.arange(2**16) + 0.5) / 2**16)
    values: HostArray = found / found.std()
    return values


def _mixed(z: Array, first: Array, second: Array) -> Array:
    """Return mix(z) of 64-bit integers, given the two factors of SplitMix64."""
    z = (z ^ (z >> 30)) * first
    z = (z ^ (z >> 27)) * second
    return z ^ (z >> 31)


def random_bits(keys: HostArray, steps: HostArray) -> HostArray:
    """Return 64 random bits for each step, counted from 0, of the streams of some keys (N3)."""
    return _mixed(keys + (steps.astype(np.uint64) + 1) * GOLDEN, *FACTORS)  # type: ignore[no-any-return]


def stream_keys(key: HostArray, parts: Any) -> HostArray:
    """Return the keys of one more part of N4."""
    return _mixed(key + (np.asarray(parts, np.uint64) + 1) * GOLDEN, *FACTORS)  # type: ignore[no-any-return]


def checked_sequences(given: Any) -> HostArray | None:
    """Return the numbers of sequences (B,), 0 or more, from which they draw; None if they were not given."""
    if given is None:
        return None
    numbers: HostArray = array("sequences", given, (None,), "iu", backend=get_backend("numpy"))
    if numbers.size and numbers.min() < 0:
        raise InputError(f"sequences holds {numbers.min()}: give whole numbers, 0 or more")
    return numbers


def numbers_of(what: str, sequences: HostArray | None, B: int) -> HostArray:
    """Return the numbers of a batch's B sequences: by default 0 to B-1. `what` draws by them, for a message."""
    numbers = np.arange(B) if sequences is None else sequences
    if numbers.shape != (B,):
        raise InputError(f"the {what} is for {numbers.size} sequences, but the batch has {B}: give as many numbers")
    return numbers
