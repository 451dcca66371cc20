"""Trust-region policy optimization of a recurrent network: the natural gradient with exact Fisher products.

A cue, +1 or -1, appears at the first step. Noise follows. At the last step the network chooses one of two actions and
is rewarded if the action matches the cue, so it must remember the cue. Every update

    1  draws episodes of the policy p(action | inputs),
    2  estimates the gradient g of the expected reward from the gradients of single sequences and their rewards,
    3  solves (F + damping*I) x = g by conjugate gradient, where F is the Fisher matrix of the policy,
    4  steps along x to a mean KL divergence of DIVERGENCE, and halves the step until the constraint holds.

For a softmax policy, F is the Gauss-Newton matrix of the cross-entropy, whatever the targets. gaussian_policy.py has
continuous actions.

    pip install .                            in a copy of the project
    python examples/trust_region.py          some seconds

References
----------
J. Schulman, S. Levine, P. Moritz, M. Jordan, P. Abbeel, Trust region policy optimization, 2015.
S. Kakade, A natural policy gradient, 2001.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hfrnn
from hfrnn.optim.cg import conjugate_gradient

STEPS, EPISODES = 12, 200
DIVERGENCE = 0.02
"""Largest mean KL divergence between the policies before and after an update, in nats."""
DAMPING = 1e-3

Values = NDArray[np.float64]


def inputs(count: int, rng: np.random.Generator) -> Values:
    """Return the inputs (STEPS, count, 1): a cue at the first step, noise after it."""
    x = 0.5 * rng.standard_normal((STEPS, count, 1))
    x[0, :, 0] = rng.choice((-1.0, 1.0), count)
    return x


def policy(net: hfrnn.Network, theta: Any, x: Values) -> Values:
    """Return the log-probabilities of the two actions at the last step, (count, 2)."""
    z = net.run(theta, hfrnn.Batch(x))[0][-1]
    log_p: Values = z - np.logaddexp(z[:, :1], z[:, 1:])
    return log_p


def divergence(old: Values, new: Values) -> float:
    """Return the mean KL divergence of two policies, given their log-probabilities."""
    return float((np.exp(old) * (old - new)).sum(axis=1).mean())


def update(net: hfrnn.Network, theta: Any, rng: np.random.Generator) -> tuple[Any, float, float]:
    """Draw episodes and make one update; return theta, the mean reward before it, and the KL divergence."""
    x = inputs(EPISODES, rng)
    before = policy(net, theta, x)
    actions = (rng.random(EPISODES) < np.exp(before[:, 1])).astype(np.int64)
    reward = (actions == (x[0, :, 0] > 0)).astype(np.float64)
    targets, weights = np.zeros((STEPS, EPISODES), dtype=np.int64), np.zeros((STEPS, EPISODES))
    targets[-1], weights[-1] = actions, 1.0
    objective = hfrnn.Objective(net, hfrnn.Batch(x, targets, weights))
    rows = objective.per_sequence_gradients(theta)  # of -log p(action)
    g = -(reward - reward.mean()) @ rows / EPISODES
    F = objective.gauss_newton(theta, tikhonov=DAMPING)
    direction = conjugate_gradient(F.apply, g, max_iterations=20).x
    curvature = float(direction @ (F @ direction))
    if curvature <= 0:  # all rewards were equal
        return theta, float(reward.mean()), 0.0
    step = math.sqrt(2 * DIVERGENCE / curvature) * direction
    for _ in range(10):
        moved = divergence(before, policy(net, theta + step, x))
        if moved <= DIVERGENCE:
            return theta + step, float(reward.mean()), moved
        step = step / 2
    return theta, float(reward.mean()), 0.0


def train(updates: int = 80, seed: int = 0) -> list[tuple[float, float]]:
    """Return the mean reward before every update, and its KL divergence."""
    rng = np.random.default_rng(seed)
    net = hfrnn.Network("lstm", n_in=1, hidden=8, n_out=2, dtype="float64")
    theta, history = net.init(seed), []
    for _ in range(updates):
        theta, reward, moved = update(net, theta, rng)
        history.append((reward, moved))
    return history


if __name__ == "__main__":
    for number, (reward, moved) in enumerate(train()):
        if number % 5 == 0:
            print(f"update {number:3d}   mean reward {reward:.3f}   KL divergence {moved:.4f}")
