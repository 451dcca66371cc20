"""The leaky network: values against plain loops, the leak, fixed and learned, the activations."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors
from support.learned_shares import PHI, check_learned_at_its_logit, sigma

import hfrnn
from hfrnn.kernels.pointwise import softplus_
from hfrnn.kernels.rnn import slope_of


def network(**changes: Any) -> hfrnn.Network:
    return hfrnn.Network("leaky", **{"n_in": 4, "hidden": 3, "n_out": 4, "dtype": "float64", **changes})


@pytest.mark.parametrize(("activation", "learn_leak"), list(zip(PHI, [False, True] * 2, strict=True)))
def test_a_run_is_that_of_the_definition(activation, learn_leak):
    net = network(activation=activation, leak=0.3, learn_leak=learn_leak)
    batch = random_batch(net, np.random.default_rng(0), carried=True)
    theta = vectors(net, batch)[0]
    p = net.views(theta)
    leak = sigma(p["layer0.q"]) if learn_leak else 0.3
    h, expected = batch.initial_state[0]["h"], []
    for symbols in batch.inputs:
        a = p["layer0.W_x"][symbols] + p["layer0.b"] + h @ p["layer0.W_h"]
        h = (1 - leak) * h + leak * PHI[activation](a)
        expected.append(h @ p["output.W_y0"])
    logits, state = net.run(theta, batch)
    np.testing.assert_allclose(logits, expected, rtol=1e-12)
    np.testing.assert_allclose(state[0]["h"], h, rtol=1e-13)


@pytest.mark.parametrize("activation", ["logistic"])
def test_with_a_leak_of_1_it_is_the_plain_network(activation):
    net = network(leak=1.0, activation=activation, hidden=(3, 2))
    rnn = hfrnn.Network("rnn", 4, (3, 2), 4, activation=activation, dtype="float64")
    batch = random_batch(net, np.random.default_rng(0), ragged=True, carried=True)
    theta, v, _ = vectors(net, batch)
    for f in (
        lambda net: net.run(theta, batch)[0],
        lambda net: net.loss_and_gradient(theta, batch)[1],
        lambda net: net.gauss_newton(theta, batch, structural=0.7, tikhonov=0.3) @ v,
        lambda net: net.hessian(theta, batch) @ v,
    ):
        np.testing.assert_allclose(f(net), f(rnn), rtol=1e-12, atol=1e-15)


def test_a_learned_leak_at_its_logit_is_a_fixed_leak():
    leak = 0.9
    fixed, learned = network(leak=leak, hidden=(3, 2)), network(leak=leak, hidden=(3, 2), learn_leak=True)
    assert learned.n_parameters == fixed.n_parameters + 5
    check_learned_at_its_logit(fixed, learned, leak)


@pytest.mark.parametrize("initializer", ["papers", "sutskever"])
def test_a_learned_leak_starts_at_the_given_leak_whatever_the_scale(initializer):
    net = network(leak=0.7, learn_leak=True)
    q = net.views(net.init(initializer=initializer, scale=0.5))["layer0.q"]
    np.testing.assert_allclose(1 / (1 + np.exp(-q)), 0.7, rtol=1e-14)


def test_the_softplus_is_exact_to_rounding_and_never_overflows():
    x = np.concatenate([np.linspace(-700, 700, 2001), np.linspace(-3, 3, 601), [0.0, -1e-9, 1e9, -1e9]])
    expected, slope = np.logaddexp(0, x), np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-abs(x)))
    h = x.copy()
    softplus_(np, h)
    np.testing.assert_allclose(h, expected, rtol=1e-15)
    np.testing.assert_allclose(slope_of(np, "softplus", h, np.empty_like(h)), slope, rtol=1e-15)
    single = x.astype("float32")
    expected = np.logaddexp(0, single.astype("float64"))
    softplus_(np, single)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-6, atol=1e-37)


def test_a_complex_step_through_the_softplus_gives_its_two_derivatives():
    x, step = np.concatenate([np.linspace(-600, 40, 641), [0.0, -1e-9, 1e-9]]), 1e-20
    z = x + 1j * step
    softplus_(np, z)
    slope = np.exp(-np.logaddexp(0, -x))
    np.testing.assert_allclose(z.imag / step, slope, rtol=1e-13)
    second = slope_of(np, "softplus", z, np.empty_like(z)).imag / step
    np.testing.assert_allclose(second, np.exp(-np.logaddexp(0, -x) - np.logaddexp(0, x)), rtol=1e-13)
