"""The coupled oscillatory network: values against plain loops, and the motion of a free oscillator."""

from typing import Any

import numpy as np
from support.engine_cases import random_batch, vectors

import hfrnn


def network(**changes: Any) -> hfrnn.Network:
    return hfrnn.Network("coupled-oscillator", **{"n_in": 4, "hidden": 3, "n_out": 4, "dtype": "float64", **changes})


def test_a_run_is_that_of_the_definition():
    dt, gamma, epsilon = 0.3, 0.8, 0.6
    net = network(dt=dt, gamma=gamma, epsilon=epsilon)
    batch = random_batch(net, np.random.default_rng(0), carried=True)
    theta = vectors(net, batch)[0]
    p, expected = net.views(theta), []
    y, z = (batch.initial_state[0][name] for name in "yz")
    for symbols in batch.inputs:
        drive = np.tanh(p["layer0.W_x"][symbols] + p["layer0.b"] + y @ p["layer0.W_h"] + z @ p["layer0.W_z"])
        z = z + dt * (drive - gamma * y - epsilon * z)
        y = y + dt * z
        expected.append(y @ p["output.W_y0"])
    logits, state = net.run(theta, batch)
    np.testing.assert_allclose(logits, expected, rtol=1e-12)
    np.testing.assert_allclose(state[0]["z"], z, rtol=1e-13)


def test_a_free_oscillator_has_the_frequency_gamma_and_the_damping_epsilon():
    """y'' = -gamma*y - epsilon*y' from y = 1 at rest; the error of the discretization is of the order of dt."""
    dt, gamma, epsilon, T = 0.001, 4.0, 0.5, 3000
    net = network(dt=dt, gamma=gamma, epsilon=epsilon, n_in=1, hidden=1, n_out=1, loss="squared")
    theta, start = np.zeros(net.n_parameters), [{"y": np.ones((1, 1)), "z": np.zeros((1, 1))}]
    net.views(theta)["output.W_y0"][...] = 1
    y = net.run(theta, hfrnn.Batch(np.zeros((T, 1, 1)), initial_state=start))[0][:, 0, 0]
    t, omega = dt * np.arange(1, T + 1), np.sqrt(gamma - epsilon**2 / 4)
    exact = np.exp(-epsilon * t / 2) * (np.cos(omega * t) + epsilon / (2 * omega) * np.sin(omega * t))
    np.testing.assert_allclose(y, exact, atol=2 * dt)
