"""Free runs of systems with a drive: `hfrnn predict --free-run` and `hfrnn evaluate --steps-ahead`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call, refused
from support.data_runs import ROWS, make_data_runs
from support.pictures import needs_matplotlib

import hfrnn
from hfrnn.analysis.sequences import file_sequences, own_sequences, with_estimates
from hfrnn.runs.folder import RunFolder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_data_runs(tmp_path_factory.mktemp("data"), "loop", "same", "real")


def given(run: Path, part: str | None = None) -> tuple[Any, Any, Any]:
    net, theta, _ = hfrnn.load(run)
    path = str(run.with_suffix(".csv"))
    return net, theta, own_sequences(RunFolder(run), part) if part else file_sequences(RunFolder(run), net, path)


def test_a_column_that_is_an_input_and_a_target_is_fed_back(runs: dict[str, Path], tmp_path: Path) -> None:
    run, table = runs["loop"], runs["loop"].with_suffix(".csv")
    out = call("predict", run, table, "--free-run", "all", "--warm-up", 50, "-o", tmp_path / "out.csv").stdout
    assert f"1 sequence of {ROWS - 49} steps on their own after 50 steps of the data" in out
    net, theta, known = given(run)
    expected = hfrnn.free_run(net, theta, known.batch, scaling=known.scaling, feedback=[None, 1], warm_up=50)
    rows = list(csv.reader((tmp_path / "out.csv").open()))
    assert rows[0] == ["row", "temp", "speed"]
    found = np.array(rows[1:], float)
    np.testing.assert_array_equal(found[:, 0], np.arange(51, ROWS + 2))
    np.testing.assert_allclose(found[:, 1:], expected[:, 0], rtol=1e-7)
    call("predict", run, table, "--free-run", 5, "--warm-up", 50, "--feedback", "0,speed", "-o", tmp_path / "few.csv")
    few = np.loadtxt(tmp_path / "few.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(few, found[:5], rtol=1e-7)


def test_a_shorter_sequence_runs_up_to_one_step_after_its_own_data(tmp_path: Path) -> None:
    x, lengths, data = np.random.default_rng(0).normal(size=(3, 12, 2)), np.array([12, 8, 5]), tmp_path / "data.npz"
    np.savez(data, x=x, y=x[:, :, 1:], lengths=lengths)
    options: dict[str, Any] = {"arch": "rnn", "hidden": 3, "updates": 1, "fractions": (1, 0, 0), "dtype": "float64"}
    run = hfrnn.train(data=data, out=tmp_path / "run", **options).folder
    flags = ["--free-run", "all", "--warm-up", 4, "--feedback", "2", "-o", tmp_path / "out.npz"]
    assert "3 sequences of at most 9 steps on their own after 4 steps" in call("predict", run, data, *flags).stdout
    found = np.load(tmp_path / "out.npz")
    assert found["lengths"].tolist() == [9, 5, 2]
    net, theta, _ = hfrnn.load(run)
    for y, one, length, steps in zip(found["y"], x, lengths, found["lengths"], strict=True):
        alone = hfrnn.free_run(net, theta, hfrnn.Batch(one[:length, None]), feedback=[1], warm_up=4)
        np.testing.assert_allclose(y[:steps], alone[:, 0], rtol=1e-10)
        assert not y[steps:].any()


def test_scores_some_steps_ahead_and_to_the_end(runs: dict[str, Path]) -> None:
    run = runs["loop"]
    net, theta, known = given(run)
    how: dict[str, Any] = {"names": ["temp", "speed"], "scaling": known.scaling, "feedback": [None, 1]}
    for arguments, washout in (([], 4), (["--washout", 9], 9)):  # the burn-in of the run is 4 steps
        known = file_sequences(RunFolder(run), net, str(run.with_suffix(".csv")), washout)
        command = ["evaluate", run, run.with_suffix(".csv"), "--steps-ahead", "all,1,5", *arguments]
        found = json.loads(call(*command, "--json").stdout)
        assert (found["sequences"], found["washout"], list(found["steps_ahead"])) == (1, washout, ["all", "1", "5"])
        expected = hfrnn.score_ahead(net, theta, known.batch, [1, 5], **how)
        assert found["steps_ahead"]["5"] == expected[5].to_json()
        assert expected[1].steps == ROWS - washout - 4
        whole = hfrnn.score_free_run(net, theta, known.batch, warm_up=washout + 1, **how).to_json()
        assert found["steps_ahead"]["all"] == whole
        lines = call(*command).stdout.splitlines()
        assert [line.split()[:2] for line in lines[1:6]] == [
            ["steps", "ahead"], ["all", "temp"], ["speed", lines[3].split()[1]], ["overall", lines[4].split()[1]],
            ["1", "temp"],
        ]  # fmt: skip
        assert float(lines[4].split()[2]) == pytest.approx(whole["rmse"], rel=6e-4)


def test_free_runs_begin_in_an_estimated_state(runs: dict[str, Path]) -> None:
    run = runs["loop"]
    command = ["evaluate", run, run.with_suffix(".csv"), "--steps-ahead", "all", "--estimate-state", 20, "--json"]
    net, theta, _ = hfrnn.load(run)
    known = file_sequences(RunFolder(run), net, str(run.with_suffix(".csv")), 0)
    batch = with_estimates(net, theta, known, 20).batch
    how: dict[str, Any] = {"names": ["temp", "speed"], "scaling": known.scaling, "feedback": [None, 1]}
    expected = hfrnn.score_free_run(net, theta, batch, warm_up=1, **how)
    found = json.loads(call(*command).stdout)
    assert (found["washout"], found["steps_ahead"]["all"]) == (0, expected.to_json())
    batch = with_estimates(net, theta, known, 20, 15).batch  # targets that are not scored give the state too
    expected = hfrnn.score_free_run(net, theta, batch, **how)
    found = json.loads(call(*command, "--washout", 15).stdout)
    assert (found["washout"], found["steps_ahead"]["all"]) == (15, expected.to_json())


def test_arrays_say_which_inputs_are_fed_back(runs: dict[str, Path], tmp_path: Path) -> None:
    net, theta, known = given(runs["real"], "valid")
    out = json.loads(call("evaluate", runs["real"], "--steps-ahead", "2", "--feedback", "2,0", "--json").stdout)
    expected = hfrnn.score_ahead(net, theta, known.batch, [2], scaling=known.scaling, feedback=[1, None])[2]
    assert out["steps_ahead"]["2"] == expected.to_json()
    found = json.loads(call("evaluate", runs["same"], "--steps-ahead", "all", "--json").stdout)["steps_ahead"]["all"]
    net, theta, known = given(runs["same"], "valid")
    assert found == hfrnn.score_free_run(net, theta, known.batch).to_json()


@needs_matplotlib
def test_a_plot_shows_how_the_data_continue(runs: dict[str, Path], tmp_path: Path) -> None:
    command = ["predict", runs["loop"], runs["loop"].with_suffix(".csv"), "--free-run", "all", "--warm-up", 50]
    call(*command, "--plot", tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert "<!-- data -->" in text
    assert "<!-- prediction -->" in text


REFUSED: dict[str, tuple[list[Any], str]] = {
    "an end of the drive": (["predict", "loop", "loop.csv", "--free-run", "9", "--warm-up", "255"], "give at most 6"),
    "no steps": (["predict", "loop", "loop.csv", "--free-run", "0"], "1 or more, or all"),
    "for ever": (["predict", "same", "--free-run", "all"], "can run for ever"),
    "a feedback without a run": (["predict", "loop", "--feedback", "0,2"], "it is for --free-run"),
    "a feedback without scores": (["evaluate", "loop", "--feedback", "0,2"], "it is for --steps-ahead"),
    "too few": (["evaluate", "loop", "--steps-ahead", "3", "--feedback", "2"], "the network has 2 outputs"),
    "an unknown name": (["evaluate", "loop", "--steps-ahead", "3", "--feedback", "0,w"], "names the input w"),
    "twice": (["evaluate", "loop", "--steps-ahead", "3", "--feedback", "2,2"], "a different input"),
    "too far": (["evaluate", "loop", "--steps-ahead", "1,999"], "give a smaller number"),
}


def test_what_cannot_be_is_refused(runs: dict[str, Path], monkeypatch) -> None:
    monkeypatch.chdir(runs["loop"].parent)
    for case, (arguments, message) in REFUSED.items():
        more = ["-o", "out.npz"] if arguments[0] == "predict" else []
        assert message in refused(*arguments, *more), case
    assert not Path("out.npz").exists()


def test_a_task_has_no_washout(tmp_path: Path) -> None:
    hfrnn.train(data="sine", length=20, sequences=10, hidden=2, updates=1, out=tmp_path / "sine")
    words = refused("evaluate", tmp_path / "sine", "--steps-ahead", "2", "--washout", "3")
    assert "--washout was given, and sine has no sequences of its own" in words
