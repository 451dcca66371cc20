"""The squared gradients of sequences, against a loop of objectives on one sequence each, and in the optimizer."""

import numpy as np
import pytest
from support.engine_cases import cases, moved, replace, vectors
from support.fake_device import FakeBackend
from support.pairwise import label, tried
from support.slow import one_in

import hfrnn
from hfrnn.engine.plan import Keep, Plan


def of_single_sequences(net, batch, theta):
    """sum_b g_b^2 / sum w by an objective for each sequence alone."""
    net.l2 = 0.0
    everyone = hfrnn.Objective(net, batch).batch
    total, weights = np.zeros(net.n_parameters), everyone.step_weights(net.backend).sum(axis=0)
    for b in range(batch.B):
        if weights[b] > 0:
            one = hfrnn.Objective(net, batch.columns(b, b + 1), threads=1)
            total += (weights[b] * one.loss_and_gradient(theta)[1]) ** 2
    return total / weights.sum()


some = cases("stack", "chain", "embedding", "carried", "class-softmax", "squared", "one-sequence")


@pytest.mark.parametrize("case", tried(of=some), ids=label)
def test_squared_gradients_are_those_of_a_loop_over_single_sequences(case):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    found = hfrnn.Objective(net, batch).squared_gradients(theta)
    expected = of_single_sequences(case.net(), batch, theta)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14 * expected.max())
    for name, part in net.views(found).items():
        assert part.shape == net.views(theta)[name].shape
        assert (part >= 0).all()


@pytest.mark.parametrize("case", tried(of=cases("stack", "carried")), ids=label)
def test_squared_gradients_depend_neither_on_the_plan_nor_on_the_threads(case):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    plan = Plan((0, 2, 5), 3, Keep.ALL)
    expected = hfrnn.Objective(net, batch, plan=plan, threads=1).squared_gradients(theta)
    for threads in (2, 3, 9):
        found = hfrnn.Objective(net, batch, plan=plan, threads=threads).squared_gradients(theta)
        np.testing.assert_array_equal(found, expected)
    for plan in (Plan((0, 5), None, Keep.STATES), Plan((0, 1, 2, 5), 2, Keep.NOTHING)):
        np.testing.assert_allclose(
            hfrnn.Objective(net, batch, plan=plan).squared_gradients(theta), expected, rtol=1e-10
        )


def test_a_sequence_without_weight_adds_nothing():
    case = cases("softmax")[0]
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    weights = np.ones((batch.T, batch.B))
    weights[:, 2] = 0.0
    silent = hfrnn.Objective(net, replace(batch, weights=weights)).squared_gradients(theta)
    whole = of_single_sequences(case.net(), batch, theta) * batch.B
    alone = of_single_sequences(case.net(), batch.columns(2, 3), theta)
    np.testing.assert_allclose(silent, (whole - alone) / (batch.B - 1), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("case", one_in(5, cases("softmax", "chain")), ids=lambda case: case.id)
def test_squared_gradients_on_a_device_have_the_bits_of_the_host(case):
    fake, batch = FakeBackend(), case.data()
    theta = vectors(case.net(), batch)[0]
    expected = hfrnn.Objective(case.net(), batch, threads=1).squared_gradients(theta)
    device = hfrnn.Objective(case.net(backend=fake), moved(batch, fake))
    np.testing.assert_array_equal(fake.to_host(device.squared_gradients(fake.asarray(theta))), expected)


def test_float32_gives_float32_close_to_float64():
    case = cases("stack")[0]
    batch = case.data()
    theta = vectors(case.net(), batch)[0].astype("float32")
    single = hfrnn.Objective(case.net(dtype="float32"), batch).squared_gradients(theta)
    double = hfrnn.Objective(case.net(), batch).squared_gradients(theta.astype("float64"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-6 * double.max())
