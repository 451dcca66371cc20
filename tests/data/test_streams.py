"""Sequences, samplers and evaluation streams."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.streams import SequenceSampler, evaluation_streams, training_sequences
from hfrnn.errors import CheckpointError, InputError


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
    with pytest.raises(InputError, match=rf"has {n} symbols?; sequences of 100 need at least 101: .*--sequence-length"):
        training_sequences(np.zeros(n, dtype=np.int32), 100)


def test_a_sequence_length_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1, not 0"):
        training_sequences(np.zeros(5, dtype=np.int32), 0)


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


@pytest.mark.parametrize(("streams", "warm_up"), [(0, 0), (1, -1)])
def test_stream_numbers_out_of_range_are_refused(streams: int, warm_up: int) -> None:
    with pytest.raises(InputError, match="at least 1 stream"):
        evaluation_streams(np.arange(5), streams, warm_up)


def test_all_sequences_are_drawn_when_no_number_is_given() -> None:
    sampler = SequenceSampler(7, 10)
    for _ in range(3):
        assert sampler.draw().tolist() == list(range(7))


@pytest.mark.parametrize(("symbols", "expected"), [(1, 1), (104, 10), (106, 11), (10**9, 20)])
def test_a_subset_holds_about_the_given_number_of_symbols(symbols: int, expected: int) -> None:
    assert len(SequenceSampler(20, 10, symbols).draw()) == expected


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**40))
def test_no_sequence_comes_twice_in_an_epoch(sequences: int, subset: int, seed: int) -> None:
    sampler = SequenceSampler(sequences, 1, subset, seed)
    for _ in range(2):
        drawn = np.concatenate([sampler.draw() for _ in range(sequences // sampler.subset)])
        assert len(set(drawn.tolist())) == len(drawn)
        assert set(drawn.tolist()) <= set(range(sequences))


def test_epochs_and_seeds_differ_and_a_seed_repeats() -> None:
    one, same, other = (SequenceSampler(1000, 1, 500, seed) for seed in (1, 1, 2))
    first, second, third = one.draw(), one.draw(), one.draw()
    assert np.array_equal(np.union1d(first, second), np.arange(1000))
    assert not np.array_equal(first, third)
    assert np.array_equal(first, same.draw())
    assert not np.array_equal(first, other.draw())


def test_every_sequence_is_drawn_about_equally_often() -> None:
    sampler = SequenceSampler(10, 1, 3)
    counts = np.bincount(np.concatenate([sampler.draw() for _ in range(1000)]), minlength=10)
    assert abs(counts - 300).max() < 60


@pytest.mark.parametrize(
    ("given_part", "expected"),
    [
        ({"fraction": 0.25}, 5),
        ({"fraction": 0.9}, 18),
        ({"symbols": 30}, 3),
        ({"fraction": 1e-6}, 1),
        ({"symbols": 10**9}, 20),
        ({}, 20),
    ],
)
def test_the_curvature_part_is_a_subset_of_the_asked_size(given_part: dict[str, float], expected: int) -> None:
    sampler = SequenceSampler(100, 10, 200)
    subset = sampler.draw()
    part = sampler.draw_part(subset, **given_part)
    assert len(part) == len(set(part.tolist())) == expected
    assert set(part.tolist()) <= set(subset.tolist())


def test_curvature_parts_of_the_same_subset_differ() -> None:
    sampler = SequenceSampler(1000, 1)
    subset = sampler.draw()
    assert not np.array_equal(sampler.draw_part(subset, fraction=0.1), sampler.draw_part(subset, fraction=0.1))


@pytest.mark.parametrize("bad", [{"fraction": 0.0}, {"fraction": 1.5}, {"symbols": 0}, {"fraction": 0.5, "symbols": 3}])
def test_curvature_parts_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        SequenceSampler(10, 1).draw_part(np.arange(10), **bad)


@pytest.mark.parametrize(
    "bad", [{"sequences": 0}, {"length": 0}, {"symbols": 0}, {"seed": -1}, {"first": 0}, {"growth": 0.9}]
)
def test_sampler_sizes_out_of_range_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InputError):
        SequenceSampler(**({"sequences": 3, "length": 2} | bad))


def test_growing_subsets_grow_by_the_factor_up_to_the_largest() -> None:
    sampler = SequenceSampler(100, 10, 200, first=40, growth=1.5)
    assert [len(sampler.draw()) for _ in range(9)] == [4, 6, 9, 14, 20, 20, 20, 20, 20]
    steady = SequenceSampler(10**6, 1, 10**6, first=5, growth=1.0)
    assert [len(steady.draw()) for _ in range(3)] == [5, 5, 5]
    endless = SequenceSampler(100, 1, 50, first=1, growth=9.0)
    assert [len(endless.draw()) for _ in range(1000)][-1] == 50


@given(st.integers(1, 30), st.integers(1, 30), st.floats(1.0, 3.0))
def test_no_sequence_comes_twice_in_an_epoch_of_growing_subsets(sequences: int, first: int, growth: float) -> None:
    sampler, seen, epoch = SequenceSampler(sequences, 1, None, 0, first, growth), set[int](), 0
    for _ in range(20):
        over = sampler.epoch_is_over
        assert 0.0 <= sampler.fraction <= 1.0
        subset = set(sampler.draw().tolist())
        assert over == (sampler.epoch > epoch)
        seen, epoch = (set(), sampler.epoch) if over else (seen, epoch)
        assert not seen & subset
        seen |= subset


@given(st.integers(0, 12), st.booleans(), st.sampled_from([(None, 1.0), (3, 1.2), (6, 2.0)]))
def test_a_resumed_sampler_draws_what_the_first_would_have(
    steps: int, after_gradient: bool, growth: tuple[int | None, float]
) -> None:
    def step(sampler: SequenceSampler) -> list[list[int]]:
        subset = sampler.draw()
        return [subset.tolist(), sampler.draw_part(subset, fraction=0.5).tolist()]

    first, second = SequenceSampler(17, 3, 12, 4, *growth), SequenceSampler(17, 3, 12, 4, *growth)
    for _ in range(steps):
        step(first)
    if after_gradient:
        first.draw()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for _ in range(6):
        assert step(first) == step(second)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 9},
        {"sequences": 18},
        {"length": 2},
        {"subset": 5},
        {"epoch": -1},
        {"position": 99},
        {"parts": "x"},
        {"drawn": None},
        {"growth": 1.1},
        {"first": 1},
    ],
)
def test_a_state_of_another_sampler_or_a_damaged_one_is_refused(change: dict[str, object]) -> None:
    sampler = SequenceSampler(17, 3, 12, seed=4)
    sampler.draw()
    before = sampler.state_dict()
    with pytest.raises(CheckpointError):
        sampler.load_state_dict(before | change)
    assert sampler.state_dict() == before
