"""hfrnn.interop: against PyTorch's equations written out in NumPy, and against PyTorch itself where it is installed."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.interop import from_torch, gradient_to_torch, to_torch

Arrays = dict[str, np.ndarray]
EPS = 1e-20


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed (extra peers)")


# ---------------------------------------------------------------------- models without PyTorch


def sizes(seed: int) -> dict[str, Any]:
    """Random sizes of a model: kind, n_in, hidden, n_out, layers, with or without embedding and biases."""
    rng = np.random.default_rng(seed)
    n_in, hidden, n_out, layers = (int(n) for n in rng.integers((2, 1, 2, 1), (9, 12, 9, 4)))
    return {
        "kind": ("lstm", "rnn")[seed % 2], "n_in": n_in, "hidden": hidden, "n_out": n_out, "layers": layers,
        "embedding": int(rng.integers(1, 7)) if seed % 3 else None, "bias": bool(seed % 5),
    }  # fmt: skip


def state_dict(
    kind: str = "lstm", n_in: int = 5, hidden: int = 4, n_out: int = 3, layers: int = 1, embedding: int | None = None,
    bias: bool = True, seed: int = 0, dtype: str = "float64",
) -> Arrays:  # fmt: skip
    """What `model.state_dict()` of such a model holds, its modules named `embedding`, the kind and `decoder`."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {}
    if embedding is not None:
        shapes["embedding.weight"] = (n_in, embedding)
    rows = {"lstm": 4, "rnn": 1, "gru": 3}[kind] * hidden
    for l in range(layers):
        shapes[f"{kind}.weight_ih_l{l}"] = (rows, hidden if l else embedding or n_in)
        shapes[f"{kind}.weight_hh_l{l}"] = (rows, hidden)
        if bias:
            shapes[f"{kind}.bias_ih_l{l}"] = shapes[f"{kind}.bias_hh_l{l}"] = (rows,)
    shapes["decoder.weight"] = (n_out, hidden)
    if bias:
        shapes["decoder.bias"] = (n_out,)
    return {name: 0.6 * rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def sigma(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def reference(p: Arrays, inputs: np.ndarray, activation: Any = np.tanh) -> tuple[np.ndarray, list[Arrays]]:
    """The outputs (T, B, n_out) and last states by the equations in the documentation of nn.LSTM and nn.RNN."""
    kind = "lstm" if "lstm.weight_hh_l0" in p else "rnn"
    if "embedding.weight" in p:
        xs = p["embedding.weight"][inputs]
    else:
        xs = np.eye(p[f"{kind}.weight_ih_l0"].shape[1])[inputs] if inputs.ndim == 2 else inputs
    states, l, biased = [], 0, f"{kind}.bias_ih_l0" in p
    while f"{kind}.weight_ih_l{l}" in p:
        W_ih, W_hh = p[f"{kind}.weight_ih_l{l}"], p[f"{kind}.weight_hh_l{l}"]
        b_ih, b_hh = (p[f"{kind}.bias_{side}_l{l}"] if biased else 0.0 for side in ("ih", "hh"))
        h = c = np.zeros((xs.shape[1], W_hh.shape[1]), W_hh.dtype)
        hs = []
        for x in xs:
            a = x @ W_ih.T + b_ih + h @ W_hh.T + b_hh
            if kind == "rnn":
                h = activation(a)
            else:
                a_i, a_f, a_g, a_o = np.split(a, 4, axis=1)  # torch's order
                c = sigma(a_f) * c + sigma(a_i) * np.tanh(a_g)
                h = sigma(a_o) * np.tanh(c)
            hs.append(h)
        xs, l = np.stack(hs), l + 1
        states.append({"h": h, "c": c} if kind == "lstm" else {"h": h})
    z = xs @ p["decoder.weight"].T
    return (z + p["decoder.bias"] if "decoder.bias" in p else z), states


def data(p: Arrays, real: bool = False, T: int = 7, B: int = 3, seed: int = 1) -> hfrnn.Batch:
    rng = np.random.default_rng(seed)
    first = p.get("embedding.weight")
    n_in = next(w for name, w in p.items() if "weight_ih_l0" in name).shape[1] if first is None else first.shape[0]
    inputs = rng.standard_normal((T, B, n_in)) if real else rng.integers(0, n_in, (T, B))
    return hfrnn.Batch(inputs, rng.integers(0, p["decoder.weight"].shape[0], (T, B)))


def directions(p: Arrays, seed: int = 2) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(w.shape) for name, w in p.items()}


def moved(p: Arrays, v: Arrays, step: complex) -> Arrays:
    return {name: w + step * v[name] for name, w in p.items()}


def inner(u: Any, v: Any) -> float:
    assert list(u) == list(v)
    return float(sum((np.asarray(u[name]) * np.asarray(v[name])).sum() for name in u))


def named(p: Arrays) -> dict[str, str]:
    """The argument that says what the embedding is called."""
    return {"embedding": "embedding"} if "embedding.weight" in p else {}


# ---------------------------------------------------------------------- what a model gives


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(8))
def test_outputs_and_states_are_those_of_the_equations(seed: int, dtype: str) -> None:
    p = state_dict(**sizes(seed), seed=seed, dtype=dtype)
    net, theta = from_torch(p, **named(p))
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


