"""Allowed values of options: declared once, in the metadata of a dataclass field, and checked in one loop."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from hfrnn.errors import InputError


@dataclass(frozen=True)
class Range:
    """An interval of numbers.

    Parameters
    ----------
    low, high : float
        Ends of the interval.
    low_open, high_open : bool
        Whether `low`, or `high`, itself is not allowed.
    """

    low: float
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        return above and (value < self.high if self.high_open else value <= self.high)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"above {self.low:g}" if self.low_open else f"of at least {self.low:g}"
        if self.low_open and self.high_open:
            return f"between {self.low:g} and {self.high:g}"
        return f"from {self.low:g} {'up to but not' if self.high_open else 'to'} {self.high:g}"


POSITIVE = Range(0.0, low_open=True)
NOT_NEGATIVE = Range(0.0)
FINITE_POSITIVE = Range(0.0, low_open=True, high_open=True)
FINITE_NOT_NEGATIVE = Range(0.0, high_open=True)
AT_LEAST_ONE = Range(1.0)
ABOVE_ONE = Range(1.0, low_open=True)
ZERO_TO_ONE = Range(0.0, 1.0)
BELOW_ONE = Range(0.0, 1.0, high_open=True)
INSIDE_ONE = Range(0.0, 1.0, low_open=True, high_open=True)
SHIFTS = Range(1e-30, 1e30)
"""Shifts of a preconditioner whose powers are finite in float32."""


def number(default: Any, allowed: Range, *, or_none: bool = False) -> Any:
    """Return a dataclass field for a number.

    Parameters
    ----------
    default : float or None
    allowed : Range
    or_none : bool
        Whether None is allowed too.

    Returns
    -------
    dataclasses.Field
    """
    return field(default=default, metadata={"allowed": allowed, "or_none": or_none})


def choice(*choices: str) -> Any:
    """Return a dataclass field for one of several words; the first is the default."""
    return field(default=choices[0], metadata={"choices": choices})


def check_fields(options: Any) -> None:
    """Check every field of a dataclass instance that `number` or `choice` made.

    Parameters
    ----------
    options : dataclass instance

    Raises
    ------
    InputError
        A field holds a value that is not allowed.
    """
    for each in fields(options):
        value, metadata = getattr(options, each.name), each.metadata
        if "choices" in metadata and value not in metadata["choices"]:
            raise InputError(f"{each.name} is {value!r}, expected one of {', '.join(metadata['choices'])}.")
        if "allowed" in metadata and not (value is None and metadata["or_none"]):
            suffix = ", or None" if metadata["or_none"] else ""
            if value not in metadata["allowed"]:
                raise InputError(f"{each.name} is {value}, expected a number {metadata['allowed']}{suffix}.")


def require(name: str, value: float, allowed: Range) -> None:
    """Check a single number.

    Parameters
    ----------
    name : str
        Name of the number in the message.
    value : float
    allowed : Range

    Raises
    ------
    InputError
        The value is not finite, or it is outside the range.
    """
    if not (value in allowed and math.isfinite(value)):
        raise InputError(f"{name} is {value}, expected a number {allowed}.")
