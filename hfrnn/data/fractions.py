"""The shares of data for training, validation and test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hfrnn.checks import number, wrong
from hfrnn.errors import InputError

DEFAULT_FRACTIONS = (0.9, 0.1, 0.0)
"""The last tenth validates, unless shares are given."""


def checked_fractions(fractions: Sequence[float]) -> tuple[float, float, float]:
    """Return three valid shares or raise an error."""
    given: Any = fractions
    given = given.tolist() if isinstance(given, np.ndarray) and given.ndim == 1 else given
    if not isinstance(given, list | tuple):
        raise wrong("fractions", fractions, "give three numbers in [0, 1] with sum 1")
    shares = tuple(number("a share of fractions", share) for share in given)
    shown = ", ".join(f"{share:g}" for share in shares)
    if len(shares) != 3 or not all(0 <= share <= 1 for share in shares):
        raise InputError(f"the fractions of train, valid and test must be three numbers in [0, 1], not ({shown})")
    if not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise InputError(f"the fractions of train, valid and test must sum to 1, but ({shown}) sum to {sum(shares):g}")
    return shares[0], shares[1], shares[2]
