"""A text as parallel streams in windows: every prediction scored once an epoch, after as much text as asked."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.sampler import SequenceSampler
from hfrnn.data.streams import TextStreams
from hfrnn.errors import InputError


def windows(streams: TextStreams) -> list[int]:
    """Where the windows of an epoch are."""
    positions = [0]
    while streams.has(positions[-1] + streams.every):
        positions.append(positions[-1] + streams.every)
    return positions


sizes = st.tuples(st.integers(1, 60), st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))


@given(sizes)
def test_the_windows_of_an_epoch_score_every_prediction_once(drawn: tuple[int, int, int, int]) -> None:
    length, count, every, ratio = drawn
    if length < every:
        return
    symbols = np.arange(count * length + 1 + count // 2) + 7  # a symbol says its place; some are left over
    streams = TextStreams(symbols, count, every * ratio, every)
    scored = []
    for position in windows(streams):
        inputs, targets, weights = streams.window(position)
        np.testing.assert_array_equal(targets, inputs + 1)
        wanted = np.ones(targets.shape) if weights is None else weights
        assert set(np.unique(wanted)) <= {0.0, 1.0}
        scored += targets[wanted == 1].tolist()
    left = length % every  # what does not fill a window at the end of each stream
    expected = [7 + b * length + t + 1 for b in range(count) for t in range(length - left)]
    assert sorted(scored) == expected


@given(sizes)
def test_a_window_ends_with_the_steps_that_it_scores_and_begins_as_far_back_as_asked(
    drawn: tuple[int, int, int, int],
) -> None:
    length, count, every, ratio = drawn
    if length < every:
        return
    streams = TextStreams(np.arange(count * length + 1), count, every * ratio, every)
    for position in windows(streams):
        inputs, targets, weights = streams.window(position)
        stop = position + every
        T = min(stop, every * ratio)
        assert inputs.shape == targets.shape == (T, count)
        assert inputs.dtype == targets.dtype == np.int32
        at = np.arange(stop - T, stop)[:, None] + length * np.arange(count)  # stream b reads the b-th piece
        np.testing.assert_array_equal(inputs, at)
        assert (weights is None) == (every == T)
        if weights is not None:
            assert weights[:, 0].tolist() == [0] * (T - every) + [1] * every
            assert (weights == weights[:, :1]).all()


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


@given(st.integers(1, 30), st.integers(1, 30))
def test_a_sampler_knows_where_in_its_epoch_it_is(sequences: int, subset: int) -> None:
    sampler = SequenceSampler(sequences, 1, subset)
    draws = sequences // sampler.subset
    assert (sampler.epoch, sampler.fraction) == (0, 0.0)
    for epoch in range(3):
        for drawn in range(1, draws + 1):
            sampler.draw()
            assert (sampler.epoch, sampler.fraction) == (epoch, drawn / draws)
            assert sampler.epoch_is_over == (drawn == draws)
