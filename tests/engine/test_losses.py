"""The losses and their derivatives in the logits, one by one."""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import hfrnn
from hfrnn.engine.heads.heads import make_head
from hfrnn.engine.heads.output_map import FullHead, Head

LOSSES = ["softmax", "logistic", "squared", "poisson", "gaussian", "soft", "smoothed"]
EPS = 1e-20


def head(loss: str, n_out: int = 4) -> Head:
    options = {"label_smoothing": 0.3} if loss in ("soft", "smoothed") else {}
    return make_head({"soft": "softmax", "smoothed": "softmax"}.get(loss, loss), n_out, {0: 3}, True, options=options)


def logits(loss: str, rng: np.random.Generator) -> Any:
    return rng.standard_normal((5, 2, 8 if loss == "gaussian" else 4))


def targets(loss: str, rng: np.random.Generator) -> Any:
    shape = (5, 2, 4)
    if loss in ("softmax", "smoothed"):
        return rng.integers(4, size=shape[:2])
    if loss == "soft":
        return rng.dirichlet(np.ones(4), size=shape[:2])
    return rng.uniform(size=shape) if loss == "logistic" else rng.poisson(2.0, shape) * 1.0


def expected_losses(loss: str, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    if loss in ("softmax", "soft", "smoothed"):
        p = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
        wanted = y if loss == "soft" else np.eye(4)[y]
        wanted = wanted if loss == "softmax" else 0.7 * wanted + 0.3 / 4
        return -(wanted * np.log(p)).sum(axis=-1)
    if loss == "gaussian":
        return -scipy.stats.norm(z[..., :4], np.exp(z[..., 4:] / 2)).logpdf(y).sum(axis=-1)
    if loss == "poisson":
        return -(scipy.stats.poisson(np.exp(z)).logpmf(y) + scipy.special.gammaln(y + 1)).sum(axis=-1)
    if loss == "logistic":
        p = 1 / (1 + np.exp(-z))
        return -(y * np.log(p) + (1 - y) * np.log(1 - p)).sum(axis=-1)
    return 0.5 * ((z - y) ** 2).sum(axis=-1)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_of_every_step_is_that_of_the_formula(loss):
    rng = np.random.default_rng(0)
    z, y = 2 * logits(loss, rng), targets(loss, rng)
    np.testing.assert_allclose(head(loss).predict(np, z.copy(), y), expected_losses(loss, z, y), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_residual_is_the_derivative_of_the_loss_and_the_curvature_that_of_the_residual(loss):
    rng = np.random.default_rng(1)
    z, y, v = logits(loss, rng), targets(loss, rng), logits(loss, rng)
    p, residual, moved, Rz = z.copy(), z.copy(), z + 1j * EPS * v, v.copy()
    head(loss).predict(np, p, y)
    residual[...] = p
    head(loss).residual(np, residual, y)
    slope = head(loss).predict(np, moved, y).imag / EPS
    np.testing.assert_allclose((residual * v).sum(axis=-1), slope, rtol=1e-12, atol=1e-14)
    head(loss).residual(np, moved, y)
    head(loss).curvature(np, p, Rz, np.empty_like(Rz), y)
    if head(loss).exact_curvature:
        np.testing.assert_allclose(Rz, moved.imag / EPS, rtol=1e-11, atol=1e-13)


def test_the_curvature_of_the_gaussian_loss_is_the_covariance_of_its_gradient_under_the_prediction():
    rng = np.random.default_rng(2)
    z, v = 0.5 * rng.standard_normal((1, 1, 2)), rng.standard_normal((1, 1, 2))
    y = z[..., :1] + np.exp(z[..., 1:] / 2) * rng.standard_normal((100_000, 1, 1))
    gradients = np.broadcast_to(z, (100_000, 1, 2)).copy()
    head("gaussian", 1).residual(np, gradients, y)
    covariance, Rz = np.cov(gradients[:, 0].T), v.copy()
    head("gaussian", 1).curvature(np, z, Rz, np.empty_like(Rz), y[:1])
    np.testing.assert_allclose(Rz[0, 0], covariance @ v[0, 0], atol=0.02)


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
    ("poisson", np.full((5, 2, 4), -1.0), "targets of the poisson loss hold a number below 0: give counts"),
    ("soft", np.full((5, 2, 4), 0.3), "targets of the softmax loss are no probabilities"),
    ("soft", np.full((5, 2, 3), 1 / 3), "needs symbols (5, 2) or probabilities (5, 2, 4)"),
])  # fmt: skip
def test_targets_that_do_not_fit_the_loss_are_refused(loss, given, message):
    with pytest.raises(hfrnn.InputError, match=re.escape(message)):
        head(loss).check_targets(given, 5, 2)


@pytest.mark.parametrize(
    ("loss", "checkpoint"),
    [("softmax", None), ("softmax", 5), ("logistic", 3), ("squared", 5), ("gaussian", 5), ("soft", 5)],
)
def test_steps_that_are_not_wanted_are_left_out_of_losses_gradients_and_products(loss, checkpoint):
    rng, T, B = np.random.default_rng(5), 11, 3
    inputs = rng.integers(4, size=(T, B))
    scored_parts = {
        "softmax": rng.integers(4, size=(T, B)), "logistic": rng.random((T, B, 4)), "squared": rng.random((T, B, 4)),
        "gaussian": rng.random((T, B, 4)), "soft": rng.dirichlet(np.ones(4), (T, B)),
    }  # fmt: skip
    options = {"loss": "softmax", "label_smoothing": 0.2} if loss == "soft" else {"loss": loss}
    net = hfrnn.Network("gru", 4, (5, 3), 4, dtype="float64", **options)
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
