"""Arrays of the caller: results may overwrite their arguments, and unsuitable arrays are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_cases import small_problem
from support.fake_device import FakeBackend

import hfrnn


def operators(objective: hfrnn.Objective, theta: Any) -> dict[str, Any]:
    return {
        "G": objective.gauss_newton(theta, structural=0.2, tikhonov=0.1),
        "H": objective.hessian(theta),
        "J": objective.jacobian(theta),
    }


@pytest.mark.parametrize("name", ["G", "H"])
def test_a_product_may_overwrite_its_vector(name: str) -> None:
    net, batch, theta = small_problem(l2=0.1)
    operator = operators(hfrnn.Objective(net, batch), theta)[name]
    v = net.init(seed=3)
    expected = operator @ v
    assert np.abs(expected).max() > 1e-3
    room = np.zeros(v.size + 1)
    room[:-1] = v
    operator.apply(room[:-1], room[1:])  # overlaps without being the same
    np.testing.assert_array_equal(room[1:], expected)
    assert operator.apply(v, v) is v
    np.testing.assert_array_equal(v, expected)


def test_a_gradient_may_overwrite_theta() -> None:
    net, batch, theta = small_problem(l2=0.1)
    objective = hfrnn.Objective(net, batch)
    loss, gradient = objective.loss_and_gradient(theta)
    assert objective.loss_and_gradient(theta, out=theta) == (loss, theta)
    np.testing.assert_array_equal(theta, gradient)


def test_a_product_of_a_list_or_another_type_is_that_of_the_array() -> None:
    net, batch, theta = small_problem("float32")
    G = hfrnn.Objective(net, batch).gauss_newton(theta)
    v = net.init(seed=3)
    for other in (v.tolist(), v.astype("float64"), np.repeat(v, 2)[::2]):
        np.testing.assert_array_equal(G.apply(other, np.empty_like(v)), G @ v)


def test_a_product_with_no_vectors_has_no_columns() -> None:
    net, batch, theta = small_problem()
    for operator in operators(hfrnn.Objective(net, batch), theta).values():
        assert (operator @ np.zeros((operator.shape[1], 0))).shape == (operator.shape[0], 0)


def unsuitable(n: int, dtype: Any) -> dict[str, Any]:
    """Return arrays that results of n entries cannot be written to."""
    fixed = np.zeros(n, dtype)
    fixed.flags.writeable = False
    return {
        "shape": np.zeros(n + 1, dtype), "column": np.zeros((n, 1), dtype), "type": np.zeros(n, "float16"),
        "strided": np.zeros(2 * n, dtype)[::2], "fixed": fixed, "list": [0.0] * n, "none": None,
    }  # fmt: skip


@pytest.mark.parametrize("kind", unsuitable(1, float))
def test_unsuitable_outputs_are_refused(kind: str) -> None:
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch)
    for operator in operators(objective, theta).values():
        with pytest.raises(hfrnn.InputError, match=r"^out is .*: give a"):
            operator.apply(theta, unsuitable(operator.shape[0], operator.dtype)[kind])
    if kind != "none":
        with pytest.raises(hfrnn.InputError, match=r"^out is .*: give a"):
            objective.loss_and_gradient(theta, out=unsuitable(theta.size, theta.dtype)[kind])


def test_a_product_on_a_device_may_overwrite_its_vector() -> None:
    device = FakeBackend()
    net, batch, theta = small_problem(backend=device)
    G = hfrnn.Objective(net, batch).gauss_newton(theta, tikhonov=0.1)
    v = net.init(seed=3)
    expected = G @ v
    assert G.apply(v, v) is v
    np.testing.assert_array_equal(device.to_host(v), device.to_host(expected))


def test_there_is_no_final_state_before_a_gradient() -> None:
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch)
    objective.loss(theta)
    with pytest.raises(hfrnn.InputError, match="there is no final state yet: call loss_and_gradient first"):
        objective.final_state()
    objective.loss_and_gradient(theta)
    assert len(objective.final_state()) == 1
