"""hfrnn.interop against PyTorch itself, where it is installed."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.torch_models import data, named, sizes, taken

import hfrnn
from hfrnn.interop import from_torch, gradient_to_torch


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed (extra peers)")


def torch_model(torch: Any, kind: str = "lstm", n_in: int = 5, hidden: int = 4, n_out: int = 3, layers: int = 1,
                embedding: int | None = None, bias: bool = True, seed: int = 0, **recurrent: Any) -> Any:  # fmt: skip
    """A model with the modules that `state_dict` names."""
    torch.manual_seed(seed)
    module = {"lstm": torch.nn.LSTM, "rnn": torch.nn.RNN, "gru": torch.nn.GRU}[kind]
    modules = {} if embedding is None else {"embedding": torch.nn.Embedding(n_in, embedding)}
    modules[kind] = module(embedding or n_in, hidden, layers, bias=bias, **recurrent)
    modules["decoder"] = torch.nn.Linear(hidden, n_out, bias=bias)
    return torch.nn.ModuleDict(modules)


def torch_outputs(torch: Any, model: Any, inputs: Any) -> Any:
    """Outputs (T, B, n_out) for symbols."""
    kind = next(kind for kind in ("lstm", "rnn", "gru") if kind in model)
    if "embedding" in model:
        xs = model["embedding"](inputs)
    else:
        xs = torch.nn.functional.one_hot(inputs, model[kind].input_size).to(model["decoder"].weight.dtype)
    return model["decoder"](model[kind](xs)[0])


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_autograd(torch: Any, seed: int) -> None:
    model = torch_model(torch, **sizes(seed), seed=seed).double()
    state, called = model.state_dict(), named(model.state_dict())
    net, theta = from_torch(state, **taken(state))
    batch = data(state)
    z = torch_outputs(torch, model, torch.from_numpy(batch.inputs))
    loss = torch.nn.functional.cross_entropy(z.flatten(0, 1), torch.from_numpy(batch.targets).flatten())
    loss.backward()
    f, gradient = net.loss_and_gradient(theta, batch)
    assert f == pytest.approx(loss.item(), rel=1e-13)
    there = gradient_to_torch(net, gradient, state, **called)
    for name, parameter in model.named_parameters():
        assert parameter.grad.norm() > 1e-6
        np.testing.assert_allclose(there[name], parameter.grad, rtol=1e-9, atol=1e-15, err_msg=name)


@pytest.mark.parametrize(("loss", "factor"), [("squared", 2 / 3), ("logistic", 1 / 3)])
def test_other_losses_sum_over_outputs_where_pytorch_takes_the_mean(torch: Any, loss: str, factor: float) -> None:
    model = torch_model(torch).double()
    net, theta = from_torch(model.state_dict(), loss=loss)
    inputs, targets = data(model.state_dict()).inputs, np.random.default_rng(5).random((7, 3, 3))
    z = torch_outputs(torch, model, torch.from_numpy(inputs))
    name = {"squared": "mse_loss", "logistic": "binary_cross_entropy_with_logits"}[loss]
    expected = getattr(torch.nn.functional, name)(z, torch.from_numpy(targets)).item()
    assert factor * net.loss(theta, hfrnn.Batch(inputs, targets)) == pytest.approx(expected, rel=1e-12)


def test_targets_that_are_ignored_have_the_weight_0(torch: Any) -> None:
    model = torch_model(torch).double()
    net, theta = from_torch(model.state_dict())
    batch = data(model.state_dict())
    weights = (np.arange(batch.T * batch.B).reshape(batch.T, batch.B) % 3 > 0).astype(float)
    targets = torch.from_numpy(np.where(weights > 0, batch.targets, -100)).flatten()
    z = torch_outputs(torch, model, torch.from_numpy(batch.inputs))
    expected = torch.nn.functional.cross_entropy(z.flatten(0, 1), targets).item()
    given = hfrnn.Batch(batch.inputs, batch.targets, weights)
    assert net.loss(theta, given) == pytest.approx(expected, rel=1e-12)


def test_the_activation_of_a_module_is_not_overridden(torch: Any) -> None:
    model = torch_model(torch, "rnn", nonlinearity="relu")
    with pytest.raises(hfrnn.InputError, match="has the nonlinearity 'relu'"):
        from_torch(model, activation="tanh")
    assert from_torch(model, activation="relu")[0].config["activation"] == "relu"


def test_modules_without_effect_in_evaluation_mode_are_accepted(torch: Any) -> None:
    model = torch_model(torch)
    model.update({"drop": torch.nn.Dropout(0.5), "same": torch.nn.Identity(), "loss": torch.nn.CrossEntropyLoss()})
    model.eval()
    np.testing.assert_array_equal(from_torch(model)[1], from_torch(model.state_dict())[1])


def test_what_is_neither_a_module_nor_a_state_dict_is_refused(torch: Any) -> None:
    model = torch_model(torch)
    for given, message in (
        (torch.optim.Adam(model.parameters()), "model is an Adam: give a torch.nn.Module or its state dict"),
        ({"model": model.state_dict(), "epoch": 3}, "the entry 'model' is of type OrderedDict, not a tensor"),
        (dict(model.to("meta").named_parameters()), "lstm.weight_ih_l0 cannot be a NumPy array"),
        (torch.nn.LSTM(3, 4), "besides the recurrent module the model has nothing: expected one nn.Linear$"),
        (torch.nn.LSTM(3, 4).state_dict(), "the model has nothing: expected one nn.Linear, and the name of the nn.Emb"),
    ):
        with pytest.raises(hfrnn.InputError, match=message):
            from_torch(given)


def test_half_precision_and_tied_tensors_of_pytorch_are_refused(torch: Any) -> None:
    model = torch_model(torch, n_in=3, embedding=4)
    with pytest.raises(hfrnn.InputError, match=r"embedding\.weight cannot be a NumPy array"):
        from_torch(model.bfloat16().state_dict(), embedding="embedding")
    model["decoder"].weight = model["embedding"].weight
    with pytest.raises(hfrnn.InputError, match="are one tensor"):
        from_torch(model.float().state_dict(), embedding="embedding")


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page shows figures for the manual of Python 3.11")
def test_the_example_prints_what_the_page_says(torch: Any) -> None:
    project = Path(__file__).resolve().parent.parent
    page = (project / "docs" / "pytorch.md").read_text("utf-8")
    (shown,) = re.findall(r"```text\n(1  training.*?)\n```", page, re.S)
    example = project / "examples" / "torch_gauss_newton.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True)
    printed = done.stdout.strip().splitlines()
    assert len(printed) == len(shown.splitlines())
    for line, expected in zip(printed, shown.splitlines(), strict=True):
        assert re.fullmatch(re.escape(expected).replace(r"\.\.\.", r"\S+"), line), line


def test_the_example_runs(torch: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parent.parent / "examples")
    example = importlib.import_module("torch_gauss_newton")
    for name, value in {"T": 6, "B": 4, "HIDDEN": 8, "ADAM_STEPS": 2, "HF_UPDATES": 1, "ROUNDS": 1}.items():
        monkeypatch.setattr(example, name, value)
    monkeypatch.setattr(example, "topics", {"one": "to be or not to be, that is the question " * 5})
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(torch, "set_default_dtype", lambda dtype: None)
    example.main()
    said = capsys.readouterr().out
    assert float(re.search(r"difference of a tensor (\S+)", said)[1]) < 1e-4
    assert len(re.findall("after: ", said)) == 1
