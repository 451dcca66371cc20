"""`hfrnn predict`, and `hfrnn evaluate` of runs on arrays and tables."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call, refused
from support.data_runs import ROWS, TRAINED, driven, make_data_runs, write_table
from support.pictures import needs_matplotlib
from support.slow import slow_unless
from support.tiny_runs import snapshot, tiny_train

import hfrnn
from hfrnn.analysis.sequences import Given, file_sequences, own_sequences
from hfrnn.runs.folder import RunFolder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_data_runs(tmp_path_factory.mktemp("data"))


def data_of(run: Path) -> Path:
    return next(run.parent.glob(f"{run.name}.*"))


def predicted(run: Path, **how: Any) -> Any:
    """What the library predicts for the data of a run."""
    net, theta, _ = hfrnn.load(run)
    given = file_sequences(RunFolder(run), net, str(data_of(run)))
    return given, hfrnn.predict(net, theta, given.batch, scaling=given.scaling, **how)


@pytest.mark.parametrize("name", ["real", "classes"])
def test_outputs_and_states_of_arrays_are_written(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    out = call("predict", runs[name], data_of(runs[name]), "-o", tmp_path / "out.npz").stdout
    given, expected = predicted(runs[name], states=True)
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(found["y"], expected.outputs.swapaxes(0, 1))
    np.testing.assert_array_equal(found["layer0.h"], expected.states[0]["h"].swapaxes(0, 1))
    assert set(found.files) == {"y", "layer0.h"} | ({"lengths"} if name == "real" else set())
    if name == "real":
        np.testing.assert_array_equal(found["lengths"], given.batch.lengths)
    assert f"{name}.npz: 20 sequences of {'at most ' if name == 'real' else ''}9 steps" in out
    assert f"y {found['y'].shape}" in out


def test_time_first_arrays_give_time_first_outputs(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 8, 2))
    np.savez(tmp_path / "data.npz", x=x, y=x.cumsum(axis=0))
    run = hfrnn.train(data=str(tmp_path / "data.npz"), time_first=True, out=tmp_path / "run", **TRAINED).folder
    call("predict", run, tmp_path / "data.npz", "-o", tmp_path / "out.npz")
    net, theta, _ = hfrnn.load(run)
    expected = net.run(theta, hfrnn.Batch(x), states=True)
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(found["y"], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found["layer0.h"], expected[2][0]["h"], rtol=1e-12)


def test_a_part_of_the_own_data_is_predicted_by_default(runs: dict[str, Path], tmp_path: Path) -> None:
    net, theta, _ = hfrnn.load(runs["real"])
    for arguments, part in (([], "valid"), (["--part", "train"], "train")):
        call("predict", runs["real"], *arguments, "-o", tmp_path / "out.npz", "--no-states", "--force")
        given, found = own_sequences(RunFolder(runs["real"]), part), np.load(tmp_path / "out.npz")
        expected = hfrnn.predict(net, theta, given.batch, scaling=given.scaling).outputs
        np.testing.assert_array_equal(found["y"], expected.swapaxes(0, 1))
        differ = len(set(given.batch.lengths.tolist())) > 1
        assert set(found.files) == ({"y", "lengths"} if differ else {"y"})


def test_every_row_of_a_table_is_predicted(runs: dict[str, Path], tmp_path: Path) -> None:
    call("predict", runs["drive"], data_of(runs["drive"]), "-o", tmp_path / "out.csv")
    rows = list(csv.reader((tmp_path / "out.csv").open()))
    assert rows[0] == ["row", "temp", "speed"]
    assert [row[0] for row in rows[1:]] == [str(n) for n in range(1, ROWS + 1)]
    expected = predicted(runs["drive"])[1].outputs[:, 0]
    np.testing.assert_allclose(np.array(rows[1:], float)[:, 1:], expected, rtol=1e-8)
    call("predict", runs["drive"], data_of(runs["drive"]), "-o", tmp_path / "out.npz")
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(found["y"], expected)
    np.testing.assert_array_equal(found["row"], np.arange(1, ROWS + 1))
    assert found["layer0.h"].shape == (ROWS, 4)


def test_a_free_run_continues_a_table(runs: dict[str, Path], tmp_path: Path) -> None:
    call("predict", runs["vdp"], data_of(runs["vdp"]), "-o", tmp_path / "out.csv")
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert (rows[1].split(",")[0], rows[-1].split(",")[0]) == ("2", str(ROWS + 1))  # the row that is predicted
    start = ["predict", runs["vdp"], data_of(runs["vdp"]), "--free-run", 6]
    out = call(*start, "--warm-up", 100, "-o", tmp_path / "some.csv").stdout
    assert "1 sequence of 6 steps on their own after 100 steps of the data" in out
    call(*start, "-o", tmp_path / "all.csv")
    net, theta, _ = hfrnn.load(runs["vdp"])
    given = predicted(runs["vdp"])[0]
    for name, steps in (("some", 100), ("all", ROWS)):
        rows = np.loadtxt(tmp_path / f"{name}.csv", delimiter=",", skiprows=1)
        np.testing.assert_array_equal(rows[:, 0], np.arange(6) + steps + 1)
        inputs = given.batch.inputs[:steps]
        for row in rows:
            expected = hfrnn.predict(net, theta, hfrnn.Batch(inputs), scaling=given.scaling).outputs[-1:]
            np.testing.assert_allclose(row[None, None, 1:], expected, rtol=1e-7)
            inputs = np.concatenate([inputs, expected])


def test_a_free_run_of_arrays(runs: dict[str, Path], tmp_path: Path) -> None:
    call("predict", runs["same"], data_of(runs["same"]), "--free-run", 5, "--warm-up", 3, "-o", tmp_path / "out.npz")
    net, theta, _ = hfrnn.load(runs["same"])
    x = np.load(data_of(runs["same"]))["x"].swapaxes(0, 1)
    found = np.load(tmp_path / "out.npz")
    assert found.files == ["y"]
    np.testing.assert_array_equal(found["y"], hfrnn.free_run(net, theta, hfrnn.Batch(x[:3]), 5).swapaxes(0, 1))


def test_tasks_are_predicted_too(tmp_path: Path) -> None:
    hfrnn.train(data="addition", length=21, sequences=20, out=tmp_path / "run", **TRAINED)
    call("predict", tmp_path / "run", "-o", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["y"].shape == (1000, 23, 1)


@needs_matplotlib
@pytest.mark.parametrize(
    ("name", "more"), slow_unless(lambda name, more: name in ("drive", "vdp"), [
        ("drive", []), ("vdp", ["--free-run", 9]), ("real", []), ("classes", []), ("window", []),
        ("same", ["--free-run", 4, "--warm-up", 2]),
    ]),
)  # fmt: skip
def test_a_plot_is_drawn(runs: dict[str, Path], tmp_path: Path, name: str, more: list[Any]) -> None:
    command = ["predict", runs[name], data_of(runs[name]), *more, "--plot"]
    call(*command, tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert text.startswith("<?xml")
    assert ("<!-- data -->" in text, "<!-- target -->" in text) == (bool(more), not more)
    assert "<!-- prediction -->" in text
    call(*command, tmp_path / "one.svg", "--force")
    assert (tmp_path / "one.svg").read_text() == text
    call(*command, tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


@needs_matplotlib
def test_a_picture_shows_the_chosen_sequence_with_shaded_steps_and_a_band(monkeypatch: pytest.MonkeyPatch) -> None:
    from hfrnn.analysis.prediction import Prediction
    from hfrnn.cli import plots

    figures: list[Any] = []
    monkeypatch.setattr(plots, "rendered", lambda figure, kind: figures.append(figure) or b"")
    net = hfrnn.Network("rnn", n_in=1, hidden=2, n_out=2, loss="squared")
    y = np.arange(4.0)[None, :, None] * np.ones((6, 4, 2))
    weights = np.ones((6, 4, 2))
    weights[:2], weights[4, 3, 1] = 0, 0
    given = Given("data", hfrnn.Batch(np.zeros((6, 4, 1)), y, weights, [6, 6, 6, 5]), None, washout=2)
    found = Prediction(y + 1, None, 0 * y + 3)
    for sequence, columns in ((None, 3), (3, 1)):
        plots.prediction_picture(net, given, given, found, "svg", sequence=sequence)
        assert len(figures[-1].axes) == 2 * columns
    first, second = figures[-1].axes
    assert first.get_title() == "sequence 3"
    lines = {line.get_label(): line.get_xydata() for line in second.lines}
    np.testing.assert_array_equal(lines["prediction"], [(t, 4) for t in range(5)])
    shades = {each.get_label(): each.get_paths() for each in second.collections}
    np.testing.assert_array_equal(shades["burn-in"][0].get_extents().intervalx, (-0.5, 1.5))
    np.testing.assert_array_equal(shades["not scored"][0].get_extents().intervalx, (3.5, 4.5))
    np.testing.assert_array_equal(shades["two standard deviations"][0].get_extents().intervaly, (-2, 10))
    assert "not scored" not in {each.get_label() for each in first.collections}
    assert len({panel.get_ylim() for panel in figures[0].axes[:3]}) == 1


def test_a_file_without_targets_says_why_and_force_replaces_a_file(runs: dict[str, Path], tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 5, 2)))
    (tmp_path / "out.npz").write_text("older")
    out = call("predict", runs["real"], tmp_path / "x.npz", "-o", tmp_path / "out.npz", "--force").stdout
    assert "without targets: x.npz has no array y" in out
    assert "y" in np.load(tmp_path / "out.npz").files


REFUSED: dict[str, tuple[list[Any], str]] = {
    "nothing to write": (["real"], "nothing would be written"),
    "a part and a file": (["real", "real.npz", "--part", "valid", "-o", "out.npz"], "not both"),
    "another ending": (["real", "-o", "out.txt"], "ends in .npz or .csv"),
    "sequences in a table": (["real", "-o", "out.csv"], "give a file that ends in .npz"),
    "another picture": (["real", "--plot", "out.txt"], ".svg, .png, .pdf"),
    "its own file": (["real", "real.npz", "-o", "real.npz", "--force"], "a file that the command reads"),
    "a warm-up of nothing": (["vdp", "--warm-up", "5", "-o", "out.npz"], "it is for --free-run"),
    "a sequence without a picture": (["real", "-o", "out.npz", "--sequence", "1"], "it is for --plot"),
    "a long warm-up": (["same", "--free-run", "2", "--warm-up", "9", "-o", "out.npz"], "give 1 to 8"),
    "other columns": (["drive", "drive.csv", "--free-run", "3", "-o", "out.npz"], "in --inputs and in --targets"),
    "free classes": (["classes", "--free-run", "3", "-o", "out.npz"], "cannot be its inputs"),
    "a table without states": (["drive", "drive.csv", "-o", "out.csv", "--no-states"], "only a file .npz has states"),
    "states of a free run": (["vdp", "--free-run", "3", "-o", "out.npz", "--no-states"], "a free run writes no states"),
}


def test_what_cannot_be_is_refused_and_nothing_is_written(runs, monkeypatch) -> None:
    monkeypatch.chdir(runs["real"].parent)
    before = snapshot(Path())
    for case, (arguments, message) in REFUSED.items():
        assert message in refused("predict", *arguments), case
        assert snapshot(Path()) == before, case


def test_a_text_has_no_such_predictions(tmp_path: Path) -> None:
    tiny_train(tmp_path, "run", updates=1)
    assert "trained on a text" in refused("predict", tmp_path / "run", "-o", tmp_path / "out.npz")


@pytest.mark.parametrize("name", ["real", "bits", "classes", "drive"])
def test_evaluate_shows_a_line_for_each_output(runs: dict[str, Path], name: str) -> None:
    found = json.loads(call("evaluate", runs[name], "--json").stdout)
    lines = call("evaluate", runs[name]).stdout.splitlines()
    figures = {"bits": "output cross-entropy accuracy", "classes": "class cross-entropy accuracy"}
    figures = figures.get(name, "output MSE RMSE R2 NRMSE fit%")
    assert lines[0].startswith(f"valid part of {data_of(runs[name])}: {found['sequences']} sequence")
    assert lines[1].split() == figures.split()
    rows = {line.split()[0]: line.split()[1:] for line in lines[2 : 3 + len(found["outputs"])]}
    assert rows.keys() == {*found["outputs"], "overall"}
    for label, row in rows.items():
        values = found if label == "overall" else found["outputs"][label]
        keys = [{"cross-entropy": "cross_entropy", "fit%": "fit"}.get(key, key.lower()) for key in lines[1].split()[1:]]
        for text, key in zip(row, keys, strict=True):
            assert float(text) == pytest.approx(values[key], rel=6e-4, abs=1e-12)
    assert ("standard deviation of the targets" in lines[-1]) == ("NRMSE" in figures)
    assert any(line.startswith("linear: ") for line in lines) == ("NRMSE" in figures)


def test_evaluate_scores_a_file(runs: dict[str, Path]) -> None:
    out = call("evaluate", runs["drive"], data_of(runs["drive"])).stdout
    assert re.search(r"drive\.csv: 1 sequence, 256 scored steps, loss \d", out)
    assert "begins with a state of zeros, the first 4 steps of each not scored" in out
    assert "first 30 steps" in call("evaluate", runs["drive"], data_of(runs["drive"]), "--washout", 30).stdout
    assert "not both" in refused("evaluate", runs["drive"], data_of(runs["drive"]), "--part", "valid")
    assert "is not a text: leave --dynamic out" in refused("evaluate", runs["drive"], "--dynamic", "sgd")


def test_states_are_estimated_from_the_first_targets(runs: dict[str, Path], tmp_path: Path) -> None:
    net, theta, _ = hfrnn.load(runs["real"])
    given = file_sequences(RunFolder(runs["real"]), net, str(data_of(runs["real"])), 0)
    state = hfrnn.estimate_initial_state(net, theta, given.batch, 4, scaling=given.scaling)
    batch = hfrnn.Batch(given.batch.inputs, given.batch.targets, given.batch.weights, given.batch.lengths, state)
    command = ["evaluate", runs["real"], data_of(runs["real"]), "--estimate-state", 4]
    found = json.loads(call(*command, "--json").stdout)
    assert (found["initial_state"], found["estimated_from"], found["washout"]) == ("estimated", 4, 0)
    assert found["rmse"] == pytest.approx(hfrnn.score(net, theta, batch, scaling=given.scaling).overall["rmse"])
    assert "estimated from its first 9 steps" in call(*command[:-1], 1000).stdout  # there are no more
    batch.weights[:3] = 0
    lines = call(*command, "--washout", 3).stdout
    assert "begins with a state estimated from its first 4 steps, the first 3 steps of each not scored." in lines
    found = json.loads(call(*command, "--washout", 3, "--json").stdout)
    assert found["rmse"] == pytest.approx(hfrnn.score(net, theta, batch, scaling=given.scaling).overall["rmse"])
    out = call("predict", *command[1:], "-o", tmp_path / "out.npz").stdout
    assert "begins with a state estimated from its first 4 steps" in out
    expected = hfrnn.predict(net, theta, batch, scaling=given.scaling).outputs
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], expected.swapaxes(0, 1))
    own = json.loads(call("evaluate", runs["drive"], "--estimate-state", 5, "--json").stdout)
    assert own["rmse"] < json.loads(call("evaluate", runs["drive"], "--washout", 0, "--json").stdout)["rmse"]
    call(
        "predict",
        runs["vdp"],
        data_of(runs["vdp"]),
        "--free-run",
        5,
        "--estimate-state",
        9,
        "-o",
        tmp_path / "free.npz",
    )


def test_an_output_without_a_scored_target_gets_a_line_of_dashes(runs: dict[str, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = write_table(tmp_path / "new.csv", {**driven(rng), "speed": np.full(ROWS, np.nan)})
    lines = call("evaluate", runs["drive"], table).stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[2:5]}
    assert list(rows) == ["temp", "speed", "overall"]
    assert rows["speed"] == ["-"] * 5
    assert rows["overall"] == rows["temp"]
    assert lines[6] == "overall covers 1 of 2 outputs: the others have no scored target."
    found = json.loads(call("evaluate", runs["drive"], table, "--json").stdout)
    assert found["outputs"]["speed"] == {"mse": None, "rmse": None, "r2": None, "nrmse": None, "fit": None}
    assert found["mse"] == found["outputs"]["temp"]["mse"]
    assert "overall covers" not in call("evaluate", runs["drive"]).stdout


@needs_matplotlib
def test_a_sequence_that_does_not_exist_is_refused(runs, monkeypatch) -> None:
    monkeypatch.chdir(runs["real"].parent)
    assert "--sequence" in refused("predict", "real", "real.npz", "--plot", "out.svg", "--sequence", "20")
    assert not Path("out.svg").exists()
