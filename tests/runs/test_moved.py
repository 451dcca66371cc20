"""A run goes on with data that were moved, if they are the same files."""

from __future__ import annotations

import numpy as np
import pytest
from support.command_line import call, refused
from support.tiny_runs import text_file

import hfrnn
from hfrnn.data.kinds import recognised

SMALL = {"arch": "rnn", "hidden": 3, "updates": 1, "backend": "numpy"}


def table(folder, name, seed=0):
    rng = np.random.default_rng(seed)
    lines = ["u,y", *(f"{u:.4f},{y:.4f}" for u, y in rng.normal(size=(60, 2)))]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


@pytest.fixture
def run(tmp_path):
    """A run on two tables in a folder of their own."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    paths = [table(tmp_path / "old", f"{n}.csv", n) for n in range(2)]
    hfrnn.train(data=paths, inputs=["u"], targets=["y"], window=10, out=tmp_path / "runs" / "a", **SMALL)
    return tmp_path / "runs" / "a"


def test_a_run_is_resumed_with_moved_data_and_remembers_them(run, tmp_path):
    new = [path.rename(tmp_path / "new" / path.name) for path in sorted((tmp_path / "old").iterdir())]
    message = refused("train", "--resume", run, "--updates", 2)
    assert "there is no file" in message
    assert "sha256" in message
    assert "--data" in message
    call("train", "--resume", run, "--data", *new, "--updates", 2, "--quiet")
    assert hfrnn.train(resume=run, updates=3).summary["updates"] == 3


def test_other_data_are_refused_and_nothing_changes(run, tmp_path):
    other = [table(tmp_path, f"{n}.csv", n + 5) for n in range(2)]
    before = (run / "config.toml").read_bytes()
    with pytest.raises(hfrnn.CheckpointError, match="has changed"):
        hfrnn.train(resume=run, data=other, updates=2)
    with pytest.raises(hfrnn.CheckpointError, match="has changed"):
        hfrnn.train(resume=run, data=sorted((tmp_path / "old").iterdir())[::-1], updates=2)  # in another order
    assert (run / "config.toml").read_bytes() == before


@pytest.mark.parametrize("place", ["beside", "current"])
def test_data_beside_the_run_or_in_the_current_folder_are_found(place, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "new")
    for path in sorted((tmp_path / "old").iterdir()):
        path.rename((run.parent if place == "beside" else tmp_path / "new") / path.name)
    assert call("evaluate", run).exit_code == 0
    assert call("spectrum", run, "--count", 1, "--vectors", 0).exit_code == 0


def test_a_run_of_another_system_finds_its_data_beside_it_or_takes_them(run, tmp_path):
    stored = (run / "config.toml").read_text()
    for ours in (r"C:\\data\\", r"\\\\server\\data\\"):
        (run / "config.toml").write_text(stored.replace(f"{tmp_path}/old/", ours))
        message = refused("evaluate", run)
        assert "there is no file" in message
        assert "--data" in message
        call("train", "--resume", run, "--data", *sorted((tmp_path / "old").iterdir()), "--updates", 2, "--quiet")
        (run / "config.toml").write_text(stored.replace(f"{tmp_path}/old/", ours))
        for path in (tmp_path / "old").iterdir():
            (run.parent / path.name).write_bytes(path.read_bytes())
        assert call("evaluate", run).exit_code == 0
        for path in run.parent.glob("*.csv"):
            path.unlink()
    assert recognised("C:\\music\\").about == recognised("/music/").about == "MIDI music"


def test_a_moved_text_is_accepted(tmp_path):
    text = text_file(tmp_path)
    hfrnn.train(text=text, out=tmp_path / "run", sample_length=0, **SMALL)
    moved = text.rename(tmp_path / "moved.txt")
    call("train", moved, "--resume", tmp_path / "run", "--updates", 2, "--quiet")
    assert call("evaluate", tmp_path / "run").exit_code == 0
