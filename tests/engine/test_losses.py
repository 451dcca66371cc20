"""The losses and their derivatives in the logits, one by one."""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.engine.heads.heads import make_head
from hfrnn.engine.heads.output_map import FullHead, Head

LOSSES = ["softmax", "soft targets", "logistic", "squared"]
EPS = 1e-20


def head(loss: str, n_out: int = 4) -> Head:
    return make_head("softmax" if loss == "soft targets" else loss, n_out, {0: 3}, bias=True)


def targets(loss: str, rng: np.random.Generator) -> Any:
    shape = (5, 2, 4)
    real = {
        "soft targets": rng.dirichlet(np.ones(4), shape[:2]),
        "logistic": rng.uniform(size=shape),
        "squared": rng.standard_normal(shape),
    }
    return rng.integers(4, size=shape[:2]) if loss == "softmax" else real[loss]


def expected_losses(loss: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    if loss == "softmax":
        p = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
        return -np.log(np.take_along_axis(p, y[:, :, None], axis=-1)[:, :, 0])
    if loss == "soft targets":
        return -(y * np.log(np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True))).sum(axis=-1)
    if loss == "logistic":
        p = 1 / (1 + np.exp(-z))
        return -(y * np.log(p) + (1 - y) * np.log(1 - p)).sum(axis=-1)
    return 0.5 * ((z - y) ** 2).sum(axis=-1)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_of_every_step_is_that_of_the_formula(loss):
    rng = np.random.default_rng(0)
    z, y = 3 * rng.standard_normal((5, 2, 4)), targets(loss, rng)
    np.testing.assert_allclose(head(loss).predict(np, z.copy(), y), expected_losses(loss, z, y), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_residual_is_the_derivative_of_the_loss_and_the_curvature_that_of_the_residual(loss):
    rng = np.random.default_rng(1)
    z, y, v = rng.standard_normal((5, 2, 4)), targets(loss, rng), rng.standard_normal((5, 2, 4))
    p, residual, moved, Rz = z.copy(), z.copy(), z + 1j * EPS * v, v.copy()
    head(loss).predict(np, p, y)
    residual[...] = p
    head(loss).residual(np, residual, y)
    slope = head(loss).predict(np, moved, y).imag / EPS
    np.testing.assert_allclose((residual * v).sum(axis=-1), slope, rtol=1e-12, atol=1e-14)
    head(loss).residual(np, moved, y)
    head(loss).curvature(np, p, Rz, np.empty_like(Rz))
    np.testing.assert_allclose(Rz, moved.imag / EPS, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_huge_logits_overflow_nowhere(loss, dtype):
    z = np.array([[[1e4, -1e4, 0, 5]], [[-1e4, 1e4, 3, -3e4]]], dtype)
    y = np.array([[1], [1]]) if loss == "softmax" else np.array([[[0, 1, 1, 1.0]], [[0, 1, 1, 0.0]]])
    with np.errstate(all="raise", under="ignore"):
        p = z.copy()
        values = head(loss).predict(np, p, y)
    assert np.isfinite(values).all()
    assert np.isfinite(p).all()
    assert values[0, 0] == pytest.approx(2e4, rel=1e-3)
    assert abs(values[1, 0]) < 0.1


@pytest.mark.parametrize(("loss", "given", "message"), [
    ("softmax", np.zeros((5, 2)), "type float64: the softmax loss needs integer"),
    ("softmax", np.zeros((5, 2, 4), int), "shape (5, 2, 4) and type int64: the softmax loss needs"),
    ("softmax", np.full((5, 2), 4), "target symbols go from 4 to 4: with n_out = 4 they lie in"),
    ("logistic", np.zeros((5, 2), int), "needs real values (5, 2, 4)"),
    ("squared", np.zeros((5, 2, 5)), "shape (5, 2, 5): this loss needs real values (5, 2, 4)"),
    ("logistic", np.full((5, 2, 4), 1.5), "logistic loss lie outside 0 to 1: give probabilities"),
    ("logistic", np.full((5, 2, 4), np.nan), "logistic loss lie outside 0 to 1"),
])  # fmt: skip
def test_targets_that_do_not_fit_the_loss_are_refused(loss, given, message):
    with pytest.raises(hfrnn.InputError, match=re.escape(message)):
        head(loss).check_targets(given, 5, 2)


@pytest.mark.parametrize(("loss", "checkpoint"), [("softmax", None), ("softmax", 5), ("logistic", 3), ("squared", 5)])
def test_steps_that_are_not_wanted_are_left_out_of_losses_gradients_and_products(loss, checkpoint):
    rng, T, B = np.random.default_rng(5), 11, 3
    inputs = rng.integers(4, size=(T, B))
    scored_parts = {
        "softmax": rng.integers(4, size=(T, B)), "logistic": rng.random((T, B, 4)), "squared": rng.random((T, B, 4)),
    }  # fmt: skip
    net = hfrnn.Network("gru", 4, (5, 3), 4, loss=loss, dtype="float64")
    theta, v = net.init(seed=2), rng.standard_normal(net.n_parameters)
    parts = []
    for start, stop in pairwise([0, 1, 4, 8, T]):
        parts.append(np.zeros((T, B)))
        parts[-1][start:stop] = rng.random((stop - start, B))
    parts.insert(0, sum(parts))
    found = []
    for weights in parts:
        objective = hfrnn.Objective(net, hfrnn.Batch(inputs, scored_parts[loss], weights), checkpoint=checkpoint)
        f, gradient = objective.loss_and_gradient(theta)
        product = objective.gauss_newton(theta) @ v
        found.append(np.concatenate([[f, objective.loss(theta)], gradient, product]) * weights.sum())
    np.testing.assert_allclose(found[0], sum(found[1:]), rtol=1e-11, atol=1e-13)


def test_outputs_are_computed_for_the_steps_wanted_only(monkeypatch):
    T, B, steps, outputs = 20, 3, [], FullHead.outputs

    def counted(self, p, hs, tape):
        steps.append(len(hs[0]))
        return outputs(self, p, hs, tape)

    monkeypatch.setattr(FullHead, "outputs", counted)
    symbols = np.random.default_rng(0).integers(4, size=(T + 1, B))
    weights = np.zeros((T, B))
    weights[-3:] = 1
    net = hfrnn.Network("rnn", 4, 5, 4)
    hfrnn.Objective(net, hfrnn.Batch(symbols[:-1], symbols[1:], weights), checkpoint=5).loss_and_gradient(net.init(0))
    assert steps == [3]  # the last three of the last segment, and none of the three before it


def test_probabilities_as_targets_are_those_of_symbols_where_they_are_one_hot_and_smoothed_ones_are_refused_by_score():
    net = hfrnn.Network("gru", n_in=3, hidden=4, n_out=5, dtype="float64")
    rng, theta = np.random.default_rng(0), net.init(seed=1)
    x, y = rng.normal(size=(6, 3, 3)), rng.integers(5, size=(6, 3))
    weights = rng.uniform(size=(6, 3)) * (y != 2)
    soft = np.eye(5)[y] * weights.astype(bool)[:, :, None]  # 0 where nothing is predicted
    hard, smooth = hfrnn.Batch(x, y, weights), hfrnn.Batch(x, soft, weights)
    (f, g), (other, h) = (net.loss_and_gradient(theta, batch) for batch in (hard, smooth))
    np.testing.assert_allclose([other, *h], [f, *g], rtol=1e-12, atol=1e-15)
    v = rng.normal(size=theta.size)
    products = [net.gauss_newton(theta, batch) @ v for batch in (hard, smooth)]
    np.testing.assert_allclose(products[1], products[0], rtol=1e-12, atol=1e-15)
    with pytest.raises(hfrnn.InputError, match="the targets of the batch are probabilities"):
        hfrnn.score(net, theta, smooth)
    for wrong in (2 * np.eye(5)[y], np.eye(5)[y] - 0.1, np.eye(4)[y % 4]):
        with pytest.raises(hfrnn.InputError, match="whose sums are 1"):
            net.loss(theta, hfrnn.Batch(x, wrong))
