"""The command line in the same process: what it prints, refuses and writes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hfrnn.cli import main
from hfrnn.kernels import registry


def call(*arguments: object, code: int = 0) -> Result:
    """Run a command and return its result; its exit code must be `code`."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result


def call_then_forget(*arguments: object, code: int = 0) -> Result:
    """Run a command; the architectures that it registers are forgotten after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_kernels", dict(registry._kernels))
        return call(*arguments, code=code)


def all_values(text: str) -> dict[str, Any]:
    """Return the options in the text of a config.toml, those that were given and those that followed."""
    table = tomllib.loads(text)
    return {**table["followed"], **{name: value for name, value in table.items() if not isinstance(value, dict)}}


def printed(*arguments: object) -> dict[str, Any]:
    """Return what `hfrnn train --print-config` prints, as one table of values."""
    return all_values(call("train", *arguments, "--print-config").stdout)


def refused(*arguments: object) -> str:
    """Return the one sentence of a command that is refused with exit code 2."""
    result = call(*arguments, code=2)
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def file(folder: Path, content: str, name: str = "c.toml") -> Path:
    """Write a file and return its path."""
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name
