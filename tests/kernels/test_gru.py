"""What is the gated recurrent unit's own: its step, its gates at their ends, its sizes."""

from typing import Any

import numpy as np
from support import gru_cases
from support.gru_cases import B, H, batch, sigma

import hfrnn


def network(**changes: Any) -> tuple[hfrnn.Network, Any, dict[str, Any]]:
    return gru_cases.network("gru", **changes)


def test_a_run_is_that_of_the_definition():
    net, theta, p = network()
    data = batch()
    h, expected = data.initial_state[0]["h"], []
    for symbols in data.inputs:
        U = p["layer0.W_x"][symbols] + p["layer0.b"]
        r, z = (sigma(U[:, n * H : (n + 1) * H] + (h @ p["layer0.W_h"])[:, n * H : (n + 1) * H]) for n in (0, 1))
        g = np.tanh(U[:, 2 * H :] + (r * h) @ p["layer0.W_hg"])
        h = z * h + (1 - z) * g
        expected.append(h @ p["output.W_y0"] + p["output.b_y"])
    logits, state = net.run(theta, data)
    np.testing.assert_allclose(logits, expected, rtol=1e-12)
    np.testing.assert_allclose(state[0]["h"], h, rtol=1e-12)


def test_a_reset_gate_at_zero_hides_the_state_from_the_candidate():
    net, theta, p = network()
    p["layer0.b"][: 2 * H] = -200.0  # and the update gate takes the candidate alone
    data = batch()
    logits, end = net.run(theta, data)
    from_zero, end_from_zero = net.run(theta, batch(net.zero_state(B)))
    np.testing.assert_array_equal(logits, from_zero)
    np.testing.assert_array_equal(end[0]["h"], end_from_zero[0]["h"])
    assert (net.views(net.loss_and_gradient(theta, data)[1])["layer0.W_hg"] == 0).all()
