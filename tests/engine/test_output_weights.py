"""Weights (T, B, n_out): each output of a step has its own."""

import itertools
from typing import Any

import numpy as np
import pytest
from support.engine_cases import cases, output_weights, replace, vectors
from support.pairwise import label

import hfrnn
from hfrnn.engine.plan import Keep, Plan

LOSSES = ("logistic", "squared", "gaussian")
by_case = pytest.mark.parametrize("case", cases("output-weights", "output-mask")[::5], ids=label)
by_loss = pytest.mark.parametrize("loss", LOSSES)


def problem(loss, seed=0, T=6, B=4, n_out=5, arch="mlstm", **options):
    rng = np.random.default_rng(seed)
    net = hfrnn.Network(arch, 4, 3, n_out, loss=loss, dtype="float64", output_bias=True, **options)
    batch = hfrnn.Batch(rng.integers(4, size=(T, B)), rng.random((T, B, n_out)), output_weights(rng, T, B, n_out))
    return net, batch, net.init(seed=1, scale=0.5), rng


def relative(actual: Any, expected: Any) -> float:
    size = np.linalg.norm(expected)
    return float(np.linalg.norm(actual - expected) / size if size else np.linalg.norm(actual))


def derivatives(net: hfrnn.Network, batch: hfrnn.Batch, theta: Any, v: Any, **options: Any) -> dict[str, Any]:
    f = hfrnn.Objective(net, batch, threads=1, **options)
    found = {"loss": f.loss(theta), "gradient": f.loss_and_gradient(theta)[1], "G": f.gauss_newton(theta) @ v}
    for metric in net.metrics:
        found[metric] = f.gauss_newton(theta, structural=0.7, tikhonov=0.1, metric=metric) @ v
    found |= {"H": f.hessian(theta) @ v, "total": f.total_weight, "squares": f.squared_gradients(theta)}
    return found | {f"part {j}": part for j, part in enumerate(f.part_gradients(theta, 3))}


def assert_blocks(net: hfrnn.Network, actual: dict[str, Any], expected: dict[str, Any], rtol: float) -> None:
    for name, value in expected.items():
        if np.ndim(value) == 0:
            assert actual[name] == pytest.approx(value, rel=rtol, abs=0), name
            continue
        blocks = net.views(actual[name])
        for block, part in net.views(value).items():
            assert relative(blocks[block], part) <= rtol, f"{name} of {block}"


@by_loss
def test_the_loss_is_the_weighted_sum_over_outputs_divided_by_the_mean_weights_of_steps(loss):
    net, batch, theta, _ = problem(loss)
    z, y, w = net.run(theta, batch)[0], batch.targets, batch.weights
    m, s = z[..., :5], z[..., 5:]
    each = {
        "logistic": lambda: np.log1p(np.exp(z)) - y * z, "squared": lambda: 0.5 * (z - y) ** 2,
        "gaussian": lambda: 0.5 * (s + (m - y) ** 2 * np.exp(-s) + np.log(2 * np.pi)),
    }[loss]()  # fmt: skip
    assert net.loss(theta, batch) == pytest.approx((w * each).sum() / w.mean(axis=2).sum(), rel=1e-13)
    assert net.loss(theta, batch) == pytest.approx(net.n_out * np.average(each, weights=w), rel=1e-13)


@by_loss
@pytest.mark.parametrize(
    ("plan", "n_out"),
    [(Plan((0, 4), None, Keep.ALL), 1), (Plan((0, 4), None, Keep.ALL), 7), (Plan((0, 1, 4), 4, Keep.NOTHING), 3)],
)
def test_weights_that_are_equal_over_the_outputs_are_the_weights_of_steps(loss, plan, n_out):
    net, batch, theta, rng = problem(loss, n_out=n_out, arch="mrnn", l2=0.1)
    steps = rng.uniform(0.1, 2.0, (6, 4)) * (rng.random((6, 4)) < 0.7) + np.eye(6, 4)
    repeated = np.repeat(steps[:, :, None], n_out, axis=2)
    v, lengths = rng.standard_normal(theta.size), np.array([6, 1, 4, 5])
    for more in ({}, {"lengths": lengths}):
        expected = derivatives(net, replace(batch, weights=steps, **more), theta, v, plan=plan)
        actual = derivatives(net, replace(batch, weights=repeated, **more), theta, v, plan=plan)
        assert_blocks(net, actual, expected, 1e-15)


@pytest.mark.parametrize(
    ("given", "checkpoint", "missing"),
    [
        ("outputs", None, np.nan), ("steps", 2, np.inf), ("outputs and lengths", 2, np.nan),
        ("steps and lengths", None, np.nan), ("lengths", None, -7.0), ("outputs", 2, np.inf),
    ],
)  # fmt: skip
@by_loss
def test_targets_without_weight_may_be_anything(loss, checkpoint, given, missing):
    net, batch, theta, rng = problem(loss)
    v, weights = rng.standard_normal(theta.size), batch.weights
    if "steps" in given:
        weights = np.where(weights.mean(axis=2) > 0.7, weights.mean(axis=2), 0.0)
        weights[0] = 1.0
    batch = replace(batch, weights=None if given == "lengths" else weights)
    if "lengths" in given:
        batch = replace(batch, lengths=np.array([6, 1, 4, 5]))
    read = np.broadcast_to(batch.output_weights(net.backend) > 0, batch.targets.shape)
    assert 0 < read.mean() < 1
    expected = derivatives(net, batch, theta, v, checkpoint=checkpoint)
    unknown = replace(batch, targets=np.where(read, batch.targets, missing))
    actual = derivatives(net, unknown, theta, v, checkpoint=checkpoint)
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)
        assert np.isfinite(value).all()


