"""Running average of the parameters of a run. Validation, `best` and sampling use it in place of the last parameters.

    A1  m_1 = theta_1,  m_k = m_{k-1} + a_k * (theta_k - m_{k-1}),  a_k = max(1 - d, (n + 1) / (k + n)),  n = 8

At first the average covers the last few updates, and this window grows with k. As soon as a_k reaches 1 - d, the
average is exponential with decay d. Training itself never uses it.

References: the first part is the polynomial-decay averaging of Shamir & Zhang 2013, the second that of J. Martens,
*Second-Order Optimization for Neural Networks*, 2016. benchmarks/diary/presets.md shows what it gains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.vectors import Vector, is_on_host
from hfrnn.checks import BELOW_ONE, count, number, shown
from hfrnn.errors import InputError

AVERAGE = "average"
"""Name of the vector in a `state_dict`."""
LAG = 8
"""n of A1."""


class Average:
    """Running average of vectors.

    Parameters
    ----------
    decay : float
        d of A1, from 0 up to but not 1; 0 turns the average off.

    Attributes
    ----------
    count : int
        Number of vectors so far.
    value : (n,) array or None
        Average of these vectors; None without one.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.average import Average
    >>> average = Average(0.5)
    >>> for value in (1.0, 2.0, 3.0):
    ...     average.add(np.array([value]))
    >>> average.value.round(3).tolist()
    [2.8]
    """

    def __init__(self, decay: float) -> None:
        self.decay, self.count = number("decay", decay, BELOW_ONE), 0
        self.value: Vector | None = None

    def add(self, theta: Vector) -> None:
        """Add another vector (n,) to the average; on a device, the caller knows that it is finite."""
        shape = (None,) if self.value is None else self.value.shape
        theta = array("theta", theta, shape, "f", finite=is_on_host(theta))
        if not self.decay:
            return
        self.count += 1
        if self.value is None:
            self.value = theta.copy()
            return
        self._move(self.value, theta, max(1 - self.decay, (LAG + 1) / (self.count + LAG)))

    def restart(self) -> None:
        """Start a new average. The next vector is its first."""
        self.count, self.value = 0, None

    def _move(self, value: Vector, theta: Vector, share: float) -> None:
        """Move the average (n,) towards theta by this share of the distance."""
        change = theta - value
        change *= share
        value += change  # A1

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the average, or None, and the number of vectors."""
        return {AVERAGE: None if self.value is None else self.value.copy(), "averaged": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a `state_dict`, which may have other entries too; its vector must be on the device of theta."""
        if not isinstance(state, Mapping):
            raise InputError(f"state is {shown(state)}: give the state_dict of an Average")
        if missing := [name for name in (AVERAGE, "averaged") if name not in state]:
            raise InputError(f"the state lacks {', '.join(missing)}: give the state_dict of an Average")
        value, averaged = state[AVERAGE], count("averaged of the state", state["averaged"])
        if averaged and self.decay and value is None:
            raise InputError(f"the state counts {averaged} averaged vectors and lacks their {AVERAGE}")
        self.value = None if value is None else array(f"{AVERAGE} of the state", value, (None,), "f").copy()
        self.count = averaged
