"""The ranks of a run that `mpiexec` has started. All knowledge of MPI is in this file.

Every exchange begins with a header from each rank to each other. A rank that fails sends a header that says so. Thus a
rank learns of the failure of another one where it would wait for it, and nobody waits longer than the time-out. Waiting
happens in Python, so that signals are handled meanwhile.

A sum takes two steps. Each rank owns a slice of the vector: it receives this slice of the other ranks' partial sums and
adds them in the order of the tree. Then every rank sends its slice of the sum to all others.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.arrays.vectors import Scalar, fetch
from hfrnn.checks import wrong
from hfrnn.errors import INTERRUPTED, InputError, Message, MissingExtraError, RankError, how_to_install
from hfrnn.ranks.one import ALONE, Ranks, additions_between, launched, owned, refuse_windows, roots, total

RANK_TIMEOUT = 300.0
"""Default number of seconds that a rank waits for another one."""
GRACE_SECONDS = 4.0
"""Seconds that a rank which fails waits for the others to notice, before it ends them."""
REPORT_SECONDS = 1.0
"""Seconds that the rank which reports an error has for that, before another rank ends it."""
SPIN_SECONDS, SLEEP_SECONDS = 0.002, 0.0002
"""How long a rank looks for headers without a pause, and the pauses after that."""
HEADERS, CONTENT = 1, 2
"""Tags of messages."""


class Step(IntEnum):
    """What an exchange is for. All ranks must be at the same step."""

    FAILED = 0
    SUM = 1
    SHARE = 2
    BROADCAST = 3
    ANY = 4
    COMPARE = 5


class MPIRanks(Ranks):
    """The ranks of an MPI communicator, which is duplicated, so that other messages on it do no harm."""

    def __init__(self, comm: Any, timeout: float = RANK_TIMEOUT) -> None:
        self._mpi = _import_mpi()
        self._comm, self.timeout = comm.Dup(), timeout
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.local_rank = comm.Split_type(self._mpi.COMM_TYPE_SHARED).Get_rank()
        self._others = [rank for rank in range(self.size) if rank != self.rank]
        self._sequence = 0
        self._buffers = {rank: np.zeros(3, np.int64) for rank in self._others}
        self._inbox = {rank: self._listen(rank) for rank in self._others}
        self._outbox: list[tuple[Any, HostArray]] = []
        self._received = np.empty(0, np.uint8)
        self._failed: dict[int, int] = {}  # by rank: its exit code, negative if it ends because of another rank
        self._reports: bool | None = None
        self._exit_code = 0
        atexit.register(self._leave)

    # ------------------------------------------------------------------ exchanges

    def wait_at_most(self, seconds: float) -> None:
        self.timeout = seconds

    def sum_vector(self, count: int, sums: Mapping[int, HostArray], out: HostArray) -> None:
        self._meet(Step.SUM, out.size)
        edges = [rank * out.size // self.size for rank in range(self.size + 1)]
        mine = slice(edges[self.rank], edges[self.rank + 1])
        theirs = [(rank, s) for rank in self._others for s in roots(count, *owned(count, self.size, rank))]
        incoming = self._scratch(len(theirs), mine.stop - mine.start, out.dtype)
        parts = {first: vector[mine] for first, vector in sums.items()}
        parts |= {first: row for (_, first), row in zip(theirs, incoming, strict=True)}
        receive = [(rank, row) for (rank, _), row in zip(theirs, incoming, strict=True)]
        own = [vector for _, vector in sorted(sums.items())]
        send = [(rank, vector[edges[rank] : edges[rank + 1]]) for rank in self._others for vector in own]
        self._transfer(send, receive)
        for left, right, _ in additions_between(count, self.size):
            parts[left] += parts[right]
        out[mine] = parts[0]
        self._share(out, edges)

    def sum_scalars(self, values: Sequence[Scalar], count: int) -> Scalar:
        every, (start, stop) = np.zeros(count), self.owned(count)
        every[start:stop] = fetch(*values)
        self.share(every, self.edges(count))
        return total(every.tolist())

    def share(self, array: HostArray, edges: Sequence[int]) -> None:
        self._meet(Step.SHARE, array.size)
        self._share(array, edges)

    def broadcast(self, value: Any) -> Any:
        content = np.frombuffer(json.dumps(value).encode(), np.uint8) if self.leads else np.empty(0, np.uint8)
        size = self._meet(Step.BROADCAST, content.size, same=False)[0]
        if self.leads:
            self._transfer([(rank, content) for rank in self._others], [])
        else:
            content = np.empty(size, np.uint8)
            self._transfer([], [(0, content)])
        return json.loads(content.tobytes())

    def any_rank(self, flag: bool) -> bool:
        return any(self._meet(Step.ANY, int(flag), same=False))

    def differing(self, checksum: int) -> list[int]:
        found = self._meet(Step.COMPARE, checksum, same=False)
        common = max(Counter(found).items(), key=lambda each: (each[1], each[0] == found[0]))[0]
        return [rank for rank, each in enumerate(found) if each != common]

    def check_weights(self, theta: HostArray) -> None:
        if ranks := self.differing(zlib.crc32(bytes_to_send(theta).data)):
            raise RankError(
                f"the weights of {_named(ranks)} differ from those of the others: use processors of one kind, and the "
                "same versions of hfrnn, NumPy and BLAS on all machines"
            )

    def check_data(self, name: str, checksum: str) -> None:
        if ranks := self.differing(zlib.crc32(checksum.encode())):
            raise InputError(
                f"{name} of {_named(ranks)} differs from that of the others: give all machines the same files"
            )

    def _share(self, array: HostArray, edges: Sequence[int]) -> None:
        parts = [array[start:stop] for start, stop in itertools.pairwise(edges)]
        mine = parts[self.rank]
        self._transfer([(rank, mine) for rank in self._others], [(rank, parts[rank]) for rank in self._others])

    def _transfer(self, send: list[tuple[int, HostArray]], receive: list[tuple[int, HostArray]]) -> None:
        """Send and receive arrays to and from ranks, in the given orders; empty ones are left out."""
        send, receive = ([(rank, array) for rank, array in each if array.size] for each in (send, receive))
        self.bytes_sent += sum(array.nbytes for _, array in send)
        peers = [rank for rank, _ in (*receive, *send)]
        requests = [self._comm.Irecv(bytes_to_fill(array), rank, CONTENT) for rank, array in receive]
        requests += [self._comm.Isend(bytes_to_send(array), rank, CONTENT) for rank, array in send]
        self._wait(requests, peers, self.timeout, pause=0.0)

    # ------------------------------------------------------------------ headers

    def _meet(self, step: Step, value: int, same: bool = True) -> list[int]:
        """Exchange headers; return the value of each rank. With `same`, all must have given the same one."""
        if self._reports is not None:
            raise RankError("the run has failed already on these ranks: start a new one")
        self._sequence += 1
        self._tell(step, value)
        self._wait([self._inbox[rank] for rank in self._others], self._others, self.timeout, SLEEP_SECONDS)
        values = [value] * self.size
        headers = {rank: self._take(rank) for rank in self._others}
        if self._failed:
            raise self._error_of_others()
        for rank, (sequence, found, theirs) in headers.items():
            values[rank] = theirs
            if (sequence, found) != (self._sequence, step) or (same and theirs != value):
                raise RankError(
                    f"rank {rank} is at another step of the run than rank {self.rank}: give every rank the same data, "
                    "batch and options"
                )
        return values

    def _error_of_others(self) -> RankError:
        rank = min(self._failed, key=lambda each: (self._failed[each] < 0, each))
        error = RankError(f"rank {self.rank} ends, because rank {rank} has ended with an error")
        error.exit_code, error.follows = abs(self._failed[rank]), True
        return error

    def _tell(self, step: Step, value: int) -> None:
        """Send a header to all other ranks, without waiting."""
        content = np.array([self._sequence, step, value], np.int64)
        self._outbox = [(request, kept) for request, kept in self._outbox if not request.Test()]
        self._outbox += [(self._comm.Isend(content, rank, HEADERS), content) for rank in self._others]
        self.bytes_sent += content.nbytes * len(self._others)

    def _listen(self, rank: int) -> Any:
        return self._comm.Irecv(self._buffers[rank], rank, HEADERS)

    def _take(self, rank: int) -> tuple[int, int, int]:
        """Return the header that has arrived from a rank, and wait for its next one."""
        sequence, step, value = self._buffers[rank].tolist()
        if step == Step.FAILED:  # nothing comes after that
            self._failed[rank] = value
        else:
            self._inbox[rank] = self._listen(rank)
        return sequence, step, value

    def _wait(self, requests: list[Any], peers: list[int], timeout: float, pause: float) -> None:
        """Wait for requests; raise RankError if they take longer than the time-out."""
        begin = time.monotonic()
        try:
            while any(not request.Test() for request in requests):
                elapsed = time.monotonic() - begin
                if elapsed > timeout:
                    late = sorted({rank for rank, each in zip(peers, requests, strict=True) if not each.Test()})
                    verb = "has" if len(late) == 1 else "have"
                    raise RankError(Message(
                        "{0} {1} not answered for {2:g} seconds: look at the machines, or give a longer {rank_timeout}",
                        _named(late), verb, timeout,
                    ))  # fmt: skip
                time.sleep(pause if elapsed > SPIN_SECONDS else 0.0)
        except self._mpi.Exception as error:
            raise RankError(f"MPI failed on rank {self.rank} ({error}): another rank or the network is down") from error

    def abort(self, error: BaseException) -> bool:
        if self._reports is not None:
            return self._reports
        code, follows = exit_code_of(error), isinstance(error, RankError) and error.follows
        self._reports = not follows
        self._exit_code = code  # with which this process ends the others
        self._tell(Step.FAILED, -code if follows else code)
        # after a signal all ranks stop at the same step, and wait for what rank 0 writes
        begin, grace = time.monotonic(), self.timeout if code == INTERRUPTED else GRACE_SECONDS
        while len(self._failed) < len(self._others) and time.monotonic() - begin < grace:
            for rank in self._others:
                if rank not in self._failed and self._inbox[rank].Test():
                    self._take(rank)
            time.sleep(SLEEP_SECONDS)
        first = [rank for rank, each in self._failed.items() if each > 0]
        self._reports = not follows and self.rank < min(first, default=self.size)
        if len(self._failed) == len(self._others):
            self._exit_code = 0
        elif not self._reports:
            time.sleep(REPORT_SECONDS)
        return self._reports

    def _leave(self) -> None:
        """End the other processes if one of them does not answer; else leave MPI together with them."""
        if self._exit_code:
            sys.stdout.flush()
            sys.stderr.flush()
            self._comm.Abort(self._exit_code)
        for request in self._inbox.values():
            if request:
                request.Cancel()
                request.Free()

    def _scratch(self, rows: int, columns: int, dtype: Any) -> HostArray:
        """Return a reused array of arbitrary contents."""
        size = rows * columns * np.dtype(dtype).itemsize
        if self._received.size < size:
            self._received = np.empty(size, np.uint8)
        scratch: HostArray = self._received[:size].view(dtype).reshape(rows, columns)
        return scratch


@functools.cache
def _key() -> int:
    """Return the key under which a communicator keeps its ranks; a copy of the communicator does not have them."""
    found: int = _import_mpi().Comm.Create_keyval()
    return found


def ranks_of(comm: Any, timeout: float = RANK_TIMEOUT) -> Ranks:
    """Return the ranks of an mpi4py communicator, of None for one process, or of a `Ranks` object itself.

    `timeout`, the seconds that a rank waits for another one, holds from the first use of the communicator on.
    """
    if comm is None:
        return ALONE
    if isinstance(comm, Ranks):
        return comm
    if type(comm).__module__.partition(".")[0] != "mpi4py" or not hasattr(comm, "Get_rank"):
        raise wrong("comm", comm, "give a communicator of mpi4py, such as mpi4py.MPI.COMM_WORLD")
    if comm.Get_size() == 1:
        return ALONE
    known: MPIRanks | None = comm.Get_attr(_key())
    if known is None:
        known = MPIRanks(comm, timeout)
        comm.Set_attr(_key(), known)
    return known


def launched_ranks(timeout: float = RANK_TIMEOUT) -> Ranks:
    """Return the ranks that a launcher such as mpiexec has started; raise MissingExtraError if that needs mpi4py."""
    size, _ = launched()
    if size == 1:
        return ALONE
    world = _import_mpi().COMM_WORLD
    if world.Get_size() != size:
        raise InputError(
            f"the launcher has started {size} ranks, and mpi4py sees {world.Get_size()}: use the mpiexec of the MPI "
            "library that mpi4py uses"
        )
    return ranks_of(world, timeout)


def exit_code_of(error: BaseException) -> int:
    """Return the exit code with which an error ends the program."""
    code = getattr(error, "exit_code", 1)
    return code if isinstance(code, int) and 0 < code < 256 else 1


def _import_mpi() -> Any:
    refuse_windows()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py without an MPI library raises RuntimeError
        raise MissingExtraError(f"a run on several ranks needs mpi4py and MPI: {how_to_install('mpi')}") from error
    return MPI


def bytes_to_send(array: HostArray) -> HostArray:
    """Return the bytes of an array in C order; MPI would send other orders as they lie in memory."""
    content: HostArray = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return content


def bytes_to_fill(array: HostArray) -> HostArray:
    """Return the memory of an array as bytes, to receive it; raise ValueError unless it is in C order."""
    if not array.flags.c_contiguous:
        raise ValueError("only an array in C order can receive the bytes of another one")
    content: HostArray = array.reshape(-1).view(np.uint8)
    return content


def _named(ranks: Sequence[int]) -> str:
    """Return ranks in words: `rank 2`, or `ranks 1, 2`."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
