"""Training sequences and evaluation streams."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hfrnn.data.streams import TextStreams, evaluation_streams, training_sequences
from hfrnn.errors import InputError


@given(st.integers(2, 60), st.integers(1, 20), st.integers(0, 19))
def test_sequences_follow_one_another_and_targets_are_the_next_symbols(n: int, T: int, shift: int) -> None:
    """A shift moves all sequences but a last one that would end behind the text."""
    assume(n > T > shift)
    symbols, count = np.arange(n) + 7, (n - 1) // T  # a symbol says its place
    inputs, targets = training_sequences(symbols, T, shift)
    assert inputs.shape == targets.shape == (T, count)
    assert inputs.dtype == targets.dtype == np.int32
    assert inputs.flags.c_contiguous
    assert targets.flags.c_contiguous
    starts = np.minimum(np.arange(count) * T + shift, n - 1 - T)
    np.testing.assert_array_equal(inputs, starts + 7 + np.arange(T)[:, None])
    np.testing.assert_array_equal(targets, inputs + 1)


@pytest.mark.parametrize("n", [0, 1, 100])
def test_a_text_too_short_is_refused_with_the_numbers(n: int) -> None:
    with pytest.raises(InputError, match=rf"has {n} symbols?; sequences of 100 need at least 101: .*sequence_length="):
        training_sequences(np.zeros(n, dtype=np.int32), 100)
    if n < 2:
        with pytest.raises(InputError, match=f"has {n} symbols?; at least 2"):
            evaluation_streams(np.zeros(n, dtype=np.int32), 4, 2)


@pytest.mark.parametrize("symbols", [np.zeros(5), np.zeros((5, 2), dtype=int)])
def test_symbols_must_be_a_row_of_integers(symbols: np.ndarray) -> None:
    with pytest.raises(InputError, match="row of integers"):
        training_sequences(symbols, 2)


@given(st.integers(2, 80), st.integers(1, 100), st.integers(0, 30))
def test_every_symbol_is_scored_once_in_equal_pieces_after_a_warm_up(n: int, streams: int, warm_up: int) -> None:
    symbols = np.arange(n) + 5  # a symbol says its place
    inputs, targets, weights, lengths = evaluation_streams(symbols, streams, warm_up)
    assert inputs.shape == targets.shape == weights.shape == (lengths.max(), min(streams, n - 1))
    assert inputs.dtype == targets.dtype == np.int32
    assert sorted(targets[weights == 1].tolist()) == symbols[1:].tolist()
    inside = np.arange(lengths.max())[:, None] < lengths
    np.testing.assert_array_equal(targets[inside], inputs[inside] + 1)
    assert not any(array[~inside].any() for array in (inputs, targets, weights))
    scored = weights.sum(axis=0).astype(int)
    assert scored.max() - scored.min() <= 1
    for k, length in enumerate(lengths):
        fed = min(warm_up, int(scored[:k].sum()))  # the first piece has no warm-up
        assert weights[:length, k].tolist() == [0] * fed + [1] * scored[k]
        np.testing.assert_array_equal(np.diff(inputs[:length, k]), 1)


def windows(streams: TextStreams) -> list[int]:
    """Where the windows of an epoch are."""
    positions = [0]
    while streams.has(positions[-1] + streams.every):
        positions.append(positions[-1] + streams.every)
    return positions


sizes = st.tuples(st.integers(1, 60), st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))


@given(sizes)
def test_windows_score_every_prediction_once_at_their_last_steps_and_begin_as_far_back_as_asked(drawn):
    length, count, every, ratio = drawn
    assume(length >= every)
    symbols, scored = np.arange(count * length + 1 + count // 2), []  # a symbol says its place; some are left over
    streams = TextStreams(symbols, count, every * ratio, every)
    for position in windows(streams):
        inputs, targets, weights = streams.window(position)
        stop = position + every
        T = min(stop, every * ratio)
        assert inputs.dtype == targets.dtype == np.int32
        at = np.arange(stop - T, stop)[:, None] + length * np.arange(count)  # stream b reads the b-th piece
        np.testing.assert_array_equal(inputs, at)
        np.testing.assert_array_equal(targets, at + 1)
        assert (weights is None) == (every == T)
        if weights is not None:
            np.testing.assert_array_equal(weights, np.repeat(np.arange(T)[:, None] >= T - every, count, axis=1))
        scored += targets[-every:].ravel().tolist()
    left = length % every  # what does not fill a window at the end of each stream
    assert sorted(scored) == [b * length + t + 1 for b in range(count) for t in range(length - left)]


def test_steps_are_those_of_every_stream_and_end_with_the_text() -> None:
    streams = TextStreams(np.arange(11), 2, 1, 1)
    assert [part.tolist() for part in streams.steps(1, 3)] == [[[1, 6], [2, 7]], [[2, 7], [3, 8]]]
    assert streams.steps(3, 9)[0].tolist() == [[3, 8], [4, 9]]


@pytest.mark.parametrize(("count", "back", "every"), [(0, 4, 4), (2, 0, 1), (2, 4, 0), (2, 4, 3), (2, 4, 8)])
def test_sizes_that_make_no_windows_are_refused_by_their_options(count: int, back: int, every: int) -> None:
    sentence = f"streams= is {count}, sequence_length= is {back}, and update_every= is"
    with pytest.raises(InputError, match=re.escape(f"{sentence} {every}: ")):
        TextStreams(np.arange(100), count, back, every)


def test_a_text_too_short_for_one_window_is_refused_with_the_numbers() -> None:
    assert TextStreams(np.arange(13), 4, 6, 3).length == 3
    with pytest.raises(InputError, match=r"12 symbols: 4 streams with an update every 3 need at least 13; .*streams="):
        TextStreams(np.arange(12), 4, 6, 3)
