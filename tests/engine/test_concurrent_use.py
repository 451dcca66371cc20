"""One objective used by several Python threads at once, and in child processes made by fork."""

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.engine_cases import small_problem
from threadpoolctl import threadpool_info

import hfrnn
from hfrnn.engine.plan import Keep, Plan

CALLERS = 4


def routines(objective: hfrnn.Objective, theta: Any) -> dict[str, Callable[[float], Any]]:
    net = objective.net
    G = objective.gauss_newton(theta, structural=0.3, tikhonov=0.1)
    H, J = objective.hessian(theta), objective.jacobian(theta)
    u = np.random.default_rng(0).standard_normal(J.shape[0])
    return {
        "loss": lambda factor: objective.loss(factor * theta),
        "gradient": lambda factor: objective.loss_and_gradient(factor * theta)[1],
        "squared gradients": lambda factor: objective.squared_gradients(factor * theta),
        "another G": lambda factor: objective.gauss_newton(factor * theta) @ theta,
        "J' u": lambda factor: J.rmatvec(factor * u),
    } | {name: lambda factor, A=A: A @ (factor * net.init(seed=4)) for name, A in (("G", G), ("H", H), ("J", J))}


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.slow
@pytest.mark.parametrize("keep", list(Keep))
def test_four_python_threads_get_the_results_of_one(keep):
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch, threads=2, plan=Plan((0, 1, 2, 4), 4, keep))
    functions = routines(objective, theta)
    expected = {name: [function(1 + n / CALLERS) for n in range(CALLERS)] for name, function in functions.items()}
    before, start = blas_threads(), threading.Barrier(CALLERS)

    def wrong(n):
        start.wait(timeout=60)
        names = [name for k in range(5) for name in (functions if k % 2 else reversed(functions))]
        return [name for name in names if not np.array_equal(functions[name](1 + n / CALLERS), expected[name][n])]

    with ThreadPoolExecutor(CALLERS) as executor:
        assert list(executor.map(wrong, range(CALLERS))) == [[]] * CALLERS
    assert blas_threads() == before


def test_an_objective_that_takes_over_buffers_waits_for_the_one_before_it():
    net, batch, theta = small_problem()
    plan = Plan((0, 2, 4), None, Keep.ALL)
    first = hfrnn.Objective(net, batch, threads=2, plan=plan)
    G = first.gauss_newton(theta, tikhonov=1.0)
    expected = G @ theta
    second = hfrnn.Objective(net, batch, threads=2, plan=plan, like=first)
    loss = second.loss_and_gradient(theta)[1]

    def caller(n):
        if n % 2:
            return all(np.array_equal(G @ theta, expected) for _ in range(20))
        return all(np.array_equal(second.loss_and_gradient(theta)[1], loss) for _ in range(20))

    with ThreadPoolExecutor(CALLERS) as executor:
        assert all(executor.map(caller, range(CALLERS)))


fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")


def in_a_forked_process(function: Callable[[], Any]) -> Any:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=lambda: answers.put(function()))
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        pytest.fail("the child process hangs")
    assert process.exitcode == 0
    return answers.get()


@fork
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent():
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch, threads=2, plan=Plan((0, 2, 4), None, Keep.ALL))
    loss, before = objective.loss(theta), blas_threads()
    forks, held = threading.Event(), threading.Event()

    def hold():
        from hfrnn.arrays.threads import one_blas_thread

        with objective.lock, one_blas_thread():
            held.set()
            forks.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        assert in_a_forked_process(lambda: (objective.loss(theta), blas_threads())) == (loss, before)
    finally:
        forks.set()
        thread.join()
    assert blas_threads() == before