def test_real_inputs_go_in_as_they_are() -> None:
    p = state_dict(layers=2)
    net, theta = from_torch(p)
    batch = data(p, real=True)
    np.testing.assert_allclose(net.run(theta, batch)[0], reference(p, batch.inputs)[0], rtol=1e-12)


@pytest.mark.parametrize(("activation", "function"), [("relu", lambda x: np.maximum(x, 0)), ("logistic", sigma)])
def test_the_activation_of_an_rnn_is_chosen(activation: str, function: Any) -> None:
    p = state_dict("rnn", layers=2)
    net, theta = from_torch(p, activation=activation)
    batch = data(p)
    np.testing.assert_allclose(net.run(theta, batch)[0], reference(p, batch.inputs, function)[0], rtol=1e-12)


def test_options_of_the_network_are_handed_on() -> None:
    net, theta = from_torch(state_dict(), loss="squared", l2=0.5, dtype="float32")
    assert (net.loss_name, net.l2, net.dtype, theta.dtype) == ("squared", 0.5, np.float32, np.float32)


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
    net, _ = from_torch(p, **named(p))
    theta = np.random.default_rng(seed).standard_normal(net.n_parameters).astype("float32")
    there = to_torch(net, theta, p, **named(p))
    assert list(there) == list(p)
    for name, value in there.items():
        assert value.shape == p[name].shape
        assert value.dtype == p[name].dtype
        assert value.flags.c_contiguous
        assert not np.shares_memory(value, theta)
    np.testing.assert_array_equal(from_torch(there, **named(p))[1], theta)


def test_a_model_goes_there_and_back_with_its_outputs() -> None:
    p = state_dict(layers=2, embedding=3)
    net, theta = from_torch(p, **named(p))
    back = to_torch(net, theta, p, **named(p))
    np.testing.assert_array_equal(back["lstm.bias_hh_l1"], 0)
    batch = data(p)
    np.testing.assert_allclose(reference(back, batch.inputs)[0], reference(p, batch.inputs)[0], rtol=1e-12)


def test_a_network_trained_here_goes_into_a_model() -> None:
    net = hfrnn.Network("lstm", n_in=5, hidden=4, n_out=3, dtype="float64")
    theta = net.init(0, b=0.4, b_y=0.4, scale=0.5)
    batch = data(state_dict())
    z = reference(to_torch(net, theta, state_dict()), batch.inputs)[0]
    np.testing.assert_allclose(z, net.run(theta, batch)[0], rtol=1e-12)


def test_the_types_are_those_of_the_model_that_takes_them() -> None:
    p = state_dict(dtype="float64")
    net, theta = from_torch(p)
    p["decoder.bias"] = p["decoder.bias"].astype("float32")
    there = to_torch(net, theta, p)
    assert {name for name, value in there.items() if value.dtype == "float32"} == {"decoder.bias"}


