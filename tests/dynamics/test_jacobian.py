"""Jacobians of a step against complex steps, for every architecture, alone and in stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.dynamics import products, step_jacobian, to_state, to_vectors
from hfrnn.dynamics.transition import Transition

SMALL: dict[str, dict[str, Any]] = {"scrn": {"context": 3}, "gated-feedback": {"sublayers": 2}}
SITUATIONS: dict[str, dict[str, Any]] = {
    "one": {},
    "stack": {"hidden": (4, 2)},
    "chain": {"hidden": (4, 2), "direct_input": False},
    "many-inputs": {"n_in": 60},  # by reverse passes
    "many-inputs-stack": {"n_in": 60, "hidden": (4, 2), "direct_input": False},
    "symbols": {"embedding": 2},
}
B, TIME = 3, 2


def case(arch: str, situation: str) -> tuple[hfrnn.Network, Any, Any, Any]:
    """Return a network, weights, inputs and vectors of its state."""
    arguments = {"n_in": 3, "hidden": (4,), "n_out": 2, **SMALL.get(arch, {}), **SITUATIONS[situation]}
    net = hfrnn.Network(arch, dtype="float64", loss="squared", **arguments)
    rng = np.random.default_rng(len(arch))
    theta = 0.6 * rng.standard_normal(net.n_parameters)
    n = Transition(net, theta).n
    symbols = rng.integers(3, size=B)
    return net, theta, symbols if net.embedding else rng.standard_normal((B, net.n_in)), rng.standard_normal((B, n))


def at_time(net: hfrnn.Network, vectors: Any) -> list[dict[str, Any]]:
    return [{name: TIME if isinstance(x, int) else x for name, x in layer.items()} for layer in to_state(net, vectors)]


def by_complex_steps(net: hfrnn.Network, theta: Any, inputs: Any, vectors: Any) -> tuple[Any, Any]:
    step = Transition(net, theta, "complex128")
    _, clock = step.places.checked("state", at_time(net, vectors))
    one_hot = np.eye(net.n_in)[inputs] if inputs.ndim == 1 else inputs

    def columns(which: int, count: int) -> Any:
        found = []
        for j in range(count):
            given = [vectors.astype(complex), one_hot.astype(complex)]
            given[which][:, j] += 1e-20j
            found.append(step.forward(*given, clock)[0].imag / 1e-20)
        return np.stack(found, axis=2)

    return columns(0, step.n), columns(1, net.n_in)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("arch", hfrnn.architectures())
def test_a_jacobian_is_that_of_complex_steps(arch: str, situation: str) -> None:
    net, theta, inputs, vectors = case(arch, situation)
    J, Ju = step_jacobian(net, theta, inputs, at_time(net, vectors))
    assert J.shape == (B, vectors.shape[1], vectors.shape[1])
    assert Ju.shape == (B, vectors.shape[1], net.n_in)
    expected_J, expected_Ju = by_complex_steps(net, theta, inputs, vectors)
    np.testing.assert_allclose(J, expected_J, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(Ju, expected_Ju, rtol=1e-12, atol=1e-14)
    assert abs(J).max() > 1e-3
    assert abs(Ju).max() > 1e-3


@pytest.mark.parametrize("arch", hfrnn.architectures())
def test_the_step_is_that_of_the_network(arch: str) -> None:
    net, theta, inputs, vectors = case(arch, "stack")
    step = Transition(net, theta)
    vectors, clock = step.places.checked("state", at_time(net, vectors))
    after, handed, _ = step.forward(vectors, inputs, clock)
    outputs, state = net.run(theta, hfrnn.Batch(inputs[None], initial_state=at_time(net, vectors)))
    np.testing.assert_allclose(after, to_vectors(net, state), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(step.outputs(handed), outputs[0], rtol=1e-13, atol=1e-15)
    found, readout = step.jacobian(vectors, inputs, clock), step.readout(vectors, inputs, clock)
    nudge = 1e-6 * np.ones(step.n)
    higher, lower = (step.forward(vectors + sign * nudge, inputs, clock) for sign in (1, -1))
    np.testing.assert_allclose((higher[0] - lower[0]) / 2, found.J @ nudge, atol=1e-12)
    differences = step.forward(vectors + nudge, inputs, clock)
    above = step.outputs(differences[1]).copy()
    below = step.outputs(step.forward(vectors - nudge, inputs, clock)[1])
    np.testing.assert_allclose((above - below) / 2, readout @ nudge, atol=1e-12)


@pytest.mark.parametrize(("loss", "embedding", "real"), [
    ("squared", None, True), ("class-softmax", None, False), ("class-softmax", 2, False),
])  # fmt: skip
def test_outputs_and_their_tangents_have_the_direct_term(loss: str, embedding: int | None, real: bool) -> None:
    options = {"classes": 2} if loss == "class-softmax" else {}
    net = hfrnn.Network("gru", 5, (4, 3), 6, loss, embedding=embedding, feedthrough=True, dtype="float64", **options)
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(net.n_parameters)
    u = rng.standard_normal((B, 5)) if real else rng.integers(5, size=B)
    h, Rh, Ru = (rng.standard_normal((B, n)) for n in (7, 7, 5))
    step, complex_step = Transition(net, theta), Transition(net, theta, "complex128")
    handed, clock = step.forward(h, u, step.places.clock(), records=True)[1:]
    np.testing.assert_allclose(step.outputs(handed), net.run(theta, hfrnn.Batch(u[None], initial_state=h))[0][0],
                               rtol=1e-12, atol=1e-12)  # fmt: skip
    dense = u if real else np.eye(5)[u]
    moved = complex_step.forward(h + 1e-20j * Rh, dense + 1e-20j * Ru, clock)[1]
    z = net.head.outputs(complex_step.p["output"], [x[None] for x in moved], complex_step._head_tape())[0]
    Rz = step.output_tangents(handed, step.tangents(Rh, Ru)[1])
    np.testing.assert_allclose(Rz, z.imag / 1e-20, rtol=1e-12, atol=1e-12)


def test_vectors_have_the_latest_state_first_and_c_before_h() -> None:
    lstm = hfrnn.Network("lstm", n_in=2, hidden=(2, 1), n_out=1)
    state = [{"h": np.array([[3.0, 4]]), "c": np.array([[1.0, 2]])}, {"h": np.array([[6.0]]), "c": np.array([[5.0]])}]
    assert to_vectors(lstm, state).tolist() == [[1, 2, 3, 4, 5, 6]]
    hornn = hfrnn.Network("hornn", n_in=2, hidden=2, n_out=1, order=2, dtype="float64")
    history = np.arange(8.0).reshape(2, 2, 2)  # N, B, H
    vectors = to_vectors(hornn, [{"history": history}])
    assert vectors.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert to_state(hornn, vectors)[0]["history"].tolist() == history.tolist()
    theta = hornn.init(seed=0)
    J, _ = step_jacobian(hornn, theta, np.ones((2, 2)), vectors)
    assert (J[:, 2:] == np.eye(4)[:2]).all()  # the latest state becomes the one before
    assert Transition(hornn, theta).places.names[1:3] == ["layer0.history[0,1]", "layer0.history[1,0]"]


def test_a_relu_at_zero_and_equal_products_take_the_branch_of_the_step() -> None:
    relu = hfrnn.Network("rnn", n_in=1, hidden=2, n_out=1, activation="relu", bias=False)
    ones = np.ones(relu.n_parameters)
    assert not step_jacobian(relu, ones, np.zeros(1), np.zeros((1, 2)))[0].any()
    largest = hfrnn.Network("hornn-max", n_in=1, hidden=1, n_out=1, order=2)
    J, _ = step_jacobian(largest, np.ones(largest.n_parameters), np.zeros(1), np.ones((1, 2)))
    assert J[0, 0, 0] != 0 == J[0, 0, 1]


def test_a_network_in_float32_has_jacobians_in_float64() -> None:
    net = hfrnn.Network("gru", n_in=2, hidden=3, n_out=1)
    theta, state = net.init(seed=0), np.full((1, 3), 0.3)
    wide = hfrnn.Network("gru", n_in=2, hidden=3, n_out=1, dtype="float64")
    for found, expected in zip(*(step_jacobian(each, theta, np.ones(2), state) for each in (net, wide)), strict=True):
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, expected)


def test_products_with_known_results_are_those_of_plain_arrays() -> None:
    rng = np.random.default_rng(0)
    rows, W, out = rng.standard_normal((2, 3)), rng.standard_normal((3, 4)), np.empty((6, 4))
    repeated = products.RepeatedRows.of_rows(rows, 3)
    assert np.matmul(repeated, W, out=out) is out
    np.testing.assert_allclose(out, np.repeat(rows, 3, axis=0) @ W, rtol=1e-15)
    np.testing.assert_allclose(np.matmul(repeated[::-1], W, out=out), np.repeat(rows[::-1], 3, axis=0) @ W, rtol=1e-15)
    zeros = products.Zeros.of_shape((2, 3, 4))
    assert not np.matmul(np.ones((6, 3)), zeros[1], out=out).any()
    repeated *= 2
    assert type(repeated + 1) is np.ndarray


def test_one_input_holds_for_all_sequences() -> None:
    net = hfrnn.Network("gru", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    theta, h = net.init(seed=0), np.random.default_rng(0).normal(size=(4, 3))
    u = np.array([0.3, -0.2])
    found = [step_jacobian(net, theta, inputs, h)[0] for inputs in (np.tile(u, (4, 1)), u, u[None])]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_a_network_without_state_is_refused() -> None:
    net = hfrnn.Network("fnn", n_in=2, hidden=3, n_out=1, order=1)
    with pytest.raises(hfrnn.InputError, match="has no state"):
        step_jacobian(net, net.init(seed=0), np.ones(2), np.ones((1, 0)))
