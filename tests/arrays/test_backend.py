"""Backends and named buffers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_device import FakeBackend

import hfrnn
from hfrnn.arrays.backend import Buffers, get_backend, pairs_of_places, row_sums

numpy = get_backend("numpy")
both = pytest.mark.parametrize("backend", [numpy, FakeBackend()], ids=["numpy", "device"])


@both
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@given(n=st.integers(1, 30), V=st.integers(1, 7), whole=st.booleans(), all_=st.booleans(), seed=st.integers(0, 99))
def test_rows_are_scatter_added_with_repeats(backend, dtype, n, V, whole, all_, seed):
    rng = np.random.default_rng(seed)
    index, before = rng.integers(V, size=n), rng.standard_normal((V, 4)).astype(dtype)
    rows = (rng.standard_normal((n, 6)) + (1j if dtype == "complex128" else 0)).astype(dtype)
    columns, given_rows = (slice(None), rows[:, :4].copy()) if whole else (slice(1, 3), rows[:, 3:5])
    expected = before.copy()
    for k in range(n):
        expected[index[k], columns] += given_rows[k]
    out = backend.asarray(before.copy())
    groups = backend.row_groups(backend.asarray(index), V if all_ else None)
    backend.add_rows(out[:, columns], groups, backend.asarray(given_rows), Buffers(backend, dtype))
    np.testing.assert_allclose(backend.to_host(out), expected, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-6)


def test_sums_of_rows_hold_absent_numbers_for_small_tables():
    few, all_ = row_sums(np.array([3, 2**16 + 5, 3, 5])), row_sums(np.array([3, 1, 0, 3]), 5)
    np.testing.assert_array_equal(few.matrix.toarray(), [[1, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]])
    np.testing.assert_array_equal(few.numbers, [3, 5, 2**16 + 5])
    np.testing.assert_array_equal(all_.matrix.toarray(), [[0, 0, 1, 0], [0, 1, 0, 0], [0] * 4, [1, 0, 0, 1], [0] * 4])
    assert all_.numbers == slice(0, 5)


@given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_rows_of_a_group_are_added_as_a_binary_tree(sizes):
    starts = np.cumsum([0, *sizes])[:-1]
    places = [{place} for place in range(sum(sizes))]
    levels = pairs_of_places(starts, len(places))
    for level in levels:
        assert len(set(level.tolist())) == level.size  # no two additions of a level touch the same place
        for left, right in zip(*np.split(level, 2), strict=True):
            assert not places[left] & places[right]
            places[left] |= places[right]
    assert [places[start] for start in starts] == [set(range(a, a + n)) for a, n in zip(starts, sizes, strict=True)]
    assert len(levels) == (max(sizes) - 1).bit_length()


@both
def test_rows_are_taken_for_indices_of_any_shape(backend):
    table, index = np.arange(12.0).reshape(4, 3), np.array([[3, 0], [1, 1]], dtype="uint8")
    out = backend.empty((2, 2, 3), "float64")
    backend.take_rows(backend.asarray(table), backend.asarray(index), out)
    np.testing.assert_array_equal(backend.to_host(out), table[index])


@both
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@given(sizes=st.lists(st.integers(1, 5), max_size=6), seed=st.integers(0, 99))
def test_pieces_have_their_sums_and_their_greatest_real_parts(backend, dtype, sizes, seed):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(sum(sizes)) - (1 + 2j if dtype == "complex128" else 1)).astype(dtype)
    pieces = np.split(x, np.cumsum(sizes))[:-1]
    edges = np.cumsum([0, *sizes]).tolist()
    same = [(k, len(list(run))) for k, run in itertools.groupby(sizes)]  # lengths, and how many pieces have each
    ends = np.cumsum([0, *(count for _, count in same)]).tolist()
    runs = [(slice(a, b), slice(edges[a], edges[b])) for a, b in itertools.pairwise(ends)]
    arguments = backend.asarray(x), backend.asarray(np.array(edges[:-1], int)), runs
    sums, tops = (backend.to_host(f(*arguments)) for f in (backend.sums_of_pieces, backend.tops_of_pieces))
    rtol = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(sums, [piece.sum() for piece in pieces], rtol=rtol, atol=1e-6)
    np.testing.assert_array_equal(tops, [piece.real.max() for piece in pieces])
    assert (sums.dtype, tops.dtype) == (x.dtype, x.real.dtype)


def test_asarray_is_contiguous_and_copies_only_where_it_must():
    x = np.arange(6.0).reshape(2, 3)
    assert numpy.asarray(x) is x or np.shares_memory(numpy.asarray(x), x)
    assert numpy.asarray(x.T).flags.c_contiguous
    assert numpy.asarray(x, "float32").dtype == np.float32


def test_an_unknown_backend_is_refused():
    with pytest.raises(hfrnn.InputError, match="backend is 'torch': use one of auto, numpy, numba, cupy"):
        get_backend("torch")


def test_a_buffer_is_the_same_memory_each_time():
    buffers = Buffers(numpy, "float32")
    first = buffers.get("a", (3, 4))
    assert buffers.get("a", (3, 4)) is first
    assert (first.flags.c_contiguous, first.dtype) == (True, np.float32)
    assert not np.shares_memory(first, buffers.get("b", (3, 4)))
    assert not np.shares_memory(first, buffers.get("a", (3, 4), "float64"))


def test_a_smaller_buffer_is_a_view_and_a_larger_one_is_new():
    buffers = Buffers(numpy, "float64")
    large = buffers.get("a", (10,))
    assert np.shares_memory(large, buffers.get("a", (2, 3)))
    assert buffers.nbytes == 80
    larger = buffers.get("a", (20,))
    assert buffers.nbytes == 160
    assert np.shares_memory(larger, buffers.get("a", (2, 3)))  # no stale view is returned
