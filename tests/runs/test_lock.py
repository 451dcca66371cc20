"""One process at a time writes to a run folder; a lock that a killed process left is not in the way."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.processes import TINY, wait_until
from support.run_states import assert_same
from support.stops import load_update
from support.terminal import COMMAND
from support.tiny_runs import snapshot, text_file, tiny_train
from support.windows import needs_proc, refuse_open_files

import hfrnn
from hfrnn.errors import InputError, StorageError
from hfrnn.runs import lock
from hfrnn.runs.lock import FolderLock
from hfrnn.training.trainer import Callback, train


def process(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "train", *words, *TINY, "--sample-length", "0", "--updates", "1000000"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def training(tmp_path: Path) -> Any:
    """A process that trains in `run`, and has its lock."""
    text_file(tmp_path)
    started = process(tmp_path, "text.txt", "--out", "run")
    wait_until((tmp_path / "run" / "metrics.jsonl").is_file, started)
    yield started
    started.kill()
    started.communicate()


def goes_on(run: Path) -> None:
    updates = load_update(run) + 1
    assert train(resume=run, updates=updates).summary["updates"] == updates


def test_a_folder_in_use_is_refused_with_the_process_that_uses_it(tmp_path: Path, training: Any) -> None:
    with pytest.raises(InputError, match=f"run is in use by process {training.pid}, which writes to it") as caught:
        train(resume=tmp_path / "run", minutes=0.001)
    assert caught.value.exit_code == 2
    assert hfrnn.load(tmp_path / "run", "last").net.hidden == (4,)  # reading needs no lock
    training.send_signal(signal.SIGTERM)
    assert training.wait(timeout=60) == 130
    goes_on(tmp_path / "run")
    assert not (tmp_path / "run" / ".lock").exists()


@pytest.mark.nightly
def test_the_lock_of_a_killed_process_is_not_in_the_way(tmp_path: Path, training: Any) -> None:
    training.kill()
    training.wait(timeout=60)
    assert (tmp_path / "run" / ".lock").read_text().split()[0] == str(training.pid)
    goes_on(tmp_path / "run")


@pytest.mark.nightly
@pytest.mark.parametrize("resumed", [False, True])
def test_of_two_processes_that_start_at_once_exactly_one_wins(tmp_path: Path, resumed: bool) -> None:
    text_file(tmp_path)
    if resumed:
        tiny_train(tmp_path, updates=1)
    words = ("--resume", "run") if resumed else ("text.txt", "--out", "run")
    both = [process(tmp_path, *words) for _ in range(2)]
    try:
        wait_until(lambda: both[1].poll() is not None, both[0])
        loser, winner = sorted(both, key=lambda each: each.poll() is None)
        assert (loser.poll(), winner.poll()) == (2, None)
        wait_until((tmp_path / "run" / "metrics.jsonl").is_file, winner)
        winner.send_signal(signal.SIGINT)
        winner.communicate(timeout=60)
        assert winner.returncode == 130
        error = loser.communicate()[1]
        assert f"run is in use by process {winner.pid}," in error or (not resumed and "run exists already" in error)
    finally:
        for each in both:
            each.kill()
            each.wait()
    goes_on(tmp_path / "run")


class Looks(Callback):
    def on_start(self, trainer: Any) -> None:
        words = (trainer.path / ".lock").read_text().split()
        assert words == [str(os.getpid()), platform.node()]
        with pytest.raises(InputError, match=f"in use by process {os.getpid()},"):
            train(resume=trainer.path, minutes=0.001)


class Breaks(Callback):
    def on_start(self, trainer: Any) -> None:
        raise ZeroDivisionError


def test_a_lock_is_held_while_a_run_goes_on_and_given_back_however_it_ends(tmp_path: Path) -> None:
    run = tiny_train(tmp_path, callbacks=(Looks(),)).folder
    assert not (run / ".lock").exists()
    train(resume=run, updates=3, callbacks=(Looks(),))
    for options in ({"callbacks": (Breaks(),)}, {"updates": 4, "arch": "rnn"}, {"threads": 0}):
        with pytest.raises((ZeroDivisionError, InputError)):
            train(resume=run, **options)
        assert not (run / ".lock").exists()
    assert_same(run, train(resume=run, updates=3).folder)


def test_a_lock_file_that_its_holder_takes_away_in_between_is_made_again(tmp_path: Path, monkeypatch: Any) -> None:
    real, calls = lock.try_lock, []

    def slow(file: Any) -> None:
        real(file)
        calls.append(1)
        if len(calls) == 1:
            (tmp_path / ".lock").unlink()

    monkeypatch.setattr(lock, "try_lock", slow)
    mine = FolderLock(tmp_path)
    mine.acquire()
    assert len(calls) == 2
    with pytest.raises(InputError, match="in use"):
        FolderLock(tmp_path).acquire()
    mine.release()
    mine.release()
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_lasting_numbers_of_files_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    tries = iter([False] * 5000)
    monkeypatch.setattr(os.path, "samestat", lambda *_: next(tries))
    with pytest.raises(StorageError, match=r"cannot lock .*: the file system gives the file another number each time"):
        FolderLock(tmp_path).acquire()


@needs_proc
def test_the_lock_is_deleted_where_an_open_file_cannot_be(tmp_path: Path, monkeypatch: Any) -> None:
    refused = refuse_open_files(monkeypatch)
    held = FolderLock(tmp_path)
    held.acquire()
    held.release()
    assert refused == [".lock"]
    assert not list(tmp_path.iterdir())


def test_a_holder_on_another_machine_is_named(tmp_path: Path) -> None:
    held = FolderLock(tmp_path)
    held.acquire()
    for content, named in (("17 elsewhere", "process 17 on elsewhere"), ("", "another process")):
        (tmp_path / ".lock").write_text(content)
        with pytest.raises(InputError, match=f"in use by {named},"):
            FolderLock(tmp_path).acquire()
    held.release()


def test_a_file_system_without_locks_is_used_without(tmp_path: Path, monkeypatch: Any) -> None:
    def none(file: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "try_lock", none)
    assert tiny_train(tmp_path).summary["updates"] == 2


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [(errno.EROFS, InputError, "run cannot be written to .Read-only file system.: change its permissions, or copy it"),
     (errno.ENOSPC, StorageError, "cannot write .* .No space left on device.: free some space")],
)  # fmt: skip
def test_a_folder_that_cannot_be_written_to_is_told_with_the_reason(tmp_path, monkeypatch, code, kind, sentence):
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    run = tiny_train(tmp_path).folder
    before = snapshot(run)
    monkeypatch.setattr(lock, "open_to_append", fail)
    with pytest.raises(kind, match=sentence) as caught:
        train(resume=run, updates=3)
    assert caught.value.exit_code == (2 if kind is InputError else 1)
    assert snapshot(run) == before
