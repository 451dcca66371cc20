"""`hfrnn data show FILE` prints what a file of arrays holds, and a command that trains on it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import npz
from support.command_line import call
from support.matlab_files import hdf5, trials, v7, v73
from support.refusals import refused

pytest.importorskip("h5py")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("form", "about"), [(v7, "a MATLAB file"), (v73, "a MATLAB file of version 7.3")])
def test_show_lists_names_shapes_and_classes(form: Any, about: str) -> None:
    Path("a.mat").write_bytes(form({"trials": trials(3), "note": "abc", "fs": 100.0}))
    lines = call("data", "show", "a.mat").stdout.splitlines()
    assert lines[0] == f"a.mat: {about}"
    assert {" ".join(line.split()) for line in lines[3:8]} == {
        "trials.u 3 trials of 8 to 10 x 2 double", "trials.y 3 trials of 8 to 10 x 1 double",
        "trials.label 3 trials of 1 x 1 double", "note text", "fs 1 x 1 double",
    }  # fmt: skip
    assert lines[-1].strip() == "hfrnn train --data a.mat --inputs trials.u --targets trials.y"


T = np.arange(60.0)
FILES = {
    "trials.mat": v7({"trials": trials(12)}),
    "trials73.mat": v73({"trials": trials(12)}),
    "recording.mat": v7({"V2": T[None], "V1": np.sin(T)[None]}),
    "recording.h5": hdf5({"session/u": np.sin(T)[:, None], "session/y": T[:, None], "session/fs": 1.0}),
    "sequences.npz": npz({"x": np.ones((6, 8, 2)) * T[:2], "y": np.ones((6, 8, 1)) * T[:8, None]}),
    "other.npz": npz({"force": np.ones((6, 8, 2)) * T[:2], "rates": np.ones((6, 8, 1)) * T[:8, None]}),
}


@pytest.mark.parametrize("name", FILES)
def test_the_command_trains(name: str) -> None:
    Path(name).write_bytes(FILES[name])
    shown = json.loads(call("data", "show", name, "--json").stdout)
    _, *arguments = shlex.split(shown["command"])
    result = call(*arguments, "--arch", "rnn", "--hidden", "2", "--updates", "1", "--backend", "numpy", "--out", "run")
    assert result.exit_code == 0, result.output
    assert Path("run", "best.safetensors").is_file()


N = np.arange(12)
LABELLED = {f"trials/{n}/{name}": value for n in N for name, value in (("u", np.ones((9 + n, 2))), ("lab", n % 3))}
STEPS = {"stim": np.ones((6, 8, 2)), "rates": np.ones((6, 8, 1)), "mask": np.ones((6, 8, 1))}
PAIRS = {
    "a vector named y": ("a.mat", v7({"u": np.sin(T)[:, None], "y": T[:, None]}), ("u", "y")),
    "a label of each struct": ("a.mat", v7({"t": [{"u": each["u"], "label": each["label"]} for each in trials(12)]}),
                               ("t.u", "t.label")),
    "a vector with a label of each cell": ("a.mat", v7({"u": [each["u"] for each in trials(12)], "label": N % 3}),
                                           ("u", "label")),
    "a label of each group": ("a.h5", hdf5(LABELLED), ("/trials/u", "/trials/lab")),
    "a label of each sequence": ("a.npz", npz({"stim": np.ones((12, 9, 2)) * T[:2], "choice": N % 3}),
                                 ("stim", "choice")),
    "a small recording": ("a.npz", npz({"stim": np.sin(np.ones((5, 1)) * T[:20]).T, "rates": np.ones((20, 4))}),
                          ("stim", "rates")),
    "a mask": ("a.h5", hdf5({f"d/{name}": value * T[:len(value), None, None] for name, value in STEPS.items()}),
               ("/d/stim", "/d/rates")),
    "groups with one array in each": ("a.h5", hdf5({"in/data": np.sin(T)[:, None], "out/data": T[:, None]}),
                                      ("/in/data", "/out/data")),
}  # fmt: skip


@pytest.mark.parametrize("case", PAIRS)
def test_the_command_names_a_pair_that_trains(case: str) -> None:
    name, content, (inputs, targets) = PAIRS[case]
    Path(name).write_bytes(content)
    options = json.loads(call("data", "show", name, "--json").stdout)["options"]
    assert (options["inputs"], options["targets"]) == (inputs, targets)
    flags = [part for key, value in options.items() for part in (f"--{key}", value)]
    result = call(
        "train", *flags, "--arch", "rnn", "--hidden", "2", "--updates", "1", "--backend", "numpy", "--out", "run"
    )
    assert result.exit_code == 0, result.output


def test_a_file_without_a_pair_has_no_command() -> None:
    Path("a.mat").write_bytes(v7({"u": np.ones((3, 2)), "text": "abc"}))
    assert "no two arrays in it are likely inputs and targets" in call("data", "show", "a.mat").stdout.splitlines()[-1]
    assert json.loads(call("data", "show", "a.mat", "--json").stdout)["command"] is None


def test_a_missing_or_damaged_file_is_refused() -> None:
    Path("a.h5").write_bytes(b"nothing of the kind")
    for name in ("a.h5", "none.mat"):
        assert name in refused("data", "show", name)


def test_a_run_on_classes_from_one_scores_another_file_alike() -> None:
    for name, of in (("a.mat", trials(12)), ("b.mat", trials(6, seed=1))):
        Path(name).write_bytes(v7({"trials": of}))
    flags = ["--inputs", "trials.u", "--targets", "trials.label", "--arch", "rnn", "--hidden", "2", "--updates", "1"]
    assert call("train", "--data", "a.mat", "--valid", "b.mat", *flags, "--out", "run").exit_code == 0
    own = json.loads(call("evaluate", "run", "--json").stdout)
    other = json.loads(call("evaluate", "run", "b.mat", "--json").stdout)
    assert other["accuracy"] == own["accuracy"]
    assert other["loss"] == pytest.approx(own["loss"], rel=1e-6)
