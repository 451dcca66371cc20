"""Lyapunov exponents of networks whose exponents are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.data.scaling import Scaling
from hfrnn.dynamics import lyapunov, step_jacobian

MODULI = np.array([1.1, 0.9, 0.6, 0.3])


def linear(free: bool = False) -> tuple[hfrnn.Network, Any]:
    """A network that is linear in its positive states, with known moduli of its eigenvalues; free: z = W_y h is x."""
    net = hfrnn.Network(
        "rnn", n_in=1, hidden=4, n_out=1, loss="squared", activation="relu", bias=False, dtype="float64"
    )
    theta, views = np.zeros(net.n_parameters), net.views(np.zeros(net.n_parameters))
    views = net.views(theta)
    rng = np.random.default_rng(0)
    views["layer0.W_x"][...] = 0.1 * rng.uniform(0.5, 1, (1, 4))
    views["output.W_y0"][...] = rng.uniform(0.1, 0.5, (4, 1)) if free else 0
    views["layer0.W_h"][...] = np.diag(MODULI * (0.5 if free else 1)) + 0.1 * np.triu(rng.uniform(0, 1, (4, 4)), 1)
    return net, theta


def test_exponents_of_a_linear_network_are_those_of_its_eigenvalues() -> None:
    net, theta = linear()
    found = lyapunov(net, theta, np.ones((500, 2, 1)), np.ones((2, 4)), washout=200)
    np.testing.assert_allclose(found.exponents, np.log(MODULI), atol=1e-12)
    assert found.errors.max() < 1e-12
    assert (found.steps, found.sequences) == (300, 2)
    sums = np.cumsum(np.log(MODULI))
    assert found.dimension == pytest.approx(1 + sums[0] / -np.log(0.9)) if sums[1] < 0 else True
    first = lyapunov(net, theta, np.ones((500, 2, 1)), np.ones((2, 4)), k=1, washout=200)
    np.testing.assert_allclose(first.exponents, np.log(MODULI[:1]), atol=1e-12)
    alone = lyapunov(net, theta, np.ones((500, 1)), np.ones((1, 4)), washout=200)  # without an axis for sequences
    assert alone.sequences == 1
    np.testing.assert_allclose(alone.exponents, np.log(MODULI), atol=1e-12)


def test_exponents_of_a_free_run_are_those_of_the_closed_loop() -> None:
    net, theta = linear(free=True)
    views = net.views(theta)
    scaling = Scaling(np.zeros(1), np.full(1, 2.0), np.zeros(1), np.full(1, 3.0))  # an output is an input times 3/2
    closed = views["layer0.W_h"] + 1.5 * views["output.W_y0"] @ views["layer0.W_x"]
    expected = np.sort(np.log(abs(np.linalg.eigvals(closed))))[::-1]
    inputs = np.ones((3, 1, 1))
    found = lyapunov(net, theta, inputs, free_steps=400, scaling=scaling, washout=250)
    np.testing.assert_allclose(found.exponents, expected, atol=1e-10)
    z = hfrnn.free_run(net, theta, hfrnn.Batch(inputs), 40, scaling)[:, 0, 0]
    assert np.log(z[-1] / z[-2]) == pytest.approx(found.exponents[0], abs=1e-9)


def test_outputs_become_the_inputs_that_feedback_names() -> None:
    rng, scaling = np.random.default_rng(0), Scaling(np.zeros(2), np.array([2.0, 0.5]), np.ones(2), np.full(2, 3.0))
    net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=3, loss="squared", dtype="float64")
    plain = hfrnn.Network(**{**net.config, "n_out": 2})
    theta, same = net.init(seed=0), plain.init(seed=0)
    net.views(theta)["output.W_y0"][...] = W = rng.standard_normal((3, 3))
    plain.views(same)["output.W_y0"][...] = W[:, [2, 0]]
    for name in ("layer0.W_x", "layer0.W_h", "layer0.b"):
        plain.views(same)[name][...] = net.views(theta)[name]
    inputs = rng.standard_normal((4, 1, 2))
    wide = Scaling(scaling.input_mean, scaling.input_deviation, np.ones(3), np.full(3, 3.0))
    crossed = lyapunov(net, theta, inputs, free_steps=50, scaling=wide, feedback=[1, None, 0])
    expected = lyapunov(plain, same, inputs, free_steps=50, scaling=scaling)
    np.testing.assert_allclose(crossed.exponents, expected.exponents, atol=1e-12)
    with pytest.raises(hfrnn.InputError, match="feedback was given without free_steps"):
        lyapunov(net, theta, inputs, feedback=[1, None, 0])
    with pytest.raises(hfrnn.InputError, match="1 of 2 inputs is fed back"):
        lyapunov(net, theta, inputs, free_steps=50, feedback=[1, None, None])


def test_a_direct_term_is_part_of_the_closed_loop() -> None:
    options = {"units": 1, "bias": False, "output_bias": False, "feedthrough": True, "dtype": "float64"}
    net = hfrnn.Network("state-space", 2, 4, 2, "squared", **options)
    moduli = np.array([0.95, 0.8, 0.6, 0.4, 0.25, 0.1])
    V = np.eye(6) + 0.2 * np.random.default_rng(0).standard_normal((6, 6))
    closed = V @ np.diag(moduli) @ np.linalg.inv(V)  # rows (h, x) @ closed, where x is half of the outputs
    theta = np.zeros(net.n_parameters)
    p = net.views(theta)
    p["layer0.A"][...], p["layer0.W_x"][:, :4] = closed[:4, :4], closed[4:, :4]
    C = p["output.W_y0"][...] = 2 * np.linalg.solve(closed[:4, :4], closed[:4, 4:])
    p["output.W_y_u"][...] = 2 * closed[4:, 4:] - closed[4:, :4] @ C
    half = Scaling(np.zeros(2), np.full(2, 2.0), np.zeros(2), np.ones(2))
    found = lyapunov(net, theta, np.ones((3, 1, 2)), free_steps=400, scaling=half, washout=200)
    np.testing.assert_allclose(found.exponents, np.log(moduli[:4]), atol=1e-10)


def test_the_sum_of_all_exponents_is_the_mean_log_determinant() -> None:
    net = hfrnn.Network("lstm", n_in=2, hidden=(2, 2), n_out=1)
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(net.n_parameters)
    inputs = rng.standard_normal((40, 1, 2))
    found = lyapunov(net, theta, inputs, washout=0)
    wide = hfrnn.Network(**{**net.config, "dtype": "float64"})
    states = hfrnn.dynamics.to_vectors(wide, wide.run(np.float32(theta), hfrnn.Batch(inputs), states=True)[2])[:, 0]
    before = np.concatenate([np.zeros((1, 8)), states[:-1]])
    J, _ = step_jacobian(net, theta, inputs[:, 0], before)
    assert found.exponents.sum() == pytest.approx(np.linalg.slogdet(J)[1].mean(), rel=1e-10)
    assert (np.diff(found.exponents) <= 0).all()


def test_wrong_arguments_are_refused() -> None:
    net, theta = linear()
    for wrong, words in (
        ({"k": 5}, "k"), ({"washout": 50}, "washout is 50"), ({"inputs": np.ones(50)}, "inputs has shape"),
        ({"state": np.ones((2, 4))}, "2 sequences"), ({"free_steps": 0}, "free_steps"),
    ):  # fmt: skip
        with pytest.raises(hfrnn.InputError, match=words):
            lyapunov(net, theta, **{"inputs": np.ones((50, 1, 1)), **wrong})
    symbols = hfrnn.Network("rnn", n_in=3, hidden=2, n_out=3)
    with pytest.raises(hfrnn.InputError, match="cannot be its inputs"):
        lyapunov(symbols, symbols.init(seed=0), np.zeros((5, 1), int), free_steps=5)
    with pytest.raises(hfrnn.NonFiniteError, match="not finite after"):
        lyapunov(net, 1e200 * theta, np.ones((50, 1, 1)), np.ones((1, 4)))
