"""Random subsets of the training sequences."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.sampler import SequenceSampler
from hfrnn.errors import CheckpointError


@pytest.mark.parametrize(("symbols", "expected"), [(None, 20), (1, 1), (104, 10), (106, 11), (10**9, 20)])
def test_a_subset_holds_about_the_given_number_of_symbols(symbols: int | None, expected: int) -> None:
    drawn = SequenceSampler(20, 10, symbols).draw()
    assert len(drawn) == expected
    assert expected < 20 or drawn.tolist() == list(range(20))


def test_epochs_and_seeds_differ_and_a_seed_repeats() -> None:
    one, same, other = (SequenceSampler(1000, 1, 500, seed) for seed in (1, 1, 2))
    first, second, third = one.draw(), one.draw(), one.draw()
    assert np.array_equal(np.union1d(first, second), np.arange(1000))
    assert not np.array_equal(first, third)
    assert np.array_equal(first, same.draw())
    assert not np.array_equal(first, other.draw())


@pytest.mark.parametrize(("size", "expected"), [
    ({"fraction": 0.25}, 5), ({"fraction": 0.9}, 18), ({"symbols": 30}, 3), ({"fraction": 1e-6}, 1),
    ({"symbols": 10**9}, 20), ({}, 20),
])  # fmt: skip
def test_the_curvature_part_is_a_new_subset_of_the_asked_size(size: dict[str, float], expected: int) -> None:
    sampler = SequenceSampler(100, 10, 200)
    subset = sampler.draw()
    part, other = sampler.draw_part(subset, **size), sampler.draw_part(subset, **size)
    assert len(part) == len(set(part.tolist())) == expected
    assert set(part.tolist()) <= set(subset.tolist())
    assert expected == 20 or not np.array_equal(part, other)


def test_growing_subsets_grow_by_the_factor_up_to_the_largest() -> None:
    sampler = SequenceSampler(100, 10, 200, first=40, growth=1.5)
    assert [len(sampler.draw()) for _ in range(9)] == [4, 6, 9, 14, 20, 20, 20, 20, 20]
    steady = SequenceSampler(10**6, 1, 10**6, first=5, growth=1.0)
    assert [len(steady.draw()) for _ in range(3)] == [5, 5, 5]
    endless = SequenceSampler(100, 1, 50, first=1, growth=9.0)
    assert [len(endless.draw()) for _ in range(1000)][-1] == 50


@given(st.integers(1, 30), st.integers(1, 30), st.floats(1.0, 3.0), st.integers(0, 2**40))
def test_no_sequence_comes_twice_in_an_epoch(sequences: int, first: int, growth: float, seed: int) -> None:
    sampler, seen, epoch = SequenceSampler(sequences, 1, None, seed, first, growth), set[int](), 0
    for _ in range(20):
        over = sampler.epoch_is_over
        assert 0.0 <= sampler.fraction <= 1.0
        drawn = sampler.draw().tolist()
        assert over == (sampler.epoch > epoch)
        seen, epoch = (set(), sampler.epoch) if over else (seen, epoch)
        assert len(set(drawn) | seen) == len(drawn) + len(seen)
        seen |= set(drawn)
        assert seen <= set(range(sequences))


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


@given(st.integers(0, 12), st.booleans(), st.sampled_from([(None, 1.0), (3, 1.2), (6, 2.0)]))
def test_a_resumed_sampler_draws_what_the_first_would_have(steps, after_gradient, growth):
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


@pytest.mark.parametrize("change", [
    {"seed": 9}, {"sequences": 18}, {"length": 2}, {"subset": 5}, {"epoch": -1}, {"position": 99}, {"parts": "x"},
    {"drawn": None}, {"growth": 1.1}, {"first": 1},
], ids=str)  # fmt: skip
def test_a_state_of_another_sampler_or_a_damaged_one_is_refused(change: dict[str, object]) -> None:
    sampler = SequenceSampler(17, 3, 12, seed=4)
    sampler.draw()
    before = sampler.state_dict()
    with pytest.raises(CheckpointError):
        sampler.load_state_dict(before | change)
    assert sampler.state_dict() == before
