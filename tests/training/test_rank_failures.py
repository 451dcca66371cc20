"""A rank that is killed, stops answering or fails ends all ranks in time, and the run resumes to the same bits.

A test draws the rank and the instant. HFRNN_RANK_FAILURES sets how many kills it tries; a quarter as many ranks
are stopped, and in a quarter a rank raises an error:

    HFRNN_RANK_FAILURES=20 python -m pytest -m "" -s tests/training/test_rank_failures.py
"""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.mpi import errors, needs_mpi, pids, run, start
from support.run_states import assert_same
from support.tiny_runs import text_file

pytestmark = [
    pytest.mark.nightly,
    needs_mpi,
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="kill -9 and SIGSTOP are of POSIX systems"),
]
COUNT = int(os.environ.get("HFRNN_RANK_FAILURES", "4"))
RANKS, TIMEOUT, UPDATES = 3, 3, 40
DEADLINE = TIMEOUT + 10
FLAGS = ["--hidden", 4, "--sequence-length", 10, "--gradient-symbols", 1500, "--sample-length", 0]
FLAGS += ["--backend", "numpy", "--threads", 1, "--shards", 6, "--quiet", "--rank-timeout", TIMEOUT]

FAILING = """
import os, sys
from hfrnn import errors
from hfrnn.__main__ import main
from hfrnn.engine.objective import Objective

rank, call, kind = int(sys.argv.pop(1)), int(sys.argv.pop(1)), sys.argv.pop(1)
real, calls = Objective.gauss_newton, 0

def fails(self, *arguments, **options):
    global calls
    calls += 1
    if calls == call:
        error = getattr(errors, kind, None) or __builtins__.__dict__[kind]
        raise error("rank %d cannot go on" % rank)
    return real(self, *arguments, **options)

if os.environ["OMPI_COMM_WORLD_RANK"] == str(rank):
    Objective.gauss_newton = fails
main()
"""
"""Raise an error of a kind on one rank, at one of its products' operators."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    _new(run, 1, folder, "--updates", UPDATES)
    return folder / "run"


def _new(how, ranks, folder, *more, program=("-m", "hfrnn")):
    """Start a new run in a folder."""
    text = text_file(folder)
    return how(ranks, *program, "train", text, *FLAGS, "--out", "run", *more, folder=folder)


def _resumes_to(whole, folder):
    ended = run(1, "-m", "hfrnn", "train", "--resume", "run", "--updates", UPDATES, "--quiet", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert_same(folder / "run", whole)


def _wait_for_update(process, folder, update):
    """Wait until the log has an update, or the ranks have ended."""
    log, deadline = folder / "run" / "metrics.jsonl", time.monotonic() + 100
    while process.poll() is None and time.monotonic() < deadline:
        if log.is_file() and log.read_bytes().count(b"\n") >= update:
            return
        time.sleep(0.002)


def _ends_in_time(process, seconds, ranks):
    """Return the exit status and the errors of a run whose ranks all end within some seconds."""
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"the ranks do not end within {seconds} seconds: {process.communicate()[1]}") from None
    time.sleep(0.2)
    assert not [pid for pid in ranks if _runs(pid)]
    return process.returncode, err


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _started(folder, update):
    """Start a run without an end; return it and its ranks after an update."""
    process = _new(start, RANKS, folder, "--updates", UPDATES)
    _wait_for_update(process, folder, update)
    return process, pids(process)


def _kill(folder, rank, update):
    process, ranks = _started(folder, update)
    if process.poll() is None:
        os.kill(ranks[rank], signal.SIGKILL)
    status, _ = _ends_in_time(process, 10, ranks)
    assert status in (0, 128 + signal.SIGKILL)


def _stop(folder, rank, update):
    process, ranks = _started(folder, update)
    if process.poll() is None:
        os.kill(ranks[rank], signal.SIGSTOP)
    status, err = _ends_in_time(process, DEADLINE, ranks)
    if status:
        found = set(errors(err))  # on a busy machine, two ranks may write one, and the second name the first
        assert status == 1
        assert any(error.startswith(f"Error: rank {rank} has not answered for {TIMEOUT} seconds") for error in found)
        for error in found:
            assert f"has not answered for {TIMEOUT} seconds" in error
            assert error.endswith("resume with hfrnn train --resume run")


def _fail(folder, rank, update, kind):
    expected = {"InputError": 2, "StorageError": 1, "MemoryError": 1}[kind]
    program = ("-c", FAILING, rank, update, kind)
    process = _new(start, RANKS, folder, "--updates", UPDATES, program=program)
    _wait_for_update(process, folder, max(update - 1, 1))
    status, err = _ends_in_time(process, DEADLINE + 20, pids(process))
    assert status == expected
    (error,) = errors(err)
    assert "not enough memory" in error if kind == "MemoryError" else f"rank {rank} cannot go on" in error


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_does_not_answer_ends_all_and_is_named(rank, whole, tmp_path):
    _stop(tmp_path, rank, 3)
    _resumes_to(whole, tmp_path)


@pytest.mark.parametrize(("rank", "kind"), [(1, "InputError"), (0, "StorageError"), (2, "MemoryError")])
def test_an_error_on_one_rank_ends_all_with_one_sentence_and_its_exit_code(rank, kind, whole, tmp_path):
    _fail(tmp_path, rank, 3, kind)
    _resumes_to(whole, tmp_path)


def test_random_failures_lose_nothing(whole, tmp_path):
    chance = random.Random(COUNT)
    for n in range(COUNT + 2 * max(COUNT // 4, 1)):
        folder = tmp_path / str(n)
        folder.mkdir()
        rank, update = chance.randrange(RANKS), chance.randrange(1, UPDATES - 5)
        if n < COUNT:
            _kill(folder, rank, update)
        elif n % 2:
            _stop(folder, rank, update)
        else:
            _fail(folder, rank, update, chance.choice(["InputError", "StorageError", "MemoryError"]))
        print(f"{n}: rank {rank}, update {update}, saved {_saved(folder)}")
        _resumes_to(whole, folder)


def _saved(folder):
    return json.loads((folder / "run" / "metrics.jsonl").read_text().splitlines()[-1])["update"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_terminated_launcher_ends_all_and_nothing_is_lost(number, whole, tmp_path):
    process, ranks = _started(tmp_path, 3)
    os.kill(process.pid, number)
    status, _ = _ends_in_time(process, 20, ranks)
    assert status in (1, 130)  # Open MPI's own status is 1
    _resumes_to(whole, tmp_path)


@pytest.mark.parametrize("to", ["launcher", "rank"])
def test_a_signal_saves_and_exits_with_130(to, whole, tmp_path):
    process, ranks = _started(tmp_path, 3)
    os.kill(process.pid if to == "launcher" else ranks[2], signal.SIGUSR1 if to == "launcher" else signal.SIGTERM)
    status, err = _ends_in_time(process, 20, ranks)
    assert status == 130
    assert err.count("which is saved: resume with hfrnn train --resume run") == 1
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped"] == "interruption"
    _resumes_to(whole, tmp_path)


CHANGED = """
import hfrnn
from hfrnn.__main__ import main
from hfrnn.training.trainer import Trainer

real = Trainer._advance

def changes(self, start):
    record = real(self, start)
    if self.ranks.rank == 1 and self.update == 3:
        self.state.theta = self.state.theta.copy()
        self.state.theta[5] *= 1 + 1e-6
    return record

Trainer._advance = changes
main()
"""


def test_other_weights_on_a_rank_end_all_and_name_it(whole, tmp_path):
    ended = _new(run, RANKS, tmp_path, "--updates", UPDATES, program=("-c", CHANGED))
    assert ended.returncode == 1
    (error,) = errors(ended.stderr)
    assert error.startswith("Error: the weights of rank 1 differ from those of the others")
    assert _saved(tmp_path) == 3
    _resumes_to(whole, tmp_path)
