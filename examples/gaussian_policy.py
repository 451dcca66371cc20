"""Trust-region policy optimization with continuous actions: exact Fisher products of a Gaussian policy.

A point in the plane is shown at the first step. Noise follows. At each of the last two steps the network has to name
the point: its action a is drawn from N(m, diag(s*s)), where the means m (ACTIONS, count, 2) are the outputs of the
network, and the deviations s, one for each coordinate, are parameters of their own. The reward is minus the squared
distance from the point, where the second coordinate counts four times as much as the first.

The parameters are phi = (theta, log s). The Fisher matrix of an episode's actions has two blocks, whatever the actions:

    theta    F = sum over steps of J' diag(1/(s*s)) J,  J = dm/dtheta                                              # P1
    log s    2 * ACTIONS * I                                                                                       # P2

P1 is the Gauss-Newton matrix of the squared loss with the weights 1/(s*s), (T, B, 2). With the actions as targets, that
loss is also -log p(actions) up to terms without theta. hfrnn divides it by W, the sum over steps of the mean weight, so
the Fisher matrix of an episode is W/B * G for B episodes. Fixed deviations need P1 only. The KL divergence of two
policies, summed over steps and coordinates, is

    KL = log(s'/s) + (s*s + (m - m')^2) / (2*s'*s') - 1/2                                                          # P3

and d.Fd/2 for a small step d. Every update solves (F + damping*I) d = g by conjugate gradient, where g is the gradient
of the expected reward. It steps along d to a mean KL divergence of DIVERGENCE, and shortens the step until the
constraint holds, as in trust_region.py.

    pip install .                            in a copy of the project
    python examples/gaussian_policy.py       some seconds

References
----------
J. Schulman, S. Levine, P. Moritz, M. Jordan, P. Abbeel, Trust region policy optimization, 2015.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import hfrnn
from hfrnn.optim.cg import conjugate_gradient

STEPS, ACTIONS, EPISODES = 10, 2, 200
DIVERGENCE = 0.02
"""Largest mean KL divergence between the policies before and after an update, in nats."""
DAMPING = 1e-3
COST = np.array([1.0, 4.0])
"""What the squared error of each coordinate costs."""

Values = NDArray[np.float64]


class Policy(NamedTuple):
    """The means of the actions of some episodes, (ACTIONS, B, 2), and the deviations, (2,)."""

    means: Values
    deviations: Values

    def divergence(self, new: Policy) -> float:
        """Return the mean over episodes of the KL divergence P3."""
        s, new_s = self.deviations, new.deviations
        terms = np.log(new_s / s) + (s**2 + (self.means - new.means) ** 2) / (2 * new_s**2) - 0.5
        return float(terms.sum(axis=(0, 2)).mean())


def inputs(count: int, rng: np.random.Generator) -> Values:
    """Return the inputs (STEPS, count, 2): a point at the first step, noise after it."""
    x = 0.2 * rng.standard_normal((STEPS, count, 2))
    x[0] = rng.uniform(-1, 1, (count, 2))
    return x


def policy(net: hfrnn.Network, phi: Values, x: Values) -> Policy:
    """Return the policy with the parameters phi for the inputs x."""
    return Policy(net.run(phi[:-2], hfrnn.Batch(x))[0][-ACTIONS:], np.exp(phi[-2:]))


class Fisher:
    """The derivatives of log p(actions), and products with the Fisher matrix.

    Parameters
    ----------
    net : Network
    phi : (n,) array
    x : (STEPS, B, 2) array
        Inputs of B episodes.
    actions : (ACTIONS, B, 2) array
    """

    def __init__(self, net: hfrnn.Network, phi: Values, x: Values, actions: Values) -> None:
        self.theta, now = phi[:-2], policy(net, phi, x)
        targets, weights = np.zeros_like(x), np.zeros_like(x)
        targets[-ACTIONS:], weights[-ACTIONS:] = actions, 1 / now.deviations**2
        self.errors = (actions - now.means) / now.deviations
        self.objective = hfrnn.Objective(net, hfrnn.Batch(x, targets, weights))
        self.G = self.objective.gauss_newton(self.theta)

    def scores(self) -> Values:
        """Return the gradient of log p(actions) of every episode, (B, n)."""
        of_theta = -self.objective.per_sequence_gradients(self.theta)
        return np.concatenate([of_theta, (self.errors**2 - 1).sum(axis=0)], axis=1)

    def apply(self, v: Values, out: Values) -> None:
        """out <- F v + DAMPING * v."""
        out[:-2] = self.objective.total_weight / self.errors.shape[1] * (self.G @ v[:-2])  # P1
        out[-2:] = 2 * ACTIONS * v[-2:]  # P2
        out += DAMPING * v


def update(net: hfrnn.Network, phi: Values, rng: np.random.Generator) -> tuple[Values, float, float]:
    """Draw episodes and make one update; return phi, the mean reward before it, and the KL divergence."""
    x = inputs(EPISODES, rng)
    before = policy(net, phi, x)
    actions = before.means + before.deviations * rng.standard_normal(before.means.shape)
    reward = -((actions - x[0]) ** 2 @ COST).mean(axis=0)
    fisher = Fisher(net, phi, x, actions)
    gradient = (reward - reward.mean()) @ fisher.scores() / EPISODES
    direction = conjugate_gradient(fisher.apply, gradient, max_iterations=20).x
    product = np.empty_like(direction)
    fisher.apply(direction, product)
    step = math.sqrt(2 * DIVERGENCE / float(direction @ product)) * direction
    for _ in range(20):
        moved = before.divergence(policy(net, phi + step, x))
        if moved <= DIVERGENCE:
            return phi + step, float(reward.mean()), moved
        step = 0.8 * step
    return phi, float(reward.mean()), 0.0


def train(updates: int = 100, seed: int = 0) -> tuple[Values, list[tuple[float, float]]]:
    """Return the deviations at the end, and of every update the mean reward before it and its KL divergence."""
    rng = np.random.default_rng(seed)
    net = hfrnn.Network("gru", n_in=2, hidden=8, n_out=2, loss="squared", dtype="float64")
    phi, history = np.concatenate([net.init(seed), np.log([0.5, 0.5])]), []
    for _ in range(updates):
        phi, reward, moved = update(net, phi, rng)
        history.append((reward, moved))
    return np.exp(phi[-2:]), history


if __name__ == "__main__":
    deviations, history = train()
    for number, (reward, moved) in enumerate(history):
        if number % 5 == 0:
            print(f"update {number:3d}   mean reward {reward:.3f}   KL divergence {moved:.4f}")
    print("deviations at the end:", deviations.round(3))
