"""Updates with line-search damping beside the printed lines of [K]: Algorithms 3 and 5, and the rules of 4.1."""

import numpy as np
import pytest

import hfrnn

TAU, MAX_ITERATIONS, IDLE = 0.5, 10, 5


def direction_search(f, x_f, step):
    """Algorithm 5: the loss falls from F at the whole step to F2 at tau*eps."""
    eps, F, decays = 1.0, f(x_f + step), 0
    for _ in range(MAX_ITERATIONS):
        F2 = f(x_f + TAU * eps * step)
        if F2 >= F:
            break
        F, eps, decays = F2, TAU * eps, decays + 1
    failed = decays == MAX_ITERATIONS and f(x_f) <= F  # 4.1
    return (x_f if failed else x_f + eps * step), failed


def printed(theta, whole, trial, G, iterations):
    """Return theta after an update, the length of the last step, and which directions failed."""
    b, x, x_f, failures = whole.loss_and_gradient(theta)[1], 0.0 * theta, 0.0 * theta, []
    r = G @ x + b
    S = -r  # Algorithm 3
    while len(failures) < iterations and sum(failures) <= IDLE:
        AS = G @ S
        alpha = -S @ r / (S @ AS)
        x = x + alpha * S  # 3.31
        x_f, failed = direction_search(lambda each: trial.loss(theta + each), x_f, alpha * S)  # 3.32
        failures.append(failed)
        r = G @ x + b
        S = -r + (r @ AS) / (S @ AS) * S
    steps = 0.8 ** np.arange(12)  # 4.1: the step size that minimises the error of the training set
    step = min(steps, key=lambda each: whole.loss(theta + each * x_f))
    return theta + step * x_f, step, failures


@pytest.mark.parametrize("losses", ["gradient", "curvature"])
def test_updates_are_those_of_the_printed_algorithm(losses):
    rng, net = np.random.default_rng(4), hfrnn.Network("mrnn", n_in=4, hidden=5, n_out=4, dtype="float64")
    ours = theirs = 0.5 * rng.standard_normal(net.n_parameters)
    options = hfrnn.HessianFreeOptions(
        cg_iterations=9, cg_epsilon=0.0, warm_start=0.0, line_search="minimum", rho_objective=losses
    )
    optimizer, shortened, failed = hfrnn.HessianFree(hfrnn.Damping("line-search"), options), set(), set()
    for _ in range(2):
        symbols = rng.integers(4, size=(6, 24))
        whole, part = (
            hfrnn.Objective(net, hfrnn.Batch(symbols[:-1, :count], symbols[1:, :count]), threads=1) for count in (24, 6)
        )
        update, trial = optimizer.update(ours, whole, part), whole if losses == "gradient" else part
        theirs, step, failures = printed(theirs, whole, trial, part.gauss_newton(theirs), 9)
        ours = update.theta
        assert update.cg_iterations == len(failures)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)
        shortened.add(step < 1.0)
        failed.add(sum(failures))
    assert shortened == {False, True}
    assert max(failed) == IDLE + 1 > min(failed)  # one update ends by the rule of 4.1, the other by its limit
