"""Checks of arguments: one function for each kind of value, used by every public function.

A check returns the value in its plain Python type. For a wrong value it raises InputError with one sentence, which
names the argument and says what was given and what to give; `near_hint` adds which name was meant. With `or_none`, None
is allowed too. `hfrnn.arrays.array_checks` checks arrays; this file does not import NumPy, so that help texts appear
quickly.
"""

from __future__ import annotations

import difflib
import inspect
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from hfrnn.errors import InputError, Message
from hfrnn.wording import one_line

_T = TypeVar("_T")

LONGEST = 80
"""Largest number of characters of a value in a message."""
GREATEST = 2**63 - 1
"""Largest whole number: that of a signed integer of 64 bits."""


@dataclass(frozen=True)
class Range:
    """An interval of numbers; an open end is not allowed itself."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        return above and (value < self.high if self.high_open else value <= self.high)

    def __str__(self) -> str:
        """Return what follows "a number" in a message: ` above 0`."""
        low, high = f"{float(self.low):g}", f"{float(self.high):g}"
        if self.high == math.inf:
            return "" if self.low == -math.inf else f" above {low}" if self.low_open else f", {low} or more"
        if self.low == -math.inf:
            return f" below {high}" if self.high_open else f", at most {high}"
        if self.low_open:
            return f" above {low}, {'below' if self.high_open else 'at most'} {high}"
        return f" from {low}, below {high}" if self.high_open else f" from {low} to {high}"


ANY = Range()
POSITIVE = Range(0.0, low_open=True)
NOT_NEGATIVE = Range(0.0)
ABOVE_ONE = Range(1.0, low_open=True)
ZERO_TO_ONE = Range(0.0, 1.0)
BELOW_ONE = Range(0.0, 1.0, high_open=True)
INSIDE_ONE = Range(0.0, 1.0, low_open=True, high_open=True)
SHIFTS = Range(1e-30, 1e30)
"""Shifts of a preconditioner whose powers are finite in float32."""


def shown(value: Any) -> str:
    """Return a value as text of at most 80 characters for a message.

    Strings and numbers are written as in Python, control characters escaped; other values are described.
    """
    if isinstance(value, type):
        return f"the class {_short(value.__name__)}"
    if isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype"):
        if value.shape != ():
            return _short(f"an array of shape {value.shape} and type {value.dtype}")
        value = value.item() if hasattr(value, "item") else value
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        name = type(value).__name__
        return f"an empty {name}" if not value else f"a {name}"
    if value is None or isinstance(value, str | bytes | bool | float | complex):
        if isinstance(value, str | bytes) and len(value) > LONGEST:
            return f"{_short(repr(value[:LONGEST]))} ({len(value):,} characters)"
        return _short(repr(value).removesuffix(".0"))
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 256 else f"a number of {value.bit_length():,} bits"
    name = _short(type(value).__name__)
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def shown_exactly(value: Any) -> str:
    """Return a value as `shown` does where only a whole number would do: 2.0, not 2."""
    return repr(float(value)) if isinstance(value, float) else shown(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def subject(name: str) -> Message:
    """Return the beginning of a sentence about an argument: its bare name for users of Python, else its flag.

    A name that is no identifier, as "x of the batch", is the same for every reader.
    """
    return Message(f"{{{name}!s}}") if name.isidentifier() else Message("{0}", name)


def wrong(name: str, value: Any, expected: str | Message, or_none: bool = False) -> InputError:
    """Return the error about a wrong value; `expected` begins with a verb: "give a whole number, 1 or more"."""
    none = ", or None" if or_none else ""
    return InputError(Message("{0} is {1}: {2}{3}", subject(name), shown(value), expected, none))


def is_number(value: Any) -> bool:
    """Return whether a value is a real number (of Python or NumPy), and not a Boolean."""
    return not isinstance(value, bool) and isinstance(value, Real)


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number (of Python or NumPy) of at most 64 bits, and not a Boolean."""
    return not isinstance(value, bool) and isinstance(value, Integral) and -GREATEST - 1 <= int(value) <= GREATEST


def is_result(value: Any) -> bool:
    """Return whether a function's result can be used as a number: a real number, or an array without axes."""
    return is_number(value) or (
        getattr(value, "shape", None) == () and getattr(getattr(value, "dtype", None), "kind", "") in tuple("fiu")
    )


def number(name: str, value: Any, allowed: Range = ANY, *, or_none: bool = False) -> Any:
    """Return a finite number in a range as a float."""
    if value is None and or_none:
        return None
    try:
        if is_number(value) and math.isfinite(found := float(value)) and found in allowed:
            return found
    except (OverflowError, TypeError, ValueError):
        pass
    finite = " finite" if isinstance(value, float) and not math.isfinite(value) else ""
    raise wrong(name, value, f"give a{finite} number{allowed}", or_none)


