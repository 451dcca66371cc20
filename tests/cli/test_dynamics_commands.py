"""`hfrnn fixed-points` and `hfrnn lyapunov`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import call, refused
from support.pictures import needs_matplotlib
from support.tiny_runs import tiny_train

import hfrnn
from hfrnn.dynamics import step_jacobian


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on a text, on a task, and on sequences whose outputs are their next inputs, with a scaling."""
    place = tmp_path_factory.mktemp("runs")
    tiny_train(place, "book", arch="gru")
    tiny_train(place, "flip", text=None, data="flip-flop", length=20, sequences=20, hidden=5)
    x = 5 + np.random.default_rng(0).standard_normal((20, 15, 2))
    np.savez(place / "loop.npz", x=x[:, :-1], y=x[:, 1:])
    tiny_train(place, "loop", text=None, data=str(place / "loop.npz"), standardize=True, arch="rnn")
    return place


def test_fixed_points_of_a_run(folder: Path, tmp_path: Path) -> None:
    out = call("fixed-points", folder / "flip", "--starts", 50, "-o", tmp_path / "points.npz").stdout
    assert "from 50 starts" in out
    with np.load(tmp_path / "points.npz") as found:
        P = len(found["states"])
        assert (found["states"].shape, found["names"].shape) == ((P, 5), (5,))
        assert found["hits"].sum() <= 50
        net, theta, _ = hfrnn.load(folder / "flip")
        J, _ = step_jacobian(net, theta, np.zeros(3), found["states"])
        moduli = -np.sort(-abs(np.linalg.eigvals(J)), axis=1)
        np.testing.assert_allclose(abs(found["eigenvalues"]), moduli, atol=1e-10)
    shown = json.loads(call("fixed-points", folder / "flip", "--starts", 50, "--json").stdout)
    assert len(shown["speed"]) == P >= 1
    assert max(shown["speed"]) <= 1e-8


def test_inputs_are_in_units_of_the_data_or_a_symbol(folder: Path) -> None:
    mean = np.load(folder / "loop.npz")["x"][:, :].mean()
    assert "inputs at their means" in call("fixed-points", folder / "loop", "--starts", 5).stdout
    scaling, (net, theta, _) = hfrnn.load_scaling(folder / "loop"), hfrnn.load(folder / "loop")
    assert scaling is not None
    found = json.loads(call("fixed-points", folder / "loop", "--starts", 5, "--input", f"{mean},6", "--json").stdout)
    state = hfrnn.dynamics.to_state(net, np.array(found["states"]))
    inputs = np.tile(scaling.scale_inputs(np.array([mean, 6])), (1, len(found["states"]), 1))
    _, after = net.run(theta, hfrnn.Batch(inputs, initial_state=state))
    np.testing.assert_allclose(hfrnn.dynamics.to_vectors(net, after), found["states"], atol=1e-6)
    assert "inputs 'e'" in call("fixed-points", folder / "book", "--starts", 5, "--input", "e").stdout


def test_the_padding_holds_no_frequent_symbol(tmp_path: Path) -> None:
    x, lengths = np.zeros((10, 12), int), np.array([12] + [3] * 9)
    x[np.arange(12) < lengths[:, None]] = np.array([1, 2, 2])[np.arange(39) % 3]
    np.savez(tmp_path / "data.npz", x=x, y=(x[:, :, None] == 2) * 1.0, lengths=lengths)
    tiny_train(tmp_path, text=None, data=str(tmp_path / "data.npz"), arch="rnn")
    assert "inputs 2" in call("fixed-points", tmp_path / "run", "--starts", 5).stdout


def test_exponents_of_a_run(folder: Path) -> None:
    out = call("lyapunov", folder / "book", "--count", 2, "--sequences", 3).stdout
    assert out.splitlines()[1] == "3 sequences of the train part of text.txt, 9 steps each"
    assert out.splitlines()[-1].split()[0] == "2"
    found = json.loads(call("lyapunov", folder / "loop", "--free-run", 60, "--step", 0.5, "--json").stdout)
    assert len(found["exponents"]) == 4
    assert "54 free steps each" in found["data"]  # a tenth is left out
    short = call("lyapunov", folder / "loop", "--free-run", 1, "--sequences", 1, "--count", 1, "--json").stdout
    assert json.loads(short)["errors"] == [None]  # JSON has no NaN
    assert "NaN" not in short
    assert "per time" in call("lyapunov", folder / "loop", "--free-run", 60, "--step", 0.5).stdout


