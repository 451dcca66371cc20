"""The rate network: values against plain loops, the leak, the state x, the metrics of its pre-activation."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors
from support.learned_shares import PHI, check_learned_at_its_logit, sigma

import hfrnn


def network(**changes: Any) -> hfrnn.Network:
    return hfrnn.Network("rate", **{"n_in": 4, "hidden": 3, "n_out": 4, "dtype": "float64", **changes})


@pytest.mark.parametrize(("activation", "learn_leak"), list(zip(PHI, [False, True] * 2, strict=True)))
def test_a_run_is_that_of_the_definition(activation, learn_leak):
    net = network(activation=activation, leak=0.3, learn_leak=learn_leak)
    batch = random_batch(net, np.random.default_rng(0), carried=True)
    theta = vectors(net, batch)[0]
    p = net.views(theta)
    leak = sigma(p["layer0.q"]) if learn_leak else 0.3
    x, expected = batch.initial_state[0]["x"], []
    for symbols in batch.inputs:
        n = p["layer0.W_x"][symbols] + p["layer0.b"] + PHI[activation](x) @ p["layer0.W_h"]
        x = (1 - leak) * x + leak * n
        expected.append(PHI[activation](x) @ p["output.W_y0"])
    logits, state = net.run(theta, batch)
    np.testing.assert_allclose(logits, expected, rtol=1e-12)
    np.testing.assert_allclose(state[0]["x"], x, rtol=1e-13)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_with_a_leak_of_1_it_is_the_plain_network(activation):
    """Also under the metrics of the pre-activation; both start at 0, where phi is 0."""
    net = network(leak=1.0, activation=activation, hidden=(3, 2))
    rnn = hfrnn.Network("rnn", 4, (3, 2), 4, activation=activation, dtype="float64")
    assert net.metrics == rnn.metrics
    batch = random_batch(net, np.random.default_rng(0), ragged=True)
    theta, v, _ = vectors(net, batch)
    for f in (
        lambda net: net.run(theta, batch)[0],
        lambda net: net.loss_and_gradient(theta, batch)[1],
        *(
            lambda net, metric=metric: net.gauss_newton(theta, batch, 0.7, 0.3, metric=metric) @ v
            for metric in net.metrics
        ),
        lambda net: net.hessian(theta, batch) @ v,
    ):
        np.testing.assert_allclose(f(net), f(rnn), rtol=1e-12, atol=1e-15)


def test_a_learned_leak_at_its_logit_is_a_fixed_leak():
    leak = 0.9
    fixed, learned = network(leak=leak, hidden=(3, 2)), network(leak=leak, hidden=(3, 2), learn_leak=True)
    assert learned.n_parameters == fixed.n_parameters + 5
    check_learned_at_its_logit(fixed, learned, leak)


def test_its_metrics_are_those_that_its_activation_has():
    assert network(activation="softplus").metrics == ("hidden", "matching", "preactivation")
    assert network(activation="relu").metrics == ("hidden", "preactivation")
    assert hfrnn.Network("leaky", 4, 3, 4).metrics == ("hidden",)  # h is no function of the pre-activation alone


@pytest.mark.parametrize("arch", ["leaky", "rate"])
def test_a_learned_leak_starts_below_1(arch):
    with pytest.raises(hfrnn.InputError, match=r"leak is 1\.0: learned, it starts between 0 and 1, neither of them"):
        hfrnn.Network(arch, 4, 3, 4, leak=1, learn_leak=True)
