"""Values for the arguments of public functions, and which of them each kind of argument accepts.

A kind is a table of values: each has a label, a factory, and whether it is valid (None: left out).
"""

from __future__ import annotations

import decimal
import fractions
import math
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse

from hfrnn.option import Option

Factory = Callable[[], Any]


class Odd:
    """An object that is none of the things that a function can ask for."""


VALUES: dict[str, Factory] = {
    "None": lambda: None, "True": lambda: True, "0": lambda: 0, "1": lambda: 1, "-1": lambda: -1,
    "10**30": lambda: 10**30, "-10**30": lambda: -(10**30), "10**5000": lambda: 10**5000, "0.5": lambda: 0.5,
    "1.5": lambda: 1.5, "1e300": lambda: 1e300, "NaN": lambda: math.nan, "inf": lambda: math.inf,
    "-inf": lambda: -math.inf, "complex": lambda: 1 + 1j, "fraction": lambda: fractions.Fraction(1, 2),
    "Decimal": lambda: decimal.Decimal("0.5"), "NumPy's 1": lambda: np.int64(1),
    "NumPy's 0.5": lambda: np.float32(0.5), "NumPy's True": lambda: np.True_,
    "NumPy's NaN": lambda: np.float64(math.nan), "empty string": lambda: "", "string": lambda: "x",
    "string of a number": lambda: "1", "string with NUL": lambda: "a\0b",
    "string with escapes": lambda: "a\x1b[2J\n\u202eb", "long string": lambda: "x" * 100_000, "bytes": lambda: b"x",
    "path of bytes": lambda: BytesPath(), "empty list": lambda: [], "list": lambda: [Odd()],
    "nested list": lambda: [[1], [1, 2]], "tuple": lambda: (Odd(), None), "dict": lambda: {"x": 1},
    "generator": lambda: (n for n in range(3)), "range": lambda: range(-3, 0), "object": Odd,
    "function": lambda: lambda *arguments, **keywords: Odd(), "class": lambda: Odd,
    "array": lambda: np.full((1, 7, 1), 0.5), "array without axes": lambda: np.array(1),
    "empty array": lambda: np.zeros(0), "array of objects": lambda: np.array([Odd(), None]),
    "array of strings": lambda: np.array(["x", "y"]),
    "masked array": lambda: np.ma.array([1.0, 2.0], mask=[True, False]),
    "sparse matrix": lambda: scipy.sparse.eye(3).tocsr(),
}  # fmt: skip
"""Values that are wrong nearly everywhere."""


class BytesPath:
    """A path object whose path is bytes."""

    def __fspath__(self) -> bytes:
        return b"x"


@dataclass(frozen=True)
class Kind:
    """A kind of argument: whether one of VALUES is valid, by its label and value; and further values."""

    accepts: Callable[[str, Any], bool | None]
    more: dict[str, tuple[Factory, bool | None]]

    def cases(self) -> Iterator[tuple[str, Factory, bool]]:
        """Yield the label, factory and validity of every value."""
        for label, make in VALUES.items():
            valid = self.accepts(label, make())
            if valid is not None:
                yield label, make, valid
        for label, (make, known) in self.more.items():
            if known is not None:
                yield label, make, known

    def or_none(self) -> Kind:
        return Kind(lambda label, value: True if value is None else self.accepts(label, value), self.more)

    def but(self, known: dict[str, bool | None]) -> Kind:
        """Return the kind with other answers for some labels."""
        more = {label: (make, known.get(label, valid)) for label, (make, valid) in self.more.items()}
        return Kind(lambda label, value: known[label] if label in known else self.accepts(label, value), more)

    def plus(self, more: dict[str, tuple[Factory, bool | None]]) -> Kind:
        return Kind(self.accepts, {**self.more, **more})


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def count(least: int = 0, most: int = 2**63 - 1) -> Kind:
    def accepts(label: str, value: Any) -> bool:
        return is_number(value) and isinstance(value, Integral) and least <= int(value) <= most

    outside = {str(n): (lambda n=n: n, False) for n in (least - 1, most + 1)}
    return Kind(accepts, {**outside, "2.0": (lambda: 2.0, False)})


def number(low: float = -math.inf, high: float = math.inf, open_low: bool = False, open_high: bool = False) -> Kind:
    def accepts(label: str, value: Any) -> bool:
        if not is_number(value) or label == "10**5000" or not math.isfinite(value):
            return False
        above = value > low if open_low else value >= low
        return above and (value < high if open_high else value <= high)

    ends = {f"end {end}": (lambda end=end: end, not is_open) for end, is_open in ((low, open_low), (high, open_high))
            if math.isfinite(end)}  # fmt: skip
    outside = {"below": (lambda: low - 1, False)} if math.isfinite(low) else {}
    return Kind(accepts, {**ends, **outside, "list of a number": (lambda: [0.5], False)})


def flag() -> Kind:
    return Kind(lambda label, value: label in ("True", "NumPy's True"), {"False": (lambda: False, True)})


def choice(*choices: str) -> Kind:
    more: dict[str, tuple[Factory, bool | None]] = {each: (lambda each=each: each, True) for each in choices}
    more |= {"bytes of it": (choices[0].encode, False)}
    more |= {"upper case": (choices[0].upper, False)} if choices[0].upper() not in choices else {}
    return Kind(lambda label, value: False, more)


def string(*right: str) -> Kind:
    """Strings, of which only those in `right` are valid."""
    return Kind(lambda label, value: None if isinstance(value, str) and value in right else False, {
        each: (lambda each=each: each, True) for each in right
    })  # fmt: skip


def any_string() -> Kind:
    return Kind(lambda label, value: isinstance(value, str), {})


