"""Messages between the GPUs of several processes by NCCL. CuPy's module of NCCL is taken from the backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hfrnn.arrays.backend import Array, Backend
from hfrnn.errors import InputError, MissingExtraError, RankError


class Arrival:
    """Says whether the messages of one exchange have arrived, with the method of a request of MPI."""

    def __init__(self, event: Any, check: Any, rank: int) -> None:
        self._event, self._check, self._rank = event, check, rank

    def Test(self) -> bool:
        """Return whether all messages have arrived; raise RankError if NCCL has failed."""
        with _errors_of_nccl(self._rank):
            self._check()
        return bool(self._event.done)


class Nccl:
    """The GPU of this process among those of several processes.

    Parameters
    ----------
    backend : Backend
        Of a GPU. Its current device is used.
    identifier : sequence of int
        From `new_identifier` of one of the processes.
    size, rank : int
        Number of processes, and the number of this one.

    Raises
    ------
    InputError
        NCCL cannot connect the GPUs, for instance because two processes have the same one.

    Notes
    -----
    The constructor returns when all processes have called it.
    """

    def __init__(self, backend: Backend, identifier: Sequence[int], size: int, rank: int) -> None:
        self._cuda, self._nccl = backend.xp.cuda, library(backend)
        self._rank, self._empty, self._scratch = rank, backend.empty, backend.empty((0,), "float32")
        try:
            self._comm = self._nccl.NcclCommunicator(size, tuple(identifier), rank)
        except Exception as error:
            raise InputError(
                f"NCCL cannot connect the GPUs of {size} ranks ({error}): give every rank its own GPU, or use "
                "--gpu-sums host"
            ) from error

    def exchange(self, send: Sequence[tuple[int, Array]], receive: Sequence[tuple[int, Array]]) -> Arrival:
        """Start to send and receive contiguous arrays to and from ranks, in the given orders; no array is empty.

        Raises
        ------
        RankError
            NCCL has failed.
        """
        stream = self._cuda.get_current_stream()
        with _errors_of_nccl(self._rank):
            self._nccl.groupStart()
            for rank, array in send:
                self._comm.send(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, rank, stream.ptr)
            for rank, array in receive:
                self._comm.recv(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, rank, stream.ptr)
            self._nccl.groupEnd()
        event = self._cuda.Event(disable_timing=True)
        event.record(stream)
        return Arrival(event, self._comm.check_async_error, self._rank)

    def scratch(self, rows: int, columns: int, dtype: Any) -> Array:
        """Return a reused array of arbitrary contents."""
        if self._scratch.size < rows * columns or self._scratch.dtype != dtype:
            self._scratch = self._empty((rows * columns,), dtype)
        return self._scratch[: rows * columns].reshape(rows, columns)

    def abort(self) -> None:
        """End all exchanges, also those for which other processes never do their part."""
        self._comm.abort()


@contextmanager
def _errors_of_nccl(rank: int) -> Iterator[None]:
    """Turn an error of NCCL within the context into a RankError."""
    try:
        yield
    except Exception as error:  # NCCL's own class cannot be imported without NCCL
        raise RankError(
            f"NCCL failed on rank {rank} ({error}): another rank, its GPU or the network is down (--gpu-sums host "
            "works without NCCL)"
        ) from error


def check_device(backend: Backend) -> None:
    """Raise InputError if the backend does not compute on a GPU."""
    if backend.on_host:
        raise InputError(f"--gpu-sums nccl was given, and backend {backend.name!r} uses no GPU: use --gpu-sums host")


def library(backend: Backend) -> Any:
    """Return CuPy's module of NCCL.

    Raises
    ------
    MissingExtraError
        NCCL is not installed.
    """
    check_device(backend)
    nccl = backend.xp.cuda.nccl
    if not nccl.available:
        raise MissingExtraError(
            "--gpu-sums nccl needs NCCL: pip install nvidia-nccl-cu12 (or nvidia-nccl-cu13), or use --gpu-sums host"
        )
    return nccl


def new_identifier(backend: Backend) -> list[int]:
    """Return a new identifier, which all processes of one `Nccl` share."""
    return list(library(backend).get_unique_id())
