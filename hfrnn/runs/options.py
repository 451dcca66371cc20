"""What options are called, and their values as files and callers give them."""

from __future__ import annotations

import os
import tomllib
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from hfrnn.errors import InputError


def option_key(name: str) -> str:
    """The name of a field in a TOML file: `lambda` for `lambda_`, the rest as they are."""
    return name.rstrip("_")


def option_name(name: str) -> str:
    """The flag of a field on the command line."""
    return "--" + option_key(name).replace("_", "-")


def parse_bytes(text: str) -> int:
    """A number of bytes such as 4GiB, 500MB or 1000000.

    Raises
    ------
    InputError
        It is none, or more than 2^60.
    """
    units = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
    digits = text.strip().rstrip("BbKkMmGgIi ")
    unit = text.strip()[len(digits) :].strip().lower()
    try:
        size = int(float(digits) * units[unit])
    except (ValueError, KeyError, OverflowError):
        size = 0
    if not 1 <= size <= 2**60:
        raise InputError(f"--memory is {text!r}: give a number of bytes such as 4GiB, 500MB or 1000000")
    return size


def converted(value: Any, kind: str, where: str) -> Any:
    """`value` as the field's type says, or a sentence."""
    optional, base = "None" in kind, kind.split(" | ")[0]
    if value is None and optional:
        return None
    if isinstance(value, Integral) and not -(2**63) <= int(value) < 2**63:
        raise InputError(f"{where} holds a number beyond 64 bits: give a smaller one")
    if base.startswith("tuple"):
        items = [value] if isinstance(value, Real) else value
        item = "int" if "int" in base else "float"
        if isinstance(items, list | tuple) and items:
            return tuple(converted(each, item, where) for each in items)
    elif base == "bool" or isinstance(value, bool):
        if base == "bool" and isinstance(value, bool):
            return value
    elif base == "str" and isinstance(value, str | os.PathLike | Integral):
        return str(value)
    elif base == "int" and isinstance(value, Integral):
        return int(value)
    elif base == "float" and isinstance(value, Real):
        return float(value)
    expected = {"str": "a string", "bool": "true or false", "int": "a whole number", "float": "a number"}
    shown = repr(value) if not isinstance(value, list | dict) else f"a {'list' if isinstance(value, list) else 'table'}"
    raise InputError(f"{where} is {shown}: expected {expected.get(base, 'one or more numbers')}")


def read_toml(path: str | Path) -> dict[str, Any]:
    """The options in a TOML file; the table `versions`, which a run's config.toml has, is left out.

    Raises
    ------
    InputError
        It cannot be read or is no TOML.
    """
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"configuration {path} cannot be read ({reason}): give a TOML file") from error
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, and of a number with too many digits
        raise InputError(f"configuration {path} is not TOML ({error}): correct it") from error
    options = {name: value for name, value in table.items() if name != "versions"}
    if tables := [name for name, value in options.items() if isinstance(value, dict)]:
        raise InputError(f"configuration {path} has a table [{tables[0]}]: write the options in it without a table")
    return options
