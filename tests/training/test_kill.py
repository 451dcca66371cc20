"""Training that is killed loses nothing: `kill -9` and SIGTERM of real `hfrnn train` processes at random instants.

Every process is resumed until the run is done, which is then, bit for bit, one that never stopped. After each kill the
saved update is never an older one than before.
HFRNN_KILLS sets how many instants are tried for each of the four optimizers (3 by default). 300 kills in all:

    HFRNN_KILLS=75 python -m pytest -m "" -s tests/training/test_kill.py

The command runs in a wrapper that sleeps for a moment within every write and around every rename, so that most instants
fall there. Where a run was stopped is printed (pytest -s).
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise

import pytest
from support.run_states import assert_same
from support.stops import load_update
from support.tiny_runs import metrics, snapshot, text_file

import hfrnn
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.training.trainer import train

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is of POSIX systems"),
]
KILLS = int(os.environ.get("HFRNN_KILLS", "3"))
COMMON = {"hidden": 4, "sample_length": 0, "keep": 2, "threads": 1}
RUNS = {
    "hf": {"sequence_length": 10, "gradient_symbols": 300},
    "sgd": {"optimizer": "sgd", "arch": "lstm", "sequence_length": 10, "update_every": 5, "streams": 4,
            "log_interval": 4, "momentum": 0.5, "learning_rate": 8.0, "schedule": "halve"},
    "adam": {"optimizer": "adam", "arch": "gru", "sequence_length": 10, "streams": 20, "log_interval": 2},
    "online": {"optimizer": "online", "arch": "lstm-krause", "streams": 8, "log_interval": 20, "momentum": 0.5},
}  # fmt: skip
LINES = max(8, 4 * KILLS)  # of the log of an unbroken run, a few more where epochs end

SLOW = """
import os, sys, time
import hfrnn.files as files

real_replace, real_open, real_append = os.replace, open, files.open_to_append
pause, trace = float(sys.argv.pop(1)), real_open(sys.argv.pop(1), "ab", buffering=0)
pipe, wanted, count = int(sys.argv.pop(1)), int(sys.argv.pop(1)), 0

def note(what):
    global count
    count += 1
    trace.write(what.encode() + b"\\n")
    if count == wanted:
        os.write(pipe, b"now")
    time.sleep(pause)

class Halves:
    "A file whose content comes in two halves."
    def __init__(self, file, name): self.file, self.name = file, name
    def __enter__(self): return self
    def __exit__(self, *error): self.file.close()
    def __getattr__(self, name): return getattr(self.file, name)
    def write(self, data):
        middle = len(data) // 2
        self.file.write(data[:middle]); self.file.flush(); note("within " + self.name)
        return middle + self.file.write(data[middle:])

def slow_open(path, mode="r", *more, **options):
    file = real_open(path, mode, *more, **options)
    return Halves(file, "a file") if mode == "xb" else file

def slow_replace(source, target):
    note("before the rename to " + os.path.basename(target))
    real_replace(source, target)
    note("after the rename to " + os.path.basename(target))

files.open, os.replace = slow_open, slow_replace
files.open_to_append = lambda path: Halves(real_append(path), "the log")
note("beginning")

import hfrnn.training.trainer as training
real_advance = training.Trainer._advance
def advance(self, start):
    note("in an update")
    return real_advance(self, start)
training.Trainer._advance = advance

