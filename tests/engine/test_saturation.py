"""Activations and losses far out, against references of their own: other libraries lose the last slopes there.

JAX's tanh on a CPU is not monotone and its slope is off by up to 79% near saturation; the second derivative of
PyTorch's logistic loss is 0 at +20. The references here are formulas in exp(-|z|) in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hfrnn
from hfrnn.engine.heads.heads import make_head
from hfrnn.kernels.rnn import activate_, slope_of

FAR = np.concatenate([np.linspace(0, 12, 4001), [15, 17, 20, 30, 40, 87, 100, 700, 745, 1e4]])
Z = np.concatenate([-FAR[::-1], FAR])


def reference(kind: str, z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return tanh or the logistic function and its slope."""
    e = np.exp(-abs(z) * (2 if kind == "tanh" else 1))
    slope = e / (1 + e) ** 2 * (4 if kind == "tanh" else 1)
    above = -np.expm1(-2 * abs(z)) / (1 + e) if kind == "tanh" else 1 / (1 + e)
    return np.where(z < 0, -above if kind == "tanh" else e / (1 + e), above), slope


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["tanh", "logistic"])
def test_activations_are_monotone_and_their_slopes_end_at_0(kind: str, dtype: str) -> None:
    z, eps = Z.astype(dtype), float(np.finfo(dtype).eps)
    value, slope = reference(kind, z.astype("float64"))
    found = z.copy()
    activate_(np, kind, found)
    np.testing.assert_allclose(found, value, rtol=0, atol=2 * eps)
    assert (np.diff(found) >= (0 if kind == "tanh" else -eps)).all()
    np.testing.assert_allclose(slope_of(np, kind, found, np.empty_like(z)), slope, rtol=0, atol=2 * eps)


def logistic(z: NDArray[Any], y: float) -> tuple[NDArray[Any], ...]:
    """Return value, derivative and curvature of the logistic loss."""
    shape = (1, z.size, 1)
    head, p, targets = make_head("logistic", 1, {0: 1}, True), z.reshape(shape).copy(), np.full(shape, y, z.dtype)
    value = head.predict(np, p, targets)  # type: ignore[attr-defined]
    curvature, residual = np.ones_like(p), p.copy()
    head.curvature(np, p, curvature, np.empty_like(p), targets)  # type: ignore[attr-defined]
    head.residual(np, residual, targets)  # type: ignore[attr-defined]
    return value.ravel(), residual.ravel(), curvature.ravel()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("y", [0.0, 1.0, 0.25])
def test_the_logistic_loss_has_all_digits_on_both_sides(y: float, dtype: str) -> None:
    z = Z.astype(dtype)
    wide = z.astype("float64")
    e = np.exp(-abs(wide))
    below = e / (1 + e)  # 1 - sigma(|z|)
    residual = np.where(wide < 0, below - y, (1 - y) - below)
    value = np.where(wide < 0, 0, wide) + np.log1p(e) - y * wide
    if y in (0, 1):
        value = np.log1p(e) + np.where((wide > 0) == (y == 0), abs(wide), 0)
    for got, wanted in zip(logistic(z, y), (value, residual, below * (1 - below)), strict=True):
        least = 4 * np.finfo(dtype).tiny if y in (0, 1) else np.finfo(dtype).eps
        np.testing.assert_allclose(got, wanted, rtol=8 * np.finfo(dtype).eps, atol=least)


def test_curvature_products_see_outputs_that_are_certain() -> None:
    net = hfrnn.Network("rnn", 1, 1, 1, loss="logistic", output_bias=True)
    batch = hfrnn.Batch(np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    for z in (20.0, -20.0):
        theta = np.zeros(net.n_parameters, np.float32)
        net.views(theta)["output.b_y"][:] = z
        found = hfrnn.Objective(net, batch).gauss_newton(theta) @ np.ones(net.n_parameters)
        assert net.views(found)["output.b_y"][0] == pytest.approx(np.exp(-20.0), rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_softmax_is_exact_beside_its_largest_output(dtype: str) -> None:
    head, gaps = make_head("softmax", 3, {0: 1}, True), FAR[(FAR > 0) & (FAR < 80)]
    z = np.stack([np.zeros_like(gaps), -gaps, -gaps - 1], axis=1).astype(dtype)[None]
    wide = z.astype("float64")
    e = np.exp(wide[..., 1:])
    others = e / (1 + e.sum(axis=2, keepdims=True))
    p, targets = z.copy(), np.zeros(z.shape[:2], int)
    value = head.predict(np, p, targets)  # type: ignore[attr-defined]
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(value, np.log1p(e.sum(axis=2)), rtol=8 * eps, atol=2 * eps)
    np.testing.assert_allclose(p[..., 1:], others, rtol=8 * eps)
    head.residual(np, p, targets)  # type: ignore[attr-defined]
    np.testing.assert_allclose(p[..., 0], -others.sum(axis=2), rtol=0, atol=2 * eps)
