"""Runs that end after a time and can be resumed: what long_lags.py, hf_vs_sgd.py and dynamics.py share."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.folder import RunFolder
from hfrnn.training.trainer import Callback, train

UNFINISHED = (None, "time", "interruption", "callback")
"""What summary.json says of a run that may go on."""
ENDLESS = 10**9
"""The updates of a run that its processor seconds end."""


def spent(record: Mapping[str, Any]) -> float:
    """Return the processor seconds of training up to a record; the seconds where a log has no processor seconds."""
    return float(record["seconds_processor" if "seconds_processor" in record else "seconds"])


class Watch(Callback):
    """Print a line for every validation, and end the run after its budget.

    Parameters
    ----------
    label : str
        Name of the run on the screen.
    budget : float
        Processor seconds of training. The run ends with the first record after them.
    """

    def __init__(self, label: str, budget: float = math.inf) -> None:
        self.label, self.budget = label, budget

    def on_update(self, record: dict[str, Any]) -> bool | None:
        if record["valid_loss"] is not None:
            bits, errors = record["valid_bits"], record["valid_errors"]
            shown = "" if bits is None else f", {bits:.3f} bits"
            shown += "" if errors is None else f", {errors:.1%} wrong"
            shown = f"loss {record['valid_loss']:.4g}{shown}"
            click.echo(f"{self.label}: update {record['update']}, {spent(record):.0f} s, {shown}")
        return spent(record) >= self.budget


def progress(folder: Path) -> tuple[float, str | None]:
    """The seconds that a run has trained, and why it stopped."""
    summary = folder / "summary.json"
    if not summary.is_file():
        return 0.0, None
    found = json.loads(summary.read_text("utf-8"))
    return float(found["seconds"]), str(found["stopped"])


# ---------------------------------------------------------------------- processor seconds


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a run; none if it has not begun."""
    return RunFolder(folder).metrics() if (folder / "config.toml").is_file() else []


def is_done(folder: Path, budget: float) -> bool:
    """Return whether a run has used its processor seconds, or ended for another reason before."""
    lines, (_, stopped) = records(folder), progress(folder)
    used = bool(lines) and spent(lines[-1]) >= budget
    return used or stopped not in UNFINISHED


def run_within(
    folder: Path, budget: float, options: Mapping[str, Any], data: Mapping[str, Any] | None = None,
    updates: int | None = None,
) -> None:  # fmt: skip
    """Begin a run or resume it, until its processor seconds are used; leave a run that is done unchanged.

    Parameters
    ----------
    folder : path
        The run folder.
    budget : float
        Processor seconds of training, validation excluded.
    options : mapping
        Options of a new run.
    data : mapping, optional
        Arguments of `hfrnn.train` that give arrays in memory; a resumed run needs them too.
    updates : int, optional
        New number of updates of a resumed run.

    Raises
    ------
    InputError
        The folder holds a run with other options.
    Interrupted
        On SIGINT or SIGTERM; the next call resumes.
    """
    begun = (folder / "config.toml").is_file()
    if begun:
        check_options(folder, options)
    if is_done(folder, budget):
        click.echo(f"{folder.name}: done, left as it is")
        return
    watch = Watch(folder.name, budget)
    try:
        if begun:
            changed = {} if updates is None else {"updates": updates}
            train(resume=folder, callbacks=[watch], **changed, **(data or {}))
        else:
            train(out=folder, callbacks=[watch], **options, **(data or {}))
    except NonFiniteError as error:
        click.echo(f"{folder.name} has ended: {error}")


def updates_until(folder: Path, budget: float) -> int:
    """Return how many updates a run will have made at the end of its budget, at the pace of its second half so far."""
    lines = records(folder)
    last = lines[-1]
    half = next(line for line in lines if 2 * spent(line) >= spent(last))
    begin = half if half is not last else {"update": 0, "seconds": 0.0}
    pace = (last["update"] - begin["update"]) / max(spent(last) - spent(begin), 1e-9)
    return int(last["update"]) + round(max(budget - spent(last), 0.0) * pace)


def check_options(folder: Path, options: Mapping[str, Any]) -> None:
    """Raise InputError if the run in a folder was begun with other values of these options."""
    given, stored = checked_options(options, "the cell"), RunFolder(folder).config()
    full = TrainConfig(**given).resolved()
    changed = [name for name in given if getattr(full, name) != getattr(stored, name)]
    if changed:
        raise InputError(
            f"the run in {folder} was begun with another {', '.join(changed)}: move it away, or give another --runs"
        )


def validations(folder: Path, names: tuple[str, ...], budget: float) -> list[dict[str, Any]]:
    """Return those keys of the validated records within a budget, or 1% later, with their processor seconds."""
    return [
        {"seconds_processor": round(spent(line), 3), **{name: line.get(name) for name in names}}
        for line in records(folder)
        if line["valid_loss"] is not None and spent(line) <= 1.01 * budget
    ]


class _Pace(Callback):
    """Collect the updates and processor seconds of the records, and end the run after some processor seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.marks = seconds, [(0, 0.0)]

    def on_update(self, record: dict[str, Any]) -> bool:
        self.marks.append((record["update"], spent(record)))
        return self.marks[-1][1] >= self.seconds

    def updates_per_second(self) -> float:
        """Return the pace after the first record, whose time may include compilation."""
        begin, end = self.marks[min(1, len(self.marks) - 2)], self.marks[-1]
        return (end[0] - begin[0]) / max(end[1] - begin[1], 1e-9)


def updates_per_second(options: Mapping[str, Any], seconds: float) -> float:
    """Return the updates per processor second of a method, from a short run that is thrown away."""
    pace = _Pace(seconds)
    short = {**options, "updates": ENDLESS}
    if options["optimizer"] != "hf":
        short |= {"schedule": "constant", "log_interval": 50}
    with tempfile.TemporaryDirectory() as folder:
        train(out=Path(folder) / "run", callbacks=[pace], **short)
    return pace.updates_per_second()
