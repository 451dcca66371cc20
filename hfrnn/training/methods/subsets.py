"""Random subsets of the training sequences, and the noise on the states in an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hfrnn.arrays.backend import HostArray
from hfrnn.data.sampler import SequenceSampler
from hfrnn.engine.noise import StateNoise

if TYPE_CHECKING:
    from hfrnn.data.kinds.data_kind import Pool
    from hfrnn.runs.config import TrainConfig
    from hfrnn.sources.source import Source


class SequenceSubsets:
    """Random subsets of a source's training sequences.

    Parameters
    ----------
    source : Source
    symbols : int or None
        Symbols of a subset; None for all sequences.
    count : int or None
        Sequences of a subset, instead of `symbols`.
    seed : int
    first : int or None
        Symbols of the first subset, if it is to be smaller than the others.
    growth : float
        Growth factor of the subsets until they have full size.
    """

    def __init__(
        self, source: Source, symbols: int | None, count: int | None, seed: int, first: int | None = None,
        growth: float = 1.0,
    ) -> None:  # fmt: skip
        self.source = source
        self._pool: tuple[int, Pool] | None = None
        T, N = self._pool_of(0).inputs.shape[:2]
        if count is not None:
            symbols = min(count, N) * T
        self.sampler = SequenceSampler(N, T, symbols, seed, first, growth)

    @property
    def pool(self) -> Pool:
        """The sequences of the current epoch."""
        return self._pool_of(self.sampler.epoch if self.source.fresh else 0)

    def _pool_of(self, epoch: int) -> Pool:
        if self._pool is None or self._pool[0] != epoch:
            self._pool = None  # two epochs are never in memory together
            self._pool = epoch, self.source.pool(epoch)
        return self._pool[1]

    @property
    def epoch(self) -> int:
        """The number of completed epochs."""
        return self.sampler.epoch + self.sampler.epoch_is_over


def state_noise(config: TrainConfig, draw: int, sequences: HostArray | None = None) -> StateNoise | None:
    """Return the noise on the states in one update, or None if the run has none.

    Parameters
    ----------
    config : TrainConfig
    draw : int
        The number of updates before it.
    sequences : (B,) integers, optional
        The numbers of the sequences in their pool, if several batches of the update hold some of them.
    """
    return StateNoise(config.state_noise, config.seed, draw, sequences) if config.state_noise else None
