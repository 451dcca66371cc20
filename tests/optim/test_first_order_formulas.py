"""Gradient descent with momentum, Nesterov's variant and decay, and Adam, against their formulas."""

import numpy as np
import pytest

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.first_order import SGD, Adam, AdamOptions, SGDOptions

A = np.diag([1.0, 3.0, 10.0])
START = np.array([1.0, -2.0, 0.5])
RATES = (0.05, 0.05, 0.02, 0.03)


def bowl(theta):
    """The gradient of theta.A theta/2."""
    return A @ theta


def steps(optimizer, rates=RATES):
    theta = START
    for lr in rates:
        theta = optimizer.step(theta, bowl(theta), lr)
    return theta


@pytest.mark.parametrize("decay", [0.0, 0.2])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_is_that_of_the_thesis(momentum, decay):
    w, M = START, np.zeros(3)
    for lr in RATES:
        M = momentum * M - lr * bowl(w)
        w = w + M - lr * decay * w
    assert steps(SGD(SGDOptions(momentum, decay=decay))) == pytest.approx(w, rel=1e-14)


def test_nesterov_takes_its_gradients_where_momentum_leads():
    x, M = START, np.zeros(3)
    for _ in range(5):
        M = 0.8 * M - 0.05 * bowl(x + 0.8 * M)
        x = x + M
    found = steps(SGD(SGDOptions(0.8, nesterov=True)), rates=[0.05] * 5)
    assert found == pytest.approx(x + 0.8 * M, rel=1e-13)
    assert np.abs(found - steps(SGD(SGDOptions(0.8)), rates=[0.05] * 5)).max() > 1e-3


def test_nesterov_decays_like_the_plain_variant():
    M = -0.05 * bowl(START)
    expected = START + 0.8 * M - 0.05 * bowl(START) - 0.05 * 0.2 * START
    assert steps(SGD(SGDOptions(0.8, True, 0.2)), rates=[0.05]) == pytest.approx(expected, rel=1e-14)


def test_a_step_that_only_the_parameters_cannot_hold_is_not_made():
    optimizer = SGD()
    with pytest.raises(NonFiniteError, match="step is not finite"):
        optimizer.step(np.array([3e38, 1.0], "f4"), np.array([-2e38, 1.0], "f4"), 1.0)
    assert optimizer.state_dict()["momentum"] is None


def test_large_finite_numbers_are_finite():
    theta = np.full(9, -1e308)
    assert np.array_equal(SGD().step(theta, theta, 1e-300), theta)


def test_nesterov_without_momentum_is_refused():
    with pytest.raises(InputError, match="nesterov"):
        SGDOptions(momentum=0.0, nesterov=True)


@pytest.mark.parametrize(("betas", "decay"), [((0.9, 0.999), 0.3), ((0.5, 0.7), 0.0), ((0.0, 0.9), 0.3)])
def test_steps_of_adam_have_the_bias_correction(betas, decay):
    theta, w, m, v = START, START, np.zeros(3), np.zeros(3)
    optimizer = Adam(AdamOptions(*betas, epsilon=1e-3, decay=decay))
    for t, lr in enumerate((0.1, 0.1, 0.05, 0.2, 0.1), 1):
        g = bowl(w)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        w = w - lr * (m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + 1e-3) + decay * w)
        theta = optimizer.step(theta, bowl(theta), lr)
        assert theta == pytest.approx(w, rel=1e-13)


def test_a_step_after_which_adam_would_stand_still_for_good_is_not_made():
    with pytest.raises(NonFiniteError, match="step is not finite"):  # the square of the gradient is infinite
        Adam().step(START.astype("f4"), np.array([1.0, 1e25, 1.0], "f4"), 0.1)