# ---------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_is_that_of_the_equations_in_every_tensor(seed: int) -> None:
    p = state_dict(**sizes(seed), seed=seed)
    net, theta = from_torch(p, **named(p))
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


@pytest.mark.parametrize("seed", range(4))
def test_a_curvature_product_is_that_of_the_equations(seed: int) -> None:
    p = state_dict(**sizes(seed), seed=seed)
    net, theta = from_torch(p, **named(p))
    batch = data(p)
    u, v = directions(p, 2), directions(p, 3)
    product = net.gauss_newton(theta, batch) @ from_torch(v, **named(p))[1]
    Ru, Rv = (reference(moved(p, w, 1j * EPS), batch.inputs)[0].imag / EPS for w in (u, v))
    s = np.exp(reference(p, batch.inputs)[0])
    s /= s.sum(axis=-1, keepdims=True)
    HRv = s * (Rv - (s * Rv).sum(axis=-1, keepdims=True)) / (batch.T * batch.B)
    assert inner(u, gradient_to_torch(net, product, p, **named(p))) == pytest.approx((Ru * HRv).sum(), rel=1e-10)


def test_a_gradient_goes_by_the_transpose_of_the_way_that_directions_come() -> None:
    p = state_dict(layers=3, embedding=2)
    net, _ = from_torch(p, **named(p))
    v, g = directions(p), np.random.default_rng(4).standard_normal(net.n_parameters)
    there = from_torch(v, **named(p))[1]
    assert inner(gradient_to_torch(net, g, p, **named(p)), v) == pytest.approx(g @ there, rel=1e-13)
    assert inner(v, to_torch(net, g, v, **named(p))) != pytest.approx(g @ there, rel=1e-3)  # biases count once there


# ---------------------------------------------------------------------- refusals


def without(p: Arrays, *names: str) -> Arrays:
    return {name: w for name, w in p.items() if name not in names}


LSTM = state_dict()
WRONG: dict[str, tuple[Arrays, dict[str, Any], str]] = {
    "no recurrent module": (without(LSTM, *[n for n in LSTM if "lstm" in n]), {}, "0 recurrent modules"),
    "two recurrent modules": ({**LSTM, **{f"more.{n}": w.copy() for n, w in LSTM.items()}}, {}, "2 recurrent modules"),
    "gru": (state_dict("gru"), {}, "gru is an nn.GRU"),
    "two directions": ({**LSTM, "lstm.weight_ih_l0_reverse": np.ones((16, 5))}, {}, "two directions"),
    "projections": ({**LSTM, "lstm.weight_hr_l0": np.ones((2, 4))}, {}, "lstm has projections"),
    "one bias missing": (without(LSTM, "lstm.bias_ih_l0"), {}, "has the tensors bias_hh_l0, weight_hh_l0"),
    "a strange tensor": ({**LSTM, "lstm.peephole": np.ones(4)}, {}, "has the tensors .*peephole"),
    "no linear": (without(LSTM, "decoder.weight", "decoder.bias"), {}, "beside lstm the state dict has nothing"),
    "layer norm": ({**LSTM, "norm.weight": np.ones((4, 1))}, {}, "beside lstm the state dict has decoder, norm"),
    "a linear with more": ({**LSTM, "decoder.scale": np.ones(3)}, {}, "the state dict has decoder: expected one"),
    "an embedding without its name": (state_dict(embedding=3), {}, "has embedding, decoder: expected one nn.Linear"),
    "another name of the embedding": (state_dict(embedding=3), {"embedding": "words"}, "no nn.Embedding 'words'"),
    "an embedding with a bias": (LSTM, {"embedding": "decoder"}, "no nn.Embedding 'decoder'"),
    "blocks": ({**LSTM, "lstm.weight_hh_l0": np.ones((20, 4))}, {}, r"weight_hh_l0 of shape \(20, 4\)"),
    "a shape": ({**LSTM, "lstm.weight_ih_l0": np.ones((12, 5))}, {}, r"weight_ih_l0 has the shape \(12, 5\)"),
    "a bias's shape": ({**LSTM, "lstm.bias_hh_l0": np.ones(4)}, {}, r"bias_hh_l0 has the shape \(4,\)"),
    "a vector": ({**LSTM, "decoder.weight": np.ones(4)}, {}, "expected 2 sizes"),
    "no rows": ({**LSTM, "decoder.weight": np.ones((0, 4))}, {}, "1 or more each"),
    "words": ({**LSTM, "decoder.bias": np.array(["a", "b", "c"])}, {}, "dtype '<U.*' is not known"),
    "half precision": (state_dict(dtype="float16"), {}, "dtype 'float16' is not known: use float32 or float64"),
    "an option that is fixed": (LSTM, {"hidden": 3}, "hidden cannot be chosen"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_has_no_counterpart_is_refused(case: str) -> None:
    p, options, message = WRONG[case]
    with pytest.raises(hfrnn.InputError, match=message):
        from_torch(p, **options)


def test_tied_weights_are_refused() -> None:
    p = state_dict(n_in=3, embedding=4, n_out=3)
    p["embedding.weight"] = p["decoder.weight"]
    with pytest.raises(hfrnn.InputError, match=r"embedding\.weight and decoder\.weight are one tensor"):
        from_torch(p, embedding="embedding")


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"arch": "mlstm"}, "the network is mlstm, and the state dict is of lstm"),
        ({"arch": "rnn", "output_bias": True}, "the network is rnn"),
        ({"hidden": (4, 4)}, "layer1.W_below, layer1.W_h, layer1.W_x, layer1.b, output.W_y1 is in one"),
        ({"bias": False}, "layer0.b is in one"),
        ({"loss": "class-softmax", "classes": 2}, "output.W_class0"),
        ({"n_in": 6}, r"lstm.weight_ih_l0 has the shape \(16, 5\): .* it has \(16, 6\)"),
    ],
)
def test_a_network_that_is_no_such_model_is_refused(network: dict[str, Any], message: str) -> None:
    net = hfrnn.Network(**{"arch": "lstm", "n_in": 5, "hidden": 4, "n_out": 3, **network})
    for export in (to_torch, gradient_to_torch):
        with pytest.raises(hfrnn.InputError, match=message):
            export(net, net.init(), LSTM)


