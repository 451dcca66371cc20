"""Draw the training sequences of every update at random."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.errors import CheckpointError

NEAR = 0.1
"""Logarithm of the factor by which two sequences may change places when an epoch sorts them by length."""
COUNTERS = ("epoch", "position", "parts", "drawn")
"""The counters that a sampler's state consists of."""
_GRADIENT, _CURVATURE, _SEPARATE = 0, 1, 2  # the sampler's independent random generators


class SequenceSampler:
    """Draw the sequences of every update: a subset for the gradient, and a random part of it for the curvature.

    In each epoch the sequences are put in a random order, and subsets are taken from the front. When too few sequences
    remain for a subset, a new epoch begins, so no sequence is used twice in an epoch. All subsets have the same size,
    or they grow: subset k, counted from 0, holds first * growth**k symbols, but at most `symbols`. After `stay`, the
    next subset has the size of the last one.

    There are `sequences` of `length` steps. A subset of some predicted symbols has round(symbols / length) sequences,
    but at least 1 and at most all. Without `symbols`, a subset has all sequences; without `first`, subsets do not grow.

    `lengths` returns the steps of each sequence in an epoch, if they may differ; an epoch may then have other than
    `sequences` sequences, too. A subset is ordered from its longest sequence to its shortest. If `alike` is given, the
    sequences of a subset have similar lengths: an epoch leaves a random rest out, sorts the others by their lengths,
    each multiplied by a random factor within `NEAR`, and takes its subsets from them in a random order.
    """

    def __init__(
        self, sequences: int, length: float, symbols: int | None = None, seed: int = 0, first: int | None = None,
        growth: float = 1.0, lengths: Callable[[int], NDArray[np.int64]] | None = None, alike: bool = False,
    ) -> None:  # fmt: skip
        self.sequences, self.length, self.seed = sequences, length, seed
        self._lengths_of, self._alike = lengths, alike
        self.subset = sequences if symbols is None else self._count(symbols, sequences)
        self.first = self.subset if first is None else self._count(first, self.subset)
        self.growth = float(growth)
        self._epoch, self._position, self._parts, self._drawn = 0, 0, 0, 0
        self._order = self._shuffled()

    @property
    def epoch(self) -> int:
        """The epoch of the last subset, counted from 0."""
        return self._epoch

    @property
    def next_size(self) -> int:
        """The number of sequences in the next subset."""
        return self.size_after(self._drawn)

    def size_after(self, drawn: int) -> int:
        """Return the number of sequences in the subset that is drawn after so many others."""
        grown = self.first * math.exp(min(drawn * math.log(self.growth), 700.0))
        return self.subset if grown >= self.subset else round(grown)

    @property
    def epoch_is_over(self) -> bool:
        """Whether the next subset begins a new epoch."""
        return self._position + min(self.next_size, self._order.size) > self._order.size

    @property
    def fraction(self) -> float:
        """The share of this epoch's subsets that was drawn, if all further subsets are as large as the next."""
        of_epoch = self._order.size
        return min(1.0, self._position / (of_epoch - of_epoch % min(self.next_size, of_epoch)))

    def draw(self) -> NDArray[np.int64]:
        """Draw the next gradient subset: numbers of sequences (M,), increasing or from the longest down."""
        if self.epoch_is_over:
            self._epoch, self._position = self._epoch + 1, 0
            self._order = self._shuffled()
        start, self._position = self._position, self._position + min(self.next_size, self._order.size)
        self._drawn += 1
        return self._sorted(self._order[start : self._position])

    def stay(self) -> None:
        """Keep the size: the next subset is as large as the last one."""
        self._drawn = max(self._drawn - 1, 0)

    def draw_part(
        self, subset: NDArray[np.int64], *, fraction: float | None = None, symbols: int | None = None
    ) -> NDArray[np.int64]:
        """Draw a random part of a gradient subset, for the curvature, in the same order.

        The part is a share of the subset ([K] uses 1/4 in chapter 4 and 1/10 in chapter 5) or has some predicted
        symbols, but at least one sequence; it is the whole subset if neither is given.
        """
        count = self.part_size(len(subset), fraction=fraction, symbols=symbols)
        if count == len(subset):
            return np.array(subset)
        chosen = self._generator(_CURVATURE, self._parts).choice(len(subset), count, replace=False)
        self._parts += 1
        return np.asarray(subset)[np.sort(chosen)]

    def part_size(self, size: int, *, fraction: float | None = None, symbols: int | None = None) -> int:
        """Return the number of sequences that `draw_part` takes from a subset of `size` sequences."""
        if fraction is not None:
            return max(1, round(fraction * size))
        return size if symbols is None else self._count(symbols, size)

    def draw_beside(self, subset: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Draw `count` random sequences outside a gradient subset, to judge an update on, or all there are."""
        others = np.setdiff1d(np.arange(self._order.size), subset, assume_unique=True)
        chosen = self._generator(_SEPARATE, self._parts).choice(others.size, min(count, others.size), replace=False)
        self._parts += 1
        return self._sorted(others[chosen])

    def state_dict(self) -> dict[str, float]:
        """Return the sampler's state as JSON values; a sampler that loads it draws the same subsets."""
        return {**self._sizes(), **{name: getattr(self, f"_{name}") for name in COUNTERS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict` of a sampler with the same sizes and seed.

        Raise CheckpointError, and change nothing, if it is damaged or of a sampler with others.
        """
        for name, value in self._sizes().items():
            if state.get(name) != value:
                raise CheckpointError(
                    f"the stored sampler has {name} {state.get(name)}, and this one {value}; "
                    "resume with the same text, sequence length, batch size and seed"
                )
        values = [state.get(name) for name in COUNTERS]
        whole = all(type(value) is int and value >= 0 for value in values)
        if not whole or state["position"] > self._available(state["epoch"]):
            raise CheckpointError(f"the stored sampler is damaged: its counters are {values}")
        self._epoch, self._position, self._parts, self._drawn = (int(state[name]) for name in COUNTERS)
        self._order = self._shuffled()

    def _available(self, epoch: int) -> int:
        """Return the number of sequences in an epoch."""
        return self.sequences if self._lengths_of is None else self._lengths_of(epoch).size

    def _sizes(self) -> dict[str, float]:
        """Return the numbers that two samplers must share to draw the same subsets."""
        return {name: getattr(self, name) for name in ("sequences", "length", "subset", "seed", "first", "growth")}

    def _count(self, symbols: int, most: int) -> int:
        """Return how many sequences hold about `symbols` symbols: at least 1, at most `most`."""
        return min(max(1, round(symbols / self.length)), most)

    def _shuffled(self) -> NDArray[np.int64]:
        """Return the order of this epoch, which depends only on the lengths, the seed and the epoch."""
        self._lengths = None if self._lengths_of is None else self._lengths_of(self._epoch)
        lengths, rng = self._lengths, self._generator(_GRADIENT, self._epoch)
        order = rng.permutation(self.sequences if lengths is None else lengths.size)
        if not self._alike or lengths is None or (lengths == lengths[0]).all():
            return order
        size = min(self.subset, order.size)
        kept, rest = np.split(order, [order.size - order.size % size])
        near = lengths[kept] * np.exp(NEAR * rng.random(kept.size))
        subsets = kept[np.argsort(near, kind="stable")].reshape(-1, size)
        return np.concatenate([rng.permutation(subsets).ravel(), rest])

    def _sorted(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return numbers of sequences in increasing order, or by length from the longest to the shortest."""
        return np.sort(chosen) if self._lengths is None else chosen[np.lexsort((chosen, -self._lengths[chosen]))]

    def _generator(self, purpose: int, number: int) -> np.random.Generator:
        """Return a new generator for one epoch or one part, so that only counters must be stored."""
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, purpose, number])))


# ------------------------------------------------------------------ sizes of the batches to come


SIMULATED = 1000
"""Subsets whose sizes are computed one by one; batches that still grow after those count as constant."""


def coming_sizes(sampler: SequenceSampler, draws: int | None, epochs: int | None, grows: bool = True) -> Counter[int]:
    """Count the subsets of each size that a sampler has still to draw before a limit.

    At least one limit is given: the number of subsets, or of epochs since the first subset of all. Without `grows`, all
    of them have the size of the next one.
    """
    state, found = sampler.state_dict(), Counter[int]()
    epoch, position, drawn = (int(state[name]) for name in ("epoch", "position", "drawn"))
    most = math.inf if draws is None else draws
    first, size = drawn, sampler.size_after(drawn)
    while grows and size < sampler.subset and drawn - first < min(most, SIMULATED):
        if position + size > sampler.sequences:
            epoch, position = epoch + 1, 0
        if epochs is not None and epoch >= epochs:
            return found
        position, drawn = position + size, drawn + 1
        found[size] += 1
        size = sampler.size_after(drawn)
    more = most - (drawn - first)
    if epochs is not None:
        of_epochs = (sampler.sequences - position) // size + (epochs - epoch - 1) * (sampler.sequences // size)
        more = min(more, of_epochs if epoch < epochs else 0)
    found[size] += max(int(more), 0)
    return found
