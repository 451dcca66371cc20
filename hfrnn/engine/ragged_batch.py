"""A batch of sequences of unequal lengths, whose shards are padded when they are made, each to its own longest one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn.arrays.backend import Backend, HostArray
from hfrnn.checks import count
from hfrnn.engine.batch import Batch, GivenState, checked_total, chosen_states

if TYPE_CHECKING:
    from hfrnn.data.ragged import RaggedPool


class RaggedBatch(Batch):
    """Some sequences of a pool without padding, `numbers` (B,) of them, in this order, perhaps with initial states.

    It is a batch like any other, of T steps, those of its longest sequence. `columns` returns a batch that is padded to
    the longest of its own sequences only. The attributes `inputs`, `targets` and `weights` pad all sequences to T
    whenever they are read.
    """

    def __init__(self, pool: RaggedPool, numbers: HostArray | slice, initial_state: GivenState | None = None) -> None:
        self.pool = pool
        self.numbers: HostArray = np.arange(pool.sequences)[numbers]
        self.lengths: HostArray = pool.lengths[self.numbers]
        given = pool.states is not None and initial_state is None
        self.initial_state = chosen_states(pool.states, self.numbers) if given else initial_state
        self.host = None
        self._ready: Callable[[Batch], Batch] = _as_it_is

    def __getattr__(self, name: str) -> Any:
        if name not in ("inputs", "targets", "weights"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.padded(), name)

    def __repr__(self) -> str:
        return f"<RaggedBatch of {self.B:,} sequences, {self.T:,} steps at most, {int(self.lengths.sum()):,} in all>"

    def __copy__(self) -> Batch:
        return self._copy()

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def _copy(self) -> RaggedBatch:
        found = RaggedBatch(self.pool, self.numbers, self.initial_state)
        found._ready = self._ready
        return found

    @property
    def T(self) -> int:
        """The number of steps of the longest sequence."""
        return int(self.lengths.max())

    @property
    def B(self) -> int:
        """The number of sequences."""
        return int(self.numbers.size)

    @property
    def symbols(self) -> bool:
        """Whether the inputs are symbols."""
        return self.pool.symbols

    @property
    def weighs_outputs(self) -> bool:
        """Whether every output has its own weight."""
        return self.pool.weighs_outputs

    def columns(self, start: int, stop: int) -> Batch:
        """Return a batch of the sequences from `start` up to `stop`, padded to the longest of them."""
        count("start", start, 0, self.B - 1), count("stop", stop, int(start) + 1, self.B)
        part = Batch(*self.pool.select(self.numbers[start:stop]))
        return self._ready(part.with_state(chosen_states(self.initial_state, slice(start, stop))))

    @property
    def shard_lengths(self) -> HostArray:
        """The steps of each sequence."""
        return self.lengths

    def by_length(self) -> RaggedBatch:
        """Return the same sequences from the longest to the shortest, for shards with little padding."""
        order = np.argsort(-self.lengths, kind="stable")
        return RaggedBatch(self.pool, self.numbers[order], chosen_states(self.initial_state, order))

    def padded(self) -> Batch:
        """Return all sequences as a plain batch, padded to T steps."""
        return self.columns(0, self.B)

    def with_state(self, state: Any) -> Batch:
        """Return a plain batch with a state from the network itself, or this one for None."""
        return self if state is None else self.padded().with_state(state)

    def made_ready(self, ready: Callable[[Batch], Batch]) -> RaggedBatch:
        """Return this batch with a function that makes each batch of `columns` ready for a network."""
        found = self._copy()
        found._ready = ready
        return found

    def total_weight(self, backend: Backend) -> float:
        """Return the sum of the weights of all steps; raise InputError if it is 0 or infinite."""
        return checked_total(self.pool.total_weight(self.numbers))


def _as_it_is(batch: Batch) -> Batch:
    return batch
