"""Signals and closed outputs end real `hfrnn train` processes with status 130 exactly if a checkpoint is there."""

import json
import os
import signal
import sys
import time

import pytest
from support.processes import TINY, ended, start, wait_until
from support.stops import load_update
from support.tiny_runs import metrics, text_file

from hfrnn.training.trainer import train

pytest.importorskip("resource", reason="these signals are those of POSIX systems")
pytestmark = pytest.mark.nightly
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def begun(folder):
    """Whether the run has written a record, so that it prints its table."""
    return (folder / "run" / "metrics.jsonl").is_file()


def assert_saved(folder, code, err):
    """The process ended with 130 and one line, which names a command that resumes the run."""
    update = load_update(folder / "run")
    assert (code, err) == (
        130,
        f"interrupted after update {update}, which is saved: resume with hfrnn train --resume run\n",
    )
    assert metrics(folder / "run")[-1]["update"] == update if update else True
    assert not list((folder / "run").glob(".*"))


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("gap", [0.0, 0.01, 0.02, 0.03, 0.05])
def test_a_second_signal_soon_after_the_first_changes_nothing(tmp_path, number, gap):
    text_file(tmp_path)
    started = start(tmp_path, "train", "text.txt", *TINY, "--updates", 10**6, "--out", "run")
    wait_until(lambda: begun(tmp_path), started)
    assert_saved(tmp_path, *ended(started, number, number, gap=gap))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_run_folder_exists_exits_with_1_and_makes_none(tmp_path, number):
    started = start(tmp_path, "train", text_file(tmp_path), *TINY, "--out", tmp_path / "run")
    assert ended(started, number, number) == (1, "Error: interrupted\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", [[], ["--json"], ["--tensorboard"]])
def test_a_reader_that_goes_away_ends_a_run_with_130(tmp_path, flags):
    if flags == ["--tensorboard"]:
        pytest.importorskip("tensorboard")
    text_file(tmp_path)
    started = start(tmp_path, "train", "text.txt", *TINY, "--updates", 10**6, "--out", "run", *flags)
    assert started.stdout.readline()
    started.stdout.close()
    err = started.stderr.read()
    assert_saved(tmp_path, started.wait(timeout=60), err)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_terminal_that_is_closed_ends_a_run_with_130(tmp_path, flags):
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


def test_a_signal_ends_a_run_whose_output_nobody_reads(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    if not hasattr(fcntl, "F_SETPIPE_SZ"):
        pytest.skip("the system cannot make a small pipe")
    text_file(tmp_path)
    started = start(tmp_path, "train", "text.txt", *TINY, "--updates", 10**6, "--json", "--out", "run")
    fcntl.fcntl(started.stdout, fcntl.F_SETPIPE_SZ, 4096)
    wait_until(lambda: begun(tmp_path), started)
    before = -1
    while before != (before := load_update(tmp_path / "run")):
        time.sleep(2.0)
    started.send_signal(signal.SIGTERM)
    assert started.wait(timeout=30) == 130