ODD_PATHS = ("string with escapes", "long string")


def path(*right: str) -> Kind:
    """Paths; other strings than those in `right` are the paths of missing files.

    How messages show a path with control characters is left to the tests of the command line.
    """
    more: dict[str, tuple[Factory, bool | None]] = {each: (lambda each=each: each, True) for each in right}
    more |= {f"Path {each}": (lambda each=each: pathlib.Path(each), True) for each in right}
    return Kind(lambda label, value: None if label in ODD_PATHS else False, more)


def new_path() -> Kind:
    return Kind(lambda label, value: None if isinstance(value, str) and value not in ("", "a\0b") else False, {})


def costly(kind: Kind) -> Kind:
    """The wrong values of a kind only, because a valid call takes long or fails for other reasons."""

    def accepts(label: str, value: Any) -> bool | None:
        return False if kind.accepts(label, value) is False else None

    return Kind(accepts, {label: (make, None if valid else False) for label, (make, valid) in kind.more.items()})


PAIRED = ("min_count", "max_vocabulary", "rho_low", "rho_high")
"""Options that are valid with other options only."""
PATHS = ("text", "valid", "test", "out", "init_from")


def of_option(option: Option) -> Kind:
    """The kind of a declared option of a run or of an architecture."""
    if option.kind is bool:
        kind = flag()
    elif option.choices:
        kind = choice(*option.choices)
    elif option.kind is str:
        kind = any_string()
        if option.digits or option.many:  # a whole number stands for its digits
            kind = kind.but(dict.fromkeys(("0", "1", "-1", "NumPy's 1", "10**30", "-10**30", "10**5000"), None))
        if option.name in PATHS:
            kind = kind.but(dict.fromkeys(("empty string", "string with NUL", "string with escapes"), None))
    else:
        low = option.least if option.least is not None else option.above
        high = option.most if option.most is not None else option.below
        if option.kind is int:
            kind = count(-(2**63) if low is None else int(low))
        else:
            bounds = -math.inf if low is None else low, math.inf if high is None else high
            kind = number(*bounds, option.above is not None, option.below is not None)
            kind = kind.but({"10**30": False, "-10**30": False})
        if option.zero:
            kind = kind.but({"0": True, "end 0": True, "end 0.0": True, "below": None})
        if option.name in PAIRED:
            kind = costly(kind)
    if option.kind is str and option.default is None and option.name not in PATHS:
        kind = kind.but({"empty string": False})
    if option.named:
        kind = kind.but({"dict": None})  # numbers by name
    if option.many:
        kind = kind.but({"list of a number": option.kind is float, "array of strings": option.kind is str})
    return kind.or_none()  # which stands for the default


def function(*, called: bool = True) -> Kind:
    """Callables. `called`: the function is called, so one that returns rubbish is left out."""
    return Kind(lambda label, value: None if callable(value) and called else callable(value), {})


def instance(make: Factory, *others: Factory) -> Kind:
    """Objects of a class, made by `make`."""
    return Kind(lambda label, value: False, {
        "right": (make, True), **{f"another {n}": (other, False) for n, other in enumerate(others)}
    })  # fmt: skip


def nothing() -> Kind:
    """No value of the table is valid."""
    return Kind(lambda label, value: False, {})


def array(
    right: Callable[[], np.ndarray[Any, Any]], *, finite: bool = True, lists: bool | None = True,
    integers: bool = True, bools: bool = False, empty: bool | None = False,
) -> Kind:  # fmt: skip
    """Arrays like `right()`, and the many ways to be almost like it."""

    def spoiled(value: float) -> Any:
        a = right().astype(float)
        a.reshape(-1)[-1] = value
        return a

    def strided() -> Any:
        a = right()
        wide = np.zeros((*a.shape[:-1], a.shape[-1] * 2), a.dtype)
        wide[..., ::2] = a
        return wide[..., ::2]

    def frozen() -> Any:
        a = right().copy()
        a.flags.writeable = False
        return a

    real = right().dtype.kind == "f"
    swapped = right().dtype.newbyteorder()
    more: dict[str, tuple[Factory, bool | None]] = {
        "right": (right, True), "strided": (strided, True), "read-only": (frozen, True),
        "Fortran order": (lambda: np.asfortranarray(right()), True),
        "other byte order": (lambda: right().astype(swapped), True),
        "list of numbers": (lambda: right().tolist(), lists), "one entry less": (lambda: right()[:-1], False),
        "one axis more": (lambda: right()[None], False), "trailing axis": (lambda: right()[..., None], False),
        "masked": (lambda: np.ma.array(right(), mask=right() == right().flat[0]), False),
        "complex numbers": (lambda: right().astype(complex), False),
        "objects": (lambda: right().astype(object), False), "strings": (lambda: right().astype(str), False),
        "byte strings": (lambda: right().astype("S5"), False),
        "dates": (lambda: right().astype(np.int64).astype("datetime64[s]"), False),
        "durations": (lambda: right().astype(np.int64).astype("timedelta64[s]"), False),
        "records": (lambda: np.zeros(right().shape, [("a", "f8"), ("b", "i4")]), False),
        "Booleans": (lambda: right().astype(bool), bools),
        "strings in a list": (lambda: right().astype(str).tolist(), False),
        "no entries": (lambda: right()[:0], empty),
    }  # fmt: skip
    if real:
        more |= {
            "integers": (lambda: right().astype(int), integers),
            "NaN inside": (lambda: spoiled(math.nan), not finite),
            "infinity inside": (lambda: spoiled(math.inf), not finite),
        }
    else:
        more |= {"real numbers": (lambda: right().astype(float), False)}
    return Kind(lambda label, value: False, more)
