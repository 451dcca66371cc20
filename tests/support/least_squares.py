"""Least squares problems, with counted calls and losses that can be bent, and what the tests ask of updates."""

import dataclasses
import math

import numpy as np

from hfrnn.optim.hessian_free import Update


class Product:
    def __init__(self, matrix):
        self.matrix = matrix

    def apply(self, v, out):
        out[:] = self.matrix @ v


class LeastSquares:
    """f = |residual|^2 / 2; the structural matrix is diagonal; every call is counted, a loss can be bent."""

    def __init__(self, residual, jacobian, bend=lambda theta, f: f):
        self.residual, self.jacobian, self.bend = residual, jacobian, bend
        self.losses, self.asked = 0, []

    def value(self, theta):
        r = self.residual(theta)
        return float(r.astype(np.float64) @ r.astype(np.float64)) / 2

    def loss(self, theta):
        self.losses += 1
        return self.bend(theta, self.value(theta))

    def loss_and_gradient(self, theta):
        return self.value(theta), self.jacobian(theta).T @ self.residual(theta)

    def matrix(self, theta, structural=0.0, tikhonov=0.0):
        j, n = self.jacobian(theta), theta.size
        return j.T @ j + structural * np.diag(np.arange(n) % 3).astype(theta.dtype) + tikhonov * np.eye(n, dtype="f4")

    def gauss_newton(self, theta, structural=0.0, tikhonov=0.0, metric="hidden"):
        self.asked.append((structural, tikhonov, metric))
        return Product(self.matrix(theta, structural, tikhonov).astype(theta.dtype))


def rosenbrock(**options):
    def residual(theta):
        x, y = theta
        return np.array([1.0 - x, 10.0 * (y - x * x)]) * math.sqrt(2.0)

    def jacobian(theta):
        return np.array([[-1.0, 0.0], [-20.0 * theta[0], 10.0]]) * math.sqrt(2.0)

    return LeastSquares(residual, jacobian, **options)


TRUE = np.array([2.0, -1.3, 0.7, -0.2])


def exponentials(noise=0.0, **options):
    """Two decaying exponentials through 30 points; the minimum without noise is TRUE, with f = 0."""
    t = np.linspace(0.0, 4.0, 30)
    y = TRUE[0] * np.exp(TRUE[1] * t) + TRUE[2] * np.exp(TRUE[3] * t)
    y = y + noise * np.random.default_rng(0).standard_normal(30)

    def residual(theta):
        return theta[0] * np.exp(theta[1] * t) + theta[2] * np.exp(theta[3] * t) - y

    def jacobian(theta):
        first, second = np.exp(theta[1] * t), np.exp(theta[3] * t)
        return np.stack([first, theta[0] * t * first, second, theta[2] * t * second], axis=1)

    return LeastSquares(residual, jacobian, **options)


def linear(n=30, dtype=np.float64, seed=0, **options):
    rng = np.random.default_rng(seed)
    a = (rng.standard_normal((n + 10, n)) * np.geomspace(0.3, 3.0, n)).astype(dtype)
    y = rng.standard_normal(n + 10).astype(dtype)
    return LeastSquares(lambda theta: a @ theta - y, lambda theta: a, **options), a, y


def wavy(n=40, seed=0, strength=2.0, rows=slice(None), **options):
    """Residuals tanh(A theta) - y: smooth, not convex, CG needs many iterations; `rows` takes a part of the data."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n + 20, n)) * np.geomspace(0.05, strength, n)
    y = np.tanh(a @ rng.standard_normal(n))
    a, y = a[rows], y[rows]

    def residual(theta):
        return np.tanh(a @ theta) - y

    def jacobian(theta):
        return (1.0 - np.tanh(a @ theta) ** 2)[:, None] * a

    return LeastSquares(residual, jacobian, **options)


def with_squares(objective):
    """The objective with D = its own diagonal."""
    objective.squared_gradients = lambda theta: (objective.jacobian(theta) ** 2).sum(axis=0)
    return objective


def run(optimizer, theta, objective, updates, **arguments):
    log = []
    for _ in range(updates):
        log.append(optimizer.update(theta, objective, **arguments))
        theta = log[-1].theta
    return theta, log


def same(first: Update, second: Update):
    a, b = dataclasses.asdict(first), dataclasses.asdict(second)
    for each in (a, b):
        del each["seconds"]
    return np.array_equal(a.pop("theta"), b.pop("theta")) and repr(a) == repr(b)


def solution_of(optimizer):
    return optimizer.state_dict()["cg_solution"]


def bent_beyond(threshold, to):
    """A loss that turns into `to` where |theta| passes the threshold."""
    return lambda theta, f: to if np.linalg.norm(theta) > threshold else f
