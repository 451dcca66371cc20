"""Training sequences and evaluation streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.streams import evaluation_streams, training_sequences
from hfrnn.errors import InputError


@given(st.integers(2, 60), st.integers(1, 20))
def test_sequences_are_consecutive_and_targets_are_the_next_symbols(n: int, length: int) -> None:
    if n < length + 1:
        return
    symbols = np.arange(n) + 7  # a symbol says its place
    inputs, targets = training_sequences(symbols, length)
    count = (n - 1) // length
    assert inputs.shape == targets.shape == (length, count)
    assert inputs.dtype == targets.dtype == np.int32
    assert inputs.flags.c_contiguous
    assert targets.flags.c_contiguous
    np.testing.assert_array_equal(inputs.T.ravel(), symbols[: count * length])
    np.testing.assert_array_equal(targets, inputs + 1)


@given(st.integers(2, 60), st.integers(1, 20), st.integers(0, 19))
def test_a_shift_moves_all_sequences_but_a_last_one_that_would_end_behind_the_text(n: int, T: int, shift: int) -> None:
    if n < T + 1 or shift >= T:
        return
    symbols = np.arange(n) + 7  # a symbol says its place
    inputs, targets = training_sequences(symbols, T, shift)
    plain = training_sequences(symbols, T)[0]
    assert inputs.shape == plain.shape
    assert inputs.dtype == targets.dtype == np.int32
    np.testing.assert_array_equal(inputs[:, :-1], plain[:, :-1] + shift)
    np.testing.assert_array_equal(np.diff(inputs, axis=0), 1)
    assert inputs[0, -1] == min(plain[0, -1] + shift, symbols[-1] - T)
    np.testing.assert_array_equal(targets, inputs + 1)


def test_a_text_with_exactly_one_sequence_is_enough() -> None:
    inputs, targets = training_sequences(np.array([3, 1, 2]), 2)
    assert inputs.tolist() == [[3], [1]]
    assert targets.tolist() == [[1], [2]]


@pytest.mark.parametrize("n", [0, 1, 37, 100])
def test_a_text_too_short_for_one_sequence_is_refused_with_the_numbers(n: int) -> None:
    with pytest.raises(InputError, match=rf"has {n} symbols?; sequences of 100 need at least 101: .*sequence_length="):
        training_sequences(np.zeros(n, dtype=np.int32), 100)


@pytest.mark.parametrize("symbols", [np.zeros(5), np.zeros((5, 2), dtype=int)])
def test_symbols_must_be_a_row_of_integers(symbols: np.ndarray) -> None:
    with pytest.raises(InputError, match="row of integers"):
        training_sequences(symbols, 2)


@given(st.integers(2, 80), st.integers(1, 100), st.integers(0, 30))
def test_every_predicted_symbol_is_scored_exactly_once(n: int, streams: int, warm_up: int) -> None:
    symbols = np.arange(n) + 5  # a symbol says its place
    inputs, targets, weights, lengths = evaluation_streams(symbols, streams, warm_up)
    assert inputs.shape == targets.shape == weights.shape == (lengths.max(), min(streams, n - 1))
    assert inputs.dtype == targets.dtype == np.int32
    assert set(np.unique(weights)) <= {0.0, 1.0}
    scored = weights == 1
    assert sorted(targets[scored].tolist()) == symbols[1:].tolist()
    inside = np.arange(lengths.max())[:, None] < lengths
    np.testing.assert_array_equal(targets[inside], inputs[inside] + 1)
    assert not scored[~inside].any()
    assert not inputs[~inside].any()
    assert not targets[~inside].any()


@given(st.integers(2, 80), st.integers(1, 100), st.integers(0, 30))
def test_pieces_are_equal_and_begin_with_as_much_warm_up_as_there_is(n: int, streams: int, warm_up: int) -> None:
    inputs, _, weights, lengths = evaluation_streams(np.arange(n) + 5, streams, warm_up)
    scored = weights.sum(axis=0).astype(int)
    assert scored.max() - scored.min() <= 1
    for k, length in enumerate(lengths):
        fed = min(warm_up, int(scored[:k].sum()))
        assert length == fed + scored[k]
        assert weights[:length, k].tolist() == [0] * fed + [1] * scored[k]
        np.testing.assert_array_equal(np.diff(inputs[:length, k]), 1)


def test_the_first_piece_has_no_warm_up() -> None:
    _, _, weights, lengths = evaluation_streams(np.arange(9), 2, 3)
    assert lengths.tolist() == [4, 7]
    assert weights.T.tolist() == [[1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1, 1]]


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_to_predict_is_refused(n: int) -> None:
    with pytest.raises(InputError, match=f"has {n} symbols?; at least 2"):
        evaluation_streams(np.zeros(n, dtype=np.int32), 4, 2)
