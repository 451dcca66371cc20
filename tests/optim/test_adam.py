"""Adam against its formula."""

import dataclasses

import numpy as np
import pytest

from hfrnn.errors import InputError
from hfrnn.optim.first_order import Adam, AdamOptions

START = np.array([1.0, -2.0, 0.5])
RATES = (0.1, 0.1, 0.05, 0.2, 0.1)


def gradient(theta):
    return np.array([1.0, 3.0, 10.0]) * theta + 0.1 * theta**2


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.7), (0.0, 0.9)])
def test_steps_are_those_of_the_formula_with_bias_correction(betas, decay):
    theta, w, m, v = START, START, np.zeros(3), np.zeros(3)
    optimizer = Adam(AdamOptions(*betas, epsilon=1e-3, decay=decay))
    for t, lr in enumerate(RATES, 1):
        g = gradient(w)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        w = w - lr * (m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + 1e-3) + decay * w)
        theta = optimizer.step(theta, gradient(theta), lr)
        assert theta == pytest.approx(w, rel=1e-13)


def test_the_first_step_is_the_learning_rate_along_each_sign():
    for scale in (1e-3, 1e3):
        step = Adam().step(START, scale * gradient(START), 0.01) - START
        assert step == pytest.approx(-0.01 * np.sign(gradient(START)), rel=2e-5)


def test_decay_is_decoupled_from_the_running_means():
    plain, decayed = Adam(), Adam(AdamOptions(decay=0.5))
    difference = decayed.step(START, gradient(START), 0.1) - plain.step(START, gradient(START), 0.1)
    assert difference == pytest.approx(-0.1 * 0.5 * START, rel=1e-13)
    for name in plain.vectors:
        assert np.array_equal(plain.state_dict()[name], decayed.state_dict()[name])


def test_an_entry_without_gradient_stays_where_it_is():
    theta, optimizer = START, Adam()
    for lr in RATES:
        theta = optimizer.step(theta, gradient(theta) * np.array([1.0, 0.0, 1.0]), lr)
    assert theta[1] == START[1]


def test_the_defaults_are_those_of_its_authors():
    assert dataclasses.astuple(Adam().options) == (0.9, 0.999, 1e-8, 0.0)


@pytest.mark.parametrize(
    "options", [{"beta1": 1.0}, {"beta1": -0.1}, {"beta2": 1.0}, {"beta2": np.nan}, {"epsilon": 0.0}, {"decay": -1.0}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        AdamOptions(**options)