def count(name: str, value: Any, least: int = 0, most: int = GREATEST, *, or_none: bool = False, unit: str = "") -> Any:
    """Return a whole number from `least` to `most` as an int; `unit` says what it counts, in the plural."""
    if value is None and or_none:
        return None
    if is_whole(value) and least <= int(value) <= most:
        return int(value)
    bounds = f", {least} or more" if most == GREATEST else f" from {least} to {most}"
    expected = f"give a whole number{f' of {unit}' if unit else ''}{bounds}{', or None' if or_none else ''}"
    raise InputError(Message("{0} is {1}: {2}", subject(name), shown_exactly(value), expected))


def flag(name: str, value: Any, *, or_none: bool = False) -> Any:
    """Return True or False; also for NumPy's Booleans."""
    if (value is None and or_none) or isinstance(value, bool):
        return value
    if getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "shape", None) == ():
        return bool(value)
    raise wrong(name, value, "give True or False", or_none)


def choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return a string that is one of several."""
    if isinstance(value, str) and value in choices:
        return str(value)
    listed = ", ".join(choices) if len(choices) > 1 else choices[0]
    raise wrong(name, value, f"use {'one of ' if len(choices) > 1 else ''}{listed}")


def string(name: str, value: Any, what: str = "a string", *, or_none: bool = False) -> Any:
    """Return a string; `what` describes it in the message."""
    if isinstance(value, str) or (value is None and or_none):
        return value
    raise wrong(name, value, f"give {what}", or_none)


def path(name: str, value: Any, *, or_none: bool = False) -> Any:
    """Return a path as a Path: a string that is not empty, or a path object."""
    if value is None and or_none:
        return None
    given = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(given, str) and given and "\0" not in given:
        return Path(given)
    if isinstance(given, str):
        problem = "holds a NUL character" if given else "is empty"
        none = ", or None" if or_none else ""
        raise InputError(Message("{0} {1}: give a path{2}", subject(name), problem, none))
    raise wrong(name, value, "give a path as a string or a Path", or_none)


def function(name: str, value: Any, takes: str | None = None, *, or_none: bool = False) -> Any:
    """Return a callable object. `takes` names the arguments that it is called with: "v, out", or "" for none."""
    if value is None and or_none:
        return value
    if not callable(value):
        raise wrong(name, value, "give a function", or_none)
    if takes is not None and not _can_take(value, takes):
        raise wrong(name, value, f"give a function that can be called with the arguments ({takes})", or_none)
    return value


def function_or_flag(name: str, value: Any, takes: str | None = None) -> Any:
    """Return a callable object, or a bool; `takes` is as for `function`."""
    if isinstance(value, bool):
        return value
    if callable(value):
        return function(name, value, takes)
    raise wrong(name, value, "give True, False or a function")


def _can_take(value: Callable[..., Any], takes: str) -> bool:
    """Return whether a callable object can be called with so many arguments; True if it does not say what it takes."""
    try:
        signature = inspect.signature(value, follow_wrapped=False)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*filter(None, takes.split(", ")))
    except TypeError:
        return False
    return True


def instance(name: str, value: Any, kind: type | tuple[type, ...], what: str, *, or_none: bool = False) -> Any:
    """Return an object of a class; `what` describes it in the message: "a hfrnn.Damping"."""
    if (value is None and or_none) or isinstance(value, kind):
        return value
    raise wrong(name, value, f"give {what}", or_none)


def methods(name: str, value: Any, needed: Sequence[str], takes: str | None = None, *, or_none: bool = False) -> Any:
    """Return an object that has some methods, which can be called with the arguments that `takes` names."""
    if value is None and or_none:
        return None
    found = [getattr(value, each, None) for each in needed]
    if isinstance(value, type) or not all(callable(each) for each in found):
        raise wrong(name, value, f"give an object with the methods {', '.join(needed)}", or_none)
    if takes is not None and not all(_can_take(each, takes) for each in found if each is not None):
        called = ", ".join(f"{each}({takes})" for each in needed)
        raise wrong(name, value, f"give an object with the methods {called}", or_none)
    return value


# ---------------------------------------------------------------------- fields of dataclasses


def checked(default: Any, check: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Return a dataclass field that `check_fields` checks: it calls `check(name, value, *arguments, **keywords)`."""
    return field(default=default, metadata={"check": (check, arguments, keywords)})


def check_fields(options: Any) -> None:
    """Check every field that `checked` made of a dataclass instance, and store the values in their plain types."""
    for each in fields(options):
        if "check" in each.metadata:
            check, arguments, keywords = each.metadata["check"]
            value = check(each.name, getattr(options, each.name), *arguments, **keywords)
            object.__setattr__(options, each.name, value)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the name most similar to a wrong one, or "" if none is similar."""
    given = name[:80] if isinstance(name, str) else ""
    return next(iter(difflib.get_close_matches(given, list(names), n=1)), "")


def first_twice(values: Sequence[_T]) -> _T | None:
    """Return the first value that stands twice in a list; None if all differ.

    >>> first_twice(["u", "v", "u"])
    'u'
    """
    return next((each for each in values if values.count(each) > 1), None)


def near_hint(name: str, names: Iterable[str]) -> str:
    """Return the hint that follows an unknown name in a message: ` (did you mean mlstm?)`, or nothing."""
    near = nearest(name, names)
    return near and f" (did you mean {one_line(near)}?)"
