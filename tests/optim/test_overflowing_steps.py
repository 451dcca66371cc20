"""A step that overflows is rejected, and no error, though an objective refuses parameters that are not finite."""

import numpy as np
import pytest

from hfrnn.errors import InputError
from hfrnn.optim.damping import Damping
from hfrnn.optim.hessian_free import HessianFree
from hfrnn.optim.hf_options import HessianFreeOptions
from hfrnn.optim.minimize import minimize
from hfrnn.optim.quadratic import TrialLosses


class Strict:
    """f = |theta|^2 / 2, which refuses what is not finite; its curvature is far too small."""

    def loss(self, theta):
        if not np.isfinite(theta).all():
            raise InputError("theta holds NaN or infinity")
        return 0.5 * float(theta.astype(float) @ theta)

    def loss_and_gradient(self, theta):
        return self.loss(theta), theta.copy()

    def gauss_newton(self, theta, structural=0.0, tikhonov=0.0, metric="hidden"):
        return self

    def apply(self, v, out):
        out[:] = v * np.float32(1e-30)


@pytest.mark.parametrize("kind", ["none", "line-search"])
def test_an_update_rejects_steps_to_infinity(kind):
    theta = np.full(3, 1e20, np.float32)
    with np.errstate(over="ignore"):
        update = HessianFree(Damping(kind), HessianFreeOptions(cg_iterations=1)).update(theta, Strict())
    assert np.isfinite(update.theta).all()
    assert update.loss_after <= update.loss_before


def test_the_loss_of_a_trial_step_to_infinity_is_infinite_and_counted():
    trials = TrialLosses(Strict(), np.full(3, 3e38, np.float32))
    with np.errstate(over="ignore"):
        assert trials(np.full(3, 3e38, np.float32)) == np.inf
    assert (trials.evaluations, trials.finite) == (1, 0)


def test_a_start_that_is_not_finite_is_wrong_input():
    with pytest.raises(InputError, match="theta holds NaN"):
        minimize(lambda t: np.nan, lambda t: t.copy(), lambda t: lambda v: v.copy(), np.full(3, np.nan))
