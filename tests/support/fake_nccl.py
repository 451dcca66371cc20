"""NCCL of the fake device: messages between processes go through MPI, when a group of calls ends."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from mpi4py import MPI

available = True
NCCL_UINT8 = 1
IDENTIFIER = tuple(range(128))
EXCHANGED: list[int] = []
"""Number of messages of each group."""
FAILING: list[str] = []
"""Names of the calls that fail from now on."""

_group: list[tuple[str, np.ndarray[Any, Any], int]] | None = None


def _fail_if_asked(call: str) -> None:
    if call in FAILING:
        raise RuntimeError("NCCL_ERROR_SYSTEM_ERROR: unhandled system error")


def get_unique_id() -> tuple[int, ...]:
    return IDENTIFIER


def groupStart() -> None:
    global _group
    assert _group is None
    _group = []


def groupEnd() -> None:
    global _group
    assert _group is not None
    _fail_if_asked("groupEnd")
    EXCHANGED.append(len(_group))
    calls = {"send": MPI.COMM_WORLD.Isend, "recv": MPI.COMM_WORLD.Irecv}
    MPI.Request.Waitall([calls[name](memory, peer, 99) for name, memory, peer in _group])
    _group = None


class NcclCommunicator:
    """Has the methods that hfrnn calls, with the argument lists of CuPy's."""

    def __init__(self, ndev: int, commId: tuple[int, ...], rank: int) -> None:
        assert (ndev, commId, rank) == (MPI.COMM_WORLD.Get_size(), IDENTIFIER, MPI.COMM_WORLD.Get_rank())
        self.aborted = False

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._add("send", sendbuf, count, datatype, peer)

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None:
        self._add("recv", recvbuf, count, datatype, peer)

    def check_async_error(self) -> None:
        assert not self.aborted
        _fail_if_asked("check_async_error")

    def abort(self) -> None:
        self.aborted = True

    def _add(self, name: str, address: int, count: int, datatype: int, peer: int) -> None:
        assert _group is not None
        assert count > 0
        assert datatype == NCCL_UINT8
        memory = (ctypes.c_uint8 * count).from_address(address)
        _group.append((name, np.frombuffer(memory, np.uint8), peer))
