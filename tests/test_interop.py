"""hfrnn.interop against PyTorch's equations written out in NumPy; PyTorch is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.torch_models import (
    EPS,
    Arrays,
    data,
    directions,
    inner,
    moved,
    named,
    reference,
    sigma,
    sizes,
    state_dict,
    taken,
)  # fmt: skip

import hfrnn
from hfrnn.interop import from_torch, gradient_to_torch, to_torch

# ---------------------------------------------------------------------- what a model gives


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_outputs_and_states_are_those_of_the_equations(seed: int, dtype: str) -> None:
    p = state_dict(**sizes(seed), seed=seed, dtype=dtype)
    net, theta = from_torch(p, **taken(p))
    assert net.dtype == theta.dtype == dtype
    batch = data(p)
    z, states = net.run(theta, batch)
    expected, last = reference(p, batch.inputs)
    tolerance = {"float32": 2e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(z, expected, rtol=tolerance, atol=tolerance)
    assert len(states) == len(last)
    for given, wanted in zip(states, last, strict=True):
        assert set(given) == set(wanted)
        for name, value in wanted.items():
            np.testing.assert_allclose(given[name], value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("activation", "function"), [("relu", lambda x: np.maximum(x, 0)), ("logistic", sigma)])
def test_the_activation_of_an_rnn_is_chosen(activation: str, function: Any) -> None:
    p = state_dict("rnn", layers=2)
    net, theta = from_torch(p, activation=activation)
    batch = data(p)
    np.testing.assert_allclose(net.run(theta, batch)[0], reference(p, batch.inputs, function)[0], rtol=1e-12)


def test_the_linear_module_may_have_no_bias_and_modules_any_name() -> None:
    p = state_dict(embedding=3)
    renamed = {
        "body.words.weight": p["embedding.weight"],
        **{name.replace("lstm.", "body.core."): w for name, w in p.items() if name.startswith("lstm.")},
        "weight": p["decoder.weight"],
    }
    net, theta = from_torch(renamed, embedding="body.words")
    assert "output.b_y" not in net.views(theta)
    del p["decoder.bias"]
    batch = data(p)
    np.testing.assert_allclose(net.run(theta, batch)[0], reference(p, batch.inputs)[0], rtol=1e-12)


# ---------------------------------------------------------------------- there and back


@pytest.mark.parametrize("seed", range(6))
def test_theta_comes_back_to_the_bit(seed: int) -> None:
    p = state_dict(**sizes(seed), seed=seed, dtype="float32")
    net, _ = from_torch(p, **taken(p))
    theta = np.random.default_rng(seed).standard_normal(net.n_parameters).astype("float32")
    there = to_torch(net, theta, p, **named(p))
    assert list(there) == list(p)
    for name, value in there.items():
        assert value.shape == p[name].shape
        assert value.dtype == p[name].dtype
        assert value.flags.c_contiguous
        assert not np.shares_memory(value, theta)
    np.testing.assert_array_equal(from_torch(there, **taken(p))[1], theta)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_second_bias_of_a_gru_acts_on_its_candidate_alone(layers: int) -> None:
    p = state_dict("gru", layers=layers)
    net, theta = from_torch(p)
    assert net.arch == "gru-torch"
    back = to_torch(net, theta, p)
    for l in range(layers):
        b, b_hn = (net.views(theta)[f"layer{l}.{name}"] for name in ("b", "b_hn"))
        np.testing.assert_array_equal(b_hn, p[f"gru.bias_hh_l{l}"][8:])
        np.testing.assert_array_equal(b[8:], p[f"gru.bias_ih_l{l}"][8:])
        np.testing.assert_array_equal(b[:8], p[f"gru.bias_ih_l{l}"][:8] + p[f"gru.bias_hh_l{l}"][:8])
        np.testing.assert_array_equal(back[f"gru.bias_hh_l{l}"], np.append(np.zeros(8), b_hn))
        np.testing.assert_array_equal(back[f"gru.bias_ih_l{l}"], b)


def test_a_gru_without_biases_has_none_after_updates_and_goes_back() -> None:
    p = state_dict("gru", layers=2, bias=False)
    net, theta = from_torch(p)
    assert not [name for name in net.views(theta) if ".b" in name]
    batch = data(p)
    update = hfrnn.HessianFree().update(theta, hfrnn.Objective(net, batch, threads=1))
    there = to_torch(net, update.theta, p)
    np.testing.assert_allclose(reference(there, batch.inputs)[0], net.run(update.theta, batch)[0], rtol=1e-12)
    full = hfrnn.Network(**{**net.config, "candidate_bias": True})
    with pytest.raises(hfrnn.InputError, match=r"^layer0\.b_hn, layer1\.b_hn is only in one .* \(candidate_bias too\)"):
        to_torch(full, full.init(0), p)


# ---------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_is_that_of_the_equations_in_every_tensor(seed: int) -> None:
    p = state_dict(**sizes(seed), seed=seed)
    net, theta = from_torch(p, **taken(p))
    batch = data(p)
    gradient = gradient_to_torch(net, net.loss_and_gradient(theta, batch)[1], p, **named(p))
    v = directions(p)
    for name in p:  # one tensor at a time
        z = reference(moved(p, {**dict.fromkeys(p, 0.0), name: v[name]}, 1j * EPS), batch.inputs)[0]
        slope = cross_entropy(z, batch.targets).imag / EPS
        assert (gradient[name] * v[name]).sum() == pytest.approx(slope, rel=1e-10, abs=1e-15), name


def cross_entropy(z: np.ndarray, targets: np.ndarray) -> Any:
    log_sum = np.log(np.exp(z).sum(axis=-1))
    return (log_sum - np.take_along_axis(z, targets[..., None], axis=-1)[..., 0]).mean()


@pytest.mark.parametrize("seed", range(6))
def test_a_curvature_product_is_that_of_the_equations(seed: int) -> None:
    p = state_dict(**sizes(seed), seed=seed)
    net, theta = from_torch(p, **taken(p))
    batch = data(p)
    u, v = directions(p, 2), directions(p, 3)
    product = net.gauss_newton(theta, batch) @ from_torch(v, **taken(p))[1]
    Ru, Rv = (reference(moved(p, w, 1j * EPS), batch.inputs)[0].imag / EPS for w in (u, v))
    s = np.exp(reference(p, batch.inputs)[0])
    s /= s.sum(axis=-1, keepdims=True)
    HRv = s * (Rv - (s * Rv).sum(axis=-1, keepdims=True)) / (batch.T * batch.B)
    assert inner(u, gradient_to_torch(net, product, p, **named(p))) == pytest.approx((Ru * HRv).sum(), rel=1e-10)


def test_a_gradient_goes_by_the_transpose_of_the_way_that_directions_come() -> None:
    p = state_dict(layers=3, embedding=2)
    net, _ = from_torch(p, **taken(p))
    v, g = directions(p), np.random.default_rng(4).standard_normal(net.n_parameters)
    there = from_torch(v, **taken(p))[1]
    assert inner(gradient_to_torch(net, g, p, **named(p)), v) == pytest.approx(g @ there, rel=1e-13)
    assert inner(v, to_torch(net, g, v, **named(p))) != pytest.approx(g @ there, rel=1e-3)  # biases count once there


# ---------------------------------------------------------------------- refusals


def without(p: Arrays, *names: str) -> Arrays:
    return {name: w for name, w in p.items() if name not in names}


LSTM = state_dict()
WRONG: dict[str, tuple[Arrays, dict[str, Any], str]] = {
    "no recurrent module": (without(LSTM, *[n for n in LSTM if "lstm" in n]), {}, "0 recurrent modules"),
    "two recurrent modules": ({**LSTM, **{f"more.{n}": w.copy() for n, w in LSTM.items()}}, {}, "2 recurrent modules"),
    "a gru's bias": (
        {**state_dict("gru"), "gru.bias_hh_l0": np.ones(8)}, {}, r"gru.bias_hh_l0 has the shape \(8,\): .* \(12,\)"
    ),
    "two directions": ({**LSTM, "lstm.weight_ih_l0_reverse": np.ones((16, 5))}, {}, "two directions"),
    "projections": ({**LSTM, "lstm.weight_hr_l0": np.ones((2, 4))}, {}, "lstm has projections"),
    "one bias missing": (without(LSTM, "lstm.bias_ih_l0"), {}, "has the tensors bias_hh_l0, weight_hh_l0"),
    "no linear": (without(LSTM, "decoder.weight", "decoder.bias"), {}, "besides lstm the model has nothing"),
    "layer norm": (
        {**LSTM, "norm.weight": np.ones(4), "norm.bias": np.ones(4)}, {},
        "^norm.bias, norm.weight cannot be placed in a network of hfrnn: expected one nn.LSTM, nn.GRU or nn.RNN, one",
    ),
    "a checkpoint": ({"model": LSTM}, {}, "the entry 'model' is of type dict, not a tensor with a name"),
    "an rnn without its activation": (state_dict("rnn"), {}, 'add activation="tanh" or activation="relu"'),
    "an embedding without its name": (state_dict(embedding=3), {}, "has embedding, decoder: expected one nn.Linear"),
    "an embedding with a bias": (LSTM, {"embedding": "decoder"}, "embedding is 'decoder'"),
    "a shape": ({**LSTM, "lstm.weight_ih_l0": np.ones((12, 5))}, {}, r"weight_ih_l0 has the shape \(12, 5\)"),
    "words": ({**LSTM, "decoder.bias": np.array(["a", "b", "c"])}, {}, "dtype is '<U"),
    "half precision": (state_dict(dtype="float16"), {}, "dtype is 'float16': use one of float32, float64"),
    "an option that is fixed": (LSTM, {"hidden": 3}, "hidden cannot be chosen"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_has_no_counterpart_is_refused(case: str) -> None:
    p, options, message = WRONG[case]
    with pytest.raises(hfrnn.InputError, match=message):
        from_torch(p, **options)


def test_what_is_no_state_dict_and_tied_weights_are_refused() -> None:
    net, theta = from_torch(LSTM)
    for given, message in (
        ("model.pt", "is the path 'model.pt': load the file and give the state dict"),
        (None, "(model|like) is None: give a torch.nn.Module or its state dict"),
    ):
        for call in (lambda given=given: from_torch(given), lambda given=given: to_torch(net, theta, given)):
            with pytest.raises(hfrnn.InputError, match=message):
                call()
    p = state_dict(n_in=3, embedding=4, n_out=3)
    p["embedding.weight"] = p["decoder.weight"]
    with pytest.raises(hfrnn.InputError, match=r"embedding\.weight and decoder\.weight are one tensor"):
        from_torch(p, embedding="embedding")


@pytest.mark.parametrize(("network", "message"), [
    ({"arch": "mlstm"}, "the network is mlstm, and the state dict is of lstm"),
    ({"hidden": (4, 4)}, "layer1.W_below, layer1.W_h, layer1.W_x, layer1.b, output.W_y1 is only in one"),
    ({"loss": "class-softmax", "classes": 2}, "output.W_class0"),
    ({"learn_initial_state": True}, "the network learns its initial state, and the recurrent modules of PyTorch"),
    ({"n_in": 6}, r"lstm.weight_ih_l0 has the shape \(16, 5\): .* require \(16, 6\)"),
])  # fmt: skip
def test_a_network_that_is_no_such_model_is_refused(network: dict[str, Any], message: str) -> None:
    net = hfrnn.Network(**{"arch": "lstm", "n_in": 5, "hidden": 4, "n_out": 3, **network})
    for export in (to_torch, gradient_to_torch):
        with pytest.raises(hfrnn.InputError, match=message):
            export(net, net.init(), LSTM)
