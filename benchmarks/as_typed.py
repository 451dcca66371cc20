"""What do short commands reach that leave every option to the defaults of their data?

Each command runs on one thread for at most the given minutes. The result of a command replaces its earlier one.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import common

import hfrnn
from hfrnn.runs.folder import RunFolder

COMMANDS: dict[str, dict[str, Any]] = {
    "hfrnn train --data addition --length 100": {"data": "addition", "length": 100},
    "hfrnn train --data temporal-order --length 100": {"data": "temporal-order", "length": 100},
    "hfrnn train --data ptb --level word": {"data": "ptb", "level": "word"},
    "hfrnn train --data ptb --level word --optimizer hf": {"data": "ptb", "level": "word", "optimizer": "hf"},
}
"""The commands, and the same as options."""


def run(options: dict[str, Any], minutes: float) -> dict[str, Any]:
    """Train with some options, and return what the run reached."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        result = hfrnn.train(out=str(out), threads=1, minutes=minutes, sample_length=0, **options)
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
        config = RunFolder(out).config()
    best = min((each for each in records if each["valid_loss"] is not None), key=lambda each: each["valid_loss"])
    names = ("arch", "hidden", "embedding", "classes", "optimizer", "backend")
    return {
        "options": {name: getattr(config, name) for name in names},
        "stopped": result.summary["stopped"],
        "updates": records[-1]["update"],
        "seconds": records[-1]["seconds"],
        "seconds_processor": records[-1]["seconds_processor"],
        "best": {name: best.get(name) for name in ("valid_loss", "valid_errors", "valid_perplexity")},
    }


@click.command(cls=common.Command)
@click.option("--command", "commands", type=click.Choice(tuple(COMMANDS)), multiple=True, default=tuple(COMMANDS),
              help="Commands.")  # fmt: skip
@click.option("--minutes", default=8.0, type=click.FloatRange(0, min_open=True), help="Largest number of minutes.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(commands: tuple[str, ...], minutes: float, out: Path) -> None:
    """Run the commands, one after another, and write what they reach."""
    path = out / "as-typed.json"
    found = json.loads(path.read_text("utf-8"))["runs"] if path.is_file() else {}
    for command in commands:
        found[command] = {"machine": common.machine(1), **run(COMMANDS[command], minutes)}
        common.write_result(path, {"runs": {each: found[each] for each in COMMANDS if each in found}})
        click.echo(f"{command}: {found[command]['stopped']}, {found[command]['best']}")


if __name__ == "__main__":
    main()
