"""Networks to export, and how the programs of an export are run."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.arrays.stored import npz_bytes
from hfrnn.exports.c_source import c_source
from hfrnn.exports.numpy_program import numpy_program
from hfrnn.exports.onnx_graph import onnx_graph
from hfrnn.exports.program import Program, make_program
from hfrnn.exports.torch_module import pytorch_module

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "rnn": [{"activation": "relu"}], "leaky": [{"learn_leak": True}, {"activation": "softplus"}],
    "rate": [{"learn_leak": True, "activation": "softplus"}], "hornn": [{"order": 1}, {"activation": "logistic"}],
    "hornn-max": [{"order": 1}], "hornn-gated": [{"order": 2}], "fnn": [{"order": 1}, {"order": 2}],
    "fofe-fnn": [{"codes": 3}], "scrn": [{"learn_alpha": True, "context": 3}, {"context": 0}],
    "gru-torch": [{"candidate_bias": False}], "clockwork": [{"periods": [2, 1, 4]}, {"periods": [1]}],
    "hierarchical": [{"periods": [1, 2, 1]}], "gated-feedback": [{"sublayers": 1}],
    "low-rank": [{"learn_leak": True, "rank": 3, "activation": "logistic"}],
}  # fmt: skip
"""Options of architectures beside the default ones."""
SHAPES: list[dict[str, Any]] = [
    {"hidden": (6, 12), "learn_initial_state": True},
    {"hidden": 6, "bias": False, "output_bias": True},
    {"hidden": (6, 6), "direct_input": False, "direct_output": False, "bias": True},
]
LOSSES = ("squared", "softmax", "logistic", "poisson", "gaussian", "class-softmax")
HEADS: list[dict[str, Any]] = [{"loss": loss} for loss in LOSSES]
HEADS[-1] |= {"classes": [2, 0, 1, 0, 2, 2]}


def first_cases() -> list[Any]:
    """One network of each architecture; inputs, heads and shapes take turns."""
    return [_case(arch, {}, n) for n, arch in enumerate(hfrnn.architectures())]


def other_cases() -> list[Any]:
    """The other shapes and options of each architecture."""
    found = []
    for arch in hfrnn.architectures():
        for options in ({}, *OPTIONS.get(arch, ())):
            found += [_case(arch, options, len(found) + n) for n in range(len(SHAPES))]
    return found


def _case(arch: str, options: dict[str, Any], n: int) -> Any:
    shape, head = SHAPES[n % len(SHAPES)], HEADS[n % len(HEADS)]
    embedding = {"embedding": 3} if n % 5 == 0 else {}
    symbols = n % 5 in (0, 1)
    names = [arch, *(f"{key}={value}" for key, value in (options | shape | head | embedding).items())]
    return pytest.param({"arch": arch, **options, **shape, **head, **embedding}, symbols, id=",".join(names))


def made(arguments: dict[str, Any], symbols: bool, dtype: str = "float64", scaling: Any = None) -> tuple[Program, Any]:
    """The program of a network, and inputs (T, B, 5) or symbols (T, B)."""
    net = hfrnn.Network(**{"n_in": 5, "n_out": 6, "dtype": dtype, **arguments})
    rng = np.random.default_rng(1)
    theta = (0.25 * rng.normal(size=net.n_parameters)).astype(dtype)
    inputs = rng.integers(5, size=(9, 3)) if symbols else rng.normal(size=(9, 3, 5))
    return make_program(net, theta, scaling, symbols), (net, theta, inputs)


def imported(file: Path) -> Any:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location("exported_network", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_numpy(program: Program, folder: Path, inputs: Any) -> Any:
    """Run the NumPy program in two parts, from state to state."""
    (folder / "weights.npz").write_bytes(npz_bytes({**program.arrays, **program.scales}))
    (folder / "network.py").write_text(numpy_program(program))
    module = imported(folder / "network.py")
    first, states = module.run(inputs[:2])
    return np.concatenate([first, module.run(inputs[2:], states)[0]])


def run_torch(program: Program, folder: Path, inputs: Any) -> Any:
    """Run the PyTorch module in two parts, from state to state."""
    import torch

    (folder / "weights.npz").write_bytes(npz_bytes({**program.arrays, **program.scales}))
    (folder / "network_torch.py").write_text(pytorch_module(program))
    network = imported(folder / "network_torch.py").Network()
    x = torch.from_numpy(inputs)
    logits, states = network(x[:2])
    again = torch.cat([logits, network(x[2:], states)[0]]).detach()
    torch.testing.assert_close(again, network(x)[0].detach(), rtol=1e-12, atol=1e-12)
    return network.predict(x).numpy()


def run_onnx(program: Program, folder: Path, inputs: Any) -> Any:
    """Run the ONNX graph in onnxruntime in two parts, from state to state."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    session = onnxruntime.InferenceSession(onnx_graph(program))
    given = inputs.astype("int64" if program.symbols else program.dtype)
    names = [each.name for each in session.get_outputs()]
    first = dict(zip(names, session.run(None, {"inputs": given[:2]}), strict=True))
    states = {name.removesuffix(".after"): value for name, value in first.items() if name != "outputs"}
    return np.concatenate([first["outputs"], session.run(["outputs"], {"inputs": given[2:], **states})[0]])


def run_c(program: Program, folder: Path, inputs: Any) -> Any:
    """Compile the C program with all warnings as errors, and run it step by step for each sequence."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (cc)")
    for name, text in c_source(program).items():
        (folder / name).write_text(text)
    size = (
        '#include "network.h"\nunsigned long size(void);\nunsigned long size(void) { return sizeof(network_state); }\n'
    )
    (folder / "size.c").write_text(size)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    files = ["network.c", "size.c", "-o", "network.so", "-lm"]
    subprocess.run([compiler, *flags, *files], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "network.so"))
    library.size.restype = ctypes.c_ulong
    T, B = inputs.shape[:2]
    outputs = np.empty((T, B, program.net.n_out), program.dtype)
    values = inputs if program.symbols else np.ascontiguousarray(inputs, program.dtype)
    for b in range(B):
        state = ctypes.create_string_buffer(library.size())
        library.network_start(state)
        for t in range(T):
            step = ctypes.c_int(values[t, b]) if program.symbols else ctypes.c_void_p(values[t, b].ctypes.data)
            library.network_step(state, step, ctypes.c_void_p(outputs[t, b].ctypes.data))
    return outputs
