"""Declarations of options. Flags, TOML keys, checks, messages and help texts are derived from them."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

from hfrnn.checks import GREATEST, Range, flag, is_number, is_whole, number, shown, shown_exactly, string
from hfrnn.errors import InputError, Message, each_value

_NOUNS = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}


def option_key(name: str) -> str:
    """Return the name of an option in a TOML file: `lambda` for `lambda_`, every other name unchanged."""
    return name.rstrip("_")


def in_toml(name: str, value: str = "") -> str:
    """Return how a TOML file writes an option: `window`, or `optimizer = "hf"` with a value (a `Wording`)."""
    if not value:
        return option_key(name)
    written = value.lower() if value in ("True", "False") else each_value(value, (), '"{}"'.format)
    return f"{option_key(name)} = {written}"


def argument(name: str, value: object = "") -> str:
    """Return the part of a template of `Message` that stands for an argument, with a value if one is given."""
    return f"{{{name}:{value}}}" if value != "" else f"{{{name}}}"


SLASHES = ("/", "\\")
"""Ends of the path of a folder, which may be one of another system."""


def listed(value: Any) -> tuple[Any, ...]:
    """Return the value of an option that takes one or several as a tuple; empty for None."""
    return () if value is None else value if isinstance(value, tuple) else (value,)


def absolute(value: Any) -> Any:
    """Return the absolute path of a path, or of each of several."""
    return tuple(map(os.path.abspath, value)) if isinstance(value, tuple) else os.path.abspath(value)


def either(names: Iterable[str], word: str = "or") -> str:
    """Return names in a sentence, the last one after a word: `sgd, adam or online`."""
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last


def by_name(value: float | Iterable[str]) -> Any:
    """Return a number as it is, and the numbers of texts `NAME=NUMBER` as a dict; raise ValueError for other texts."""
    if not isinstance(value, Iterable):
        return value
    found = {}
    for text in value:
        name, _, given = text.partition("=")
        if not name.strip():
            raise ValueError(f"{text} has no name")
        found[name.strip()] = float(given)
    return found


AS_TEXT = object()
"""Stands for the value of other texts."""


class ByData(NamedTuple):
    """A default that depends on the data. Without `large_text`, large texts have the value of other texts."""

    text: Any
    music: Any
    task: Any
    arrays: Any
    large_text: Any = AS_TEXT

    def of(self, data: str) -> Any:
        """Return the value for one of the fields."""
        value = getattr(self, data)
        return self.text if value is AS_TEXT else value


class Presets(NamedTuple):
    """The default of an option in each preset of Hessian-free optimization: one for all data, or a `ByData`."""

    tuned: Any
    published: Any


@dataclass(frozen=True)
class Need:
    """What else has to be chosen for an option to have an effect: one of some values of another option.

    `unless` takes the place of `allowed`: a function that takes the options of a run, and returns why the option has no
    effect and what it is for, or None if it has one.
    """

    option: str
    allowed: tuple[str, ...] = ()
    unless: Callable[[Any], Message | None] | None = None

    def unmet(self, chosen: Any) -> Message | None:
        """Return why the need is not met, and what the option is for; None where it is met.

        `chosen` holds the options of a run as attributes, with all defaults.
        """
        if self.unless is not None:
            return self.unless(chosen)
        value, name = getattr(chosen, self.option), argument(self.option)
        if value in self.allowed:
            return None
        useful = argument(self.option, either(self.allowed))
        if value is None:
            return Message(f"{name} was not: it is for {useful}")
        return Message(f"{name} is {{0}}: it is for {useful}", value)


@dataclass(frozen=True)
class Option:
    """The declaration of one option of a run, of an architecture, of a kind of data or of an optimizer.

    Parameters
    ----------
    name : str
        The name in Python and in TOML files. The command line makes its flag from it.
    kind : {str, int, float, bool}
        The type of the value.
    default : object
        The value if none is given. None if the default depends on something else.
    help : str
        One sentence that says what the option does, and its unit. `{window}` stands for the option `window`.
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
    group : str
        The heading that the option stands under in the list of all options.
    needs : tuple of Need
        What else has to be chosen for the option to have an effect.
    shapes : bool
        Whether the option decides which weights the network has, so that a run can take over the weights of another
        run only if both have the same value.
    path : bool
        Whether the value is the path of a file or folder.
    several : bool
        Whether a list of paths is accepted too; the value is a tuple then. The command line repeats the flag.
    presets : Presets, optional
        The default in each preset of Hessian-free optimization, if `default` is None.

    Raises
    ------
    InputError
        The name cannot be a keyword in Python, or the default is not an allowed value.

    Examples
    --------
    >>> Option("zoneout", float, 0.1, "Probability that a unit keeps its value.", least=0, below=1).expected
    'give a number from 0, below 1'
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
    group: str = ""
    needs: tuple[Need, ...] = ()
    shapes: bool = False
    path: bool = False
    several: bool = False
    presets: Presets | None = None

    def __post_init__(self) -> None:
        name = self.name if isinstance(self.name, str) else ""
        if not (name.isascii() and name.isidentifier() and name == name.lower()):
            raise InputError(f"an option is named {shown(self.name)}: use lower-case letters, digits and underscores")
        if not any(self.kind is kind for kind in _NOUNS):
            raise InputError(f"the kind of the option {name} is {shown(self.kind)}: use str, int, float or bool")
        for each in ("help", "zero", "unit", "otherwise"):
            string(f"{each} of the option {name}", getattr(self, each))
        for each in ("many", "optional", "digits", "named", "several"):
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
    def text(self) -> Message:
        """The help text, including what the value 0 does."""
        return Message(f"{self.help.rstrip('.')}; 0 {self.zero}." if self.zero else self.help)

    @property
    def own_default(self) -> Message:
        """The default in words, without those of presets and data; empty if there is none."""
        if self.default is None:
            return Message(self.otherwise)
        if isinstance(self.default, bool):
            return Message("yes" if self.default else "no")
        return Message("{0}", ",".join(map(str, self.default)) if self.many else str(self.default))

    def convert(self, value: Any, where: str = "") -> Any:
        """Convert a value from a file or a caller to the type of the option, or to a tuple of them if `many`.

        `where` is what the value is called in error messages, in the notation of `Message`; by default the argument.
        """
        if value is None and (self.optional or self.default is None):
            return None
        if self.named and not is_number(value):
            return self._convert_named(value, where)
        if self.several and isinstance(value, list | tuple):
            if not value:
                raise self._wrong(where, "is empty: give one or more paths")
            found = tuple(self._convert_one(item, where) for item in value)
            return found if len(found) > 1 else found[0]
        if not self.many:
            return self._convert_one(value, where)
        items = [value] if is_number(value) else value
        if len(getattr(value, "shape", ())) == 1 and callable(getattr(value, "tolist", None)):
            items = value.tolist()  # of an array, or of the columns of a DataFrame
        if self.kind is str and isinstance(value, str):
            items = value.split(",")  # as on the command line
        if not isinstance(items, list | tuple) or not items:
            raise self._wrong(where, f"is {{0}}: give one or more {_NOUNS[self.kind][2:]}s", shown(value))
        return tuple(self._convert_one(item, where) for item in items)

    def check(self, value: Any, where: str = "") -> None:
        """Raise InputError if a value is outside the choices or bounds; `where` is that of `convert`."""
        if isinstance(value, tuple) and self.named:
            for name, item in by_name(value).items():
                self._check_one(item, f"{where or argument(self.name)} of {name.replace('{', '').replace('}', '')}")
            return
        if self.default is None and (value == "" or (isinstance(value, tuple) and "" in value)):
            raise self._wrong(where, "is empty: give a name, or leave it out")
        for item in value if isinstance(value, tuple) else (value,):
            self._check_one(item, where)

    def _wrong(self, where: str, problem: str, *values: object) -> InputError:
        """Return the error about a value; `problem` is the rest of its sentence, in the notation of `Message`."""
        return InputError(Message(f"{where or argument(self.name)} {problem}", *values))

    def _check_one(self, item: Any, where: str) -> None:
        if isinstance(item, float) and not math.isfinite(item):
            raise self._wrong(where, "is {0}: give a finite number{1}", item, str(self._range))
        if item is not None and not self._allows(item):
            raise self._wrong(where, "is {0}: {1}", shown(item), self._expected)

    @property
    def expected(self) -> str:
        """The end of a message about a wrong value, such as `give a whole number, 1 or more`."""
        return str(self._expected)

    @property
    def _expected(self) -> Message:
        """`expected`, for every reader."""
        if self.choices:
            return Message("use one of {0}", ", ".join(self.choices))
        noun = "a path" if self.path else _NOUNS[self.kind] + (f" of {self.unit}" if self.unit else "")
        zero, names = f", or 0 {self.zero}" if self.zero else "", ", or NAME=NUMBER with commas" if self.named else ""
        return Message(f"give {noun}{self._range}{zero}{names}")

    @property
    def _range(self) -> Range:
        """The bounds of a number."""
        low = next((each for each in (self.least, self.above) if each is not None), -math.inf)
        high = next((each for each in (self.most, self.below) if each is not None), math.inf)
        return Range(low, high, self.above is not None, self.below is not None)

    def _allows(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        return isinstance(value, str | bool) or bool(self.zero and value == 0) or value in self._range

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
        raise self._wrong(where, "is {0}: {1}", shown(value), self._expected)

    def _convert_one(self, value: Any, where: str) -> Any:
        if not isinstance(value, bool) and isinstance(value, Integral) and not is_whole(value):
            bound = f"at most {GREATEST}" if int(value) > 0 else f"at least {-GREATEST - 1}"
            raise self._wrong(where, f"is {{0}}: give a number of {bound}, so that it fits in 64 bits", shown(value))
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
        raise self._wrong(where, "is {0}: {1}", shown_exactly(value), self._expected)
