"""The oracle is checked too: by hand, by differences, by the padding; tests/kernels has loops for most steps."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")

import jax

from . import reference, sizes


def random_parameters(config: sizes.Config, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: 0.7 * rng.normal(size=shape) for name, shape in sizes.shapes(config).items()}


def sigma(x: float) -> float:
    return 1 / (1 + np.exp(-x))


def test_one_unit_rnn_gives_the_numbers_worked_out_by_hand():
    config = sizes.Config("rnn", 2, (1,), 2, "softmax")
    params = {
        "layer0.W_x": np.array([[0.5], [-1.0]]), "layer0.b": np.array([0.25]), "layer0.W_h": np.array([[2.0]]),
        "output.W_y0": np.array([[1.0, -1.0]]),
    }  # fmt: skip
    data = reference.Data(np.array([[0], [1]]), np.array([[0], [1]]))
    h0 = np.tanh(0.75)
    h1 = np.tanh(-0.75 + 2 * h0)
    loss = (np.log1p(np.exp(-2 * h0)) + np.log1p(np.exp(2 * h1))) / 2
    assert np.allclose(reference.logits(params, data, config)[:, 0], [[h0, -h0], [h1, -h1]], rtol=1e-15)
    assert float(reference.objective(params, data, config)) == pytest.approx(loss, rel=1e-15)


@pytest.mark.slow
def test_one_unit_mlstm_gives_the_numbers_worked_out_by_hand():
    config = sizes.Config("mlstm", 1, (1,), 1, "squared", output_bias=True)
    params = {
        "layer0.W_x": np.array([[0.1, 0.2, 0.3, 0.4, 0.5]]), "layer0.W_hm": np.array([[3.0]]),
        "layer0.W_m": np.array([[1.0, -1.0, 2.0, 0.5]]), "output.W_y0": np.array([[2.0]]),
        "output.b_y": np.array([-1.0]),
    }  # fmt: skip
    start = [{"h": np.array([[0.6]]), "c": np.array([[-0.4]])}]
    data = reference.Data(np.array([[0]]), np.array([[[0.2]]]), initial_state=start)
    m = 0.5 * 0.6 * 3
    c = sigma(0.2 - m) * -0.4 + sigma(0.1 + m) * (0.4 + 0.5 * m)
    h = np.tanh(c * sigma(0.3 + 2 * m))
    result = reference.forward(params, data, config)
    assert float(result["logits"][0, 0, 0]) == pytest.approx(2 * h - 1, rel=1e-14)
    assert float(result["state"][0]["c"][0, 0]) == pytest.approx(c, rel=1e-14)
    assert float(reference.objective(params, data, config)) == pytest.approx((2 * h - 1.2) ** 2 / 2, rel=1e-14)


def constant_parameters(config: sizes.Config, **values: object) -> dict[str, np.ndarray]:
    """Parameters of one layer from numbers and lists, under their names without the layer."""
    full = {name: name.split(".")[1].rstrip("0") for name in sizes.shapes(config)}
    return {name: np.reshape(values[full[name]], shape) for name, shape in sizes.shapes(config).items()}


def test_clockwork_moves_modules_at_their_periods_and_hears_slower_ones_only():
    config = sizes.Config("clockwork", 1, (2,), 2, "squared", bias=False, periods=(1, 3))
    params = constant_parameters(config, W_x=[0.1, 0.2], W_h=[2.0, 100.0, 3.0, 0.5], W_y=np.eye(2))
    start = [{"h": np.array([[0.6, -0.4]]), "t": 2}]
    data = reference.Data(np.array([[0], [0], [0]]), np.zeros((3, 1, 2)), initial_state=start)
    fast0 = np.tanh(0.1 + 2 * 0.6 + 3 * -0.4)
    fast1, slow1 = np.tanh(0.1 + 2 * fast0 + 3 * -0.4), np.tanh(0.2 + 0.5 * -0.4)
    fast2 = np.tanh(0.1 + 2 * fast1 + 3 * slow1)
    result = reference.forward(params, data, config)
    assert np.allclose(result["logits"][:, 0], [[fast0, -0.4], [fast1, slow1], [fast2, slow1]], rtol=1e-14)
    assert int(result["state"][0]["t"]) == 5


def test_ties_of_max_pooling_go_to_the_smallest_order():
    config = sizes.Config("hornn-max", 1, (1,), 1, "squared", order=3)
    params = constant_parameters(config, W_x=0.1, W_h=[-2.0, 0.5, 0.5], W_y=1.0)
    start = [{"history": np.array([[[0.5]], [[0.25]], [[0.25]]])}]
    data = reference.Data(np.array([[0]]), np.zeros((1, 1, 1)), initial_state=start)
    gradient = jax.jit(lambda params: jax.grad(reference.objective)(params, data, config))
    for first, winner, heard in ((-2.0, 1, 0.25), (0.25, 0, 0.5)):
        params["layer0.W_h"][0] = first
        slope = gradient(params)["layer0.W_h"].ravel()
        h = np.tanh(0.1 + 0.125)
        expected = np.zeros(3)
        expected[winner] = h * (1 - h**2) * heard
        assert np.allclose(slope, expected, rtol=1e-14, atol=0)


@pytest.mark.slow
def test_class_softmax_gives_the_numbers_worked_out_by_hand():
    config = sizes.Config("rnn", 1, (1,), 4, "class-softmax", classes=(1, 0, 1, 0))
    z = np.array([[[0.3, -0.2, 1.0, 2.0, 3.0, 5.0]]])  # classes 0, 1; symbols 1, 3, then 0, 2
    log_p = jax.jit(lambda z: reference.outputs(z, config))(z)[0, 0]
    by_hand = np.log([1 - sigma(0.5), sigma(0.5), 1 - sigma(0.5), sigma(0.5)])
    by_hand += np.log([sigma(-2), sigma(-1), sigma(2), sigma(1)])
    assert np.allclose(log_p, by_hand, rtol=1e-14)
    data = reference.Data(np.array([[0]]), np.array([[2]]))
    curvature = jax.jit(jax.hessian(lambda z: reference.mean_loss(z, data, config)))(z).reshape(6, 6)
    q, p = sigma(0.5) * sigma(-0.5), sigma(2) * sigma(-2)
    blocks = np.zeros((6, 6))
    blocks[:2, :2], blocks[4:, 4:] = [[q, -q], [-q, q]], [[p, -p], [-p, p]]
    assert np.allclose(curvature, blocks, rtol=1e-13, atol=1e-16)


@pytest.mark.slow
def test_gradient_and_hessian_agree_with_differences():
    config = sizes.Config("hornn-max", 4, (3,), 4, "class-softmax", l2=0.1, classes=2)
    params, v = random_parameters(config, 0), random_parameters(config, 1)
    rng = np.random.default_rng(2)
    data = reference.Data(rng.integers(4, size=(3, 2)), rng.integers(4, size=(3, 2)), lengths=np.array([3, 2]))
    eps, u = 1e-5, np.zeros((3, 2, 4 + config.n_classes()))
    sides = [{k: p + sign * eps * v[k] for k, p in params.items()} for sign in (1, -1)]
    evaluate = reference.compiled(params, v, u, data, config)
    centre, up, down = (evaluate(side, v, u) for side in [params, *sides])
    slope = sum(float(np.sum(centre["gradient"][k] * v[k])) for k in v)
    assert float(up["loss"] - down["loss"]) / (2 * eps) == pytest.approx(slope, rel=1e-7)
    for k, block in centre["hessian"].items():
        assert np.allclose((up["gradient"][k] - down["gradient"][k]) / (2 * eps), block, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_padding_changes_nothing():
    config = sizes.Config("mrnn", 4, (3,), 4, "softmax")
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
