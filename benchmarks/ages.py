"""How old is each measurement, compared with the code that it measures?

    python benchmarks/ages.py

The rule: a JSON file in results/ is stale if a commit changed the folders of `MEASURED` more than 30 days after the
measurement. If a file holds several measurements, the oldest one counts. A test applies the rule.
"""

from __future__ import annotations

import json
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import common

PROJECT = common.HERE.parent
MEASURED = ("hfrnn/arrays", "hfrnn/kernels", "hfrnn/engine", "hfrnn/optim")
"""The folders whose code decides what the scripts measure."""
ALLOWED = timedelta(days=30)
"""How much younger than a measurement the code may be."""


def dates(content: Any) -> list[datetime]:
    """Return the dates in all descriptions of a machine that a JSON file holds."""
    found = []
    for name, value in content.items() if isinstance(content, dict) else ():
        found += [datetime.fromisoformat(value["date"])] if name == "machine" and "date" in value else dates(value)
    return found


def last_change() -> datetime | None:
    """Return the date of the last commit that changed the measured code; None without git or its history."""
    command = ["git", "log", "-1", "--format=%cI", "--", *MEASURED]
    try:
        found = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return datetime.fromisoformat(found) if found else None


def ages(changed: datetime) -> dict[Path, timedelta]:
    """Return by how much the code is younger than each JSON file."""
    files = sorted(common.RESULTS.rglob("*.json"))
    return {file: changed - min(dates(json.loads(file.read_text("utf-8")))) for file in files}


@click.command()
def main() -> None:
    """Print the age of every JSON file in results/, and exit with status 1 if one is stale."""
    changed = last_change()
    if changed is None:
        raise click.ClickException("there is no history of git here: run it in a clone of the project")
    found = ages(changed)
    for file, age in found.items():
        stale = "  stale: measure it again" if age > ALLOWED else ""
        click.echo(f"{file.relative_to(common.RESULTS)}  {max(age.days, 0)} days{stale}")
    raise SystemExit(int(any(age > ALLOWED for age in found.values())))


if __name__ == "__main__":
    main()
