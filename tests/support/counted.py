"""A function whose losses are counted, for tests of the updates of Hessian-free optimization."""

import math
from types import SimpleNamespace

import numpy as np

from hfrnn.optim.damping import Damping, LevenbergMarquardt
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions

n = 12
DIAGONAL = np.linspace(0.5, 3.0, n)


class Counted:
    """The function floor + sum d*x^2/2 + x^4/4, which counts its losses; gradient `breaks` has the loss `broken`."""

    floor = 100.0  # so that no quadratic promises a quarter of it

    def __init__(self, breaks=None, broken=math.nan):
        self.losses, self.gradients, self.breaks, self.broken = 0, 0, breaks, broken

    def _f(self, theta):
        return self.floor + float((DIAGONAL * theta**2).sum() / 2 + (theta**4).sum() / 4)

    def loss(self, theta):
        self.losses += 1
        return self._f(theta)

    def loss_and_gradient(self, theta):
        self.gradients += 1
        f = self.broken if self.gradients == self.breaks else self._f(theta)
        return f, DIAGONAL * theta + theta**3

    def gauss_newton(self, theta, structural=0.0, tikhonov=0.0, metric="hidden"):
        matrix = DIAGONAL + 3 * theta**2 + structural + tikhonov
        return SimpleNamespace(apply=lambda v, out: np.multiply(matrix, v, out=out))


CALM = LevenbergMarquardt(low=0.0, high=1e9)
"""A rule that changes the damping only after a failure."""


def make(every=4, **more):
    options = HessianFreeOptions(cg_iterations=2, warm_start=0.0, mu_growth=None, rho_every=every, **more)
    return HessianFree(Damping("tikhonov", lambda_=1.0), options, CALM)


def start():
    return np.cos(np.arange(n)) * 2
