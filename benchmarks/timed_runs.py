"""Runs of so many minutes, which can be stopped and go on: what long_lags.py and hf_vs_sgd.py share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hfrnn.errors import NonFiniteError
from hfrnn.runs.run_folder import RunFolder
from hfrnn.training.trainer import Callback, train

UNFINISHED = (None, "time", "interruption")
"""What summary.json says of a run that may go on."""


class Watch(Callback):
    """Prints a line for every validation."""

    def __init__(self, label: str) -> None:
        self.label = label

    def on_update(self, record: dict[str, Any]) -> bool | None:
        if record["valid_loss"] is not None:
            bits, errors = record["valid_bits"], record["valid_errors"]
            shown = "" if bits is None else f", {bits:.3f} bits"
            shown += "" if errors is None else f", {errors:.1%} wrong"
            shown = f"loss {record['valid_loss']:.4g}{shown}"
            click.echo(f"{self.label}: update {record['update']}, {record['seconds']:.0f} s, {shown}")
        return None


def progress(folder: Path) -> tuple[float, str | None]:
    """The seconds that a run has trained, and why it stopped."""
    summary = folder / "summary.json"
    if not summary.is_file():
        return 0.0, None
    found = json.loads(summary.read_text("utf-8"))
    return float(found["seconds"]), str(found["stopped"])


def run_for(folder: Path, minutes: float, options: Mapping[str, Any]) -> None:
    """Begin a run or go on with it, for what is left of its minutes.

    Raises
    ------
    Interrupted
        On SIGINT or SIGTERM; the next call goes on.
    """
    seconds, stopped = progress(folder)
    left = minutes - seconds / 60
    longest = max((line["seconds_update"] for line in RunFolder(folder).metrics()), default=0.0) if stopped else 0.0
    if stopped not in UNFINISHED or 60 * left <= max(longest, 1.0):  # not even one more line would fit
        click.echo(f"{folder.name}: done, left as it is")
        return
    try:
        if (folder / "config.toml").is_file():
            train(resume=folder, minutes=left, callbacks=[Watch(folder.name)])
        else:
            train(out=folder, minutes=left, callbacks=[Watch(folder.name)], **options)
    except NonFiniteError as error:
        click.echo(f"{folder.name} has ended: {error}")


def curve(folder: Path, names: tuple[str, ...], minutes: float) -> list[dict[str, Any]]:
    """Those keys of the lines of a run's log that were validated within its minutes, or a hundredth later."""
    return [
        {name: line.get(name) for name in names}
        for line in RunFolder(folder).metrics()
        if line["valid_loss"] is not None and line["seconds"] <= 1.01 * 60 * minutes
    ]
