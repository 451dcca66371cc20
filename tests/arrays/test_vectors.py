"""Inner products, finiteness and scaling of flat vectors."""

import itertools
import math

import numpy as np
import pytest
from support.fake_device import FakeArray, transfers

from hfrnn.arrays import vectors
from hfrnn.arrays.vectors import HOST_PIECE, dot, fetch, is_finite, lazy_dot, lazy_finite, lazy_norm, norm, scaled


def test_scalars_are_summed_in_float64():
    a = np.full(1 << 20, 0.1, dtype=np.float32)
    assert dot(a, a) == pytest.approx(float(a[0]) ** 2 * a.size, rel=1e-13)
    assert norm(a) == pytest.approx(float(a[0]) * 1024.0, rel=1e-13)
    large = np.full(3, 1e30, dtype=np.float32)
    assert dot(large, large) == pytest.approx(3e60, rel=1e-6)


def test_threads_change_no_bit_of_an_inner_product():
    a, b = np.random.default_rng(0).standard_normal((2, 3 * HOST_PIECE + 17)).astype("f4")
    assert {dot(a, b, threads) for threads in (1, 2, 3, 5)} == {dot(a, b)}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_entry_that_is_not_finite_is_found(bad):
    x = np.full(1000, 1e300)
    assert is_finite(x)
    x[777] = bad
    assert not is_finite(x)
    assert is_finite(np.empty(0))


def test_scaled_writes_into_the_given_vector_only():
    x, out = np.arange(5.0), np.empty(5)
    scaled(x, 0.5, out)
    assert np.array_equal(out, [0.0, 0.5, 1.0, 1.5, 2.0])
    assert np.array_equal(x, np.arange(5.0))


def device(x):
    return FakeArray(np.array(x))


@pytest.mark.parametrize(("n", "dtype"), [(0, "f8"), (1, "f4"), (1000, "f8"), (3 * HOST_PIECE + 17, "f4")])
def test_an_inner_product_on_a_device_is_one_transfer_in_float64(n, dtype, monkeypatch):
    monkeypatch.setattr(vectors, "DEVICE_PIECE", HOST_PIECE)
    a, b = np.random.default_rng(0).standard_normal((2, n)).astype(dtype)
    transfers.clear()
    found = dot(device(a), device(b))
    assert len(transfers) == 1
    assert found == pytest.approx(math.fsum(a.astype(float) * b), rel=1e-12, abs=1e-12)
    assert norm(device(a)) == pytest.approx(norm(a), rel=1e-14)
    assert found == dot(device(a), device(b))


def test_lazy_scalars_come_in_one_transfer_and_those_of_the_host_as_they_are():
    x = np.arange(1.0, 5.0)
    transfers.clear()
    waiting = lazy_dot(device(x), device(x)), lazy_norm(device(x)), 3, lazy_finite(device(x)), 0.5
    assert not transfers
    assert fetch(*waiting) == [30.0, math.sqrt(30.0), 3, 1.0, 0.5]
    assert len(transfers) == 1
    assert fetch() == fetch(*()) == []
    assert fetch(lazy_dot(x, x), lazy_norm(x), lazy_finite(x)) == [30.0, math.sqrt(30.0), True]
    assert type(lazy_dot(x, x)) is type(lazy_norm(x)) is float
    assert lazy_finite(x) is True
    for flags in itertools.product([False, True], repeat=2):
        assert vectors.lazy_all(flags) is all(flags)
        assert fetch(vectors.lazy_all([device(flag) for flag in flags])) == [all(flags)]


@pytest.mark.parametrize("bad", [[np.nan], [np.inf, -np.inf]])
def test_an_entry_that_is_not_finite_is_found_on_a_device(bad):
    x = np.full(1000, 1e308)
    assert is_finite(device(x))
    x[500 : 500 + len(bad)] = bad
    transfers.clear()
    assert not is_finite(device(x))
    assert len(transfers) == 1
    assert not fetch(lazy_finite(device(np.ones(3)), device(x), device(np.ones(2))))[0]
    assert is_finite(device(np.empty(0)))


def test_a_scalar_of_the_device_scales_as_a_number_of_the_host_does():
    x, out = np.random.default_rng(0).standard_normal((2, 50)).astype("f4")
    written = device(out)
    scaled(device(x), device(np.pi), written)
    scaled(x, math.pi, out)
    assert written.dtype == np.float32
    assert np.array_equal(written._host, out)
