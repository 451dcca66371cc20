"""`hfrnn train --ranks N` starts its own ranks, and signals to it save the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import refused
from support.mpi import environment, needs_mpi
from support.processes import wait_until
from support.run_states import assert_same, state
from support.terminal import COMMAND
from support.tiny_runs import metrics, text_file

from hfrnn.cli import under_mpi
from hfrnn.errors import HfrnnError

FLAGS = ["--hidden", "4", "--sequence-length", "10", "--gradient-symbols", "1500", "--sample-length", "0"]
FLAGS += ["--backend", "numpy", "--threads", "1", "--shards", "4"]


def _start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, "train", *map(str, arguments)], cwd=folder, env=environment(), **pipes)


def _ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.nightly
@needs_mpi
def test_the_ranks_that_it_starts_give_the_bits_of_one_process(tmp_path: Path) -> None:
    start = (tmp_path, text_file(tmp_path), *FLAGS, "--updates", 3, "--out")
    code, out, err = _ended(_start(*start, "three", "--ranks", 3))
    assert code == 0, err
    assert "ranks     3\n" in out
    assert "\x1b" not in out
    assert _ended(_start(*start, "alone", "--ranks", 1))[0] == 0
    assert_same(tmp_path / "three", tmp_path / "alone")


@pytest.mark.nightly
@needs_mpi
def test_a_signal_saves_and_exits_with_130(tmp_path: Path) -> None:
    text, log = text_file(tmp_path), tmp_path / "run" / "metrics.jsonl"
    process = _start(tmp_path, text, *FLAGS, "--updates", 100_000, "--out", "run", "--ranks", 2)
    wait_until(lambda: log.is_file() and bool(log.read_text()), process)
    process.send_signal(signal.SIGTERM)
    code, _, err = _ended(process)
    assert code == 130
    assert err.count("which is saved: resume with hfrnn train --resume run") == 1
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped"] == "interruption"
    updates = len(metrics(tmp_path / "run"))
    assert _ended(_start(tmp_path, "--resume", "run", "--updates", updates + 1))[0] == 0
    assert _ended(_start(tmp_path, text, *FLAGS, "--updates", updates + 1, "--out", "alone"))[0] == 0
    assert state(tmp_path / "run")[0] == state(tmp_path / "alone")[0]


@pytest.mark.nightly
@needs_mpi
def test_a_command_of_nohup_survives_its_terminal(tmp_path: Path) -> None:
    text, log = text_file(tmp_path), tmp_path / "run" / "metrics.jsonl"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which the command inherits
    try:
        process = _start(tmp_path, text, *FLAGS, "--updates", 40, "--out", "run", "--ranks", 2)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until(lambda: log.is_file() and bool(log.read_text()), process)
    process.send_signal(signal.SIGHUP)
    code, _, err = _ended(process)
    assert code == 0, err
    assert len(metrics(tmp_path / "run")) == 40


def test_another_number_of_ranks_than_the_launchers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert "--ranks 3 was given, and mpiexec has started 2 ranks: leave one" in refused("train", "--ranks", 3)
    assert not under_mpi.has_to_start(2)


def test_an_mpiexec_that_speaks_in_another_encoding_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = tmp_path / "mpiexec"
    launcher.write_bytes(b"#!/bin/sh\necho 'Biblioth\xe8que MPI'\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(under_mpi.shutil, "which", lambda name, path: str(launcher))
    assert under_mpi.mpiexec() == [str(launcher)]


def test_an_mpiexec_that_someone_else_kills_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_mpi, "mpiexec", lambda: ["sh", "-c", "kill -9 $$"])
    with pytest.raises(HfrnnError, match="mpiexec was ended by signal 9 from outside: hfrnn train --resume") as caught:
        under_mpi.start_ranks(2, ["train"])
    assert caught.value.exit_code == 1


def test_several_ranks_on_windows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert "several ranks are not supported on Windows: train in one" in refused("train", "--ranks", 2)
    for size in ("PMI_SIZE", "PMI_RANK"):  # of Microsoft's mpiexec
        monkeypatch.setenv(size, "2" if size == "PMI_SIZE" else "0")
    assert "several ranks are not supported on Windows: train in one" in refused("train")


def test_without_mpiexec_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_mpi.shutil, "which", lambda name, path: None)
    assert "several ranks need mpiexec: install the extra mpi (pip install " in refused("train", "--ranks", 2)


@pytest.mark.nightly
@needs_mpi
def test_its_exit_code_is_that_of_the_ranks(tmp_path: Path) -> None:
    code, out, err = _ended(_start(tmp_path, "nothing.txt", "--ranks", 2))
    assert (code, out) == (2, "")
    assert "Error: there is no file " in err


@needs_mpi
@pytest.mark.parametrize("user", [0, 1])
def test_only_root_needs_the_permission_of_open_mpi(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    command = under_mpi.mpiexec()
    if "--oversubscribe" in command:  # Open MPI
        assert ("--allow-run-as-root" in command) == (user == 0)
