"""Runs on several recordings: on the command line and in Python, resumed, scored and predicted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.command_line import call, refused
from support.tiny_runs import metrics

import hfrnn

SMALL = {"arch": "rnn", "hidden": 3, "updates": 2, "backend": "numpy", "window": 20, "inputs": ["u"], "targets": ["y"]}


def signals(rows, seed):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=rows).cumsum() / 4
    y = np.zeros(rows)
    for k in range(1, rows):
        y[k] = 0.8 * y[k - 1] + 0.2 * np.tanh(u[k - 1])
    return u, y


def table(folder, name, rows=80, seed=0, separator=",", decimal=".", time=0.0):
    head = ["t", "u", "y"] if time else ["u", "y"]
    lines = [separator.join(head)]
    for k, values in enumerate(zip(*signals(rows, seed), strict=True)):
        cells = [f"{k * time:.6g}"] * bool(time) + [f"{value:.6f}" for value in values]
        lines.append(separator.join(cell.replace(".", decimal) for cell in cells))
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def weights(run):
    return hfrnn.load(run)[1]


def test_flags_lists_patterns_and_folders_name_the_same_recordings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all").mkdir()
    a, b = (table(tmp_path / "all", f"{name}.csv", 80, n) for n, name in enumerate("ab"))
    c = table(tmp_path, "c.csv", 60, 3)
    flags = ["--inputs", "u", "--targets", "y", "--arch", "rnn", "--hidden", 3, "--updates", 2, "--backend", "numpy"]
    flags += ["--window", 20, "--quiet"]
    ways = [["--data", a, b], ["--data", a, "--data", b], ["--data", "all/*.csv"], ["--data", "all"]]
    found = []
    for n, way in enumerate(ways):
        call("train", *way, "--valid", c, *flags, "--out", f"run{n}")
        found.append(weights(f"run{n}"))
    result = hfrnn.train(data=[a, b], valid=c, out="python", **SMALL)
    assert all(np.array_equal(each, result.theta) for each in found)
    assert hfrnn.TrainConfig(data=(a, b), inputs="u", targets="y").resolved().values["data"] == (a, b)


def test_dataframes_train_as_their_tables_do(tmp_path):
    pandas = pytest.importorskip("pandas")
    paths = [table(tmp_path, f"{n}.csv", 80, n) for n in range(2)]
    frames = [pandas.read_csv(path) for path in paths]
    one = hfrnn.train(data=paths, out=tmp_path / "files", **SMALL)
    other = hfrnn.train(data=frames, out=tmp_path / "frames", **SMALL)
    np.testing.assert_array_equal(one.theta, other.theta)
    more = hfrnn.train(resume=tmp_path / "frames", data=frames, updates=3)
    assert more.summary["updates"] == 3
    with pytest.raises(hfrnn.CheckpointError, match="has changed"):
        hfrnn.train(resume=tmp_path / "frames", data=frames[:1], updates=4)


def test_a_run_on_several_recordings_is_resumed_with_the_same_bits(tmp_path):
    paths = [table(tmp_path, f"{n}.csv", 80, n) for n in range(2)]
    whole = hfrnn.train(data=paths, out=tmp_path / "whole", **{**SMALL, "updates": 4})
    hfrnn.train(data=paths, out=tmp_path / "parts", **SMALL)
    resumed = hfrnn.train(resume=tmp_path / "parts", updates=4)
    np.testing.assert_array_equal(whole.theta, resumed.theta)
    assert len(metrics(tmp_path / "parts")) == 4


def test_predictions_have_the_times_of_the_table_and_refuse_another_rate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = table(tmp_path, "a.csv", 80, 0, time=0.5)
    hfrnn.train(data=path, time="t", out="run", **SMALL)
    call("predict", "run", path, "-o", "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "row,time,y"
    assert [line.split(",")[:2] for line in lines[1:4]] == [["1", "0.0"], ["2", "0.5"], ["3", "1.0"]]
    other = table(tmp_path, "b.csv", 80, 0, time=0.25)
    assert "resample them to one rate" in refused("predict", "run", other, "-o", "more.csv")
    head, *lines = (tmp_path / "b.csv").read_text().splitlines()
    late = [f"{100 + 0.25 * n},{line.partition(',')[2]}" for n, line in enumerate(lines)]
    (tmp_path / "two.csv").write_text("\n".join([head, *lines, *late]) + "\n")  # the time jumps: two recordings
    assert "two.csv has a step of 0.25" in refused("evaluate", "run", "two.csv")


def test_rows_of_a_file_are_scored_as_a_file_of_these_rows(tmp_path):
    path = table(tmp_path, "a.csv", 90)
    head, *lines = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "part.csv").write_text("\n".join([head, *lines[30:70]]) + "\n")
    hfrnn.train(data=path, rows="10:80", out=tmp_path / "run", **SMALL)
    u, y = (each[:, None] for each in signals(90, 0))
    np.savez(tmp_path / "a.npz", x=u, y=y)
    np.savez(tmp_path / "part.npz", x=u[30:70], y=y[30:70])
    arrays = {name: value for name, value in SMALL.items() if name not in ("inputs", "targets")}
    hfrnn.train(data=tmp_path / "a.npz", out=tmp_path / "arrays", **arrays)
    for run, suffix in (("run", "csv"), ("arrays", "npz")):
        told = ["evaluate", tmp_path / run, "--json"]
        some = json.loads(call(*told, tmp_path / f"a.{suffix}", "--rows", "30:70").stdout)
        alone = json.loads(call(*told, tmp_path / f"part.{suffix}").stdout)
        assert {**some, "data": ""} == {**alone, "data": ""}
        assert "90 rows" in refused(*told, tmp_path / f"a.{suffix}", "--rows", "95:99")
        assert "--rows was given, and no FILE" in refused(*told, "--rows", "30:70")


def test_files_of_several_kinds_are_refused(tmp_path):
    path = table(tmp_path, "a.csv")
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 5, 1)), y=np.zeros((2, 5, 1)))
    message = refused("train", "--data", path, "--data", tmp_path / "b.npz", "--inputs", "u", "--targets", "y")
    assert "give files of one kind" in message


def test_a_text_is_not_taken_for_a_recording(tmp_path):
    message = refused("train", "--data", table(tmp_path, "a.csv"), "book.txt", "--inputs", "u", "--targets", "y")
    assert "book.txt" in message


def test_hints_reach_python_as_warnings_and_the_command_line_as_lines(tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(500.0, size=(8, 6, 2)), "y": rng.normal(size=(8, 6, 1))}
    options = {"arch": "rnn", "hidden": 2, "updates": 1, "backend": "numpy"}
    with pytest.warns(hfrnn.HfrnnWarning, match="standardize=True"):
        hfrnn.train(data=data, out=tmp_path / "a", **options)
    np.savez(tmp_path / "d.npz", **data)
    flags = ["--arch", "rnn", "--hidden", 2, "--updates", 1, "--backend", "numpy", "--out", tmp_path / "b"]
    assert "hint      the data are not scaled" in call("train", "--data", tmp_path / "d.npz", *flags).output
    (tmp_path / "t.csv").write_text("u,u,y\n" + "".join(f"{k},{k % 7},{k % 5}\n" for k in range(60)))
    with pytest.warns(hfrnn.HfrnnWarning, match="two columns are named u"):
        hfrnn.train(data=tmp_path / "t.csv", out=tmp_path / "c", **SMALL)


@pytest.mark.parametrize(
    ("y", "hint"),
    [
        (lambda rng: rng.choice([3, 50, 700], size=(8, 6)), "taken for 701 classes"),
        (lambda rng: np.eye(4)[rng.integers(4, size=(8, 6))], "one-hot"),
    ],
)
def test_targets_of_another_meaning_are_pointed_out(y, hint, tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(8, 6, 2)), "y": y(rng)}
    with pytest.warns(hfrnn.HfrnnWarning, match=hint):
        hfrnn.train(data=data, out=tmp_path / "a", arch="rnn", hidden=2, updates=1, backend="numpy")


def test_tasks_of_slurm_that_train_alone_are_told_so(tmp_path, monkeypatch):
    for name, value in (("SLURM_NTASKS", "4"), ("SLURM_PROCID", "1")):
        monkeypatch.setenv(name, value)
    with pytest.warns(hfrnn.HfrnnWarning, match="each trains alone"):
        hfrnn.train(data=table(tmp_path, "a.csv"), out=tmp_path / "run", **SMALL)
