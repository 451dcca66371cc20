"""Add the vectors of shards in the order of a fixed tree, on threads and ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn.arrays.backend import Array, Backend
from hfrnn.arrays.devices import pinned_copy
from hfrnn.arrays.threads import Threads
from hfrnn.engine.batch import joined_states
from hfrnn.ranks.one import Addition, Ranks, additions_within

if TYPE_CHECKING:
    from hfrnn.engine.layout import Layout
    from hfrnn.engine.states import States


class VectorSum:
    """Sums of one vector per shard, with vectors that are kept for the next sum.

    A rank takes at most one vector per thread, and one for each level of the tree but one, besides the result.
    """

    def __init__(self, backend: Backend, shape: tuple[int], dtype: Any, threads: Threads, ranks: Ranks) -> None:
        self._backend, self._shape, self._dtype = backend, shape, dtype
        self._threads, self._ranks = threads, ranks
        self._free: list[Array] = []

    def take(self) -> Array:
        """Return a vector of arbitrary contents."""
        try:
            return self._free.pop()
        except IndexError:
            return self._backend.empty(self._shape, self._dtype)

    def give_back(self, vector: Array) -> None:
        """Keep a vector that `take` returned for its next call."""
        self._free.append(vector)

    def add(self, task: Callable[[int, Array], Any], count: int, out: Array) -> list[Any]:
        """Write the sum of `count` shards' vectors to `out` (n,); return what the task returned for this rank's shards.

        `task(k, vector)` adds the vector of this rank's shard k, counted from 0, to zeros. Tasks whose numbers agree
        modulo the number of threads never run at the same time.
        """
        start, stop = self._ranks.owned(count)
        own, plan = stop - start, additions_within(count, start, stop)
        at_once = own <= self._threads.threads  # every shard has a vector, so all threads can share the addition
        sums = _Sums(self, plan if not at_once else ())

        def run(k: int) -> Any:
            vector = self.take() if k else out
            vector[...] = 0
            with np.errstate(invalid="ignore"):  # kernels of BLAS for AVX-512 may set its flag for finite numbers
                result = task(k, vector)
            sums.finish(start + k, vector)
            return result

        results = list(self._threads.ordered(run, own))
        if at_once and plan:
            self._add_slices(plan, sums.of)
        if self._ranks.size > 1:
            self._add_ranks(count, sums.of, out)
        for first, vector in sums.of.items():
            if first != start:
                self.give_back(vector)
        return results

    def _add_slices(self, plan: tuple[Addition, ...], sums: dict[int, Array]) -> None:
        """Make all additions of a plan; each thread makes them for a slice of the vectors."""
        (n,), workers = self._shape, self._threads.threads

        def add(worker: int) -> None:
            part = slice(worker * n // workers, (worker + 1) * n // workers)
            for left, right, _ in plan:
                sums[left][part] += sums[right][part]

        self._threads.run(add, workers)
        for _, right, _ in plan:
            self.give_back(sums.pop(right))

    def _add_ranks(self, count: int, sums: dict[int, Array], out: Array) -> None:
        """Write the sum over all ranks to `out`. Vectors of a GPU pass through the memory of the host."""
        if self._backend.on_host:
            self._ranks.sum_vector(count, sums, out)
            return
        staged = {first: pinned_copy(self._backend, vector) for first, vector in sorted(sums.items())}
        result = next(iter(staged.values())) if staged else pinned_copy(self._backend, out)
        self._ranks.sum_vector(count, staged, result)
        out[...] = self._backend.asarray(result)


class _Sums:
    """Partial sums of the finished shards. The thread that finishes the second of two neighbouring sums adds them."""

    def __init__(self, vectors: VectorSum, plan: tuple[Addition, ...]) -> None:
        self.of: dict[int, Array] = {}  # by their first shard
        self._vectors, self._lock = vectors, threading.Lock()
        self._half_done: set[Addition] = set()
        self._next = {(each.left, each.right): each for each in plan} | {(each.right, each.stop): each for each in plan}

    def finish(self, shard: int, vector: Array) -> None:
        """Take the vector of a shard, and make all additions that have waited only for this one."""
        self.of[shard] = vector
        addition = self._next.get((shard, shard + 1))
        while addition is not None:
            with self._lock:
                if addition not in self._half_done:
                    self._half_done.add(addition)
                    return
            right = self.of.pop(addition.right)
            self.of[addition.left] += right
            self._vectors.give_back(right)
            addition = self._next.get((addition.left, addition.stop))


def share(backend: Backend, ranks: Ranks, array: Array, edges: Sequence[int], axis: int = 0) -> Array:
    """Return an array in which rank r has computed the part from edges[r] to edges[r + 1] along an axis."""
    if ranks.size == 1:
        return array
    rows = np.ascontiguousarray(np.moveaxis(backend.to_host(array), axis, 0))
    ranks.share(rows, edges)
    return backend.asarray(np.moveaxis(rows, 0, axis))


def states_of_ranks(
    net: Layout, ranks: Ranks, own: Sequence[States], columns: Sequence[tuple[int, int]], edges: Sequence[int]
) -> States:
    """Return the states of all sequences of a batch, given those of each shard of this rank.

    `columns` are the sequences of these shards, and `edges` the boundaries of the ranks' sequences.
    """
    if ranks.size == 1:
        return joined_states(net.backend.xp, own)
    joined = net.zero_state(edges[-1])
    for l, layer in enumerate(joined):
        for name, whole in layer.items():
            parts = [state[l][name] for state in own]
            if isinstance(whole, int):  # the time of clockwork
                layer[name] = ranks.broadcast(parts[0] if parts else None)
                continue
            for (start, stop), part in zip(columns, parts, strict=True):
                whole[..., start:stop, :] = part
            layer[name] = share(net.backend, ranks, whole, edges, axis=whole.ndim - 2)
    return joined
