"""Sums of the vectors of shards: their order, and how many vectors they need."""

import random
import time

import numpy as np
import pytest
from support.trees import by_recursion

from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.threads import Threads
from hfrnn.engine.sums import VectorSum
from hfrnn.ranks.one import ALONE


class Counted(VectorSum):
    """Counts the vectors that exist."""

    made = 0

    def take(self):
        self.made += not self._free
        return super().take()


def summed(count, threads, n=1001, delays=False):
    """Return the sum of random vectors, what it should be, and the number of vectors that it took."""
    rng, order = np.random.default_rng(count), random.Random(threads)
    vectors = (rng.standard_normal((count, n)) * 10.0 ** rng.integers(-4, 4, (count, n))).astype(np.float32)
    pauses = [order.random() * 0.004 * delays for _ in range(count)]
    sums = Counted(get_backend("numpy"), (n,), np.float32, Threads(threads), ALONE)

    def task(k, vector):
        time.sleep(pauses[k])
        vector += vectors[k]
        return k

    out = np.full(n, np.nan, np.float32)
    assert sums.add(task, count, out) == list(range(count))
    return out, by_recursion(list(vectors)), sums.made


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_the_sum_has_the_order_of_the_tree_and_takes_few_vectors_on_any_number_of_threads(count, threads):
    for delays in (False, True):
        found, expected, made = summed(count, threads, delays=delays)
        np.testing.assert_array_equal(found, expected)
        assert made <= min(threads, count) + max((count - 1).bit_length() - 1, 0)  # one a level, but for one


def test_a_flag_of_blas_gives_no_warning():
    def task(k, vector):
        vector += np.float32(np.inf) - np.float32(np.inf)  # sets the same flag

    sums = VectorSum(get_backend("numpy"), (3,), np.float32, Threads(2), ALONE)
    with np.errstate(invalid="raise"):
        sums.add(task, 2, np.zeros(3, np.float32))
