"""Runs on several files of arrays, with parts of their own: begun, resumed, moved, scored and predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.matlab_files import hdf5, trials, v7

import hfrnn
from hfrnn.analysis.sequences import file_sequences
from hfrnn.errors import CheckpointError
from hfrnn.runs.folder import RunFolder

SMALL: dict[str, Any] = {"arch": "rnn", "hidden": 2, "updates": 1, "backend": "numpy"}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def signals(steps: int, seed: int = 0) -> dict[str, Any]:
    u = np.random.default_rng(seed).normal(size=(1, steps))
    return {"u": u, "y": u.cumsum(axis=1) / 5}


def test_several_recordings_train_and_resume() -> None:
    for n, steps in enumerate((60, 50, 40)):
        Path(f"{n}.mat").write_bytes(v7(signals(steps, n)))
    names = {"inputs": "u", "targets": "y", "window": 20}
    first = hfrnn.train(data=["0.mat", "1.mat"], valid="2.mat", **names, **SMALL, out="run")
    assert first.summary["updates"] == 1
    assert hfrnn.train(resume="run", updates=2).summary["updates"] == 2
    Path("1.mat").write_bytes(v7(signals(50, 7)))
    with pytest.raises(CheckpointError, match="has changed since the run was started"):
        hfrnn.train(resume="run", updates=3)


def test_a_run_finds_its_file_beside_it_and_datasets_are_no_files() -> None:
    Path("data").mkdir()
    path = Path("data", "a.h5")
    pytest.importorskip("h5py")
    path.write_bytes(hdf5({"s/u": signals(80)["u"][0], "s/y": signals(80)["y"][0]}))
    hfrnn.train(data=str(path), inputs="/s/u", targets="/s/y", window=20, **SMALL, out="run")
    Path("y").write_text("a file with the name of the dataset")
    path.rename("a.h5")
    assert hfrnn.train(resume="run", updates=2).summary["updates"] == 2
    assert RunFolder("run").config().targets == ("/s/y",)


def test_trials_of_another_file_are_scored_without_their_padding() -> None:
    of = trials(12)
    Path("a.mat").write_bytes(v7({"trials": of}))
    Path("b.mat").write_bytes(v7({"trials": [{"u": each["u"]} for each in of[:3]]}))
    result = hfrnn.train(data="a.mat", inputs="trials.u", targets="trials.y", **SMALL, out="run")
    given = file_sequences(RunFolder("run"), result.net, "b.mat")
    assert given.batch.targets is None
    assert given.batch.lengths.tolist() == [8, 9, 10]
    assert "trials.y" in str(given.note)


def test_each_trial_of_another_file_is_a_recording_with_windows() -> None:
    Path("a.mat").write_bytes(v7({"trials": trials(6)}))
    flags = {"inputs": "trials.u", "targets": "trials.y", "window": 6, "burn_in": 2, "fractions": (0.5, 0.5, 0)}
    result = hfrnn.train(data="a.mat", **flags, **SMALL, out="run")
    given = file_sequences(RunFolder("run"), result.net, "a.mat")
    assert given.batch.lengths.tolist() == [8, 9, 10, 11, 12, 13]
    assert np.asarray(given.batch.weights)[:3, 0].ravel().tolist() == [0, 0, 1]


def test_arrays_in_memory_have_a_mask_and_unknown_targets_beside_a_window() -> None:
    u = signals(60)
    x, y = u["u"][0], u["y"][0].copy()
    y[30] = np.nan
    data = {"x": x, "y": y, "mask": np.arange(60) != 40, "valid_x": x, "valid_y": y}
    result = hfrnn.train(data=data, window=60, burn_in=0, **SMALL, out="run")
    assert result.summary["updates"] == 1