from hfrnn.cli import main
main(prog_name="hfrnn")
"""
PAUSE = 0.001  # seconds, at each of about twelve places of an update


class Killed:
    """A run that is killed at given instants and resumed until it is done."""

    def __init__(self, folder, name):
        self.folder, self.run = folder, folder / "killed"
        self.options = {**COMMON, **RUNS[name], "updates": LINES * RUNS[name].get("log_interval", 1)}
        self.hits = Counter()
        self.codes = []
        self.saved = 0

    def whole(self):
        """The same run, which nobody stops."""
        return train(text=text_file(self.folder), out=self.folder / "whole", **self.options).folder

    def process(self, wanted, pipe):
        """Begin the run, or go on with it if its folder says what it is; the pipe hears of one instant."""
        words = ["--resume", "killed"]
        if not (self.run / "config.toml").is_file():
            flags = [(f"--{name.replace('_', '-')}", str(value)) for name, value in self.options.items()]
            words = ["text.txt", "--out", "killed", *(word for flag in flags for word in flag)]
        (self.folder / "trace").write_bytes(b"")
        command = [sys.executable, "-c", SLOW, str(PAUSE), "trace", str(pipe), str(wanted), "train", *words]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=(pipe,)
        )

    def until(self, instant, seconds, number):
        """Run and send the signal so long after that instant."""
        listening, pipe = os.pipe()
        with self.process(instant, pipe) as started:
            os.close(pipe)
            os.read(listening, 9)  # nothing where it ended before
            os.close(listening)
            time.sleep(seconds)
            started.send_signal(number)
            _, err = started.communicate(timeout=60)
        self.codes.append(started.returncode)
        place = (self.folder / "trace").read_text().splitlines()[-1]
        early = place == "beginning" and (started.returncode == -number or err == "Error: interrupted\n")
        assert started.returncode in (0, -signal.SIGKILL, 130) or early, err
        if started.returncode:
            self.hits[re.sub(r"update-\d+", "update-N", place)] += 1
        if (self.run / "last.safetensors").exists():
            before, self.saved = self.saved, load_update(self.run)
            assert self.saved >= before, "an update was lost"

    def finish(self):
        """Go on until it is done."""
        self.until(0, 0.0, 0)
        assert self.codes.pop() == 0


def assert_equal_runs(one, other):
    """All files but config.toml agree, bit for bit but for the seconds."""
    assert sorted(snapshot(one)) == sorted(snapshot(other))
    assert_same(one, other)
    for path in one.glob("update-*"):
        theta = load_checkpoint(path)[0]["theta"]
        assert theta.tobytes() == load_checkpoint(other / path.name)[0]["theta"].tobytes()
    assert hfrnn.load(one).theta.tobytes() == hfrnn.load(other).theta.tobytes()
    summaries = [json.loads((run / "summary.json").read_text()) for run in (one, other)]
    for summary in summaries:
        for part in (summary, summary["best"], summary["last"]):
            for key in [key for key in part if key.startswith("seconds")]:
                del part[key]
    assert summaries[0] == summaries[1]


def try_instants(folder, name, instants, number):
    """Send the signal at so many instants, spread at random over the run, and compare what it is when it is done."""
    killed, chance = Killed(folder, name), random.Random(f"{name} {number}")
    whole = killed.whole()
    places = 8 * len(metrics(whole))  # of an unbroken run: each line of the log has eight or more
    chosen = sorted(chance.sample(range(1, places), instants))
    for before, instant in pairwise([0, *chosen]):
        killed.until(instant - before, chance.random() * 2 * PAUSE, number)
    killed.finish()
    assert_equal_runs(whole, killed.run)
    print(f"\n{name}: {len(killed.codes) - killed.codes.count(0)} of {instants} stopped; {dict(killed.hits)}")
    return killed


@pytest.mark.parametrize("name", RUNS)
def test_a_run_killed_at_random_instants_ends_as_if_it_had_not_been(tmp_path, name):
    killed = try_instants(tmp_path, name, KILLS, signal.SIGKILL)
    assert killed.codes == [-signal.SIGKILL] * KILLS


@pytest.mark.parametrize("name", ["hf", "sgd"])
def test_a_run_ended_by_sigterm_at_random_instants_ends_as_if_it_had_not_been(tmp_path, name):
    killed = try_instants(tmp_path, name, max(KILLS // 2, 1), signal.SIGTERM)
    assert set(killed.codes) - {130} <= {-signal.SIGTERM, 1}  # before the run has begun
    assert killed.codes.count(130) > 0.5 * len(killed.codes)


FIRST_WRITES = 12  # of a new run: three instants each in config.toml, vocabulary.json, last and best


@pytest.mark.parametrize("instant", range(2, 2 + FIRST_WRITES))
def test_a_run_killed_in_its_first_writes_begins_again(tmp_path, instant):
    killed = Killed(tmp_path, "hf")
    killed.options["updates"] = 2
    whole = killed.whole()
    killed.until(instant, PAUSE / 2, signal.SIGKILL)
    assert list(killed.hits) != ["in an update"]
    killed.finish()
    assert_equal_runs(whole, killed.run)
