"""Declarations of options. Flags, TOML keys, checks, messages and help texts are derived from them."""

from __future__ import annotations

import contextlib
import difflib
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from hfrnn.checks import GREATEST, Range, flag, is_number, is_whole, number, shown, shown_exactly, string
from hfrnn.errors import InputError

_NOUNS = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}


def option_key(name: str) -> str:
    """Return the name of an option in a TOML file: `lambda` for `lambda_`, every other name unchanged."""
    return name.rstrip("_")


def option_name(name: str) -> str:
    """Return the flag of an option on the command line: `--cg-epsilon` for `cg_epsilon`."""
    return "--" + option_key(name).replace("_", "-")


def flag_given(name: str, value: Any) -> str:
    """Return the flag that gives an option a value, without the value: `--no-direct-input` for False."""
    return f"--no-{option_name(name)[2:]}" if value is False else option_name(name)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the name most similar to a wrong one, or "" if none is similar."""
    given = name[:80] if isinstance(name, str) else ""
    return next(iter(difflib.get_close_matches(given, list(names), n=1)), "")


def near_hint(name: str, names: Iterable[str]) -> str:
    """Return the hint that follows an unknown name in a message: ` (did you mean mlstm?)`, or nothing."""
    near = nearest(name, names)
    return near and f" (did you mean {near}?)"


def by_name(value: float | Iterable[str]) -> Any:
    """Return a number as it is, and the numbers of texts `NAME=NUMBER` as a dict.

    Raises
    ------
    ValueError
        A text has no name or no number.
    """
    if not isinstance(value, Iterable):
        return value
    found = {}
    for text in value:
        name, _, given = text.partition("=")
        if not name.strip():
            raise ValueError(f"{text} has no name")
        found[name.strip()] = float(given)
    return found


@dataclass(frozen=True)
class Option:
    """The declaration of one option of a run or of an architecture.

    Parameters
    ----------
    name : str
        The name in Python and in TOML files. The flag is made from it: `--peephole-scale` for `peephole_scale`.
    kind : {str, int, float, bool}
        The type of the value.
    default : object
        The value if none is given. None if the default depends on something else.
    help : str
        One sentence that says what the option does, and its unit.
    many : bool
        Whether the option takes several values: a list in TOML, commas on the command line, and a tuple in Python. One
        string with commas is split everywhere.
    choices : tuple of str
        The allowed values; empty if the option has no list of choices.
    least, above, most, below : float, optional
        Bounds of a number: `least` and `most` are allowed values, `above` and `below` are not.
    zero : str
        What the value 0 does, if it is allowed in addition to the bounds: "to turn it off".
    unit : str
        What a number counts, in the plural: "symbols".
    otherwise : str
        The default in words, if `default` is None.
    optional : bool
        Whether None is allowed although `default` is not None.
    digits : bool
        Whether a whole number is accepted too and stands for its digits, if `kind` is str.
    named : bool
        Whether numbers by name are accepted too: `NAME=NUMBER` with commas on the command line, a list of such texts
        in TOML, a dict in Python. The value is a tuple of such texts then, which `by_name` reads.

    Raises
    ------
    InputError
        The name cannot be a keyword in Python, or the default is not an allowed value.

    Examples
    --------
    >>> Option("zoneout", float, 0.1, "Probability that a unit keeps its value.", least=0, below=1).flag
    '--zoneout'
    """

    name: str
    kind: type
    default: Any
    help: str
    many: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    zero: str = ""
    unit: str = ""
    otherwise: str = ""
    optional: bool = False
    digits: bool = False
    named: bool = False

    def __post_init__(self) -> None:
        name = self.name if isinstance(self.name, str) else ""
        if not (name.isascii() and name.isidentifier() and name == name.lower()):
            raise InputError(f"an option is named {shown(self.name)}: use lower-case letters, digits and underscores")
        if not any(self.kind is kind for kind in _NOUNS):
            raise InputError(f"the kind of the option {name} is {shown(self.kind)}: use str, int, float or bool")
        for each in ("help", "zero", "unit", "otherwise"):
            string(f"{each} of the option {name}", getattr(self, each))
        for each in ("many", "optional", "digits", "named"):
            flag(f"{each} of the option {name}", getattr(self, each))
        for each in ("least", "above", "most", "below"):
            number(f"{each} of the option {name}", getattr(self, each), or_none=True)
        if not (isinstance(self.choices, list | tuple) and all(isinstance(each, str) for each in self.choices)):
            raise InputError(f"choices of the option {name} is {shown(self.choices)}: give a tuple of strings")
        if self.default is not None:
            self.check(self.convert(self.default, f"the default of {self.name}"), f"the default of {self.name}")

    @property
    def key(self) -> str:
        """The name in a TOML file."""
        return option_key(self.name)

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return option_name(self.name)

    @property
    def text(self) -> str:
        """The help text, including what the value 0 does."""
        return f"{self.help.rstrip('.')}; 0 {self.zero}." if self.zero else self.help

    @property
    def shown_default(self) -> str:
        """The default as text; empty if there is none."""
        if self.default is None:
            return self.otherwise
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        return ",".join(map(str, self.default)) if self.many else str(self.default)

    def convert(self, value: Any, where: str) -> Any:
        """Convert a value from a file or a caller to the type of the option.

        Parameters
        ----------
        value : object
        where : str
            The name of the option in error messages.

        Returns
        -------
        object
            The converted value, or a tuple of them if `many`; None if None is given and allowed.

        Raises
        ------
        InputError
            The value has another type, or is a whole number beyond 64 bits.
        """
        if value is None and (self.optional or self.default is None):
            return None
        if self.named and not is_number(value):
            return self._convert_named(value, where)
        if not self.many:
            return self._convert_one(value, where)
        items = [value] if is_number(value) else value
        if self.kind is str and isinstance(value, str):
            items = value.split(",")  # as on the command line
        if not isinstance(items, list | tuple) or not items:
            raise InputError(f"{where} is {shown(value)}: give one or more {_NOUNS[self.kind][2:]}s")
        return tuple(self._convert_one(item, where) for item in items)

    def check(self, value: Any, where: str) -> None:
        """Raise InputError if a value is outside the choices or bounds. `where` names the option in the message."""
        if isinstance(value, tuple) and self.named:
            for name, item in by_name(value).items():
                self._check_one(item, f"{where} of {name}")
            return
        for item in value if self.many and value is not None else (value,):
            self._check_one(item, where)

    def _check_one(self, item: Any, where: str) -> None:
        if isinstance(item, float) and not math.isfinite(item):
            raise InputError(f"{where} is {item}: give a finite number{self._range}")
        if item is not None and not self._allows(item):
            raise InputError(f"{where} is {shown(item)}: {self.expected}")

    @property
    def expected(self) -> str:
        """The end of a message about a wrong value, such as `give a whole number, 1 or more`."""
        if self.choices:
            return f"use one of {', '.join(self.choices)}"
        noun = _NOUNS[self.kind] + (f" of {self.unit}" if self.unit else "")
        zero, names = f", or 0 {self.zero}" if self.zero else "", ", or NAME=NUMBER with commas" if self.named else ""
        return f"give {noun}{self._range}{zero}{names}"

    @property
    def _range(self) -> Range:
        """The bounds of a number."""
        low = next((each for each in (self.least, self.above) if each is not None), -math.inf)
        high = next((each for each in (self.most, self.below) if each is not None), math.inf)
        return Range(low, high, self.above is not None, self.below is not None)

    def _allows(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if isinstance(value, str | bool) or (self.zero and value == 0):
            return True
        return value in self._range

    def _convert_named(self, value: Any, where: str) -> tuple[str, ...]:
        """Return numbers by name, in one of their forms, as a tuple of texts `NAME=NUMBER`."""
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(value, Mapping):
            items = [f"{name}={each}" for name, each in value.items() if isinstance(name, str) and is_number(each)]
        if isinstance(items, list | tuple) and items and all(isinstance(item, str) for item in items):
            with contextlib.suppress(ValueError):
                numbers = by_name(items)
                if len(numbers) == len(value if isinstance(value, Mapping) else items):
                    return tuple(f"{name}={each!r}" for name, each in numbers.items())
        raise InputError(f"{where} is {shown(value)}: {self.expected}")

    def _convert_one(self, value: Any, where: str) -> Any:
        if not isinstance(value, bool) and isinstance(value, Integral) and not is_whole(value):
            bound = f"at most {GREATEST}" if int(value) > 0 else f"at least {-GREATEST - 1}"
            raise InputError(f"{where} is {shown(value)}: give a number of {bound}, so that it fits in 64 bits")
        found = os.fspath(value) if isinstance(value, os.PathLike) else value
        if self.kind is str and isinstance(found, str):
            return found
        if self.kind is str and self.digits and is_whole(value):
            return str(int(value))
        if self.kind is int and is_whole(value):
            return int(value)
        with contextlib.suppress(InputError):
            if self.kind is bool:
                return flag(where, value)
            if self.kind is float and is_number(value):
                return float(value) if isinstance(value, float) else number(where, value)
        raise InputError(f"{where} is {shown_exactly(value)}: {self.expected}")
