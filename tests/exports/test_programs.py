"""The programs of an export compute what `hfrnn.predict` returns."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.export_cases import SHAPES, first_cases, made, other_cases, run_c, run_numpy, run_onnx, run_torch

import hfrnn
from hfrnn.data.scaling import Scaling
from hfrnn.engine.heads.heads import losses
from hfrnn.exports.equations import EQUATIONS
from hfrnn.exports.onnx_graph import onnx_graph
from hfrnn.exports.program import PREDICTIONS
from hfrnn.kernels.registry import BUILT_IN

SCALING = Scaling(np.full(5, 300.0), np.full(5, 7.0), np.arange(6.0), np.full(6, 0.1))


def test_every_architecture_has_equations_and_every_loss_a_prediction() -> None:
    assert EQUATIONS.keys() == BUILT_IN
    assert PREDICTIONS.keys() == set(losses())


@pytest.mark.parametrize(("arguments", "symbols"), first_cases())
def test_the_numpy_program_agrees_with_predict(arguments: dict[str, Any], symbols: bool, tmp_path: Path) -> None:
    agrees(run_numpy, arguments, symbols, tmp_path)


@pytest.mark.parametrize(("arguments", "symbols"), first_cases())
def test_the_torch_module_agrees_with_predict(arguments: dict[str, Any], symbols: bool, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    agrees(run_torch, arguments, symbols, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "symbols"), other_cases())
def test_the_torch_module_agrees_with_other_options(
    arguments: dict[str, Any], symbols: bool, tmp_path: Path
) -> None:  # fmt: skip
    pytest.importorskip("torch", reason="PyTorch is not installed")
    agrees(run_torch, arguments, symbols, tmp_path)


@pytest.mark.parametrize("arch", ["lstm", "gru", "gru-torch", "rnn"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("symbols", [False, True])
def test_nodes_of_onnx_agree_with_predict(arch: str, shape: dict[str, Any], symbols: bool, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    activation = {"activation": "logistic"} if arch == "rnn" and symbols else {}
    program, (net, theta, x) = made({"arch": arch, **shape, **activation}, symbols, "float32")
    assert b"Scan" not in onnx_graph(program)
    expected = hfrnn.predict(net, theta, hfrnn.Batch(x)).outputs
    np.testing.assert_allclose(run_onnx(program, tmp_path, x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("arguments", "symbols"), first_cases())
def test_the_onnx_graph_agrees_with_predict(arguments: dict[str, Any], symbols: bool, tmp_path: Path) -> None:
    agrees(run_onnx, arguments, symbols, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "symbols"), other_cases())
def test_the_onnx_graph_agrees_with_other_options(
    arguments: dict[str, Any], symbols: bool, tmp_path: Path
) -> None:  # fmt: skip
    agrees(run_onnx, arguments, symbols, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "symbols"), other_cases())
def test_the_numpy_program_agrees_with_other_options(
    arguments: dict[str, Any], symbols: bool, tmp_path: Path
) -> None:  # fmt: skip
    agrees(run_numpy, arguments, symbols, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "symbols"), first_cases() + other_cases())
def test_the_c_program_agrees_with_predict(arguments: dict[str, Any], symbols: bool, tmp_path: Path) -> None:
    agrees(run_c, arguments, symbols, tmp_path)


def test_a_c_program_with_scaling_in_single_precision_agrees_with_predict(tmp_path: Path) -> None:
    program, (net, theta, x) = made({"arch": "mlstm", "hidden": 6, "loss": "squared"}, False, "float32", SCALING)
    x = 7.0 * x + 300.0
    expected = hfrnn.predict(net, theta, hfrnn.Batch(x), scaling=SCALING).outputs
    for run in (run_c, run_numpy, *[run_onnx] * (find_spec("onnxruntime") is not None)):
        np.testing.assert_allclose(run(program, tmp_path, x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("symbols", [False, True])
def test_a_large_rate_of_a_c_program_in_single_precision_has_the_rounding_of_its_logarithm(
    symbols: bool, tmp_path: Path
) -> None:  # fmt: skip
    arguments = {"arch": "state-space", "hidden": (6, 12), "learn_initial_state": True, "loss": "poisson"}
    program, (net, theta, x) = made(arguments, symbols, "float32")
    double = hfrnn.Network(**{"n_in": 5, "n_out": 6, **arguments, "dtype": "float64"})
    x = x if symbols else x.astype("float32")
    expected = np.log(hfrnn.predict(double, theta.astype("float64"), hfrnn.Batch(x)).outputs)
    unit = np.finfo("float32").eps * np.abs(expected).max()
    assert unit > 7e-7
    for rates in (run_c(program, tmp_path, x), hfrnn.predict(net, theta, hfrnn.Batch(x)).outputs):
        assert np.abs(np.log(rates.astype("float64")) - expected).max() <= 3 * unit


@pytest.mark.parametrize(("arguments", "symbols", "scaling"), [
    ({"arch": "state-space", "hidden": (4, 3), "loss": "squared"}, False, SCALING),
    ({"arch": "gru", "hidden": 4, "loss": "class-softmax", "classes": [2, 0, 1, 0, 2, 2]}, True, None),
    ({"arch": "lstm", "hidden": (4, 3), "loss": "logistic", "embedding": 3}, True, None),
], ids=["real", "symbols", "embedding"])  # fmt: skip
def test_programs_have_the_direct_term_of_the_input(
    arguments: dict[str, Any], symbols: bool, scaling: Scaling | None, tmp_path: Path
) -> None:  # fmt: skip
    needs = {run_numpy: "numpy", run_c: "numpy", run_torch: "torch", run_onnx: "onnxruntime"}
    for run in (run for run, module in needs.items() if find_spec(module) is not None):
        agrees(run, {**arguments, "feedthrough": True}, symbols, tmp_path, scaling)


def agrees(run: Any, arguments: dict[str, Any], symbols: bool, folder: Path, scaling: Scaling | None = None) -> None:
    program, (net, theta, inputs) = made(arguments, symbols, scaling=scaling)
    expected = hfrnn.predict(net, theta, hfrnn.Batch(inputs), scaling=scaling).outputs
    np.testing.assert_allclose(run(program, folder, inputs), expected, rtol=1e-12, atol=1e-12)
