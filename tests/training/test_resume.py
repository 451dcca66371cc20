"""Resuming a run: the same bits after a kill at any write, and what is refused."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.method_runs import Losses
from support.run_states import assert_same, state
from support.slow import slow_unless
from support.tiny_runs import TEXT, callback, metrics, snapshot, text_file, tiny_train

import hfrnn
from hfrnn.errors import CheckpointError, InputError
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.metrics import MetricsFile
from hfrnn.training.trainer import train


# ---------------------------------------------------------------------- killed runs
class Stops(BaseException):
    """Ends a process in the middle of its writes, as nothing but a kill does."""


WRITES = ("log", "update-000002.safetensors", "last.safetensors", "best.safetensors")


def killed_at(tmp_path, monkeypatch, write, done, **options):
    """A run that was killed in update 2, before or after one of its writes."""
    write_atomic, append = hfrnn.runs.folder.write_atomic, MetricsFile.append
    state = {"update": 0}

    def writes(path, content):
        wanted = Path(path).name == write and state["update"] == 2
        if wanted and not done:
            raise Stops
        write_atomic(path, content)
        if wanted:
            raise Stops

    def appends(self, record):
        state["update"] = record["update"]
        if write == "log" and record["update"] == 2 and not done:
            with self.path.open("a") as file:
                file.write(json.dumps(record)[:30])
            raise Stops
        append(self, record)
        if write == "log" and record["update"] == 2:
            raise Stops

    with monkeypatch.context() as patch:
        patch.setattr(hfrnn.runs.folder, "write_atomic", writes)
        patch.setattr(MetricsFile, "append", appends)
        with pytest.raises(Stops):
            tiny_train(tmp_path, "killed", updates=3, keep=1, **options)
    return tmp_path / "killed"


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """Runs that nobody stopped, by their number of updates."""
    folder = tmp_path_factory.mktemp("whole")
    return {updates: tiny_train(folder, f"{updates}", updates=updates, keep=1).folder for updates in (1, 2, 3)}


@pytest.mark.parametrize(
    ("write", "done"),
    slow_unless(lambda write, done: done == (write == "last.safetensors"), itertools.product(WRITES, (False, True))),
)
def test_a_run_killed_at_any_of_its_writes_resumes_exactly(tmp_path, wholes, monkeypatch, write, done):
    """Also one that goes no further than its last update."""
    whole = wholes[3]
    killed = killed_at(tmp_path, monkeypatch, write, done)
    saved = 2 if (WRITES.index(write), done) >= (2, True) else 1
    assert load_checkpoint(killed / "last.safetensors")[1]["update"] == saved
    (killed / ".hfrnn-0123456789ab.tmp").write_bytes(b"half of it")
    result = train(resume=killed, updates=saved)
    assert_same(wholes[saved], killed)
    assert result.summary["best"]["update"] == result.summary["last"]["update"] == saved
    np.testing.assert_array_equal(result.theta, hfrnn.load(killed).theta)
    assert list(RunFolder(killed).kept()) == [saved]
    train(resume=killed, updates=3)
    assert_same(whole, killed)
    assert sorted(snapshot(whole)) == sorted(snapshot(killed))
    names = [load_checkpoint(run / "best.safetensors")[0].keys() for run in (whole, killed)]
    assert names[0] == names[1]


@pytest.mark.slow
def test_a_best_that_is_newer_than_the_last_state_stays_the_best(tmp_path):
    """As where `last` was put back from a copy."""
    whole = tiny_train(tmp_path, "whole", updates=3).folder
    part = tiny_train(tmp_path, "part", updates=2).folder
    shutil.copy(whole / "best.safetensors", part / "best.safetensors")
    result = train(resume=part, updates=2)
    assert result.summary["best"]["update"] == 3
    train(resume=part, updates=3)
    for name in ("last", "best"):
        assert state(part, name) == state(whole, name)
    assert metrics(part) == metrics(whole)


def test_a_best_that_is_neither_what_the_last_state_says_nor_newer_is_refused(tmp_path, monkeypatch):
    run = tiny_train(tmp_path, updates=3, callbacks=(Losses(monkeypatch, 3.0, 1.0, 2.0),)).folder
    first = tiny_train(tmp_path, "first", updates=1).folder
    shutil.copy(first / "best.safetensors", run / "best.safetensors")
    before = snapshot(run)
    with pytest.raises(CheckpointError, match=r"best\.safetensors holds update 1, but the best update is 2"):
        train(resume=run, updates=4)
    assert snapshot(run) == before


def test_a_run_killed_while_its_folder_was_made_begins_when_it_is_resumed(tmp_path):
    keeps = callback(on_start=lambda trainer: shutil.copy(trainer.path / "last.safetensors", tmp_path / "first"))
    whole = tiny_train(tmp_path, "whole", updates=2, callbacks=(keeps,)).folder
    for left in ("config", "vocabulary", "last"):
        begun = shutil.copytree(whole, tmp_path / left)
        for path in begun.iterdir():
            if path.name not in ("config.toml", *(["vocabulary.json"] if left != "config" else [])):
                path.unlink()
        if left == "last":
            shutil.copy(tmp_path / "first", begun / "last.safetensors")
        train(resume=begun)
        assert_same(whole, begun)
        assert sorted(snapshot(whole)) == sorted(snapshot(begun))


def test_a_run_has_no_summary_until_it_has_ended_again(tmp_path):
    run = tiny_train(tmp_path).folder
    before = metrics(run, timed=True)[-1]["seconds"]
    with pytest.raises(KeyError, match="none"):
        train(resume=run, updates=4, callbacks=(callback(on_update=lambda record: record["none"]),))
    assert not (run / "summary.json").exists()
    assert metrics(run, timed=True)[-1]["seconds"] > before > 0  # seconds go on


# ---------------------------------------------------------------------- what resume refuses
def test_a_changed_text_is_not_resumed(tmp_path):
    run = tiny_train(tmp_path).folder
    before = snapshot(run)
    for change in (TEXT[:-1], TEXT.replace("fox", "cat"), TEXT + "é", TEXT[:9]):
        text_file(tmp_path, change)
        with pytest.raises(CheckpointError, match="has changed since the run was started"):
            train(resume=run, updates=3)
    (tmp_path / "text.txt").unlink()
    with pytest.raises(InputError, match=r"text\.txt"):
        train(resume=run, updates=3)
    assert snapshot(run) == before


def test_resume_keeps_the_network_and_the_text_and_names_what_may_differ(tmp_path, monkeypatch):
    run = tiny_train(tmp_path).folder
    with pytest.raises(InputError, match=r"keeps its arch=, lambda_=: .*only updates=, minutes="):
        train(resume=run, arch="rnn", updates=3, **{"lambda": 5.0})
    with pytest.raises(InputError, match="config and resume were both given"):
        train(hfrnn.TrainConfig(updates=5), resume=run)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        train(resume=run, text="other.txt", updates=4)
    assert train(resume=run, arch="mlstm", seed=0, text="text.txt", updates=3).summary["updates"] == 3


def test_a_run_resumes_from_another_folder(tmp_path, monkeypatch):
    text_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = tiny_train(tmp_path, text="text.txt").folder
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert train(resume=run, updates=3).summary["updates"] == 3
    moved = Path(shutil.move(run, tmp_path / "moved"))
    assert train(resume=moved, updates=4).folder == moved
