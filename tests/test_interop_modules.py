"""`from_torch` with a user's own torch.nn.Module: what it finds, refuses, and leaves out with a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from support.torch_products import KINDS, make_model, random_case, time_first, torch_module

import hfrnn
from hfrnn.interop import from_torch, gradient_to_torch, to_torch


@pytest.fixture
def torch() -> Any:
    return torch_module()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10, 13))
def test_a_users_module_becomes_the_same_function_and_goes_back(torch: Any, kind: str, seed: int) -> None:
    model, x, _, _ = random_case(torch, kind, 1 + seed % 3, seed)
    net, theta = from_torch(model)
    (inputs,) = time_first(model, x)
    outputs, _ = net.run(theta, hfrnn.Batch(inputs))
    with torch.no_grad():
        (expected,) = time_first(model, model(x))
        np.testing.assert_allclose(outputs, expected.numpy(), rtol=1e-11, atol=1e-13)
        model.load_state_dict(to_torch(net, 1.1 * theta, model))
        (moved,) = time_first(model, model(x))
    np.testing.assert_allclose(net.run(1.1 * theta, hfrnn.Batch(inputs))[0], moved.numpy(), rtol=1e-11, atol=1e-13)


def test_a_module_tells_the_name_of_its_embedding(torch: Any) -> None:
    model = make_model(torch, embedding=3)
    np.testing.assert_array_equal(from_torch(model)[1], from_torch(model.state_dict(), embedding="words")[1])
    net, theta = from_torch(model, embedding="words")
    assert gradient_to_torch(net, theta, model).keys() == model.state_dict().keys()
    model.more = torch.nn.Embedding(4, 2)
    with pytest.raises(hfrnn.InputError, match="the model has the embeddings words, more: give a model with at most"):
        from_torch(model)


def test_every_module_and_parameter_that_was_not_understood_is_named(torch: Any) -> None:
    model = make_model(torch)
    model.top.append(torch.nn.Softmax(-1))
    model.body.norm = torch.nn.LayerNorm(4)
    with pytest.raises(hfrnn.InputError, match=r"^hfrnn does not compute body\.norm \(LayerNorm\), top\.2 \(Softmax\)"):
        from_torch(model)
    model = make_model(torch)
    model.body.scale = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))
    with pytest.raises(hfrnn.InputError, match=r"^body\.scale cannot be placed in a network of hfrnn"):
        from_torch(model)


def test_two_directions_and_projections_are_refused_with_the_reason(torch: Any) -> None:
    for options, reason in (({"bidirectional": True}, "runs in two directions"), ({"proj_size": 2}, "has projections")):
        with pytest.raises(hfrnn.InputError, match=rf"^body\.core {reason}: hfrnn takes an nn\.LSTM"):
            from_torch(make_model(torch, **options))


def test_dropout_of_a_model_in_training_mode_is_left_out_with_a_warning(torch: Any) -> None:
    recurrent = make_model(torch, layers=2)
    recurrent.body.core.dropout = 0.5
    for model, words in ((make_model(torch, dropout=0.25), r"top\.0 .* 0\.25"), (recurrent, r"body\.core .* 0\.5")):
        with pytest.warns(hfrnn.HfrnnWarning, match=f"^{words}, which hfrnn leaves out") as heard:
            converted = from_torch(model)[1]
        assert [warning.filename for warning in heard] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(from_torch(model.eval())[1], converted)


def test_what_an_embedding_does_on_its_own_is_refused_or_warned_of(torch: Any) -> None:
    model = make_model(torch, embedding=3)
    model.words.scale_grad_by_freq = True
    with pytest.warns(hfrnn.HfrnnWarning, match="^words has scale_grad_by_freq, which hfrnn leaves out"):
        from_torch(model)
    model.words = torch.nn.Embedding(5, 3, padding_idx=0).double()
    with pytest.warns(hfrnn.HfrnnWarning, match="^words has padding_idx 0, whose row gets no gradient in PyTorch"):
        from_torch(model)
    model.words.max_norm = 1.0
    with pytest.raises(hfrnn.InputError, match=r"^words has max_norm 1\.0, which changes its rows in forward"):
        from_torch(model)


def test_frozen_parameters_are_named_in_a_warning(torch: Any) -> None:
    model = make_model(torch, embedding=3)
    expected = from_torch(model)[1]
    model.words.weight.requires_grad_(False)
    with pytest.warns(hfrnn.HfrnnWarning, match="^words.weight: requires_grad is False, but hfrnn's gradients"):
        np.testing.assert_array_equal(from_torch(model)[1], expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(from_torch(model.requires_grad_(False))[1], expected)  # a model for evaluation


def test_buffers_are_left_out_and_go_back_as_they_are(torch: Any) -> None:
    model = make_model(torch, embedding=3)
    net, theta = from_torch(model)
    model.register_buffer("scale", torch.tensor([2.0, 3.0]))
    model.loss = torch.nn.CrossEntropyLoss(weight=torch.ones(3))
    np.testing.assert_array_equal(from_torch(model)[1], theta)
    back = to_torch(net, 2 * theta, model)
    model.load_state_dict(back)
    np.testing.assert_array_equal(from_torch(model)[1], 2 * theta)
    assert back["scale"].tolist() == [2.0, 3.0]
    assert back["scale"].data_ptr() != model.scale.data_ptr()


def test_a_forward_of_its_own_is_warned_of_and_a_users_cell_refused(torch: Any) -> None:
    class Residual(torch.nn.LSTM):
        def forward(self, x: Any, state: Any = None) -> Any:
            y, state = super().forward(x, state)
            return y + x, state

    class Cell(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, each in torch.nn.LSTM(3, 4).named_parameters():
                self.register_parameter(name, each)

    model = make_model(torch, embedding=3)
    model.body.core = Residual(3, 4).double()
    with pytest.warns(hfrnn.HfrnnWarning, match=r"^body\.core is an nn\.LSTM with a forward of its own \(Residual\)"):
        from_torch(model)
    model.body.core = Cell()
    with pytest.raises(hfrnn.InputError, match=r"^the model has a tensor weight_hh_l0, but no nn\.LSTM, nn\.GRU"):
        from_torch(model)
    model.swap = torch.nn.Module()
    model.swap.__class__ = type("SwapAxes", (torch.nn.Module,), {})
    with pytest.raises(hfrnn.InputError, match=r"^hfrnn does not compute swap \(SwapAxes\)"):
        from_torch(model)


def test_subclasses_and_compiled_modules_are_recognised(torch: Any) -> None:
    class Own(torch.nn.LSTM):
        pass

    model = make_model(torch, embedding=3)
    expected = from_torch(model)[1]
    own = Own(3, 4).double()
    own.load_state_dict(model.body.core.state_dict())
    model.body.core = own
    np.testing.assert_array_equal(from_torch(model)[1], expected)
    np.testing.assert_array_equal(from_torch(torch.nn.DataParallel(model))[1], expected)


def test_the_activation_of_a_module_is_not_overridden(torch: Any) -> None:
    model = make_model(torch, "RNN", nonlinearity="relu")
    with pytest.raises(hfrnn.InputError, match="has the nonlinearity 'relu'"):
        from_torch(model, activation="tanh")
    assert from_torch(model, activation="relu")[0].config["activation"] == "relu"


def test_what_is_neither_a_module_nor_a_state_dict_is_refused(torch: Any) -> None:
    model = make_model(torch)
    for given, message in (
        (torch.optim.Adam(model.parameters()), "model is an Adam: give a torch.nn.Module or its state dict"),
        ({"model": model.state_dict(), "epoch": 3}, "the entry 'model' is of type OrderedDict, not a tensor"),
        (dict(model.to("meta").named_parameters()), "core.weight_ih_l0 cannot be a NumPy array"),
        (torch.nn.LSTM(3, 4), "besides the recurrent module the model has nothing: expected one nn.Linear$"),
        (torch.nn.LSTM(3, 4).state_dict(), "the model has nothing: expected one nn.Linear, and the name of the nn.Emb"),
    ):
        with pytest.raises(hfrnn.InputError, match=message):
            from_torch(given)


def test_half_precision_and_tied_tensors_are_refused(torch: Any) -> None:
    model = make_model(torch, n_in=3, embedding=4)
    with pytest.raises(hfrnn.InputError, match=r"words\.weight cannot be a NumPy array"):
        from_torch(model.bfloat16().state_dict(), embedding="words")
    model.top[1].weight = model.words.weight
    with pytest.raises(hfrnn.InputError, match="are one tensor"):
        from_torch(model.float())
