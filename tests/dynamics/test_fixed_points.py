"""Fixed points of networks whose fixed points are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import hfrnn
from hfrnn.dynamics import fixed_points, to_vectors

GAIN = 1.5


def latches(arch: str = "rnn", **options: Any) -> tuple[hfrnn.Network, Any]:
    """Three units that each hold a bit: h = tanh(1.5 h + u)."""
    net = hfrnn.Network(arch, n_in=3, hidden=3, n_out=3, loss="squared", bias=False, **options)
    theta = np.zeros(net.n_parameters, net.dtype)
    views = net.views(theta)
    views["layer0.W_x"][...] = views["output.W_y0"][...] = np.eye(3)
    views["layer0.W_h"][...] = GAIN * np.eye(3)
    return net, theta


def starts(count: int = 300) -> Any:
    return np.random.default_rng(0).uniform(-1, 1, (count, 3))


def test_three_latches_have_the_points_of_a_cube() -> None:
    net, theta = latches()
    found = fixed_points(net, theta, np.zeros(3), starts())
    assert np.bincount(found.unstable).tolist() == [8, 12, 6, 1]
    assert found.stable.tolist() == [True] * 8 + [False] * 19
    assert found.hits.sum() == 300
    assert (found.speed <= 1e-8).all()
    bit = brentq(lambda h: math.tanh(GAIN * h) - h, 0.1, 1)
    np.testing.assert_allclose(abs(found.states), np.where(abs(found.states) > 0.1, bit, 0), atol=1e-7)
    slopes = np.sort(GAIN * (1 - found.states**2), axis=1)[:, ::-1]
    np.testing.assert_allclose(found.eigenvalues, slopes, atol=1e-6)
    np.testing.assert_allclose(found.time_constants[0], -1 / math.log(GAIN * (1 - bit**2)), rtol=1e-5)
    assert repr(found) == "<27 fixed points in 3 dimensions, 8 stable>"


def test_points_belong_to_their_inputs() -> None:
    net, theta = latches()
    inputs = np.zeros((300, 3))
    inputs[150:, 0] = 1.0  # the first latch has one point there
    found = fixed_points(net, theta, inputs, starts())
    pushed = found.inputs[:, 0] == 1
    assert pushed.sum() == 9
    assert (~pushed).sum() == 27
    point = brentq(lambda h: math.tanh(GAIN * h + 1) - h, 0, 1)
    np.testing.assert_allclose(found.states[pushed, 0], point, atol=1e-7)


def test_a_linearization_is_the_system_close_to_its_point() -> None:
    net = hfrnn.Network("lstm", n_in=2, hidden=3, n_out=2, loss="squared", dtype="float64")
    theta = 0.5 * np.random.default_rng(3).standard_normal(net.n_parameters)
    found = fixed_points(net, theta, np.array([0.3, -0.2]), np.zeros((1, 6)))
    linear, h = found.linearized(0), found.states[0]
    np.testing.assert_allclose(linear.left @ linear.J @ linear.right, np.diag(linear.eigenvalues), atol=1e-12)
    np.testing.assert_allclose(linear.eigenvalues, found.eigenvalues[0])
    np.testing.assert_allclose(linear.right @ linear.input_modes, linear.Ju, atol=1e-12)
    np.testing.assert_allclose(linear.output_modes @ linear.left, linear.readout, atol=1e-12)
    dh, du = 1e-6 * np.arange(1.0, 7), np.array([1e-6, 2e-6])

    def run(sign: int) -> tuple[Any, Any]:
        state = hfrnn.dynamics.to_state(net, (h + sign * dh)[None])
        inputs = np.array([0.3, -0.2]) + sign * du
        outputs, after = net.run(theta, hfrnn.Batch(inputs[None, None], initial_state=state))
        return to_vectors(net, after)[0], outputs[0, 0]

    (above, z_above), (below, z_below) = run(1), run(-1)
    np.testing.assert_allclose((above - below) / 2, linear.J @ dh + linear.Ju @ du, atol=1e-14)
    assert not np.allclose((z_above - z_below) / 2, linear.readout @ dh, atol=1e-8)  # du moves the outputs too
    with pytest.raises(hfrnn.InputError, match="p is 1"):
        found.linearized(1)


def test_slow_points_come_only_when_asked_for() -> None:
    net, theta = latches()
    views = net.views(theta)
    views["layer0.W_h"][...] = 1.1 * np.eye(3)
    inputs = np.full(3, 0.05)  # each latch has just lost two of its three points
    begin = np.full((1, 3), -0.3)
    assert len(fixed_points(net, theta, inputs, begin)) == 0
    found = fixed_points(net, theta, inputs, begin, slow=0.1)
    assert len(found) == 1
    assert found.speed[0] > 1e-3
    near = [np.linalg.norm(np.tanh(1.1 * h + inputs) - h) for h in found.states[0] + np.diag([1e-2] * 3)]
    assert min(near) > 0.99 * found.speed[0]


def test_a_singular_jacobian_does_not_end_a_search() -> None:
    """The state of an integrator stays where it is: each of its states is a fixed point, and dF/dh - I is zero."""
    net, theta = latches(activation="relu")
    net.views(theta)["layer0.W_h"][...] = np.eye(3)
    begin = np.array([[0.5, 1.0, 2.0], [-1.0, 0.5, 0.5]])
    found = fixed_points(net, theta, np.zeros(3), begin)
    assert (found.speed <= 1e-8).all()
    assert len(found) == 2
    assert not found.stable.any()


def test_damping_that_is_lost_in_rounding_does_not_end_a_search() -> None:
    """All rows of J are equal and large, so that J'J and J'J plus the damping are the same singular matrix."""
    net, theta = latches(activation="relu")
    net.views(theta)["layer0.W_h"][...] = 1e8
    fixed_points(net, theta, np.zeros(3), np.array([[0.5, 1.0, 2.0]]))


@pytest.mark.parametrize("phase", [0, 1])
def test_fixed_points_of_a_clockwork_are_those_of_a_period(phase: int) -> None:
    net = hfrnn.Network("clockwork", n_in=1, hidden=4, n_out=1, periods=(1, 2), loss="squared", dtype="float64")
    theta = 0.5 * np.random.default_rng(1).standard_normal(net.n_parameters)
    begin = [{"h": np.zeros((1, 4)), "t": phase}]
    found = fixed_points(net, theta, np.ones(1), begin)
    assert found.period == 2
    state = [{"h": found.states, "t": phase}]
    _, after = net.run(theta, hfrnn.Batch(np.ones((2, len(found), 1)), initial_state=state))
    np.testing.assert_allclose(after[0]["h"], found.states, atol=1e-8)
    nudge, push = 1e-6 * np.arange(1.0, 5), 2e-6
    moved, outputs = [], []
    for sign in (1, -1):
        state = [{"h": found.states[:1] + sign * nudge, "t": phase}]
        inputs = np.full((2, 1, 1), 1 + sign * push)
        moved.append(net.run(theta, hfrnn.Batch(inputs, initial_state=state))[1][0]["h"][0])
        outputs.append(net.run(theta, hfrnn.Batch(np.ones((2, 1, 1)), initial_state=state))[0][-1, 0])
    linear = found.linearized(0)
    np.testing.assert_allclose((moved[0] - moved[1]) / 2, linear.J @ nudge + linear.Ju[:, 0] * push, atol=1e-13)
    np.testing.assert_allclose((outputs[0] - outputs[1]) / 2, linear.readout @ nudge, atol=1e-13)


@pytest.mark.parametrize("arch", [name for name in hfrnn.architectures() if name not in ("fnn", "fofe-fnn")])
def test_a_fixed_point_of_any_architecture_stays_where_it_is(arch: str) -> None:
    net = hfrnn.Network(
        arch, n_in=2, hidden=(4, 2), n_out=1, loss="squared", **({"context": 2} if arch == "scrn" else {})
    )
    theta = 0.4 * np.random.default_rng(2).standard_normal(net.n_parameters).astype("float32")
    n = len(to_vectors(net, net.zero_state(1))[0])
    found = fixed_points(net, theta, np.array([0.5, -0.5]), 0.1 * np.random.default_rng(0).standard_normal((5, n)))
    if arch != "lstm-1997":  # its cell without a forget gate need not have one
        assert len(found) >= 1
    if len(found):
        wide = hfrnn.Network(**{**net.config, "dtype": "float64"})
        inputs = np.broadcast_to([0.5, -0.5], (found.period, len(found), 2))
        state = hfrnn.dynamics.to_state(wide, found.states)
        _, after = wide.run(theta, hfrnn.Batch(inputs, initial_state=state))
        assert np.linalg.norm(to_vectors(wide, after) - found.states, axis=1).max() <= 1.001e-8


def test_wrong_arguments_are_refused() -> None:
    net, theta = latches()
    for wrong, words in (
        ({"starts": np.zeros((0, 3))}, "starts are empty"), ({"slow": 1e-9}, "slow is 1e-09"),
        ({"starts": np.zeros((2, 4))}, "3 state entries"), ({"inputs": np.zeros((3, 3))}, "inputs has shape"),
        ({"inputs": 3}, "with n_in = 3"), ({"starts": [{"c": np.zeros((1, 3))}]}, "this network has"),
        ({"tolerance": 0}, "tolerance"), ({"starts": np.full((1, 3), np.nan)}, "NaN"),
    ):  # fmt: skip
        arguments = {"inputs": np.zeros(3), "starts": np.zeros((1, 3)), **wrong}
        with pytest.raises(hfrnn.InputError, match=words):
            fixed_points(net, theta, **arguments)
