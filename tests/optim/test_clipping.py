"""Bounds on gradients and weights."""

import numpy as np
import pytest
from support.fake_device import FakeArray, transfers

from hfrnn.arrays.vectors import fetch
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.clipping import lazy_clip_norm, lazy_clip_values, max_norm


def vector(n=1000, dtype=np.float64, scale=1.0):
    return (scale * np.random.default_rng(0).standard_normal(n)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_longer_gradient_is_brought_to_the_bound_along_its_direction(dtype):
    g = vector(dtype=dtype)
    before = g.copy()
    length = lazy_clip_norm(g, 5.0)
    assert length == pytest.approx(np.linalg.norm(before.astype(float)), rel=1e-12)
    assert np.linalg.norm(g.astype(float)) == pytest.approx(5.0, rel=1e-6)
    assert g == pytest.approx(before * (5.0 / length), rel=1e-6)


def test_a_gradient_within_the_bound_keeps_its_bits():
    g = vector()
    before = g.copy()
    length = lazy_clip_norm(g, 1e9)
    assert lazy_clip_norm(g, length) == length
    assert np.array_equal(g, before)


def test_the_norm_of_a_float32_gradient_whose_squares_overflow_is_right():
    g = vector(dtype=np.float32, scale=1e30)
    expected = np.linalg.norm(g.astype(float))
    assert lazy_clip_norm(g, 1.0) == pytest.approx(expected, rel=1e-12)
    assert np.linalg.norm(g.astype(float)) == pytest.approx(1.0, rel=1e-6)


def test_values_are_moved_to_the_nearer_bound_and_no_others():
    g = np.array([-7.0, -5.0, -1.0, 0.0, 4.999, 5.001, 1e30])
    lazy_clip_values(g, 5.0)
    assert g.tolist() == [-5.0, -5.0, -1.0, 0.0, 4.999, 5.0, 5.0]


@pytest.mark.parametrize("clip", [lazy_clip_norm, lazy_clip_values])
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_gradient_that_is_not_finite_is_refused_and_not_changed(clip, bad):
    g = np.array([9.0, bad, 1.0])
    before = g.copy()
    with pytest.raises(NonFiniteError):
        clip(g, 5.0)
    assert np.array_equal(g, before, equal_nan=True)


@pytest.mark.parametrize(
    "clip", [lazy_clip_norm, lazy_clip_values, lambda g, bound: max_norm([g.reshape(2, 5)], bound)]
)
@pytest.mark.parametrize("bound", [0.0, np.nan, np.inf])
def test_a_bound_out_of_range_is_refused(clip, bound):
    with pytest.raises(InputError, match="bound is"):
        clip(vector(10), bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incoming_weights_of_a_unit_are_its_columns_in_all_matrices_together(dtype):
    rng = np.random.default_rng(1)
    W_x, W_h = (rng.standard_normal(shape).astype(dtype) for shape in ((7, 4), (3, 4, 4)))  # as of an order-3 hornn
    W_x[:, 0] *= 0.01
    W_h[:, :, 0] *= 0.01
    before = W_x.copy(), W_h.copy()
    max_norm([W_x, W_h], 2.0)

    def norms(x, h):
        return [np.linalg.norm(np.concatenate([x[:, j], *h[:, :, j]]).astype(float)) for j in range(4)]

    assert norms(W_x, W_h)[1:] == pytest.approx([2.0] * 3, rel=1e-6)
    for j, length in enumerate(norms(*before)):
        factor = min(1.0, 2.0 / length)
        assert W_x[:, j] == pytest.approx(factor * before[0][:, j], rel=1e-6)
        assert W_h[:, :, j] == pytest.approx(factor * before[1][:, :, j], rel=1e-6)
    assert np.array_equal(W_x[:, 0], before[0][:, 0])
    assert np.array_equal(W_h[:, :, 0], before[1][:, :, 0])


def test_views_of_some_columns_are_bounded_in_place():
    theta = np.full(24, 3.0)
    W = theta.reshape(4, 6)
    max_norm([W[:, :2]], 1.0)
    assert np.linalg.norm(W, axis=0) == pytest.approx([1.0, 1.0, 6.0, 6.0, 6.0, 6.0])


def test_float32_weights_whose_squares_overflow_are_bounded():
    W = np.array([[3e20, 1.0], [4e20, 0.0]], dtype="float32")
    max_norm([W], 5.0)
    np.testing.assert_allclose(W, [[3.0, 1.0], [4.0, 0.0]], rtol=1e-6)
    W[:] = 0.0
    max_norm([W], 5.0)
    assert not W.any()


@pytest.mark.parametrize("shapes", [[(3, 2), (3, 4)], [(2, 3, 4), (2, 3)], [(4,)], []])
def test_matrices_that_do_not_feed_the_same_units_are_refused(shapes):
    with pytest.raises(InputError, match="shapes"):
        max_norm([np.ones(shape) for shape in shapes], 1.0)


# ---------------------------------------------------------------------- on a device
@pytest.mark.parametrize("bound", [0.5, 5.0, 1e3])
def test_a_gradient_on_a_device_is_clipped_as_on_the_host_without_waiting(bound):
    g = np.random.default_rng(0).standard_normal(50).astype("f4")
    device = FakeArray(g.copy())
    transfers.clear()
    length = lazy_clip_norm(device, bound)
    assert not transfers
    assert fetch(length) == [lazy_clip_norm(g, bound)]
    assert np.array_equal(device._host, g)
    lazy_clip_values(device, 0.1)
    lazy_clip_values(g, 0.1)
    assert len(transfers) == 1
    assert np.array_equal(device._host, g)
    assert fetch(lazy_clip_norm(device, 0.2)) == [lazy_clip_norm(g, 0.2)]
    assert np.array_equal(device._host, g)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("clip", [lazy_clip_norm, lazy_clip_values])
def test_a_gradient_on_a_device_that_is_not_finite_becomes_nan(clip, bad):
    g = np.ones(5)
    g[2] = bad
    device = FakeArray(g)
    clip(device, 2.0)
    assert np.isnan(device._host).all() or (bad == 1e200 and clip is lazy_clip_values)
    with pytest.raises(InputError, match="bound"):
        clip(device, -1.0)
