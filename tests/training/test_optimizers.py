"""What the optimizers of a run are given: Muon's hidden matrices, SOAP's blocks, the options."""

import numpy as np
import pytest
from support.method_runs import run, training_state

import hfrnn
from hfrnn.engine.network import Network
from hfrnn.optim.average import Average
from hfrnn.optim.compiled_steps import OnePassAdam, OnePassAverage, OnePassSGD
from hfrnn.optim.first_order import SGD, Adam
from hfrnn.optim.muon import Muon
from hfrnn.optim.soap import SOAP
from hfrnn.runs import folder as run_folder
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.training.methods.method import make_average
from hfrnn.training.methods.muon import hidden_matrices
from hfrnn.training.trainer import train


def make_optimizer(config, net, threads):
    """Return what makes the steps of a run."""
    optimizer = OPTIMIZERS[config.optimizer]
    return optimizer.step(config, net, threads)


@pytest.mark.parametrize(("name", "kind"), [("sgd", SGD), ("adam", Adam), ("soap", SOAP), ("muon", Muon)])
def test_the_options_name_the_optimizer(name, kind):
    net = Network("mlstm", 6, 4, 6)
    config = TrainConfig(optimizer=name, weight_decay=0.25, momentum=0.5 if name == "sgd" else None)
    found = make_optimizer(config, net, threads=2)
    assert type(found) is kind
    assert (found.kind, found.options.decay) == (name, 0.25)
    assert found._threads.threads == 2
    if name == "sgd":
        assert (found.options.momentum, found.options.nesterov) == (0.5, False)
        plain = make_optimizer(TrainConfig(optimizer="sgd"), net, threads=1)
        assert plain.options.momentum == 0.0
    if name == "soap":
        assert found.blocks == net.matrix_blocks


@pytest.mark.parametrize(("name", "kind"), [("sgd", OnePassSGD), ("adam", OnePassAdam), ("soap", SOAP), ("muon", Muon)])
def test_numba_makes_each_step_in_one_pass(name, kind):
    pytest.importorskip("numba", reason="numba is not installed (the extra fast)")
    net = Network("rnn", 6, 4, 6, backend="numba")
    config = TrainConfig(optimizer=name, weight_decay=0.25, momentum=0.5 if name == "sgd" else None, average=0.75)
    found = make_optimizer(config, net, threads=2)
    assert type(found) is kind
    assert (found.kind, found.options.decay, found._threads.threads) == (name, 0.25, 2)
    average = make_average(config, net)
    assert (type(average), average.decay) == (OnePassAverage, 0.75)
    assert type(make_average(config, Network("rnn", 6, 4, 6))) is Average


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_run_with_numba_resumes_with_the_same_bits_and_follows_the_one_with_numpy(tmp_path, optimizer):
    pytest.importorskip("numba", reason="numba is not installed (the extra fast)")
    options = {
        "optimizer": optimizer, "log_interval": 1, "average": 0.6, "clip_norm": 0.01, "arch": "hornn-max",
        "dtype": "float64",
    }  # fmt: skip
    whole, reference = (
        run(tmp_path, backend, updates=6, backend=backend, threads=threads, **options).folder
        for backend, threads in (("numba", 2), ("numpy", 1))
    )
    parts = run(tmp_path, "parts", updates=2, backend="numba", threads=1, **options).folder
    train(resume=parts, updates=6)
    assert training_state(parts) == training_state(whole)
    expected = load_checkpoint(reference / "last.safetensors")[0]
    for name, array in load_checkpoint(whole / "last.safetensors")[0].items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-10, atol=1e-14, err_msg=name)


@pytest.mark.parametrize(("options", "expected"), [
    ({"arch": "lstm"}, {"layer0.W_h": 4}),
    ({"arch": "mlstm", "embedding": 3}, {"layer0.W_x": 5, "layer0.W_hm": 1, "layer0.W_m": 4}),
    ({"arch": "gru", "hidden": (4, 3)}, {
        "layer0.W_h": 2, "layer0.W_hg": 1, "layer1.W_below": 3, "layer1.W_h": 2, "layer1.W_hg": 1}),
    ({"arch": "hornn", "order": 3, "loss": "class-softmax", "classes": 2}, {"layer0.W_h": 1}),
    ({"arch": "scrn", "hidden": (4, 3), "context": 4}, {
        "layer0.W_h": 1, "layer0.W_s": 1, "layer1.W_below": 1, "layer1.W_h": 1, "layer1.W_s": 1}),
    ({"arch": "scrn", "hidden": (4, 0), "context": 2}, {"layer0.W_h": 1, "layer0.W_s": 1, "layer1.W_below": 1}),
    ({"arch": "scrn", "context": 3}, {"layer0.W_h": 1, "layer0.W_s": 1}),
], ids=str)  # fmt: skip
def test_muon_gets_the_hidden_matrices_gate_by_gate(options, expected):
    net = Network(**{"n_in": 6, "hidden": 4, "n_out": 6, **options})
    found, views = hidden_matrices(net), net.views(np.arange(net.n_parameters))
    at = iter(found)
    for name, gates in expected.items():
        view = views[name] if views[name].ndim == 3 else views[name][None]
        for matrix in view:
            block = next(at)
            assert (block.rows, block.columns, block.gates) == (*matrix.shape, gates)
            np.testing.assert_array_equal(np.arange(net.n_parameters)[block.span].reshape(matrix.shape), matrix)
    assert next(at, None) is None


def test_a_checkpoint_may_be_as_large_as_the_matrices_of_soap(tmp_path, monkeypatch):
    for name, value in (("SPARE", 2**12), ("LIKE_THETA", 4), ("LIKE_TRACES", 0)):
        monkeypatch.setattr(run_folder, name, value)
    folder = run(tmp_path, optimizer="soap", hidden=(2, 2, 2), streams=1, dtype="float64", updates=1).folder
    assert hfrnn.load(folder, "last")[1].dtype == np.float64
