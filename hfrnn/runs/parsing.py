"""Sizes in bytes, and TOML files with options."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hfrnn.errors import InputError, reason_of
from hfrnn.files import CONFIGURATION, read_bytes


def parse_bytes(text: str) -> int:
    """Return a size such as 4GiB, 500MB or 1000000 as a number of bytes.

    Raises
    ------
    InputError
        The text is not such a size, or the size is above 2^60.
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


def read_toml(path: str | Path, *, links: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a TOML file with options.

    Parameters
    ----------
    path : path
        A regular file of at most 1 MiB.
    links : bool
        Whether it may be a link to a file.

    Returns
    -------
    options, versions : dict
        The options, and the table `versions` that a run's config.toml has; {} without such a table.

    Raises
    ------
    InputError
        The file cannot be read, is not TOML, or has another table.
    """
    try:
        content = read_bytes(path, CONFIGURATION, links=links)
    except (OSError, ValueError) as error:
        raise InputError(f"configuration {path} cannot be read ({reason_of(error)}): give a TOML file") from error
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, and of a number with too many digits
        raise InputError(f"configuration {path} is not TOML ({error}): correct it") from error
    options = {name: value for name, value in table.items() if name != "versions"}
    if tables := [name for name, value in options.items() if isinstance(value, dict)]:
        raise InputError(
            f"configuration {path} has a table [{tables[0]}]: write the options in it without a table, and "
            'numbers by name as max_norm = "layer0.W_h=2"'
        )
    versions = table.get("versions")
    return options, versions if isinstance(versions, dict) else {}
