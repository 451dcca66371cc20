"""The oracle is checked too: by numbers worked out by hand, by finite differences, and by spoiling the padding."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install hfrnn[oracle]")

from . import reference


def random_parameters(config: reference.Config, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: 0.7 * rng.normal(size=shape) for name, shape in reference.shapes(config).items()}


def test_one_unit_rnn_gives_the_numbers_worked_out_by_hand() -> None:
    config = reference.Config("rnn", 2, (1,), 2, "softmax")
    params = {
        "layer0.W_x": np.array([[0.5], [-1.0]]),
        "layer0.b": np.array([0.25]),
        "layer0.W_h": np.array([[2.0]]),
        "output.W_y0": np.array([[1.0, -1.0]]),
    }
    data = reference.Data(np.array([[0], [1]]), np.array([[0], [1]]))
    h0 = np.tanh(0.75)
    h1 = np.tanh(-0.75 + 2 * h0)
    loss = (np.log1p(np.exp(-2 * h0)) + np.log1p(np.exp(2 * h1))) / 2
    assert np.allclose(reference.logits(params, data, config)[:, 0], [[h0, -h0], [h1, -h1]], rtol=1e-15)
    assert float(reference.objective(params, data, config)) == pytest.approx(loss, rel=1e-15)


def test_one_unit_mlstm_gives_the_numbers_worked_out_by_hand() -> None:
    config = reference.Config("mlstm", 1, (1,), 1, "squared", output_bias=True)
    params = {
        "layer0.W_x": np.array([[0.1, 0.2, 0.3, 0.4, 0.5]]),
        "layer0.W_hm": np.array([[3.0]]),
        "layer0.W_m": np.array([[1.0, -1.0, 2.0, 0.5]]),
        "output.W_y0": np.array([[2.0]]),
        "output.b_y": np.array([-1.0]),
    }
    start = [{"h": np.array([[0.6]]), "c": np.array([[-0.4]])}]
    data = reference.Data(np.array([[0]]), np.array([[[0.2]]]), initial_state=start)

    def sigma(x: float) -> float:
        return 1 / (1 + np.exp(-x))

    m = 0.5 * 0.6 * 3
    c = sigma(0.2 - m) * -0.4 + sigma(0.1 + m) * (0.4 + 0.5 * m)
    h = np.tanh(c * sigma(0.3 + 2 * m))
    result = reference.forward(params, data, config)
    assert float(result["logits"][0, 0, 0]) == pytest.approx(2 * h - 1, rel=1e-14)
    assert float(result["state"][0]["c"][0, 0]) == pytest.approx(c, rel=1e-14)
    assert float(reference.objective(params, data, config)) == pytest.approx((2 * h - 1.2) ** 2 / 2, rel=1e-14)


def test_gradient_and_hessian_agree_with_differences() -> None:
    config = reference.Config("mlstm", 4, (3,), 4, "softmax", l2=0.1)
    params, v = random_parameters(config, 0), random_parameters(config, 1)
    rng = np.random.default_rng(2)
    data = reference.Data(rng.integers(4, size=(3, 2)), rng.integers(4, size=(3, 2)), lengths=np.array([3, 2]))
    eps, u = 1e-5, np.zeros((3, 2, 4))
    sides = [{k: p + sign * eps * v[k] for k, p in params.items()} for sign in (1, -1)]
    evaluate = reference.compiled(params, v, u, data, config)
    centre, up, down = (evaluate(side, v, u) for side in [params, *sides])
    slope = sum(float(np.sum(centre["gradient"][k] * v[k])) for k in v)
    assert float(up["loss"] - down["loss"]) / (2 * eps) == pytest.approx(slope, rel=1e-7)
    for k, block in centre["hessian"].items():
        assert np.allclose((up["gradient"][k] - down["gradient"][k]) / (2 * eps), block, rtol=1e-6, atol=1e-8)


def test_padding_changes_nothing() -> None:
    config = reference.Config("mrnn", 4, (3,), 4, "softmax")
    params, v = random_parameters(config, 0), random_parameters(config, 1)
    rng = np.random.default_rng(2)
    inputs, targets, u = rng.integers(4, size=(4, 2)), rng.integers(4, size=(4, 2)), rng.normal(size=(4, 2, 4))
    u[2:, 0] = 0
    lengths = np.array([2, 4])
    first = reference.evaluate(params, v, u, reference.Data(inputs, targets, lengths=lengths), config)
    inputs, targets = inputs.copy(), targets.copy()
    inputs[2:, 0], targets[2:, 0] = (inputs[2:, 0] + 1) % 4, (targets[2:, 0] + 1) % 4
    second = reference.evaluate(params, v, u, reference.Data(inputs, targets, lengths=lengths), config)
    assert first["loss"] == second["loss"]
    for quantity in ("gradient", "Jtu", "G", "hessian", "hidden", "preactivation", "matching"):
        for k, block in first[quantity].items():
            assert np.array_equal(block, second[quantity][k]), (quantity, k)
