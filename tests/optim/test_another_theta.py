"""An optimizer that gets other parameters than those that it returned (H17)."""

import numpy as np
import pytest
from support.counted import Counted, make, start

from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions

OPTIONS = HessianFreeOptions(cg_iterations=2, mu_growth=None, momentum=0.7)


def used():
    """An optimizer that has made three updates, and the theta that it returned."""
    optimizer, theta = HessianFree(options=OPTIONS), start()
    for _ in range(3):
        theta = optimizer.update(theta, Counted()).theta
    return optimizer, theta


@pytest.mark.parametrize("other", [-4.0 * start(), 1.5 * start()[::-1]])
def test_a_new_start_is_neither_undone_nor_moved_by_the_last_step(other):
    optimizer, _ = used()
    fresh = HessianFree(optimizer.damping, OPTIONS)
    fresh.updates = optimizer.updates
    for _ in range(2):
        update, expected = optimizer.update(other, Counted()), fresh.update(other, Counted())
        np.testing.assert_array_equal(update.theta, expected.theta)
        other = update.theta


def test_a_theta_in_single_precision_is_still_that_of_the_optimizer():
    optimizer, theta = used()
    (again, _), rounded = used(), theta.astype("float32").astype(float)
    expected = again.update(theta, Counted()).theta - theta
    np.testing.assert_allclose(optimizer.update(rounded, Counted()).theta - rounded, expected, rtol=1e-3, atol=1e-6)
    assert optimizer.state_dict()["before"] is not None


def test_a_failure_before_a_new_start_does_not_count():
    optimizer, theta = make(), start()
    theta = optimizer.update(theta, Counted()).theta
    optimizer.failures = 9
    assert optimizer.update(10 * start(), Counted()).failures == 0
