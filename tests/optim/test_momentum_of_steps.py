"""Steps of Hessian-free optimization with momentum (H16)."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from support.counted import Counted, make, start

import hfrnn
from hfrnn.errors import InputError
from hfrnn.optim.damping import Damping
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions
from hfrnn.optim.outcome import Failure

SHARE = 0.7


def solution(theta, f):
    """The step of an update without momentum."""
    return make().update(theta, f).theta - theta


@pytest.mark.parametrize("before", [0, 500])
def test_a_step_is_a_share_of_the_last_one_and_a_part_of_the_solution(before):
    optimizer, f, theta = make(momentum=SHARE), Counted(), start()
    optimizer.updates = before
    last = None
    for k in range(before, before + 6):
        own, m = solution(theta, f), SHARE * min(1, k / 100)
        last = own if last is None else m * last + (1 - m**2) * own
        update = optimizer.update(theta, f)
        np.testing.assert_allclose(update.theta - theta, last, rtol=1e-10, atol=1e-12)
        assert update.step_norm == pytest.approx(np.linalg.norm(last), rel=1e-10)
        theta = update.theta


def test_a_loss_that_was_not_computed_is_not_reported():
    optimizer, f, theta = make(momentum=SHARE), Counted(), start()
    first = optimizer.update(theta, f)
    assert first.loss_after == f.loss(first.theta)
    second = optimizer.update(first.theta, f)
    assert math.isfinite(second.rho)
    assert math.isnan(second.loss_after)
    assert second.loss == second.loss_before


def test_a_failed_update_forgets_the_last_step():
    f = Counted(breaks=4, broken=1e9)  # the fourth gradient says that the third step was bad
    optimizer, theta = make(momentum=SHARE), start()
    for _ in range(3):
        theta = optimizer.update(theta, f).theta
    undone = optimizer.update(theta, f)
    assert undone.failed is Failure.DIVERGED
    assert "last_step" not in optimizer.state_dict()
    strength = optimizer.damping.lambda_
    alone = HessianFree(Damping("tikhonov", lambda_=strength), HessianFreeOptions(cg_iterations=2, mu_growth=None))
    expected = alone.update(undone.theta, Counted()).theta
    np.testing.assert_allclose(optimizer.update(undone.theta, f).theta, expected, rtol=1e-12)


def test_going_on_after_a_load_gives_the_same_bits():
    optimizer, f, theta = make(momentum=SHARE), Counted(), start()
    for _ in range(3):
        theta = optimizer.update(theta, f).theta
    state, other = optimizer.state_dict(), make(momentum=SHARE)
    other.load_state_dict(state)
    state["last_step"][:] = 7.0  # the state is a copy
    for _ in range(3):
        update, again = optimizer.update(theta, f), other.update(theta, f)
        np.testing.assert_array_equal(update.theta, again.theta)
        theta = update.theta


def test_a_last_step_of_another_shape_is_refused():
    optimizer, f = make(momentum=SHARE), Counted()
    theta = optimizer.update(start(), f).theta
    optimizer.load_state_dict({**optimizer.state_dict(), "last_step": np.ones(3)})
    with pytest.raises(InputError, match="the last step"):
        optimizer.update(theta, f)


def test_a_last_step_that_is_not_finite_is_refused():
    optimizer = make(momentum=SHARE)
    with pytest.raises(InputError, match="last_step of the state"):
        optimizer.load_state_dict({**optimizer.state_dict(), "last_step": np.full(12, np.nan)})


def test_without_momentum_a_loaded_last_step_changes_nothing():
    optimizer, alone, f, theta = make(momentum=SHARE), make(), Counted(), start()
    theta = optimizer.update(theta, f).theta
    alone.load_state_dict(optimizer.state_dict())
    update = alone.update(theta, f)
    assert update.loss_after == f.loss(update.theta)


def test_a_run_from_before_the_option_goes_on_without_momentum():
    values = {**hfrnn.TrainConfig(optimizer="hf", text="a").resolved().values, "momentum": None}
    assert HessianFreeOptions.from_run(values).momentum == 0.0


class Bowl:
    """The function 1e6 + |theta|^2 / 2, whose gradients have noise of variance 1."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def loss(self, theta):
        return 1e6 + float(theta @ theta) / 2

    def loss_and_gradient(self, theta):
        return self.loss(theta), theta + self.rng.normal(size=len(theta))

    def gauss_newton(self, theta, structural=0.0, tikhonov=0.0, metric="hidden"):
        return SimpleNamespace(apply=lambda v, out: np.copyto(out, v))


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.6, 0.8])
def test_near_a_minimum_the_weights_are_as_noisy_as_without_momentum(momentum):
    options = HessianFreeOptions(cg_iterations=1, warm_start=0.0, mu_growth=None, rho_every=10**6, momentum=momentum)
    optimizer, f, theta = HessianFree(Damping("none"), options), Bowl(), np.full(2000, 100.0)
    optimizer.updates = 500  # after the rise
    variances = []
    for _ in range(200):
        theta = optimizer.update(theta, f).theta
        variances.append(theta @ theta / len(theta))
    assert np.mean(variances[60:]) == pytest.approx(1.0, rel=0.03)
