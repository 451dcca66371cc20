"""Tasks on threads: in order, bounded, with BLAS held to one thread."""

import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from hfrnn.arrays.threads import Threads, default_threads, one_blas_thread


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("threads", [1, 5])
def test_results_come_in_order_whichever_is_done_first(threads):
    def task(n):
        time.sleep(0.002 * (7 - n))
        return n

    assert list(Threads(threads).ordered(task, 7)) == list(range(7))
    assert list(Threads(threads).ordered(task, 0)) == []
    assert Threads().threads == default_threads() >= 1


@pytest.mark.parametrize("threads", [1, 3])
def test_tasks_that_share_a_slot_never_overlap_nor_outrun_their_consumer(threads):
    slots: list[int | None] = [None] * threads

    def task(n):
        assert slots[n % threads] is None
        slots[n % threads] = n
        time.sleep(0.001 * (n % 3))
        assert slots[n % threads] == n
        return n

    for n in Threads(threads).ordered(task, 11):
        time.sleep(0.001)
        assert slots[n % threads] == n  # the result is still there while its consumer works
        slots[n % threads] = None


def test_several_threads_really_run_at_once():
    both = threading.Barrier(2, timeout=10)
    assert len(list(Threads(2).ordered(lambda n: both.wait(), 2))) == 2


def test_blas_is_held_to_one_thread_inside_and_released_after():
    before = blas_threads()
    assert set(Threads(2).ordered(lambda n: tuple(blas_threads()), 3)) == {tuple(1 for _ in before)}
    with one_blas_thread():
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_task_reaches_the_caller_and_leaves_the_threads_usable(threads):
    def task(n):
        if n == 1:
            raise RuntimeError("task 1")
        return n

    before = blas_threads()
    with pytest.raises(RuntimeError, match="task 1"):
        list(Threads(threads).ordered(task, 4))
    assert blas_threads() == before
    assert list(Threads(threads).ordered(lambda n: n, 4)) == [0, 1, 2, 3]


def test_tasks_have_numpys_error_handling_of_the_caller():
    with np.errstate(over="ignore", divide="raise"):
        found = list(Threads(3).ordered(lambda n: np.geterr(), 7))
    assert all((each["over"], each["divide"]) == ("ignore", "raise") for each in found)
