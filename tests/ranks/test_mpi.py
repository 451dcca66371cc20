"""Objectives on several ranks of mpiexec: the same bits, few bytes, and errors that name a rank."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import rank_results
from support.mpi import needs_mpi, run

import hfrnn
from hfrnn.ranks.mpi import bytes_to_fill, bytes_to_send, launched_ranks, ranks_of
from hfrnn.ranks.one import ALONE, launched

SIZES = [(2, 1), (2, 2), (3, 1), (4, 2), (8, 1)]
"""Numbers of ranks and threads."""


@cache
def _found(ranks: int, threads: int) -> dict[str, Any]:
    ended = run(ranks, Path(rank_results.__file__), threads, folder=Path(__file__).parent)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.nightly
@needs_mpi
@pytest.mark.parametrize(("ranks", "threads"), SIZES)
def test_all_results_have_the_bits_of_one_process(ranks: int, threads: int) -> None:
    assert _found(ranks, threads)["results"] == rank_results.results(threads=1)


@pytest.mark.nightly
@needs_mpi
@pytest.mark.parametrize(("ranks", "threads"), SIZES)
def test_a_product_sends_at_most_two_vectors_per_rank(ranks: int, threads: int) -> None:
    power_of_two = ranks & (ranks - 1) == 0
    headers = 0.01
    assert _found(ranks, threads)["vectors"] <= 2 * (ranks - 1) / ranks + headers + (0 if power_of_two else 0.67)


@pytest.mark.nightly
@needs_mpi
@pytest.mark.parametrize(("ranks", "threads"), SIZES)
def test_ranks_agree_and_one_with_other_data_or_weights_is_named(ranks: int, threads: int) -> None:
    found = _found(ranks, threads)["exchanges"]
    assert found["broadcast"] == {"pi": 3.25, "text": "ü", "none": None}
    assert found["any"] == [False, True, True]
    assert found["errors"]["data"] == [
        "InputError", "the file of rank 1 differs from that of the others: give all machines the same files", 2
    ]  # fmt: skip
    other = 1 if ranks == 2 else 0  # of two, rank 0 is believed
    name, message, code = found["errors"]["weights"]
    assert (name, code) == ("RankError", 1)
    assert message.startswith(f"the weights of rank {other} differ from those of the others")


DEVICE = """
import sys
import numpy as np
import hfrnn
from mpi4py import MPI
from hfrnn.engine import sums
from support.fake_device import FakeBackend

sums.pinned_copy = lambda backend, values: backend.to_host(values)  # pinned memory needs a driver

rng, found = np.random.default_rng(0), []
symbols = rng.integers(0, 5, (6, 33))
for backend in (FakeBackend(), "numpy"):
    net = hfrnn.Network("lstm", 5, 4, 5, dtype="float64", backend=backend)
    theta, batch = net.init(seed=0), hfrnn.Batch(symbols[:-1], symbols[1:])
    f = hfrnn.Objective(net, batch, comm=MPI.COMM_WORLD if backend != "numpy" else None, shards=4)
    loss, gradient = f.loss_and_gradient(theta)
    product = f.gauss_newton(theta) @ gradient
    found.append([np.float64(loss), *(net.backend.to_host(each) for each in (gradient, product))])
for one, other in zip(*found, strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)
"""


@pytest.mark.nightly
@needs_mpi
def test_sums_of_a_device_pass_through_the_memory_of_the_host() -> None:
    ended = run(3, "-c", DEVICE, folder=Path(__file__).parent)
    assert ended.returncode == 0, ended.stderr


def test_one_process_needs_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    assert launched_ranks() is ALONE
    assert ranks_of(None) is ALONE


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (1, 0)),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}, (4, 3)),
        ({"PMI_SIZE": "2", "PMI_RANK": "1"}, (2, 1)),
        ({"SLURM_STEP_NUM_TASKS": "8", "PMIX_RANK": "5"}, (8, 5)),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, (1, 0)),  # a batch script, which srun has not started
        ({"OMPI_COMM_WORLD_SIZE": "four", "OMPI_COMM_WORLD_RANK": "0"}, (1, 0)),
    ],
)
def test_launchers_are_recognized_by_their_variables(
    variables: dict[str, str], expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert launched() == expected


def test_something_else_than_a_communicator_is_refused() -> None:
    net, batch = hfrnn.Network("rnn", 2, 2, 2), hfrnn.Batch(np.zeros((1, 1), int), np.zeros((1, 1), int))
    with pytest.raises(hfrnn.InputError, match="give a communicator of mpi4py"):
        hfrnn.Objective(net, batch, comm="world")


COMMUNICATORS = """
from hfrnn.ranks.mpi import ranks_of
from mpi4py import MPI

world = MPI.COMM_WORLD
copy = world.Dup()
first = ranks_of(copy)
assert ranks_of(copy) is first
assert ranks_of(world) is not first
copy.Free()
reversed = world.Split(0, world.Get_size() - world.Get_rank())  # MPI may give it the handle of the copy
ranks = ranks_of(reversed)
assert ranks is not first
assert ranks.rank == reversed.Get_rank()
assert ranks.broadcast(ranks.rank) == 0
assert first.broadcast(first.rank) == 0
"""


@pytest.mark.nightly
@needs_mpi
def test_each_communicator_has_ranks_of_its_own(tmp_path: Path) -> None:
    ended = run(2, "-c", COMMUNICATORS, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr


ORDER = """
import numpy as np
from hfrnn.ranks.mpi import ranks_of
from mpi4py import MPI

ranks = ranks_of(MPI.COMM_WORLD)
sent, found = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
for given in (np.asfortranarray(sent), np.repeat(sent, 2, axis=1)[:, ::2], sent[::-1].copy()[::-1]):
    found[:] = 0
    ranks._transfer([(1, given)] if ranks.leads else [], [] if ranks.leads else [(0, found)])
    assert ranks.leads or np.array_equal(found, sent), found
"""


@pytest.mark.nightly
@needs_mpi
def test_an_array_of_any_order_in_memory_arrives_as_it_is_meant(tmp_path: Path) -> None:
    ended = run(2, "-c", ORDER, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_bytes_are_those_of_c_order_and_only_an_array_in_c_order_can_receive() -> None:
    meant = np.arange(12.0).reshape(3, 4)
    for given in (np.asfortranarray(meant), np.repeat(meant, 2, axis=1)[:, ::2], meant[::-1].copy()[::-1]):
        assert bytes_to_send(given).tobytes() == meant.tobytes()
        with pytest.raises(ValueError, match="C order"):
            bytes_to_fill(given)
    bytes_to_fill(meant)[:] = 0
    assert not meant.any()
