"""Signals and closed outputs end real `hfrnn train` processes with status 130 exactly if a checkpoint is there.

The slow test sends one or two signals at random instants. HFRNN_SIGNALS sets how many runs it tries (20 by default).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from support.processes import TINY, ended, start, wait_until
from support.run_states import assert_same
from support.slow import slow_unless
from support.stops import load_update
from support.tiny_runs import metrics, snapshot, text_file

from hfrnn.training.trainer import train

pytest.importorskip("resource", reason="these signals are those of POSIX systems")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
COUNT = int(os.environ.get("HFRNN_SIGNALS", "20"))


def begun(folder: Path) -> bool:
    """Whether the run has written a record, so that it prints its table."""
    return (folder / "run" / "metrics.jsonl").is_file()


def assert_saved(folder: Path, code: int, err: str) -> None:
    """The process ended with 130 and one line, which names a command that resumes the run."""
    update = load_update(folder / "run")
    assert (code, err) == (
        130,
        f"interrupted after update {update}, which is saved: resume with hfrnn train --resume run\n",
    )
    assert metrics(folder / "run")[-1]["update"] == update if update else True
    assert not list((folder / "run").glob(".*"))


@pytest.mark.parametrize("gap", slow_unless(lambda gap: gap in (0.0, 0.02), [0.0, 0.01, 0.02, 0.03, 0.05]))
@pytest.mark.parametrize("number", slow_unless(lambda number: number == signal.SIGTERM, SIGNALS))
def test_a_second_signal_soon_after_the_first_changes_nothing(tmp_path: Path, number: int, gap: float) -> None:
    text_file(tmp_path)
    started = start(tmp_path, "train", "text.txt", *TINY, "--updates", 10**6, "--out", "run")
    wait_until(lambda: begun(tmp_path), started)
    assert_saved(tmp_path, *ended(started, number, number, gap=gap))


@pytest.mark.parametrize("number", slow_unless(lambda number: number == signal.SIGTERM, SIGNALS))
def test_a_signal_before_the_run_folder_exists_exits_with_1_and_makes_none(tmp_path: Path, number: int) -> None:
    started = start(tmp_path, "train", text_file(tmp_path), *TINY, "--out", tmp_path / "run")
    assert ended(started, number, number) == (1, "Error: interrupted\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", slow_unless(lambda flags: not flags, [[], ["--json"], ["--tensorboard"]]))
def test_a_reader_that_goes_away_ends_a_run_with_130(tmp_path: Path, flags: list[str]) -> None:
    if flags == ["--tensorboard"]:
        pytest.importorskip("tensorboard")
    text_file(tmp_path)
    started = start(tmp_path, "train", "text.txt", *TINY, "--updates", 10**6, "--out", "run", *flags)
    assert started.stdout is not None
    assert started.stdout.readline()
    started.stdout.close()
    assert started.stderr is not None
    err = started.stderr.read()
    assert_saved(tmp_path, started.wait(timeout=60), err)


def test_a_reader_of_both_outputs_that_goes_away_ends_a_run_with_130(tmp_path: Path) -> None:
    text_file(tmp_path)
    started = start(
        tmp_path, "train", "text.txt", *TINY, "--updates", 10**6, "--out", "run", stderr=subprocess.STDOUT
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline()
    started.stdout.close()
    assert started.wait(timeout=60) == 130
    assert load_update(tmp_path / "run") >= 0


@pytest.mark.parametrize("flags", slow_unless(lambda flags: not flags, [[], ["--json"]]))
def test_a_terminal_that_is_closed_ends_a_run_with_130(tmp_path: Path, flags: list[str]) -> None:
    pty = pytest.importorskip("pty")
    text_file(tmp_path)
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover
        os.chdir(tmp_path)
        os.dup2(os.open("err", os.O_CREAT | os.O_WRONLY, 0o600), 2)
        words = ["train", "text.txt", *TINY, "--updates", str(10**6), "--out", "run", *flags]
        os.execve(sys.executable, [sys.executable, "-m", "hfrnn", *words], {**os.environ, "TERM": "xterm"})
    deadline = time.monotonic() + 60
    while not begun(tmp_path) and time.monotonic() < deadline:
        os.read(terminal, 10000)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert_saved(tmp_path, code, (tmp_path / "err").read_text())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["stopped"] == "interruption"
    train(resume=tmp_path / "run", updates=summary["updates"] + 1)


@pytest.mark.slow
def test_a_signal_ends_a_run_whose_output_nobody_reads(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        pytest.skip("the system cannot make a small pipe")
    text_file(tmp_path)
    started = start(tmp_path, "train", "text.txt", *TINY, "--updates", 10**6, "--json", "--out", "run")
    assert started.stdout is not None
    fcntl.fcntl(started.stdout, fcntl.F_SETPIPE_SZ, 4096)
    wait_until(lambda: begun(tmp_path), started)
    before = -1
    while before != (before := load_update(tmp_path / "run")):
        time.sleep(2.0)
    started.send_signal(signal.SIGTERM)
    assert started.wait(timeout=30) == 130


class RandomSignals:
    """Runs of one command that get signals at random instants, and the same run without signals."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run, self.chance = folder, folder / "run", random.Random(COUNT)
        text_file(folder)
        words = ["train", "text.txt", *TINY, "--updates", 12, "--sample-length", 200]
        self.new, self.whole = [*words, "--out", "run"], folder / "whole"
        started, begin = start(folder, *words, "--out", "whole"), time.monotonic()
        wait_until((self.whole / "last.safetensors").is_file, started)
        self.first = time.monotonic() - begin
        assert ended(started) == (0, "")
        self.seconds = time.monotonic() - begin

    def until(self, *words: object) -> tuple[int, str]:
        """Run a command and send one or two signals; return its status and what it wrote to stderr."""
        show = self.chance.choice([[], [], ["--json"], ["--quiet"]])
        started, late = start(self.folder, *words, *show), self.chance.random() < 0.6
        if late:
            wait_until((self.run / "last.safetensors").is_file, started)
        time.sleep(self.chance.uniform(0.0, self.seconds - (self.first if late else 0.0)))
        numbers = [self.chance.choice(SIGNALS) for _ in range(self.chance.choice([1, 2, 2]))]
        return ended(started, *numbers, gap=self.chance.choice([0.0, self.chance.uniform(0.0, 0.05)]))

    def attempt(self) -> list[int]:
        """Interrupt a new run, interrupt its continuation, and let it end; return the statuses."""
        shutil.rmtree(self.run, ignore_errors=True)
        code, err = self.until(*self.new)
        there = (self.run / "last.safetensors").is_file()
        assert (code, there, err) in ((1, False, "Error: interrupted\n"), (130, True, err), (0, True, "")), (
            f"{code} {err}"
        )
        if not there:
            assert not self.run.exists()
            return [code]
        assert len(err.splitlines()) == (code == 130), err
        before = snapshot(self.run)
        again, err = self.until("train", "--resume", "run")
        if again == 1:  # before the command has seen what it is to resume
            assert (err, snapshot(self.run)) == ("Error: interrupted\n", before), err
        else:
            assert again in (0, 130), err
            assert len(err.splitlines()) == (again == 130), err
        train(resume=self.run)
        assert_same(self.whole, self.run)
        return [code, again]


@pytest.mark.slow
def test_runs_with_signals_at_random_instants_exit_with_130_or_make_nothing_and_resume_to_the_same_bits(
    tmp_path: Path,
) -> None:
    runs, codes = RandomSignals(tmp_path), Counter[int]()
    for _ in range(COUNT):
        codes.update(runs.attempt())
    print(f"\n{COUNT} runs ended with {dict(codes)}")
    assert codes[130] > COUNT / 4
