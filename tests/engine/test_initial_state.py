"""A learned initial state: what it means, where a batch takes its place, and that no plan or device changes it."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import cases, replace, vectors
from support.pairwise import label

import hfrnn
from hfrnn import gradcheck

LEARNED = cases("learned-state")


def rows_of(net: hfrnn.Network, theta: Any) -> list[dict[str, Any]]:
    views = net.views(theta)
    return [
        {name: views[f"layer{l}.{name}0"] for name, x in layer.items() if not isinstance(x, int)}
        for l, layer in enumerate(net.zero_state(1))
    ]


def as_state(net: hfrnn.Network, theta: Any, B: int) -> list[dict[str, Any]]:
    """The same states as a batch of B sequences brings them."""
    return [
        {name: 0 if isinstance(x, int) else x + learned[name] for name, x in layer.items()}
        for layer, learned in zip(net.zero_state(B), rows_of(net, theta), strict=True)
    ]


@pytest.mark.parametrize("case", LEARNED, ids=label)
def test_a_network_starts_with_zeros_and_then_computes_the_bits_of_one_that_learns_no_state(case):
    net, plain, batch = case.net(), case.net(learn_initial_state=False), case.data()
    theta = net.init(seed=1)
    assert all(not row.any() for layer in rows_of(net, theta) for row in layer.values())
    loss, gradient = net.loss_and_gradient(theta, batch)
    same_loss, same_gradient = plain.loss_and_gradient(plain.init(seed=1), batch)
    assert loss == same_loss
    for name, block in plain.views(same_gradient).items():
        np.testing.assert_array_equal(net.views(gradient)[name], block, err_msg=name)


@pytest.mark.parametrize("case", LEARNED, ids=label)
def test_a_learned_state_gives_the_bits_of_a_batch_that_brings_it(case):
    net, plain, batch = case.net(), case.net(learn_initial_state=False), case.data()
    theta = vectors(net, batch)[0]
    others = np.concatenate([net.views(theta)[name].ravel() for name in plain.views(plain.init())])
    carried = replace(batch, initial_state=as_state(net, theta, batch.B))
    (loss, gradient), expected = net.loss_and_gradient(theta, batch), plain.loss_and_gradient(others, carried)
    assert loss == expected[0]
    for name, block in plain.views(expected[1]).items():
        np.testing.assert_array_equal(net.views(gradient)[name], block, err_msg=name)
    logits, state = net.run(theta, batch)
    expected_logits, expected_state = plain.run(others, carried)
    np.testing.assert_array_equal(logits, expected_logits)
    for layer, same in zip(state, expected_state, strict=True):
        for name, value in same.items():
            np.testing.assert_array_equal(layer[name], value, err_msg=name)


@pytest.mark.parametrize("case", [case for case in LEARNED if case.arch in ("hornn", "clockwork", "scrn")], ids=label)
def test_derivatives_are_those_of_complex_steps(case):
    net, batch = case.net(), case.data()
    for check, error, where in gradcheck.check_case(gradcheck.Case("", net, vectors(net, batch)[0], batch)):
        assert error <= gradcheck.TOLERANCES[check], (check, where)


@pytest.mark.parametrize("case", cases("learned-state-unused"), ids=label)
def test_a_state_that_a_batch_brings_takes_the_place_of_the_learned_one(case):
    net, batch = case.net(), case.data()
    theta, v, _ = vectors(net, batch)
    other = theta.copy()
    for layer in rows_of(net, other):
        for row in layer.values():
            row += 1.0
    assert net.loss(theta, batch) == net.loss(other, batch)
    G = net.gauss_newton(theta, batch, structural=0.7)
    for result in (net.loss_and_gradient(theta, batch)[1], G @ v, net.hessian(theta, batch) @ v):
        assert all(not row.any() for layer in rows_of(net, result) for row in layer.values())
    only = np.zeros_like(theta)
    for layer in rows_of(net, only):
        for row in layer.values():
            row += 1.0
    assert only.any()
    assert not (G @ only).any()
