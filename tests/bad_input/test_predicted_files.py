"""Damaged and odd files for `hfrnn predict` and `hfrnn evaluate`: one sentence, exit code 2, and nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.array_files import good, npz, table
from support.command_line import call
from support.refusals import refused

import hfrnn

X = good()["x"]
OPTIONS = {"arch": "rnn", "hidden": 3, "updates": 1, "optimizer": "adam", "backend": "numpy"}
FILES: dict[str, tuple[str, bytes | str, str]] = {  # the run, the content of the file, words of the sentence
    "a cut file": ("arrays", npz(good())[:200], "cannot be read as a .npz file"),
    "too many inputs": ("arrays", npz({"x": np.zeros((2, 3, 5)), "y": np.zeros((2, 3, 1))}), "n_in = 2"),
    "long lengths": ("arrays", npz({"x": X, "lengths": np.full(len(X), 99)}), "lengths"),
    "another column": ("table", table(60, "u,w,y"), "has 'v', which is no column"),
    "a slip in a target": ("table", "u,v,y\n1,2,0.1\n1,2,0.1O\n", "holds '0.1O'"),
    "no input": ("table", "u,v,y\n1,,2\n", "an empty cell"),
}


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "data.npz").write_bytes(npz(good()))
    (folder / "data.csv").write_text(table())
    hfrnn.train(data=str(folder / "data.npz"), out=folder / "arrays", **OPTIONS)
    columns = {"inputs": ("u", "v"), "targets": ("y",), "window": 10}
    hfrnn.train(data=str(folder / "data.csv"), out=folder / "table", **columns, **OPTIONS)
    return folder


@pytest.mark.parametrize("case", FILES)
def test_an_odd_file_is_refused(case: str, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run, content, words = FILES[case]
    bad = "bad.csv" if run == "table" else "bad.npz"
    Path(bad).write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in (["predict", runs / run, bad, "-o", "out.npz"], ["evaluate", runs / run, bad]):
        assert words in refused(*map(str, command))
    assert os.listdir() == [bad]  # no output, and no trap of a pickle


def test_the_rows_of_a_burn_in_are_counted(runs: Path, tmp_path: Path) -> None:
    columns = {"inputs": ("u",), "targets": ("u",), "window": 10, "burn_in": 4}
    hfrnn.train(data=str(runs / "data.csv"), out=tmp_path / "run", **columns, **OPTIONS)
    (tmp_path / "few.csv").write_text(table(5))
    words = "has 5 rows, and the first 4 are not scored; a target is 1 row after its input: give more rows, or"
    assert f"{words} a smaller --washout" in refused("evaluate", str(tmp_path / "run"), str(tmp_path / "few.csv"))
    (tmp_path / "few.csv").write_text("u,v,y\n" + "1,2,\n" * 30)
    words = "has 30 rows, and the first 2 are not scored, and no other target is known"
    assert words in refused("evaluate", str(runs / "table"), str(tmp_path / "few.csv"))
    (tmp_path / "few.csv").write_text(table(6))
    assert "1 scored step" in call("evaluate", tmp_path / "run", tmp_path / "few.csv").stdout
