"""The fixed tree in whose order shards are added, and the ranks that own its parts."""

import numpy as np
import pytest
from support.trees import by_recursion

from hfrnn.ranks.one import additions, additions_between, additions_within, owned, roots, total

COUNTS = (*range(1, 18), 40, 100)
RANKS = (*range(1, 10), 12, 16, 64)


def numbers(count):
    rng = np.random.default_rng(count)
    return (rng.standard_normal(count) * 10.0 ** rng.integers(-6, 6, count)).astype(np.float32)


def test_the_sum_has_the_order_of_the_tree():
    for count in COUNTS:
        values = numbers(count)
        assert total(values) == by_recursion(list(values)), count


def test_the_order_is_not_that_of_a_loop():
    values = numbers(64)
    assert total(values) != sum(values[1:], values[0])


@pytest.mark.parametrize("count", COUNTS)
def test_ranks_own_neighbouring_shards_in_order(count):
    for ranks in RANKS:
        parts = [owned(count, ranks, rank) for rank in range(ranks)]
        assert [shard for start, stop in parts for shard in range(start, stop)] == list(range(count))
        sizes = [stop - start for start, stop in parts]
        assert max(sizes) - min(sizes) <= 1 + (ranks > 2)
        assert sizes[0] > 0
        if ranks & (ranks - 1) == 0:  # they own one node each
            assert all(len(roots(count, *part)) <= 1 for part in parts)


@pytest.mark.parametrize("count", COUNTS)
def test_every_addition_is_made_once_on_one_rank_or_between_ranks(count):
    for ranks in RANKS:
        parts = [owned(count, ranks, rank) for rank in range(ranks)]
        made = [each for part in parts for each in additions_within(count, *part)]
        assert sorted([*made, *additions_between(count, ranks)]) == sorted(additions(count))


@pytest.mark.parametrize("count", COUNTS)
def test_partial_sums_of_ranks_add_up_to_the_same_bits(count):
    values = numbers(count)
    for ranks in RANKS:
        sums = {}
        for rank in range(ranks):
            start, stop = owned(count, ranks, rank)
            own = dict(zip(range(start, stop), values[start:stop], strict=True))
            for left, right, _ in additions_within(count, start, stop):
                own[left] += own.pop(right)
            assert tuple(sorted(own)) == roots(count, start, stop)
            sums |= own
        for left, right, _ in additions_between(count, ranks):
            sums[left] += sums.pop(right)
        assert sums == {0: total(values)}
