"""Gradients with limited errors: a slow loop, the unit of the bound, plans, backends, and what refuses them."""

from typing import Any

import numpy as np
import pytest
from support.fake_device import FakeBackend

import hfrnn
from hfrnn.engine.plan import Keep, Plan

T, B, V = 9, 4, 5
CLIP = 0.05


def problem(arch: str = "rnn", **options: Any) -> tuple[hfrnn.Network, Any, hfrnn.Batch]:
    options = {"hidden": (6, 3), "dtype": "float64", **options}
    net = hfrnn.Network(arch, V, n_out=V, **options)
    rng = np.random.default_rng(1)
    theta = 0.8 * rng.standard_normal(net.n_parameters)
    symbols = rng.integers(0, V, (T + 1, B))
    return net, theta, hfrnn.Batch(symbols[:-1], symbols[1:], rng.uniform(0.5, 2.0, (T, B)))


def slow_gradient(net: hfrnn.Network, theta: Any, batch: hfrnn.Batch, c: float) -> dict[str, Any]:
    """The gradient of two tanh layers, sequence by sequence and step by step, from the summed loss.

    The error of a layer is limited when it leaves a step for the step before; that of the output and that of the layer
    above are added without a limit.
    """
    p = net.views(theta)
    grad = {name: np.zeros_like(W) for name, W in p.items()}
    weights = np.asarray(batch.weights)
    for b in range(B):
        x, targets = np.eye(V)[batch.inputs[:, b]], batch.targets[:, b]
        h = [[np.zeros(6)], [np.zeros(3)]]  # h[l][t + 1] is the state after step t
        for t in range(T):
            h[0].append(np.tanh(x[t] @ p["layer0.W_x"] + h[0][-1] @ p["layer0.W_h"]))
            a = x[t] @ p["layer1.W_x"] + h[0][-1] @ p["layer1.W_below"] + h[1][-1] @ p["layer1.W_h"]
            h[1].append(np.tanh(a))
        from_later = [np.zeros(6), np.zeros(3)]
        for t in reversed(range(T)):
            z = sum(h[l][t + 1] @ p[f"output.W_y{l}"] for l in (0, 1))
            dz = np.exp(z - z.max())
            dz = weights[t, b] * (dz / dz.sum() - np.eye(V)[targets[t]])
            above = np.zeros(6)
            for l in (1, 0):
                grad[f"output.W_y{l}"] += np.outer(h[l][t + 1], dz)
                dh = p[f"output.W_y{l}"] @ dz + from_later[l] + (above if l == 0 else 0)
                da = dh * (1 - h[l][t + 1] ** 2)
                grad[f"layer{l}.W_x"] += np.outer(x[t], da)
                grad[f"layer{l}.W_h"] += np.outer(h[l][t], da)
                from_later[l] = np.clip(p[f"layer{l}.W_h"] @ da, -c, c)
                if l == 1:
                    grad["layer1.W_below"] += np.outer(h[0][t + 1], da)
                    above = p["layer1.W_below"] @ da
    return {name: dW / weights.sum() for name, dW in grad.items()}


def clipped(net: hfrnn.Network, theta: Any, batch: hfrnn.Batch, clip: float | None = CLIP, **options: Any) -> Any:
    return hfrnn.Objective(net, batch, **options).loss_and_gradient(theta, clip_error=clip)[1]


def test_a_stack_agrees_with_a_loop_over_sequences_and_steps():
    net, theta, batch = problem(bias=False, output_bias=False)
    found, free = (net.views(clipped(net, theta, batch, clip)) for clip in (CLIP, None))
    expected = slow_gradient(net, theta, batch, CLIP)
    assert found.keys() == expected.keys()
    for name, dW in expected.items():
        np.testing.assert_allclose(found[name], dW, rtol=0, atol=1e-14)
        if name.startswith("layer"):
            assert np.linalg.norm(free[name] - dW) > 0.05 * np.linalg.norm(dW), name
    assert slow_gradient(net, theta, batch, 1e6).keys() == free.keys()
    for name, dW in slow_gradient(net, theta, batch, 1e6).items():
        np.testing.assert_allclose(free[name], dW, rtol=0, atol=1e-14)


