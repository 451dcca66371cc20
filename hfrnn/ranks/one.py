"""What a program needs of its ranks, the processes that work on one run. This file knows a run in one process.

`mpi.py` has the same methods for several processes.

T1  sum[a, b) = sum[a, m) + sum[m, b),  m = a + ceil((b - a)/2)

The tree depends only on the number of shards, so the sum has the same bits on any number of ranks and threads. Every
rank owns neighbouring shards. An even number of ranks is halved with the tree, and an odd number R divides the shards
of a node into R nearly equal parts. If R is a power of two, each rank therefore owns one node; else it owns a few.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hfrnn.errors import InputError

if TYPE_CHECKING:  # else every command would load NumPy for its help page
    from hfrnn.arrays.backend import HostArray
    from hfrnn.arrays.vectors import Scalar


class Ranks:
    """The ranks of a run. This class is a run in one process; `MPIRanks` has the same methods for several.

    `local_rank` is the number of this process among those on the same machine, and `bytes_sent` counts what it has
    sent.
    """

    rank, size, local_rank, bytes_sent = 0, 1, 0, 0

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes files and the screen."""
        return self.rank == 0

    def owned(self, count: int) -> tuple[int, int]:
        """Return the first shard of this rank, and the first after it."""
        return owned(count, self.size, self.rank)

    def edges(self, count: int) -> list[int]:
        """Return the boundaries of the ranks' shards."""
        return [*(owned(count, self.size, rank)[0] for rank in range(self.size)), count]

    def wait_at_most(self, seconds: float) -> None:
        """Set the number of seconds that this rank waits for another one."""

    def sum_vector(self, count: int, sums: Mapping[int, HostArray], out: HostArray) -> None:
        """Write the sum over the shards of all ranks to `out` (n,), which may be the first partial sum.

        `sums` are this rank's partial sums by their first shard; they are overwritten.
        """

    def sum_scalars(self, values: Sequence[Scalar], count: int) -> Scalar:
        """Return the sum of a number per shard, given those of this rank's shards; one process need not fetch them."""
        return total(values)

    def share(self, array: HostArray, edges: Sequence[int]) -> None:
        """Fill a contiguous array whose rows from edges[r] to edges[r + 1] rank r has computed."""

    def broadcast(self, value: Any) -> Any:
        """Return the value that rank 0 gives: anything that JSON can hold."""
        return value

    def any_rank(self, flag: bool) -> bool:
        """Return whether the flag of any rank is true."""
        return bool(flag)

    def differing(self, checksum: int) -> list[int]:
        """Return the ranks whose checksum is not that of most ranks."""
        return []

    def check_weights(self, theta: HostArray) -> None:
        """Compare a checksum of the weights; raise RankError if they differ."""

    def check_data(self, name: str, checksum: str) -> None:
        """Compare the checksums of data; raise InputError if they differ."""

    def abort(self, error: BaseException) -> bool:
        """Tell the other ranks that this one ends with an error; return whether this rank is the one to report it.

        It returns when all ranks have done so, or after a few seconds: the end of this process then ends the others.
        """
        return True


ALONE = Ranks()
"""A run in one process."""


# ------------------------------------------------------------------ how many ranks a launcher has started


LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("SLURM_STEP_NUM_TASKS", "PMIX_RANK"),
)
"""Environment variables in which launchers tell a process the number of ranks, and its own."""


def launched() -> tuple[int, int]:
    """Return the number of ranks that a launcher has started, and that of this process; (1, 0) without a launcher."""
    for size, rank in LAUNCHERS:
        if os.environ.get(size, "").isdecimal() and os.environ.get(rank, "").isdecimal():
            return int(os.environ[size]), int(os.environ[rank])
    return 1, 0


def refuse_windows() -> None:
    """Raise InputError on Windows, whose MPI ends the ranks at a signal before they save."""
    if sys.platform == "win32":
        raise InputError("several ranks are not supported on Windows: train in one process, or use Linux or macOS")


ALONE_IN_SLURM = "Slurm has started {} tasks, and each trains alone: start them with mpiexec to share a run"


def alone_in_slurm() -> int:
    """Return how many tasks Slurm has started that know nothing of each other; 0 if this process is no such task."""
    count = os.environ.get("SLURM_STEP_NUM_TASKS", os.environ.get("SLURM_NTASKS", ""))
    one_of_many = count.isascii() and count.isdecimal() and "SLURM_PROCID" in os.environ
    return int(count) if one_of_many and int(count) > 1 and launched()[0] == 1 else 0


# ------------------------------------------------------------------ the tree of sums


class Addition(NamedTuple):
    """An addition of the tree: the sum of the shards from `right` to `stop` is added to that of `left` to `right`."""

    left: int
    right: int
    stop: int


@lru_cache(maxsize=64)
def additions(count: int) -> tuple[Addition, ...]:
    """Return the additions of the tree over `count` shards, each after those that it needs (T1)."""
    return tuple(_additions(0, count))


def _additions(start: int, stop: int) -> Iterator[Addition]:
    if stop - start > 1:
        middle = start + (stop - start + 1) // 2
        yield from _additions(start, middle)
        yield from _additions(middle, stop)
        yield Addition(start, middle, stop)


def owned(count: int, ranks: int, rank: int) -> tuple[int, int]:
    """Return the first shard that a rank owns, and the first after it; the two are equal if it owns none."""
    start, stop = 0, count
    while ranks % 2 == 0:  # half of the ranks for each half of the tree
        ranks, middle = ranks // 2, start + (stop - start + 1) // 2
        start, stop = (start, middle) if rank < ranks else (middle, stop)
        rank %= ranks
    size = stop - start
    return start - (-rank * size // ranks), start - (-(rank + 1) * size // ranks)


@lru_cache(maxsize=64)
def additions_within(count: int, start: int, stop: int) -> tuple[Addition, ...]:
    """Return the additions that need only the shards from `start` to `stop`."""
    return tuple(each for each in additions(count) if start <= each.left and each.stop <= stop)


@lru_cache(maxsize=64)
def additions_between(count: int, ranks: int) -> tuple[Addition, ...]:
    """Return the additions that need the shards of several ranks."""
    inside = {each for rank in range(ranks) for each in additions_within(count, *owned(count, ranks, rank))}
    return tuple(each for each in additions(count) if each not in inside)


@lru_cache(maxsize=4096)
def roots(count: int, start: int, stop: int) -> tuple[int, ...]:
    """Return the first shard of each sum that is left after the additions within `start` to `stop`."""
    added = {each.right for each in additions_within(count, start, stop)}
    return tuple(shard for shard in range(start, stop) if shard not in added)


def total(values: Iterable[Scalar]) -> Scalar:
    """Return the sum of the shards' numbers in the order of the tree."""
    sums = list(values)
    for left, right, _ in additions(len(sums)):
        sums[left] += sums[right]
    return sums[0]
