"""Adam against its formula."""

import numpy as np
import pytest

from hfrnn.errors import NonFiniteError
from hfrnn.optim.first_order import Adam, AdamOptions

START = np.array([1.0, -2.0, 0.5])
RATES = (0.1, 0.1, 0.05, 0.2, 0.1)


def gradient(theta):
    return np.array([1.0, 3.0, 10.0]) * theta + 0.1 * theta**2


@pytest.mark.parametrize(("betas", "decay"), [((0.9, 0.999), 0.3), ((0.5, 0.7), 0.0), ((0.0, 0.9), 0.3)])
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


def test_a_step_after_which_it_would_stand_still_for_good_is_not_made():
    with pytest.raises(NonFiniteError, match="step is not finite"):  # the square of the gradient is infinite
        Adam().step(START.astype("f4"), np.array([1.0, 1e25, 1.0], "f4"), 0.1)