@pytest.mark.parametrize("arch", ["lstm", "hornn"])
def test_the_bound_is_for_a_sum_of_losses_so_more_sequences_or_weight_do_not_move_it(arch):
    net, theta, batch = problem(arch)
    twice = hfrnn.Batch(*(np.tile(x, (1, 2)) for x in (batch.inputs, batch.targets, batch.weights)))
    once = clipped(net, theta, batch)
    np.testing.assert_allclose(clipped(net, theta, twice), once, rtol=0, atol=1e-14)
    heavier = hfrnn.Batch(batch.inputs, batch.targets, 3 * batch.weights)
    np.testing.assert_allclose(clipped(net, theta, heavier, 3 * CLIP), once, rtol=0, atol=1e-14)


@pytest.mark.parametrize("arch", ["lstm", "hornn-gated", "clockwork", "scrn"])
def test_no_plan_changes_a_gradient_with_limited_errors(arch):
    net, theta, batch = problem(arch)
    expected = clipped(net, theta, batch, plan=Plan((0, B), None, Keep.ALL))
    for plan in (
        Plan((0, B), 1, Keep.ALL), Plan((0, B), 4, Keep.STATES), Plan((0, 3, B), 4, Keep.NOTHING),
        Plan((0, 1, 2, B), None, Keep.NOTHING, workers=1),
    ):  # fmt: skip
        np.testing.assert_allclose(clipped(net, theta, batch, plan=plan, threads=2), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("arch", ["mlstm", "hornn-max", "scrn"])
def test_the_compiled_kernels_agree_with_the_reference(arch):
    pytest.importorskip("numba")
    net, theta, batch = problem(arch)
    compiled = hfrnn.Network(arch, V, (6, 3), V, dtype="float64", backend="numba")
    np.testing.assert_allclose(clipped(compiled, theta, batch), clipped(net, theta, batch), rtol=0, atol=1e-14)


def test_a_strict_device_gives_the_numbers_of_numpy():
    device = FakeBackend()
    net, theta, batch = problem("hornn", hidden=5)
    twin = hfrnn.Network("hornn", V, 5, V, dtype="float64", backend=device)
    plan = Plan((0, B), None, Keep.ALL, workers=1)
    found = clipped(twin, device.asarray(theta), batch, plan=plan)
    np.testing.assert_allclose(device.to_host(found), clipped(net, theta, batch, plan=plan), rtol=0, atol=1e-15)


def test_gradients_of_one_objective_with_and_without_limits_do_not_disturb_each_other():
    net, theta, batch = problem("lstm")
    objective = hfrnn.Objective(net, batch, checkpoint=4)
    calls = [objective.loss_and_gradient(theta, clip_error=clip) for clip in (None, CLIP, 1.0, None, CLIP)]
    (loss, free), (_, limited), (_, between), *again = calls
    np.testing.assert_array_equal(again[0][1], free)
    np.testing.assert_array_equal(again[1][1], limited)
    assert len(objective._passing) == 2  # sweeps do not pile up
    assert [each[0] for each in calls] == pytest.approx([loss] * 5, rel=1e-14)
    assert np.linalg.norm(between - free) > 1e-6 < np.linalg.norm(between - limited)


def test_the_final_state_is_that_of_the_latest_gradient():
    net, theta, batch = problem("lstm")
    objective = hfrnn.Objective(net, batch)
    objective.loss_and_gradient(theta)
    objective.loss_and_gradient(0.5 * theta, clip_error=CLIP)
    expected = net.run(0.5 * theta, batch)[1]
    for layer, own in zip(expected, objective.final_state(), strict=True):
        for name, x in layer.items():
            np.testing.assert_allclose(own[name], x, rtol=1e-13)


def test_a_constrained_objective_has_the_limits_of_its_weights():
    net, theta, batch = problem(hidden=6, activation="relu")
    constraints = hfrnn.Constraints(net, {"layer0.W_h": np.tri(6)}, {"layer0.W_h": [1, 1, 1, 1, -1, -1]})
    variables = constraints.variables(constraints.initial(theta))
    plain = hfrnn.Objective(net, batch)
    _, found = hfrnn.ConstrainedObjective(plain, constraints).loss_and_gradient(variables, clip_error=CLIP)
    expected = plain.loss_and_gradient(constraints.weights(variables), clip_error=CLIP)[1]
    np.testing.assert_array_equal(found, expected * constraints.slopes(variables))
