"""Short updates without validation are not all written to the disk at once; none is lost."""

import shutil

import pytest
from support.run_states import assert_same
from support.tiny_runs import after, callback, metrics, tiny_train

import hfrnn
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.training.signals import Interrupted

UPDATES = 7
OPTIONS = {"preset": "tuned", "updates": UPDATES, "gradient_symbols": 300, "validate_every": 3}


@pytest.fixture(autouse=True)
def _seldom(monkeypatch):
    monkeypatch.setattr("hfrnn.training.run_state.SAVE_SECONDS", 1e9)


def saved(run):
    return int(load_checkpoint(run / "last.safetensors")[1]["update"])


def test_only_validated_updates_are_written_at_once(tmp_path):
    written = []
    run = tmp_path / "run"
    look = callback(on_update=lambda record: written.append(saved(run)))
    tiny_train(tmp_path, "run", callbacks=(look,), **OPTIONS)
    assert written == [1, 2, 3, 3, 3, 6, 7]  # until one is validated, the last state is the best
    assert saved(run) == UPDATES
    assert [record["valid_bits"] is not None for record in metrics(run)] == [False, False, True] * 2 + [True]


def test_a_killed_run_makes_unsaved_updates_again(tmp_path):
    update = 5
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def copy():
        shutil.copytree(whole, killed, ignore=shutil.ignore_patterns(".lock*", "lock*"))

    tiny_train(tmp_path, "whole", callbacks=(after(update, copy),), **OPTIONS)
    assert saved(killed) == 3
    assert len(metrics(killed)) == update
    hfrnn.train(resume=killed)
    assert_same(whole, killed)


@pytest.mark.slow
@pytest.mark.parametrize(("error", "raised"), [(KeyboardInterrupt, Interrupted), (RuntimeError, RuntimeError)])
def test_an_interrupted_run_writes_its_last_update(tmp_path, error, raised):
    def fail():
        raise error

    with pytest.raises(raised):
        tiny_train(tmp_path, "run", callbacks=(after(5, fail),), **OPTIONS)
    assert saved(tmp_path / "run") == 5
    whole = tiny_train(tmp_path, "whole", **OPTIONS).folder
    hfrnn.train(resume=tmp_path / "run")
    assert_same(whole, tmp_path / "run")
