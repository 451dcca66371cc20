"""Scripts of `benchmarks/papers` on a table named `tiny`, their runs and results in folders of a test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import script
from cells import Table
from click.testing import CliRunner, Result


def call(table: Table | Mapping[str, Table], folder: Path, *arguments: str) -> Result:
    """Call the script of a table, with its runs and results under `folder`."""
    paths = ["--runs", str(folder / "runs"), "--out", str(folder / "out")]
    return CliRunner().invoke(script.command(table), [*arguments, *paths], env={"COLUMNS": "250"})


def done(table: Table | Mapping[str, Table], folder: Path, *arguments: str) -> str:
    """Return what a call prints that must not fail."""
    result = call(table, folder, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def result_of(folder: Path, cell: str = "rnn") -> dict[str, Any]:
    """Return the result of a cell."""
    result: dict[str, Any] = json.loads((folder / "out" / "tiny" / f"{cell}.json").read_text())
    return result
