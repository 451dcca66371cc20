"""Sums over many steps and sequences in float32, against float64. Added one after another, they lose digits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import hfrnn
from hfrnn.arrays.backend import Buffers, get_backend
from hfrnn.kernels.pointwise import add_bias_gradient

BACKEND = get_backend("numpy")


def bias_sums(x: NDArray[np.float32]) -> NDArray[np.float32]:
    found = np.zeros(x.shape[1], np.float32)
    add_bias_gradient(x[None], found)
    return found


def products(x: NDArray[np.float32]) -> NDArray[np.float32]:
    found = np.zeros((1, x.shape[1]), np.float32)
    BACKEND.add_product(x[:, :1], np.ones_like(x), found, Buffers(BACKEND, "float32"))
    return np.broadcast_to(found[0], x.shape[1:])


def row_sums_of(count: int | None) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    def sums(x: NDArray[np.float32]) -> NDArray[np.float32]:
        found = np.zeros((4, x.shape[1]), np.float32)
        BACKEND.add_rows(found, BACKEND.row_groups(np.full(len(x), 2), count), x)
        assert not found[[0, 1, 3]].any()
        return found[2]

    return sums


SUMS = {"bias": bias_sums, "product": products, "rows": row_sums_of(4), "few rows": row_sums_of(None)}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("N", [1, 31, 65, 2**19 + 3, pytest.param(2**25, marks=pytest.mark.slow)])
def test_sums_over_many_terms_keep_six_digits(name: str, N: int) -> None:
    x = np.random.default_rng(0).random((N, 2), dtype=np.float32)
    expected = x.astype(np.float64).sum(axis=0)
    if name == "product":
        expected[:] = expected[0]
    np.testing.assert_allclose(SUMS[name](x), expected, rtol=1e-6 if N == 2**25 else 4e-7)
    x[:] = 1
    np.testing.assert_allclose(SUMS[name](x), N, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_gradient_of_a_long_segment_is_that_in_double_precision(backend: str) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    T, B = 2**13, 2**7
    rng = np.random.default_rng(0)
    x, y = rng.random((T, B, 1), dtype=np.float32), rng.random((T, B, 1), dtype=np.float32) + 1
    found = {}
    for dtype in ("float32", "float64"):
        net = hfrnn.Network("rnn", 1, 2, 1, loss="squared", dtype=dtype, backend=backend, bias=True, output_bias=True)
        objective = hfrnn.Objective(net, hfrnn.Batch(x, y), threads=1, checkpoint=None)
        found[dtype] = objective.loss_and_gradient(net.init(seed=0))
    (loss, gradient), (expected, by_float64) = found["float32"], found["float64"]
    assert loss == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, by_float64, rtol=2e-6)


def test_the_sums_of_many_segments_are_those_in_double_precision() -> None:
    T, K = 300, 1
    batch = hfrnn.Batch(np.full((T, 1, 1), 0.1, np.float32), np.full((T, 1, 1), 0.7, np.float32))
    found = {}
    for dtype, checkpoint in (("float32", K), ("float64", None)):
        net = hfrnn.Network("rnn", 1, 1, 1, loss="squared", dtype=dtype, backend="numpy", bias=True, output_bias=True)
        theta = net.init(seed=0)
        objective = hfrnn.Objective(net, batch, threads=1, checkpoint=checkpoint)
        G = objective.gauss_newton(theta, structural=0.1)
        found[dtype] = objective.loss_and_gradient(theta)[1], G @ np.ones_like(theta)
    for single, double in zip(found["float32"], found["float64"], strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-6)
