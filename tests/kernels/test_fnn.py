"""The feed-forward network over n inputs: values against a network that is given the whole window as its input."""

import itertools
from typing import Any

import numpy as np
import pytest
from support.engine_cases import assert_same, everything, plans, random_batch, vectors
from support.kernel_promises import arrays, tape

import hfrnn
from hfrnn.kernels import make_kernel

F = {"tanh": np.tanh, "logistic": lambda a: 1 / (1 + np.exp(-a)), "relu": lambda a: np.maximum(a, 0)}


def network(**changes: Any) -> hfrnn.Network:
    return hfrnn.Network("fnn", **{"n_in": 4, "hidden": 3, "n_out": 4, "dtype": "float64", **changes})


@pytest.mark.parametrize(
    ("order", "T", "activation"), [(1, 4, "relu"), (3, 6, "tanh"), (5, 2, "logistic"), (4, 1, "tanh")]
)
def test_a_step_reads_the_last_n_inputs_each_by_its_own_weights_and_the_bias_once(order, T, activation):
    net = network(order=order, activation=activation, output_bias=True)
    batch = random_batch(net, np.random.default_rng(order), T=T, B=3)
    theta = vectors(net, batch)[0]
    p = net.views(theta)
    W_x, b = np.split(p["layer0.W_x"], order, axis=1), p["layer0.b"]
    assert b.shape == (3,)
    for t, s in itertools.product(range(T), range(3)):
        a = b + sum(W_x[k][batch.inputs[t - k, s]] for k in range(order) if t - k >= 0)
        expected = F[activation](a) @ p["output.W_y0"] + p["output.b_y"]
        np.testing.assert_allclose(net.run(theta, batch)[0][t, s], expected, rtol=1e-13, atol=1e-15)


def test_it_is_a_plain_layer_on_the_inputs_of_the_window_side_by_side():
    """Every derivative too: the same network as order 1 on real inputs, n one-hot vectors at each step."""
    net, n = network(order=3, hidden=(3, 2), direct_input=False), 3
    batch = random_batch(net, np.random.default_rng(0), T=6, B=2, ragged=True)
    theta, v, _ = vectors(net, batch)
    codes = np.zeros((6 + n - 1, 2, 4))
    codes[n - 1 :] = np.eye(4)[batch.inputs]
    side_by_side = np.concatenate([codes[n - 1 - k : n - 1 - k + 6] for k in range(n)], axis=2)
    wide = network(order=1, n_in=4 * n, hidden=(3, 2), direct_input=False)
    same = hfrnn.Batch(side_by_side, batch.targets, batch.weights, batch.lengths)

    def tall(vector):
        """The parameters of the plain network: the blocks of columns of W_x one below the other."""
        views = net.views(vector)
        found = np.empty(wide.n_parameters)
        for name, view in wide.views(found).items():
            parts = np.split(views[name], n, axis=1) if name == "layer0.W_x" else [views[name]]
            view[...] = np.concatenate(parts)
        return found

    loss, gradient = net.loss_and_gradient(theta, batch)
    expected = wide.loss_and_gradient(tall(theta), same)
    assert loss == pytest.approx(expected[0], rel=1e-14)
    np.testing.assert_allclose(tall(gradient), expected[1], rtol=1e-12, atol=1e-15)
    G, H = net.gauss_newton(theta, batch, structural=0.5), wide.gauss_newton(tall(theta), same, structural=0.5)
    np.testing.assert_allclose(tall(G @ v), H @ tall(v), rtol=1e-11, atol=1e-14)


def test_an_input_acts_for_n_steps_and_no_longer():
    net = network(order=3, hidden=(3, 2))
    theta, inputs = net.init(0, scale=0.5), np.zeros((8, 1), int)
    changed = inputs.copy()
    changed[2] = 3
    difference = net.run(theta, hfrnn.Batch(changed))[0] - net.run(theta, hfrnn.Batch(inputs))[0]
    assert (np.abs(difference).max(axis=(1, 2)) > 1e-6).tolist() == [False] * 2 + [True] * 3 + [False] * 3


@pytest.mark.parametrize(("arch", "n"), [("fnn", "order"), ("fofe-fnn", "codes")])
def test_the_window_reaches_over_the_boundaries_of_segments(arch, n):
    net = hfrnn.Network(arch, 4, (3, 2), 4, dtype="float64", **{n: 5})
    batch = random_batch(net, np.random.default_rng(1), T=7, B=2)
    theta, v, u = vectors(net, batch)
    whole, _ = net.run(theta, batch)
    state, pieces = None, []
    for start, stop in itertools.pairwise((0, 1, 2, 5, 7)):
        logits, state = net.run(theta, hfrnn.Batch(batch.inputs[start:stop], initial_state=state))
        pieces.append(logits)
    np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=1e-14)
    expected = everything(net, batch, theta, v, u)
    for plan in ("states-2", "nothing-3"):
        assert_same(everything(net, batch, theta, v, u, plan=plans(7, 2)[plan]), expected, rtol=1e-12)


@pytest.mark.parametrize("arch", ["fnn", "fofe-fnn"])
@pytest.mark.parametrize(("order", "K"), [(4, 2), (3, 1), (6, 3)])
def test_the_routines_are_adjoint_where_a_segment_is_shorter_than_the_window(arch, order, K):
    kernel, recorded = make_kernel(arch, 3, {"order" if arch == "fnn" else "codes": order}), tape()
    _, U, state = arrays(kernel, K, 2)
    _, RU, Rstate = arrays(kernel, K, 2, seed=1)
    hs, after = kernel.forward({}, U, state, recorded)
    Rhs, Rafter = kernel.rforward({}, {}, recorded, RU, Rstate)
    rng = np.random.default_rng(2)
    dhs, dstate = rng.standard_normal(hs.shape), {name: rng.standard_normal(x.shape) for name, x in after.items()}
    dU, dbefore = kernel.backward({}, recorded, dhs, dstate, {})
    left = (dhs * Rhs).sum() + sum((dstate[name] * Rafter[name]).sum() for name in dstate)
    right = (dU * RU).sum() + sum((dbefore[name] * Rstate[name]).sum() for name in dbefore)
    assert left == pytest.approx(right, rel=1e-12)
