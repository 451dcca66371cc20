"""A share between 0 and 1 of a layer's units: one fixed number, or sigma(q) with one learned q for each unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hfrnn.arrays.initializers import Initializer, constant
from hfrnn.errors import InputError
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import sigmoid_


@dataclass(frozen=True)
class Share:
    """The share of a layer.

    Parameters
    ----------
    name : str
        The name of the option, for messages and for the buffer.
    start : float
        The share, or where it starts if it is learned; then q starts at its logit.
    learned : bool

    Raises
    ------
    InputError
        A learned share starts at 0 or 1, whose logit is infinite.
    """

    name: str
    start: float
    learned: bool

    def __post_init__(self) -> None:
        if self.learned and not 0 < self.start < 1:
            raise InputError(
                f"{self.name} is {self.start!r}: learned, it starts between 0 and 1, neither of them included"
            )

    def shapes(self, units: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of q, by name; nothing if the share is fixed."""
        return {"q": (units,)} if self.learned else {}

    def initializers(self) -> dict[str, Initializer]:
        """Return the initializer of q, by name; nothing if the share is fixed."""
        return {"q": constant(math.log(self.start / (1 - self.start)))} if self.learned else {}

    def value(self, p: Arrays, tape: Tape) -> Any:
        """Return the share: a number, or an array (units,)."""
        if not self.learned:
            return self.start
        share = tape.scratch(self.name, *p["q"].shape)
        share[...] = p["q"]
        sigmoid_(tape.xp, share)
        return share
