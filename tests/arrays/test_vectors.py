"""Inner products, finiteness and scaling of flat vectors."""

import numpy as np
import pytest

from hfrnn.arrays.vectors import PIECE, dot, is_finite, norm, scaled


def test_scalars_are_summed_in_float64():
    a = np.full(1 << 20, 0.1, dtype=np.float32)
    assert dot(a, a) == pytest.approx(float(a[0]) ** 2 * a.size, rel=1e-13)
    assert norm(a) == pytest.approx(float(a[0]) * 1024.0, rel=1e-13)
    large = np.full(3, 1e30, dtype=np.float32)
    assert dot(large, large) == pytest.approx(3e60, rel=1e-6)


def test_threads_change_no_bit_of_an_inner_product():
    a, b = np.random.default_rng(0).standard_normal((2, 3 * PIECE + 17)).astype("f4")
    assert {dot(a, b, threads) for threads in (1, 2, 3, 5)} == {dot(a, b)}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_entry_that_is_not_finite_is_found(bad):
    x = np.full(1000, 1e300)
    assert is_finite(x)
    x[777] = bad
    assert not is_finite(x)


def test_an_empty_vector_is_finite():
    assert is_finite(np.empty(0))


def test_scaled_writes_into_the_given_vector_only():
    x, out = np.arange(5.0), np.empty(5)
    scaled(x, 0.5, out)
    assert np.array_equal(out, [0.0, 0.5, 1.0, 1.5, 2.0])
    assert np.array_equal(x, np.arange(5.0))
