"""The running average of a run's parameters, which is validated, kept and drawn from instead of the last ones.

    A1  m_1 = theta_1,  m_k = m_{k-1} + a_k * (theta_k - m_{k-1}),  a_k = max(1 - d, (n + 1) / (k + n)),  n = 16

At first the average follows the last few parameters, whose number grows with k; from where a_k would fall below 1 - d
on, it is exponential with decay d. Training itself never sees it.

Sources: the first part is the polynomial-decay averaging of Shamir & Zhang 2013, the second that of J. Martens,
*Second-Order Optimization for Neural Networks*, 2016; docs/hf-and-first-order.md has what it gains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfrnn.optim.cg import Array

AVERAGE = "average"
"""The name of the vector in a `state_dict`."""
LAG = 16
"""n of A1."""


class Average:
    """A running average of vectors: `value`, (n,) or None where there is none, of `count` of them.

    Parameters
    ----------
    decay : float
        d, from 0, below 1; with 0 there is no average.
    """

    def __init__(self, decay: float) -> None:
        self.decay, self.count = decay, 0
        self.value: Array | None = None

    def add(self, theta: Array) -> None:
        """Take in another vector (n,)."""
        if not self.decay:
            return
        self.count += 1
        if self.value is None:
            self.value = theta.copy()
            return
        change = theta - self.value
        change *= max(1 - self.decay, (LAG + 1) / (self.count + LAG))
        self.value += change  # A1

    def state_dict(self) -> dict[str, Any]:
        """The vector, a copy or None, and how many it is of: going on after `load_state_dict` gives the same bits."""
        return {AVERAGE: None if self.value is None else self.value.copy(), "averaged": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict`, also as a part of another one; its vector has to be where theta is."""
        self.value, self.count = state.get(AVERAGE), int(state.get("averaged", 0))
