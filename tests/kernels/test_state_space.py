"""The state-space network: values against plain loops, where it meets rnn, and its first weights."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors
from support.learned_shares import PHI

import hfrnn


def network(**changes: Any) -> hfrnn.Network:
    return hfrnn.Network(
        "state-space", **{"n_in": 4, "hidden": 3, "units": 5, "n_out": 4, "dtype": "float64", **changes}
    )


@pytest.mark.parametrize("activation", PHI)
def test_a_run_is_that_of_the_definition(activation):
    net = network(activation=activation)
    batch = random_batch(net, np.random.default_rng(0), carried=True)
    theta = vectors(net, batch)[0]
    p = net.views(theta)
    B, W_2 = np.split(p["layer0.W_x"], [3], axis=1)
    b_h, b_g = np.split(p["layer0.b"], [3])
    h, expected = batch.initial_state[0]["h"], []
    for u in np.eye(4)[batch.inputs]:
        g = PHI[activation](h @ p["layer0.W_1"] + u @ W_2 + b_g)
        h = h @ p["layer0.A"] + u @ B + g @ p["layer0.W_3"] + b_h
        expected.append(h @ p["output.W_y0"] + p["output.b_y"])
    logits, state = net.run(theta, batch)
    np.testing.assert_allclose(logits, expected, rtol=1e-12)
    np.testing.assert_allclose(state[0]["h"], h, rtol=1e-13)


def test_states_that_copy_their_units_are_those_of_rnn():
    net, rnn = network(units=3), hfrnn.Network("rnn", 4, 3, 4, output_bias=True, dtype="float64")
    batch = random_batch(net, np.random.default_rng(0), ragged=True)
    theta, (of_rnn, v, _) = np.zeros(net.n_parameters), vectors(rnn, batch)
    tangent, p, q = np.zeros_like(theta), net.views(theta), rnn.views(of_rnn)
    p["layer0.W_3"][...] = np.eye(3)
    for mine, theirs in ((p, q), (net.views(tangent), rnn.views(v))):
        mine["layer0.W_1"][...], mine["layer0.W_x"][:, 3:] = theirs["layer0.W_h"], theirs["layer0.W_x"]
        mine["layer0.b"][3:] = theirs["layer0.b"]
        for name in ("output.W_y0", "output.b_y"):
            mine[name][...] = theirs[name]
    np.testing.assert_allclose(net.run(theta, batch)[0], rnn.run(of_rnn, batch)[0], rtol=1e-13)
    G, expected = net.gauss_newton(theta, batch, 0.7) @ tangent, rnn.gauss_newton(of_rnn, batch, 0.7) @ v
    np.testing.assert_allclose(net.views(G)["layer0.W_1"], rnn.views(expected)["layer0.W_h"], rtol=1e-11)
    np.testing.assert_allclose(net.views(G)["output.W_y0"], rnn.views(expected)["output.W_y0"], rtol=1e-11)


def test_a_fresh_network_is_stable_with_time_constants_of_a_few_steps():
    net = network(hidden=6)
    for seed in range(3):
        p = net.views(net.init(seed))
        slope_of_each_unit = 1.0  # the largest of tanh
        A = p["layer0.A"] + p["layer0.W_1"] * slope_of_each_unit @ p["layer0.W_3"]
        assert 0.2 < np.abs(np.linalg.eigvals(A)).min() <= np.abs(np.linalg.eigvals(A)).max() < 0.99


@pytest.mark.parametrize(("wrong", "message"), [
    ({"units": 0}, "units is 0: give a whole number of units, 1 or more"),
    ({"activation": "cube"}, "activation is 'cube': use one of tanh, logistic, relu, softplus"),
])  # fmt: skip
def test_a_wrong_option_is_refused(wrong, message):
    with pytest.raises(hfrnn.InputError, match=message):
        network(**wrong)