@pytest.mark.parametrize("given", ["outputs", "steps", None])
@by_loss
def test_missing_targets_with_weight_are_refused(loss, given):
    net, batch, theta, _ = problem(loss)
    weights = {"outputs": batch.weights, "steps": batch.weights[..., 0], None: None}[given]
    targets = batch.targets.copy()
    targets[0, 3, 2] = np.nan  # the first step has weights
    with pytest.raises(hfrnn.InputError, match=r"^targets of the batch holds NaN"):
        net.loss(theta, replace(batch, weights=weights, targets=targets))


def test_log_probabilities_of_missing_targets_are_missing():
    net, batch, theta, _ = problem("logistic")
    expected = net.log_probabilities(theta, batch)
    missing = replace(batch, targets=np.where(batch.weights > 0, batch.targets, np.nan))
    found, whole = net.log_probabilities(theta, missing), (batch.weights > 0).all(axis=2)
    np.testing.assert_array_equal(found[whole], expected[whole])
    assert np.isnan(found[~whole]).all()


@pytest.mark.filterwarnings("ignore:overflow")
def test_an_infinite_loss_of_an_output_without_weight_does_not_count():
    net, batch, theta, _ = problem("squared", n_out=2)
    weights = batch.weights * np.array([1.0, 0.0]) + np.array([0.5, 0.0])
    theta, huge = theta.copy(), theta.copy()
    net.views(huge)["output.b_y"][1] = 1e200
    batch = replace(batch, weights=weights)
    assert net.loss(huge, batch) == net.loss(theta, batch)


def dense(net: hfrnn.Network, batch: hfrnn.Batch, theta: Any) -> tuple[Any, Any]:
    """Return the Gauss-Newton matrix by products, and J' H J from the Jacobian and the logits."""
    f = hfrnn.Objective(net, batch, threads=1)
    columns = np.eye(theta.size)
    G = f.gauss_newton(theta)
    J = f.jacobian(theta) @ columns
    p = 1 / (1 + np.exp(-net.run(theta, batch)[0]))
    exists = np.ones((batch.T, batch.B)) if batch.lengths is None else np.arange(batch.T)[:, None] < batch.lengths
    weights = np.where(exists[:, :, None], batch.weights, 0.0)
    H = (p * (1 - p) if net.loss_name == "logistic" else 1.0) * weights / weights.mean(axis=2).sum()
    return G @ columns, J.T @ (H.ravel()[:, None] * J) + net.l2 * columns


def assert_block_pairs(net: hfrnn.Network, found: Any, expected: Any, rtol: float) -> None:
    blocks = {name: index.ravel() for name, index in net.views(np.arange(net.n_parameters)).items()}
    for (row, i), (column, j) in itertools.product(blocks.items(), repeat=2):
        part = np.ix_(i, j)
        size = np.linalg.norm(expected[part])
        assert np.linalg.norm(found[part] - expected[part]) <= (rtol * size or 1e-14), f"{row} x {column}"


@by_case
def test_the_product_is_the_dense_one_in_every_pair_of_blocks(case):
    net, batch = case.net(), case.data()
    found, expected = dense(net, batch, vectors(net, batch)[0])
    assert_block_pairs(net, found, expected, 1e-11)
    np.testing.assert_allclose(found, found.T, atol=1e-13 * np.abs(found).max())


@by_case
def test_squared_gradients_and_parts_are_those_of_single_sequences(case):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    f = hfrnn.Objective(net, batch)
    total, weights = np.zeros(theta.size), f.batch.step_weights(net.backend).sum(axis=0)
    assert f.total_weight == pytest.approx(weights.sum(), rel=1e-15)
    rows = f.part_gradients(theta, batch.B)
    for b, weight in enumerate(weights):
        alone = hfrnn.Objective(net, batch.columns(b, b + 1)).loss_and_gradient(theta)[1] - net.l2 * theta
        total += (weight * alone) ** 2
        assert relative(rows[b], weight * alone / np.sqrt(weights.sum())) <= 1e-11
    np.testing.assert_allclose(f.squared_gradients(theta), total / weights.sum(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("weights", [np.bool_, np.float32])
def test_masks_may_be_boolean_or_whole_numbers(weights):
    net, batch, theta, rng = problem("logistic")
    v, mask = rng.standard_normal(theta.size), batch.weights > 0
    expected = derivatives(net, replace(batch, weights=mask.astype(float)), theta, v)
    assert_blocks(net, derivatives(net, replace(batch, weights=mask.astype(weights)), theta, v), expected, 0.0)


@pytest.mark.parametrize("loss", ["softmax", "class-softmax"])
def test_the_softmaxes_have_no_weights_of_outputs(loss):
    net = hfrnn.Network("rnn", 4, 3, 5, loss=loss, classes=2 if loss == "class-softmax" else None)
    for targets in (None, np.zeros((6, 4, 5))):
        with pytest.raises(hfrnn.InputError, match=rf"'{loss}' has no weights of outputs: give an array \(6, 4\) of "):
            net.run(net.init(), hfrnn.Batch(np.zeros((6, 4), int), targets, np.ones((6, 4, 5))))


def test_the_number_of_outputs_is_that_of_the_network():
    net, batch, theta, _ = problem("squared")
    without = hfrnn.Batch(batch.inputs, weights=np.ones((6, 4, 3)))
    with pytest.raises(hfrnn.InputError, match=r"n_out = 5: give an array \(6, 4, 5\) or \(6, 4\) of weights"):
        net.run(theta, without)