def test_a_free_run_feeds_the_columns_that_are_inputs_and_targets(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((200, 4))
    np.savetxt(tmp_path / "data.csv", values, delimiter=",", header="a,b,c,d", comments="")
    how = {"text": None, "data": str(tmp_path / "data.csv"), "inputs": ["a", "b"], "window": 20}
    how |= {"arch": "rnn", "standardize": False}
    for name, targets in (("crossed", ["b", "a"]), ("others", ["c", "d"])):
        tiny_train(tmp_path, name, **how, targets=targets)
    arguments = ["--free-run", 60, "--symbols", 20, "--sequences", 1, "--json"]
    found = json.loads(call("lyapunov", tmp_path / "crossed", *arguments).stdout)["exponents"]
    objective, theta, _ = hfrnn.load_objective(str(tmp_path / "crossed"), symbols=20)
    inputs = objective.batch.padded().inputs
    expected = hfrnn.dynamics.lyapunov(objective.net, theta, inputs, free_steps=60, feedback=[1, 0])
    np.testing.assert_allclose(found, expected.exponents, rtol=1e-6)
    assert "reads a, b and predicts c, d" in refused("lyapunov", tmp_path / "others", *arguments)
    tiny_train(tmp_path, "late", **how, targets=["c", "d"], ahead=1)
    chosen = json.loads(call("lyapunov", tmp_path / "late", *arguments, "--feedback", "b,a").stdout)["exponents"]
    objective, theta, _ = hfrnn.load_objective(str(tmp_path / "late"), symbols=20)
    inputs = objective.batch.padded().inputs
    expected = hfrnn.dynamics.lyapunov(objective.net, theta, inputs, free_steps=60, feedback=[1, 0])
    np.testing.assert_allclose(chosen, expected.exponents, rtol=1e-6)


def test_exponents_begin_in_the_states_of_the_data(tmp_path: Path) -> None:
    x, rows = np.random.default_rng(0).standard_normal((6, 12, 1)), np.linspace(-1, 1, 18).reshape(6, 3)
    np.savez(tmp_path / "data.npz", x=x, y=x, initial_state=rows)
    how = {"arch": "rnn", "hidden": 3, "updates": 1, "backend": "numpy", "valid": str(tmp_path / "data.npz")}
    hfrnn.train(data=str(tmp_path / "data.npz"), out=tmp_path / "run", **how)
    net, theta, _ = hfrnn.load(tmp_path / "run")
    found = json.loads(call("lyapunov", tmp_path / "run", "--sequences", 6, "--json").stdout)["exponents"]
    expected = hfrnn.dynamics.lyapunov(net, theta, x.swapaxes(0, 1), rows).exponents
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    own = hfrnn.Network(**{**net.config, "recordings": 6})
    weights = np.zeros(own.n_parameters, np.float32)
    for name, block in net.views(theta).items():
        own.views(weights)[name][...] = block
    own.views(weights)["layer0.h0_each"][...] = rows.ravel()
    numbered = hfrnn.dynamics.lyapunov(own, weights, x.swapaxes(0, 1), np.arange(6)).exponents
    np.testing.assert_allclose(numbered, expected, rtol=1e-6)


@needs_matplotlib
def test_pictures(folder: Path, tmp_path: Path) -> None:
    call("fixed-points", folder / "flip", "--starts", 20, "--plot", tmp_path / "points.svg")
    call("lyapunov", folder / "loop", "--plot", tmp_path / "exponents.svg")
    for name, words in (("points", "Eigenvalues"), ("exponents", "Lyapunov exponents")):
        picture = (tmp_path / f"{name}.svg").read_text("utf-8")
        assert f"<!-- {words} -->" in picture
        assert "<!-- States -->" in picture


def test_wrong_arguments_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for arguments, words in (
        (["fixed-points", "flip", "--input", "1"], "--input is 1: the network has 3 inputs"),
        (["fixed-points", "flip", "--input", "x,1,2"], "give numbers"),
        (["fixed-points", "book", "--input", "The"], "give one symbol"),
        (["fixed-points", "flip", "--starts", "0"], "--starts is 0"),
        (["fixed-points", "flip", "-o", "points.csv"], "ends in .npz"),
        (["fixed-points", "flip", "--tolerance", "0"], "--tolerance"),
        (["fixed-points", "flip", "--slow", "1e-9"], "--slow is 1e-09"),
        (["lyapunov", "flip", "--sequences", "0"], "--sequences is 0"),
        (["lyapunov", "flip", "--washout", "20"], "--washout is 20"),
        (["lyapunov", "loop", "--step", "0"], "--step is 0"),
        (["lyapunov", "loop", "--free-run", "0"], "--free-run is 0"),
        (["lyapunov", "book", "--free-run", "5"], "cannot be its inputs"),
        (["lyapunov", "loop", "--count", "5"], "--count is 5"),
        (["lyapunov", "loop", "--feedback", "0"], "--feedback was given, and --free-run was not"),
    ):  # fmt: skip
        assert words in refused(*arguments)
