"""The direct term from the input to the output; its derivatives are in the tests of the oracle and in gradcheck."""

import numpy as np
from support.engine_cases import random_batch, vectors

import hfrnn


def network(**changes: object) -> hfrnn.Network:
    return hfrnn.Network("gru", 4, 3, 2, "squared", dtype="float64", feedthrough=True, **changes)


def test_the_outputs_are_those_of_the_network_without_it_plus_a_linear_map_of_the_input():
    net, plain = network(), hfrnn.Network("gru", 4, 3, 2, "squared", dtype="float64")
    batch = random_batch(net, np.random.default_rng(0), real=True)
    theta = vectors(net, batch)[0]
    p, without = net.views(theta), np.empty(plain.n_parameters)
    for name, view in plain.views(without).items():
        view[...] = p[name]
    expected = plain.run(without, batch)[0] + batch.inputs @ p["output.W_y_u"]
    np.testing.assert_allclose(net.run(theta, batch)[0], expected, rtol=1e-12)


def test_gradients_of_single_sequences_add_up():
    net = network(embedding=2)
    batch = random_batch(net, np.random.default_rng(0))
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch)
    rows = objective.per_sequence_gradients(theta)
    expected = objective.total_weight * objective.loss_and_gradient(theta)[1]
    np.testing.assert_allclose(rows.sum(axis=0), expected, rtol=1e-10, atol=1e-13)
