"""What a program needs of its ranks, the processes that work on one run. This file knows a run in one process.

`mpi.py` has the same methods for several processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hfrnn.arrays.backend import HostArray
from hfrnn.arrays.vectors import Scalar
from hfrnn.ranks.tree import owned, total


class Ranks:
    """The ranks of a run. This class is a run in one process; `MPIRanks` has the same methods for several.

    Attributes
    ----------
    rank, size : int
        The number of this process, from 0, and the number of processes.
    local_rank : int
        The number of this process among those on the same machine.
    bytes_sent : int
        Bytes that this process has sent so far.
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
        """Write the sum over the shards of all ranks to `out`.

        Parameters
        ----------
        count : int
            Number of shards.
        sums : mapping of int to (n,) array
            This rank's partial sums, by their first shard; overwritten.
        out : (n,) array
            May be the first partial sum.
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

        It returns when all ranks have done so, or after a few seconds. In the second case the end of this process ends
        the others.
        """
        return True


ALONE = Ranks()
"""A run in one process."""