def test_a_vector_of_another_size_is_refused() -> None:
    net, theta = from_torch(LSTM)
    with pytest.raises(hfrnn.InputError, match="parameter vector of shape"):
        to_torch(net, theta[:-1], LSTM)


# ---------------------------------------------------------------------- PyTorch itself


def torch_model(torch: Any, kind: str = "lstm", n_in: int = 5, hidden: int = 4, n_out: int = 3, layers: int = 1,
                embedding: int | None = None, bias: bool = True, seed: int = 0, **recurrent: Any) -> Any:  # fmt: skip
    """A model with the modules that `state_dict` names; it takes symbols (T, B) or values (T, B, n_in)."""
    torch.manual_seed(seed)
    module = {"lstm": torch.nn.LSTM, "rnn": torch.nn.RNN, "gru": torch.nn.GRU}[kind]
    modules = {} if embedding is None else {"embedding": torch.nn.Embedding(n_in, embedding)}
    modules[kind] = module(embedding or n_in, hidden, layers, bias=bias, **recurrent)
    modules["decoder"] = torch.nn.Linear(hidden, n_out, bias=bias)
    return torch.nn.ModuleDict(modules)


def torch_outputs(torch: Any, model: Any, inputs: Any, state: Any = None) -> tuple[Any, Any]:
    """Outputs (T, B, n_out) and last state."""
    weight = model["decoder"].weight
    if "embedding" in model:
        xs = model["embedding"](inputs)
    elif inputs.dtype.is_floating_point:
        xs = inputs
    else:
        xs = torch.nn.functional.one_hot(inputs, model["lstm" if "lstm" in model else "rnn"].input_size).to(
            weight.dtype
        )
    hs, last = model["lstm" if "lstm" in model else "rnn"](xs, state)
    return model["decoder"](hs), last


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_outputs_are_those_of_pytorch(torch: Any, seed: int, dtype: str) -> None:
    model = torch_model(torch, **sizes(seed), seed=seed).to(getattr(torch, dtype))
    net, theta = from_torch(model.state_dict(), **named(model.state_dict()))
    batch = data(model.state_dict())
    tolerance = {"float32": 1e-6, "float64": 1e-13}[dtype]
    with torch.no_grad():
        expected, last = torch_outputs(torch, model, torch.from_numpy(batch.inputs))
    z, states = net.run(theta, batch)
    np.testing.assert_allclose(z, expected.numpy(), rtol=tolerance, atol=tolerance)
    for name, value in zip(("h", "c"), last if isinstance(last, tuple) else (last,), strict=False):
        for l, state in enumerate(states):
            np.testing.assert_allclose(state[name], value[l].numpy(), rtol=tolerance, atol=tolerance)


