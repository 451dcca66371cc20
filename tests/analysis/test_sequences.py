"""Sequences of a run's own data and of files, their predictions, and their figures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
from support.data_runs import ROWS, TRAINED, driven, make_data_runs, oscillator, write_table
from support.matlab_files import v7, v73

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


def read(run: Path, path: Path | None = None) -> Any:
    """The sequences of a file, by default the one that the run was trained on."""
    folder, net, _ = opened(run)
    own = next(file for ending in ("npz", "csv") if (file := run.parent / f"{run.name}.{ending}").exists())
    return file_sequences(folder, net, str(path or own))


def evaluated(run: Path, part: str | None = None, path: Path | None = None) -> dict[str, Any]:
    folder, net, theta = opened(run)
    return evaluate_sequences(net, theta, folder.config(), part, folder, None if path is None else str(path))


def arrays_file(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("name", ["real", "bits", "classes", "same", "window", "drive", "vdp"])
def test_the_loss_of_the_validation_part_is_that_of_training(runs, name: str) -> None:
    best = min(line["valid_loss"] for line in RunFolder(runs[name]).metrics() if line["valid_loss"] is not None)
    assert evaluated(runs[name])["loss"] == pytest.approx(best, rel=1e-6)


def test_errors_are_in_the_units_of_the_data(runs) -> None:
    folder, net, theta = opened(runs["drive"])
    scaling, batch = hfrnn.load_scaling(runs["drive"]), own_sequences(folder).batch
    inputs = (batch.inputs - scaling.input_mean) / scaling.input_deviation
    z = net.run(theta, hfrnn.Batch(inputs, lengths=batch.lengths))[0]
    y, found = z * scaling.target_deviation + scaling.target_mean, evaluated(runs["drive"])["outputs"]
    for k, name in enumerate(("temp", "speed")):
        used = batch.weights[:, :, k] > 0
        targets = batch.targets[:, :, k][used]
        error = np.mean((y[:, :, k][used] - targets) ** 2)
        figures = {"mse": error, "nrmse": math.sqrt(error) / targets.std()}
        assert {each: found[name][each] for each in figures} == pytest.approx(figures, rel=1e-9)


def test_parts_and_a_file_of_the_same_sequences_have_the_same_figures(runs, tmp_path: Path) -> None:
    run, arrays = runs["real"], np.load(runs["real"].parent / "real.npz")
    last = arrays_file(tmp_path / "last.npz", **{name: arrays[name][-2:] for name in arrays.files})
    own, given = evaluated(run, "valid"), evaluated(run, None, last)
    assert {**own, "data": 0, "part": 0} == {**given, "data": 0, "part": 0}
    assert evaluated(run, "train") != own
    with pytest.raises(InputError, match="no test part"):
        evaluated(run, "test")


def test_a_table_is_one_recording_after_a_burn_in(runs) -> None:
    _, net, theta = opened(runs["drive"])
    columns = np.genfromtxt(runs["drive"].parent / "drive.csv", delimiter=",", names=True)
    given, scaling = read(runs["drive"]), hfrnn.load_scaling(runs["drive"])
    assert (given.recording, given.batch.B, given.batch.T, given.ahead) == (True, 1, ROWS, 0)
    assert given.output_names == ("temp", "speed")
    np.testing.assert_array_equal(given.batch.inputs[:, 0, 0], columns["u"])
    np.testing.assert_array_equal(given.batch.targets[:, 0, 1], columns["speed"])
    weights = given.batch.weights[:, 0]
    assert (weights[:4] == 0).all()
    np.testing.assert_array_equal(weights[4:, 0] == 0, np.isnan(columns["temp"][4:]))
    assert (weights[4:, 1] == 1).all()
    whole = hfrnn.predict(net, theta, given.batch, scaling=given.scaling).outputs
    alone = net.run(theta, hfrnn.Batch(scaling.scale_inputs(given.batch.inputs)))[0]
    np.testing.assert_allclose(whole, scaling.unscale_outputs(alone), rtol=1e-12)


def test_one_recording_is_not_cut_may_be_a_row_of_matlab_and_targets_ahead_are_shifted(runs, tmp_path):
    columns = oscillator()
    scipy.io.savemat(tmp_path / "row.mat", {"x": columns["pos"], "y": columns["vel"]})
    for path in (None, tmp_path / "row.mat"):
        given = read(runs["window"], path)
        assert given.recording
        np.testing.assert_array_equal(given.batch.inputs[:, 0, 0], columns["pos"])
        np.testing.assert_array_equal(given.batch.targets[:, 0, 0], columns["vel"])
    given, pos = read(runs["vdp"]), oscillator()["pos"]
    assert given.ahead == 1
    np.testing.assert_array_equal(given.batch.inputs[:, 0, 0], pos)
    np.testing.assert_array_equal(given.batch.targets[:-1, 0, 0], pos[1:])
    assert (given.batch.weights[-1] == 0).all()


def test_integers_are_no_inputs_of_a_run_on_real_values(runs, tmp_path: Path) -> None:
    steps = np.zeros((3, 4), int)
    with pytest.raises(
        InputError, match=r"are integers, which are symbols, and .* was trained on real values: give flo"
    ):
        read(runs["real"], arrays_file(tmp_path / "symbols.npz", x=steps, y=np.zeros((3, 4, 2))))


@pytest.mark.parametrize("form", [v7, v73], ids=["v7", "v7.3"])
@pytest.mark.parametrize("whole", [False, True], ids=["each step", "last step"])
def test_a_file_of_one_trial_is_one_sequence_after_training_on_trials(form: Any, whole: bool, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    made = [{"u": rng.normal(size=(T, 1)), "y": rng.normal(size=(1 if whole else T, 1))} for T in (9, 8, 7, 6)]
    for name, content in (("all", made), ("one", made[0]), ("twice", [made[0], made[0]])):
        (tmp_path / f"{name}.mat").write_bytes(form({"tr": content}))
    run = tmp_path / "run"
    hfrnn.train(
        data=tmp_path / "all.mat", inputs="tr.u", targets="tr.y", out=run, updates=1, hidden=3, fractions=(0.5, 0.5, 0)
    )
    one, twice = (evaluated(run, None, tmp_path / f"{name}.mat") for name in ("one", "twice"))
    assert (one["sequences"], twice["sequences"]) == (1, 2)
    assert one["loss"] == pytest.approx(twice["loss"])


def test_a_file_without_the_mask_of_the_run_has_nothing_to_score(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(9, 5, 2))
    with_mask = arrays_file(tmp_path / "all.npz", x=x, y=x, w=np.ones((9, 5)))
    run = hfrnn.train(data=with_mask, mask="w", out=tmp_path / "run", updates=1, hidden=3).folder
    without = arrays_file(tmp_path / "few.npz", x=x, y=x)
    with pytest.raises(InputError, match=r"no targets to score \(mask= has 'w', and .*few.npz holds no such array"):
        evaluated(run, None, without)
    folder, net, _ = opened(run)
    assert file_sequences(folder, net, str(without)).batch.B == 9


@pytest.mark.parametrize("name", ["real", "bits", "classes", "window"])
def test_arrays_need_no_targets_to_be_predicted(runs, tmp_path: Path, name: str) -> None:
    _, net, theta = opened(runs[name])
    arrays = np.load(runs[name].parent / f"{name}.npz")
    path = arrays_file(tmp_path / "x.npz", **{role: arrays[role] for role in ("x", "lengths") if role in arrays.files})
    given, bare = read(runs[name]), read(runs[name], path)
    assert bare.batch.targets is None
    assert "no array y" in bare.note
    found, expected = (hfrnn.predict(net, theta, each.batch, scaling=each.scaling) for each in (bare, given))
    np.testing.assert_array_equal(found.outputs, expected.outputs)
    with pytest.raises(InputError, match="no targets to score"):
        evaluated(runs[name], None, path)


def test_a_table_needs_no_columns_of_targets_and_a_run_keeps_its_scaling(runs, tmp_path: Path) -> None:
    given = read(runs["drive"], write_table(tmp_path / "u.csv", {"u": oscillator()["vel"]}))
    assert given.batch.targets is None
    assert "'temp'" in str(given.note)
    assert given.output_names == ("temp", "speed")
    columns = driven(np.random.default_rng(5))
    path = write_table(tmp_path / "other.csv", {name: columns[name] for name in ("speed", "temp", "u")})
    assert read(runs["drive"], path).scaling.to_json() == RunFolder(runs["drive"]).scaling().to_json()
    assert evaluated(runs["drive"], None, path)["outputs"].keys() == {"temp", "speed"}


@pytest.mark.parametrize(("name", "file", "message"), [
    ("drive", "real.npz", "give a file ending in .csv, .tsv, .dat"), ("real", "vdp.txt", "vdp.txt is a text"),
    ("real", "drive.csv", "give a file ending in .npz, .npy, .mat, .h5, .hdf5 or .nwb"),
    ("real", "nowhere.npz", "there is no file"),
    ("drive", "vdp.csv", "which is no column"), ("window", "real.npz", "one recording"),
])  # fmt: skip
def test_a_file_of_another_kind_is_refused(runs, name: str, file: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(runs[name], runs[name].parent / file)


SIZES = (3, 4, 2)


@pytest.mark.parametrize(("name", "arrays", "message"), [
    ("bits", {"x": np.zeros((3, 4, 5)), "y": np.zeros(SIZES)}, "5 values per step"),
    ("real", {"x": np.zeros((3, 4, 5)), "y": np.zeros(SIZES)}, "5 values per step"),
    ("bits", {"x": np.zeros(SIZES), "y": np.zeros((3, 4, 5))}, "targets"),
    ("real", {"x": np.zeros(SIZES), "y": np.zeros((3, 4, 5))}, "targets"),
    ("classes", {"x": np.zeros(SIZES), "y": np.full((3, 4), 7)}, "target"),
    *(("real", {"x": x}, r"odd\.npz") for x in (np.zeros((0, 4, 2)), np.zeros((3, 0, 2)), np.full(SIZES, np.nan))),
])  # fmt: skip
def test_odd_arrays_and_those_of_other_sizes_are_refused(runs, tmp_path: Path, name, arrays, message) -> None:
    with pytest.raises(InputError, match=message):
        evaluated(runs[name], None, arrays_file(tmp_path / "odd.npz", **arrays))


def test_a_file_may_hold_one_class_only(runs, tmp_path: Path) -> None:
    path = arrays_file(tmp_path / "one.npz", x=np.ones(SIZES), y=np.zeros((3, 4), dtype=int))
    assert evaluated(runs["classes"], None, path)["outputs"].keys() == {"0"}


def test_data_that_have_changed_are_noticed_and_those_in_memory_not_stored_but_a_file_can_be_scored(tmp_path):
    run = make_data_runs(tmp_path, "bits")["bits"]
    arrays_file(tmp_path / "bits.npz", x=np.zeros((20, 9, 2)), y=np.zeros((20, 9, 2)))
    with pytest.raises(CheckpointError, match="has changed"):
        own_sequences(RunFolder(run))
    x = np.random.default_rng(0).standard_normal((6, 5, 2))
    arrays = {"x": x, "y": x.cumsum(axis=1)}
    run = hfrnn.train(data=arrays, out=tmp_path / "run", **TRAINED).folder
    with pytest.raises(InputError, match="in the memory of a Python program"):
        own_sequences(RunFolder(run))
    net, theta, _ = hfrnn.load(run)
    batch = hfrnn.Batch(*(array.swapaxes(0, 1) for array in arrays.values()))
    found = evaluated(run, None, arrays_file(tmp_path / "same.npz", **arrays))
    scored = hfrnn.score(net, theta, batch).overall
    assert found["loss"] == pytest.approx(net.loss(theta, batch), rel=1e-12)
    assert (found["mse"], found["r2"]) == (scored["mse"], scored["r2"])


@pytest.mark.parametrize("tables", [False, True])
def test_a_run_on_data_in_memory_asks_for_a_file_that_it_takes(tmp_path: Path, tables: bool) -> None:
    x = np.random.default_rng(0).standard_normal((12, 5, 1))
    more: dict[str, Any] = {"arch": "rnn", "hidden": 2, "updates": 1, "backend": "numpy", "progress": False}
    if tables:
        data: Any = pd.DataFrame({"u": x.ravel(), "y": x.ravel()})
        more |= {"inputs": "u", "targets": "y"}
    else:
        data = {"x": x, "y": x}
    folder = RunFolder(hfrnn.train(data=data, out=tmp_path / "run", **more).folder)
    with pytest.raises(
        InputError, match=r"give a file ending in .*\.csv" if tables else r"give a file ending in .*\.npz"
    ):
        own_sequences(folder)
