"""The LSTM without a forget gate: values against plain loops, against lstm, its gates at their ends, its sizes."""

from typing import Any

import numpy as np
from support import gru_cases
from support.gru_cases import B, H, V, sigma

import hfrnn


def network(**changes: Any) -> tuple[hfrnn.Network, Any, dict[str, Any]]:
    return gru_cases.network("lstm-1997", **changes)


def batch() -> hfrnn.Batch:
    h, c = np.random.default_rng(2).uniform(-1, 1, (2, B, H))
    return gru_cases.batch([{"h": h, "c": c}])


def test_a_run_is_that_of_the_definition():
    net, theta, p = network()
    data = batch()
    h, c, expected = *data.initial_state[0].values(), []
    for symbols in data.inputs:
        a = p["layer0.W_x"][symbols] + p["layer0.b"] + h @ p["layer0.W_h"]
        i, o, g = sigma(a[:, :H]), sigma(a[:, H : 2 * H]), np.tanh(a[:, 2 * H :])
        c = c + i * g
        h = o * np.tanh(c)
        expected.append(h @ p["output.W_y0"] + p["output.b_y"])
    logits, state = net.run(theta, data)
    np.testing.assert_allclose(logits, expected, rtol=1e-12)
    np.testing.assert_allclose(state[0]["h"], h, rtol=1e-12)
    np.testing.assert_allclose(state[0]["c"], c, rtol=1e-12)


def test_it_is_an_lstm_whose_forget_gate_is_open():
    """f = 1 to rounding in lstm, by a large bias and no weights."""
    net, theta, _ = network()
    lstm = hfrnn.Network("lstm", V, H, V, dtype="float64")
    v = np.random.default_rng(3).standard_normal(net.n_parameters)
    there, v_there = np.zeros((2, lstm.n_parameters))
    columns = np.r_[0:H, 2 * H : 4 * H]  # i, o and g
    for target, source in ((there, theta), (v_there, v)):
        for name, view in net.views(source).items():
            part = lstm.views(target)[name]
            part[..., columns if name.startswith("layer0") else slice(None)] = view
    lstm.views(there)["layer0.b"][H : 2 * H] = 200.0
    data = batch()

    def without_forget(vector):
        views = lstm.views(vector)
        return {name: x[..., columns] if name.startswith("layer0") else x for name, x in views.items()}

    np.testing.assert_allclose(net.run(theta, data)[0], lstm.run(there, data)[0], rtol=1e-12)
    for ours, theirs in (
        (net.loss_and_gradient(theta, data)[1], lstm.loss_and_gradient(there, data)[1]),
        (net.gauss_newton(theta, data, 0.7) @ v, lstm.gauss_newton(there, data, 0.7) @ v_there),
        (net.hessian(theta, data) @ v, lstm.hessian(there, data) @ v_there),
    ):
        expected = without_forget(theirs)
        for name, value in net.views(ours).items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-10, atol=1e-14, err_msg=name)