def test_a_state_is_carried_as_in_pytorch(torch: Any) -> None:
    model = torch_model(torch, layers=2).double()
    net, theta = from_torch(model.state_dict())
    batch = data(model.state_dict())
    h, c = torch.randn(2, 2, batch.B, 4, dtype=torch.float64)
    state = [{"h": h[l].numpy(), "c": c[l].numpy()} for l in range(2)]
    z, _ = net.run(theta, hfrnn.Batch(batch.inputs, initial_state=state))
    with torch.no_grad():
        expected = torch_outputs(torch, model, torch.from_numpy(batch.inputs), (h, c))[0].numpy()
    np.testing.assert_allclose(z, expected, rtol=1e-12)


def test_a_relu_network_of_pytorch(torch: Any) -> None:
    model = torch_model(torch, "rnn", nonlinearity="relu").double()
    net, theta = from_torch(model.state_dict(), activation="relu")
    batch = data(model.state_dict(), real=True)
    with torch.no_grad():
        expected = torch_outputs(torch, model, torch.from_numpy(batch.inputs))[0].numpy()
    np.testing.assert_allclose(net.run(theta, batch)[0], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_a_step_taken_here_is_taken_in_pytorch(torch: Any, seed: int) -> None:
    model = torch_model(torch, **sizes(seed), seed=seed)
    state, called = model.state_dict(), named(model.state_dict())
    net, theta = from_torch(state, **called)
    theta += 0.1 * np.random.default_rng(seed).standard_normal(theta.size).astype("float32")
    there = to_torch(net, theta, state, **called)
    assert all(isinstance(value, torch.Tensor) and not value.requires_grad for value in there.values())
    model.load_state_dict(there)  # strict
    batch = data(there)
    with torch.no_grad():
        expected = torch_outputs(torch, model, torch.from_numpy(batch.inputs))[0].numpy()
    np.testing.assert_allclose(net.run(theta, batch)[0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(from_torch(dict(model.named_parameters()), **called)[1], theta)


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_autograd(torch: Any, seed: int) -> None:
    model = torch_model(torch, **sizes(seed), seed=seed).double()
    state, called = model.state_dict(), named(model.state_dict())
    net, theta = from_torch(state, **called)
    batch = data(state)
    z, _ = torch_outputs(torch, model, torch.from_numpy(batch.inputs))
    loss = torch.nn.functional.cross_entropy(z.flatten(0, 1), torch.from_numpy(batch.targets).flatten())
    loss.backward()
    f, gradient = net.loss_and_gradient(theta, batch)
    assert f == pytest.approx(loss.item(), rel=1e-13)
    there = gradient_to_torch(net, gradient, state, **called)
    for name, parameter in model.named_parameters():
        assert parameter.grad.norm() > 1e-6
        np.testing.assert_allclose(there[name], parameter.grad, rtol=1e-9, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("seed", range(4))
def test_a_curvature_product_is_that_of_double_backward(torch: Any, seed: int) -> None:
    model = torch_model(torch, **sizes(seed), seed=seed).double()
    state, called = model.state_dict(), named(model.state_dict())
    net, theta = from_torch(state, **called)
    batch, parameters = data(state), list(model.parameters())
    v = {name: torch.randn_like(value) for name, value in state.items()}
    z, _ = torch_outputs(torch, model, torch.from_numpy(batch.inputs))
    dz = torch.zeros_like(z, requires_grad=True)
    Jt = torch.autograd.grad(z, parameters, dz, create_graph=True)  # J' dz, linear in dz, so its gradient is Jv
    (Rz,) = torch.autograd.grad(Jt, dz, list(v.values()))
    s = torch.softmax(z, dim=-1).detach()
    HRz = (s * Rz - s * (s * Rz).sum(-1, keepdim=True)) / (batch.T * batch.B)
    expected = dict(zip(state, torch.autograd.grad(z, parameters, HRz), strict=True))
    product = net.gauss_newton(theta, batch) @ from_torch(v, **called)[1]
    for name, value in gradient_to_torch(net, product, state, **called).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-8, atol=1e-14, err_msg=name)


@pytest.mark.parametrize(("loss", "factor"), [("squared", 2 / 3), ("logistic", 1 / 3)])
def test_other_losses_sum_over_outputs_where_pytorch_takes_the_mean(torch: Any, loss: str, factor: float) -> None:
    model = torch_model(torch).double()
    net, theta = from_torch(model.state_dict(), loss=loss)
    inputs, targets = data(model.state_dict()).inputs, np.random.default_rng(5).random((7, 3, 3))
    z, _ = torch_outputs(torch, model, torch.from_numpy(inputs))
    name = {"squared": "mse_loss", "logistic": "binary_cross_entropy_with_logits"}[loss]
    expected = getattr(torch.nn.functional, name)(z, torch.from_numpy(targets)).item()
    assert factor * net.loss(theta, hfrnn.Batch(inputs, targets)) == pytest.approx(expected, rel=1e-12)


def test_targets_that_are_ignored_have_the_weight_0(torch: Any) -> None:
    model = torch_model(torch).double()
    net, theta = from_torch(model.state_dict())
    batch = data(model.state_dict())
    weights = (np.arange(batch.T * batch.B).reshape(batch.T, batch.B) % 3 > 0).astype(float)
    targets = torch.from_numpy(np.where(weights > 0, batch.targets, -100)).flatten()
    z, _ = torch_outputs(torch, model, torch.from_numpy(batch.inputs))
    expected = torch.nn.functional.cross_entropy(z.flatten(0, 1), targets).item()
    given = hfrnn.Batch(batch.inputs, batch.targets, weights)
    assert net.loss(theta, given) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"kind": "gru"}, "gru is an nn.GRU"),
        ({"bidirectional": True}, "lstm runs in two directions"),
        ({"proj_size": 2, "hidden": 4}, "lstm has projections"),
    ],
)
def test_modules_of_pytorch_that_have_no_counterpart_are_refused(
    torch: Any, model: dict[str, Any], message: str
) -> None:
    with pytest.raises(hfrnn.InputError, match=message):
        from_torch(torch_model(torch, **model).state_dict())


def test_half_precision_and_tied_tensors_of_pytorch_are_refused(torch: Any) -> None:
    model = torch_model(torch, n_in=3, embedding=4)
    with pytest.raises(hfrnn.InputError, match=r"embedding\.weight is no array for NumPy"):
        from_torch(model.bfloat16().state_dict(), embedding="embedding")
    model["decoder"].weight = model["embedding"].weight
    with pytest.raises(hfrnn.InputError, match="are one tensor"):
        from_torch(model.float().state_dict(), embedding="embedding")


def test_the_example_runs(torch: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parent.parent / "examples")
    example = importlib.import_module("torch_gauss_newton")
    for name, value in {"T": 6, "B": 4, "HIDDEN": 8, "ADAM_STEPS": 2, "HF_UPDATES": 1, "ROUNDS": 1}.items():
        monkeypatch.setattr(example, name, value)
    monkeypatch.setattr(example, "topics", {"one": "to be or not to be, that is the question " * 5})
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    example.main()
    said = capsys.readouterr().out
    assert float(re.search(r"difference of a tensor (\S+)", said)[1]) < 1e-4
    assert len(re.findall("after: ", said)) == 1
