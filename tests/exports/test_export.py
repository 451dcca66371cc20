"""`hfrnn.export` and `hfrnn export`: what they write, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call
from support.tiny_runs import tiny_train

import hfrnn
from hfrnn.kernels import registry
from hfrnn.kernels.rnn import RNN


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with scaled inputs and targets, and a learned initial state."""
    folder = tmp_path_factory.mktemp("export") / "run"
    x = np.random.default_rng(0).normal(300.0, 20.0, (10, 8, 2))
    data = {"x": x, "y": x.sum(axis=2, keepdims=True)}
    options = {"arch": "leaky", "hidden": 4, "learn_initial_state": True, "updates": 1, "backend": "numpy"}
    hfrnn.train(data=data, standardize=True, **options, out=folder)
    return folder


def test_a_program_runs_alone_from_inputs_in_the_units_of_the_data(run: Path, tmp_path: Path) -> None:
    written = hfrnn.export(run, tmp_path / "a" / "b", to="numpy, c", dtype="float64")
    assert [path.name for path in written] == ["weights.npz", "network.py", "network.h", "network.c"]
    x = np.random.default_rng(1).normal(300.0, 20.0, (6, 3, 2))
    np.save(tmp_path / "x.npy", x)
    subprocess.run([sys.executable, written[1], "x.npy", "y.npy"], cwd=tmp_path, check=True)
    net, theta, _ = hfrnn.load(run, dtype="float64")
    assert theta.dtype == net.dtype == np.float64
    expected = hfrnn.predict(net, theta, hfrnn.Batch(x), scaling=hfrnn.load_scaling(run)).outputs
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-12)
    with np.load(written[0]) as stored:
        assert {*net.views(theta), "input_mean", "target_deviation"} <= {*stored}
        np.testing.assert_array_equal(stored["layer0.h0"], net.views(theta)["layer0.h0"])


def test_a_text_reads_symbols_and_has_its_vocabulary(tmp_path: Path) -> None:
    tiny_train(tmp_path)
    written = hfrnn.export(tmp_path / "run", tmp_path / "programs")
    assert written[-1].name == "vocabulary.json"
    assert "symbols from 0 to" in written[1].read_text()


def test_a_saved_network_reads_symbols_if_asked(tmp_path: Path) -> None:
    net = hfrnn.Network("rnn", n_in=4, hidden=3, n_out=4)
    hfrnn.save(net, net.init(), tmp_path / "net.safetensors")
    programs = [hfrnn.export(tmp_path / "net.safetensors", tmp_path / str(n), symbols=n == 1)[1] for n in range(2)]
    assert ["W_x[inputs]" in program.read_text() for program in programs] == [False, True]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"to": "numpi"}, "to has 'numpi'"),
    ({"to": []}, "to is empty"),
    ({"to": None}, "to is None"),
    ({"which": "third"}, "third"),
    ({"dtype": "int"}, "dtype is 'int'"),
    ({"folder": "run/inside"}, "the run folder"),
    ({"folder": "file"}, "cannot be made"),
    ({"folder": "full"}, "holds network.py already"),
]


@pytest.mark.parametrize(("arguments", "part"), WRONG)
def test_a_wrong_argument_is_refused_and_nothing_is_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").symlink_to(run)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "network.py").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(hfrnn.InputError, match=part):
        hfrnn.export(**{"run": "run", "folder": "new", **arguments})
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "full" / "network.py").read_text() == "mine"
    hfrnn.export("run", "full", force=True)
    assert (tmp_path / "full" / "network.py").read_text() != "mine"


def test_a_kernel_of_a_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_kernels", dict(registry._kernels))
    hfrnn.register_kernel("exported", type("Exported", (RNN,), {}))
    net = hfrnn.Network("exported", n_in=2, hidden=3, n_out=1, loss="squared")
    hfrnn.save(net, net.init(), tmp_path / "net.safetensors")
    with pytest.raises(hfrnn.InputError, match="not one of hfrnn"):
        hfrnn.export(tmp_path / "net.safetensors", tmp_path / "programs")
    assert not (tmp_path / "programs").exists()


def test_an_onnx_graph_without_onnx_names_the_extra_and_writes_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(hfrnn.MissingExtraError, match=r"\[onnx\]"):
        hfrnn.export(run, tmp_path / "programs", to="numpy,onnx")
    assert not (tmp_path / "programs").exists()


def test_the_command_names_the_files(run: Path, tmp_path: Path) -> None:
    arguments = ("export", run, tmp_path / "programs", "--to", "c")
    lines = call(*arguments).output.splitlines()
    assert [line.split()[0].rpartition("/")[2] for line in lines] == ["weights.npz", "network.h", "network.c"]
    assert "--force" in call(*arguments, code=2).output


def test_a_network_shows_the_options_of_its_architecture() -> None:
    shown = hfrnn.Network("leaky", n_in=2, hidden=3, n_out=1, leak=0.5).options
    assert shown == {"activation": "tanh", "leak": 0.5, "learn_leak": False}
    assert hfrnn.Network("clockwork", n_in=2, hidden=4, n_out=1).options == {"periods": (1, 2, 4, 8)}
