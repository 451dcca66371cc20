"""Sequences of a run's own data and of files, their predictions, and their figures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from support.data_runs import ROWS, TRAINED, driven, make_data_runs, oscillator, write_table
from support.music_files import stored

import hfrnn
from hfrnn.analysis.sequences import evaluate_sequences, file_sequences, own_sequences
from hfrnn.errors import CheckpointError, InputError
from hfrnn.runs.folder import RunFolder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_data_runs(tmp_path_factory.mktemp("data"))


def opened(run: Path) -> tuple[RunFolder, Any, Any]:
    net, theta, _ = hfrnn.load(run)
    return RunFolder(run), net, theta


def evaluated(run: Path, part: str | None = None, path: str | None = None) -> dict[str, Any]:
    folder, net, theta = opened(run)
    return evaluate_sequences(net, theta, folder.config(), part, folder, path)


@pytest.mark.parametrize("name", ["real", "bits", "classes", "same", "window", "drive", "vdp"])
def test_the_loss_of_the_validation_part_is_that_of_training(runs: dict[str, Path], name: str) -> None:
    best = min(line["valid_loss"] for line in RunFolder(runs[name]).metrics() if line["valid_loss"] is not None)
    assert evaluated(runs[name])["loss"] == pytest.approx(best, rel=1e-6)


def test_errors_are_in_the_units_of_the_data(runs: dict[str, Path]) -> None:
    folder, net, theta = opened(runs["drive"])
    scaling = hfrnn.load_scaling(runs["drive"])
    assert scaling is not None
    data = own_sequences(folder)
    inputs = (data.batch.inputs - scaling.input_mean) / scaling.input_deviation
    z = net.run(theta, hfrnn.Batch(inputs, lengths=data.batch.lengths))[0]
    y = z * scaling.target_deviation + scaling.target_mean
    found = evaluated(runs["drive"])
    for k, name in enumerate(("temp", "speed")):
        used = data.batch.weights[:, :, k] > 0
        error = (y[:, :, k] - data.batch.targets[:, :, k])[used]
        assert found["outputs"][name]["mse"] == pytest.approx(np.mean(error**2), rel=1e-9)
        spread = data.batch.targets[:, :, k][used].std()
        assert found["outputs"][name]["nrmse"] == pytest.approx(math.sqrt(np.mean(error**2)) / spread, rel=1e-9)


def test_parts_and_a_file_of_the_same_sequences_have_the_same_figures(runs: dict[str, Path], tmp_path: Path) -> None:
    arrays = np.load(runs["real"].parent / "real.npz")
    np.savez(tmp_path / "last.npz", **{name: arrays[name][-2:] for name in arrays.files})
    own, given = evaluated(runs["real"], "valid"), evaluated(runs["real"], None, str(tmp_path / "last.npz"))
    assert {**own, "data": 0, "part": 0} == {**given, "data": 0, "part": 0}
    assert evaluated(runs["real"], "train") != own
    with pytest.raises(InputError, match="no test part"):
        evaluated(runs["real"], "test")


def test_a_table_is_one_recording_after_a_burn_in(runs: dict[str, Path]) -> None:
    folder, net, theta = opened(runs["drive"])
    path = str(runs["drive"].parent / "drive.csv")
    columns = np.genfromtxt(path, delimiter=",", names=True)
    given = file_sequences(folder, net, path)
    assert (given.recording, given.batch.B, given.batch.T, given.ahead) == (True, 1, ROWS, 0)
    assert given.output_names == ("temp", "speed")
    np.testing.assert_array_equal(given.batch.inputs[:, 0, 0], columns["u"])
    weights = given.batch.weights[:, 0]
    assert (weights[:4] == 0).all()  # a tenth of the window
    np.testing.assert_array_equal(weights[4:, 0] == 0, np.isnan(columns["temp"][4:]))
    assert (weights[4:, 1] == 1).all()
    np.testing.assert_array_equal(given.batch.targets[:, 0, 1], columns["speed"])
    whole = hfrnn.predict(net, theta, given.batch, scaling=given.scaling).outputs
    scaling = hfrnn.load_scaling(runs["drive"])
    assert scaling is not None
    alone = net.run(theta, hfrnn.Batch(scaling.scale_inputs(given.batch.inputs)))[0]
    np.testing.assert_allclose(whole, scaling.unscale_outputs(alone), rtol=1e-12)


def test_targets_ahead_of_their_inputs_are_shifted(runs: dict[str, Path]) -> None:
    folder, net, _ = opened(runs["vdp"])
    given = file_sequences(folder, net, str(runs["vdp"].parent / "vdp.csv"))
    pos = oscillator()["pos"]
    assert given.ahead == 1
    np.testing.assert_array_equal(given.batch.inputs[:, 0, 0], pos)
    np.testing.assert_array_equal(given.batch.targets[:-1, 0, 0], pos[1:])
    assert (given.batch.weights[-1] == 0).all()


def test_an_array_of_one_recording_is_not_cut(runs: dict[str, Path]) -> None:
    folder, net, _ = opened(runs["window"])
    given = file_sequences(folder, net, str(runs["window"].parent / "window.npz"))
    assert given.recording
    np.testing.assert_array_equal(given.batch.inputs[:, 0, 0], oscillator()["pos"])
    np.testing.assert_array_equal(given.batch.targets[:, 0, 0], oscillator()["vel"])


@pytest.mark.parametrize("name", ["real", "bits", "classes", "window"])
def test_arrays_need_no_targets_to_be_predicted(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    folder, net, theta = opened(runs[name])
    path = str(runs[name].parent / f"{name}.npz")
    arrays = np.load(path)
    np.savez(tmp_path / "x.npz", **{role: arrays[role] for role in ("x", "lengths") if role in arrays.files})
    given, bare = file_sequences(folder, net, path), file_sequences(folder, net, str(tmp_path / "x.npz"))
    assert bare.batch.targets is None
    assert "no array y" in bare.note
    found, expected = (hfrnn.predict(net, theta, each.batch, scaling=each.scaling) for each in (bare, given))
    np.testing.assert_array_equal(found.outputs, expected.outputs)
    with pytest.raises(InputError, match="no targets to score"):
        evaluate_sequences(net, theta, folder.config(), None, folder, str(tmp_path / "x.npz"))


def test_a_recording_may_be_a_row_of_matlab(runs: dict[str, Path], tmp_path: Path) -> None:
    folder, net, _ = opened(runs["window"])
    columns = oscillator()
    scipy.io.savemat(tmp_path / "row.mat", {"x": columns["pos"], "y": columns["vel"]})
    assert scipy.io.loadmat(tmp_path / "row.mat")["x"].shape == (1, ROWS)
    given = file_sequences(folder, net, str(tmp_path / "row.mat"))
    np.testing.assert_array_equal(given.batch.inputs[:, 0, 0], columns["pos"])
    np.testing.assert_array_equal(given.batch.targets[:, 0, 0], columns["vel"])


def test_a_table_needs_no_columns_of_targets(runs: dict[str, Path], tmp_path: Path) -> None:
    folder, net, _ = opened(runs["drive"])
    path = write_table(tmp_path / "u.csv", {"u": oscillator()["vel"]})
    given = file_sequences(folder, net, str(path))
    assert given.batch.targets is None
    assert "'temp'" in str(given.note)
    assert given.output_names == ("temp", "speed")


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("drive", "real.npz", "give a file ending in .csv or .tsv"),
        ("real", "drive.csv", "give a file ending in .npz, .npy or .mat"),
        ("real", "vdp.txt", "vdp.txt is a text"),
        ("real", "nowhere.npz", "there is no file"),
        ("drive", "vdp.csv", "which is no column"),
        ("window", "real.npz", "one recording"),
    ],
)
def test_a_file_of_another_kind_is_refused(runs: dict[str, Path], name: str, file: str, message: str) -> None:
    folder, net, _ = opened(runs[name])
    with pytest.raises(InputError, match=message):
        file_sequences(folder, net, str(runs[name].parent / file))


def test_arrays_of_other_sizes_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    np.savez(tmp_path / "wide.npz", x=np.zeros((3, 4, 5)), y=np.zeros((3, 4, 2)))
    np.savez(tmp_path / "outputs.npz", x=np.zeros((3, 4, 2)), y=np.zeros((3, 4, 5)))
    np.savez(tmp_path / "classes.npz", x=np.zeros((3, 4, 2)), y=np.full((3, 4), 7))
    for name, file, message in (
        ("bits", "wide", "5 values per step"), ("real", "wide", "5 values per step"), ("bits", "outputs", "targets"),
        ("real", "outputs", "targets"), ("classes", "classes", "target"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            evaluated(runs[name], None, str(tmp_path / f"{file}.npz"))


def test_a_file_may_hold_one_class_only(runs: dict[str, Path], tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", x=np.ones((3, 4, 2)), y=np.zeros((3, 4), dtype=int))
    assert evaluated(runs["classes"], None, str(tmp_path / "one.npz"))["outputs"].keys() == {"0"}


def test_empty_and_odd_arrays_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    for x in (np.zeros((0, 4, 2)), np.zeros((3, 0, 2)), np.zeros(5), np.full((3, 4, 2), np.nan), np.zeros((3, 4))):
        np.savez(tmp_path / "odd.npz", x=x)
        folder, net, _ = opened(runs["real"])
        with pytest.raises(InputError, match=r"odd\.npz"):
            file_sequences(folder, net, str(tmp_path / "odd.npz"))


def test_data_that_have_changed_are_noticed(runs: dict[str, Path], tmp_path: Path) -> None:
    file = runs["bits"].parent / "bits.npz"
    before = file.read_bytes()
    np.savez(file, x=np.zeros((20, 9, 2)), y=np.zeros((20, 9, 2)))
    try:
        with pytest.raises(CheckpointError, match="has changed"):
            own_sequences(RunFolder(runs["bits"]))
    finally:
        file.write_bytes(before)


def test_a_run_keeps_its_scaling_for_other_files(runs: dict[str, Path], tmp_path: Path) -> None:
    folder, net, theta = opened(runs["drive"])
    columns = driven(np.random.default_rng(5))
    path = write_table(tmp_path / "other.csv", {name: columns[name] for name in ("speed", "temp", "u")})
    given = file_sequences(folder, net, str(path))
    assert given.scaling is not None
    assert given.scaling.to_json() == folder.scaling().to_json()
    found = evaluate_sequences(net, theta, folder.config(), None, folder, str(path))
    assert found["outputs"].keys() == {"temp", "speed"}


def test_data_in_memory_are_not_stored_but_a_file_can_be_scored(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((6, 5, 2))
    arrays = {"x": x, "y": x.cumsum(axis=1)}
    run = hfrnn.train(data=arrays, out=tmp_path / "run", **TRAINED).folder
    with pytest.raises(InputError, match="in the memory of a Python program"):
        own_sequences(RunFolder(run))
    np.savez(tmp_path / "same.npz", **arrays)
    net, theta, _ = hfrnn.load(run)
    time_first = hfrnn.Batch(x.swapaxes(0, 1), arrays["y"].swapaxes(0, 1))
    found = evaluated(run, None, str(tmp_path / "same.npz"))
    assert found["loss"] == pytest.approx(net.loss(theta, time_first), rel=1e-12)
    assert {name: found[name] for name in ("mse", "r2")} == {
        name: hfrnn.score(net, theta, time_first).overall[name] for name in ("mse", "r2")
    }


def test_music_of_a_file_is_predicted_by_parts(tmp_path: Path) -> None:
    (tmp_path / "rolls.npz").write_bytes(stored())
    run = hfrnn.train(data=str(tmp_path / "rolls.npz"), out=tmp_path / "run", **TRAINED).folder
    found = evaluated(run, "test")
    assert (found["part"], found["pieces"]) == ("test", 2)
    assert 0 < found["cross_entropy"] < 1
    assert "outputs" not in found
