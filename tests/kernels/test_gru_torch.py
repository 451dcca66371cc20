"""PyTorch's gated recurrent unit: against torch.nn.GRU itself where it is installed, its gates, its sizes."""

from typing import Any

import numpy as np
import pytest
from support import gru_cases
from support.gru_cases import B, H, T, V, batch, sigma

import hfrnn


def network(**changes: Any) -> tuple[hfrnn.Network, Any, dict[str, Any]]:
    return gru_cases.network("gru-torch", **changes)


def test_a_run_is_that_of_the_definition():
    net, theta, p = network()
    data = batch()
    h, expected = data.initial_state[0]["h"], []
    for symbols in data.inputs:
        U_r, U_z, U_n = np.split(p["layer0.W_x"][symbols] + p["layer0.b"], 3, axis=1)
        s_r, s_z, s_n = np.split(h @ p["layer0.W_h"], 3, axis=1)
        r, z = sigma(U_r + s_r), sigma(U_z + s_z)
        h = (1 - z) * np.tanh(U_n + r * (s_n + p["layer0.b_hn"])) + z * h
        expected.append(h @ p["output.W_y0"] + p["output.b_y"])
    logits, state = net.run(theta, data)
    np.testing.assert_allclose(logits, expected, rtol=1e-12)
    np.testing.assert_allclose(state[0]["h"], h, rtol=1e-12)


@pytest.mark.parametrize("layers", [1, 2])
def test_outputs_and_gradients_are_those_of_pytorch(layers):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra peers)")
    net, theta, p = network(hidden=(H,) * layers, loss="squared", direct_input=False, direct_output=False)
    rng = np.random.default_rng(2)
    x, y, h0 = (rng.standard_normal(shape) for shape in ((T, B, V), (T, B, V), (layers, B, H)))
    gru, linear = torch.nn.GRU(V, H, layers).double(), torch.nn.Linear(H, V).double()
    top = {"weight": p[f"output.W_y{layers - 1}"].T, "bias": p["output.b_y"]}
    linear.load_state_dict({name: torch.tensor(value) for name, value in top.items()})
    parameters = {}
    for l in range(layers):
        names = {"ih": f"layer{l}.{'W_below' if l else 'W_x'}", "hh": f"layer{l}.W_h"}
        b, b_hn, first = p[f"layer{l}.b"], p[f"layer{l}.b_hn"], rng.standard_normal(2 * H)
        parameters |= {f"weight_{kind}_l{l}": p[name].T for kind, name in names.items()}
        parameters[f"bias_ih_l{l}"] = np.concatenate([b[: 2 * H] - first, b[2 * H :]])
        parameters[f"bias_hh_l{l}"] = np.concatenate([first, b_hn])  # of r and z, the sum counts
    gru.load_state_dict({name: torch.tensor(value) for name, value in parameters.items()})
    hs, last = gru(torch.tensor(x), torch.tensor(h0))
    z = linear(hs)
    (0.5 * ((z - torch.tensor(y)) ** 2).sum() / (T * B)).backward()

    data = hfrnn.Batch(x, y, initial_state=[{"h": h} for h in h0])
    logits, state = net.run(theta, data)
    np.testing.assert_allclose(logits, z.detach().numpy(), rtol=1e-12, atol=1e-12)
    gradient = net.views(net.loss_and_gradient(theta, data)[1])
    there = {name: parameter.grad.numpy() for name, parameter in gru.named_parameters()}
    expected = {f"output.W_y{layers - 1}": linear.weight.grad.numpy().T, "output.b_y": linear.bias.grad.numpy()}
    for l in range(layers):
        np.testing.assert_allclose(state[l]["h"], last[l].detach().numpy(), rtol=1e-12, atol=1e-12)
        expected[f"layer{l}.{'W_below' if l else 'W_x'}"] = there[f"weight_ih_l{l}"].T
        expected[f"layer{l}.W_h"], expected[f"layer{l}.b"] = there[f"weight_hh_l{l}"].T, there[f"bias_ih_l{l}"]
        expected[f"layer{l}.b_hn"] = there[f"bias_hh_l{l}"][2 * H :]
    assert gradient.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(gradient[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


def test_with_an_open_reset_gate_it_is_the_other_gru():
    """r = 1 to rounding, so r*(h @ W) = (r*h) @ W; the bias b_hn is then one of U."""
    net, theta, p = network()
    other = hfrnn.Network("gru", V, H, V, dtype="float64")
    there = np.zeros(other.n_parameters)
    q = other.views(there)
    p["layer0.b"][:H] = 200.0
    for name in ("layer0.W_x", "layer0.b", "output.W_y0", "output.b_y"):
        q[name][...] = p[name]
    q["layer0.b"][2 * H :] += p["layer0.b_hn"]
    q["layer0.W_h"][...], q["layer0.W_hg"][...] = p["layer0.W_h"][:, : 2 * H], p["layer0.W_h"][:, 2 * H :]
    np.testing.assert_allclose(net.run(theta, batch())[0], other.run(there, batch())[0], rtol=1e-12)


def test_the_bias_of_the_candidate_starts_at_0():
    net = network()[0]
    assert (net.views(net.init(scale=0.5))["layer0.b_hn"] == 0).all()  # as every bias
    assert (net.views(net.init(initializer="sutskever"))["layer0.b_hn"] == 0).all()
