"""The scores of `hfrnn evaluate` on tasks, music, arrays and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from hfrnn.cli.screen import say, say_json, say_lines, telling_of_compilation
from hfrnn.errors import InputError
from hfrnn.wording import counted, four_digits, shell_command

FIGURES = {
    "mse": "MSE", "rmse": "RMSE", "r2": "R2", "nrmse": "NRMSE", "cross_entropy": "cross-entropy",
    "accuracy": "accuracy",
}  # fmt: skip
"""Names of figures on the screen."""
MOST_ROWS = 20
"""Most outputs that get a line."""
_WIDTH = 12


def evaluate_data(
    folder: Any, net: Any, theta: Any, part: str | None, path: str | None, wrong: list[str], as_json: bool
) -> None:
    """Score a network that was trained on a synthetic task, on music, or on arrays or a table, and print the figures.

    Parameters
    ----------
    folder : RunFolder
    net, theta : as `hfrnn.load` returns them
    part : str or None
        The part of the run's own data.
    path : str or None
        A file to score instead.
    wrong : list of str
        The options that were given although they are for texts.
    as_json : bool
        Whether to print JSON.
    """
    from hfrnn.analysis.sequences import evaluate_sequences
    from hfrnn.data.synthetic import tasks
    from hfrnn.runs.data import is_arrays

    config = folder.config()
    if path is not None and not is_arrays(config):
        wrong = [path, *wrong]
    if wrong:
        raise InputError(f"{folder.path} was trained on {config.data}, which is not a text: leave {wrong[0]} out")
    if part is not None and config.data in tasks():
        raise InputError(
            f"{folder.path} was trained on {config.data}, whose sequences are generated again: leave --part out"
        )
    with telling_of_compilation(net.backend.name, as_json), or_another_file(folder):
        found = evaluate_sequences(net, theta, config, part, folder, path)
    if as_json:
        say_json(found)
    elif "outputs" in found:
        say_lines(score_lines(found, "class" if net.head.integer_targets else "output"))
    else:
        for name, value in found.items():
            text = value if isinstance(value, str | int) else _figure(value)
            say(f"{FIGURES.get(name, name.replace('_', ' ')):<20}{text}")


@contextmanager
def or_another_file(folder: Any) -> Iterator[None]:
    """Let the message that a file of a run's own data is gone add how to give the command another file."""
    from hfrnn.runs.data import is_music
    from hfrnn.runs.own_data import LostFileError

    try:
        yield
    except LostFileError as error:
        if is_music(folder.config()):
            raise
        command = shell_command([*click.get_current_context().command_path.split(), str(folder.path)])
        raise InputError(f"{error}, or give another one: {command} FILE") from error


def score_lines(found: Mapping[str, Any], what: str) -> list[str]:
    """Return the lines that show figures: a head, and a table with a line for each output or class.

    Parameters
    ----------
    found : mapping
        What `evaluate_sequences` returns for arrays and tables.
    what : {"output", "class"}
    """
    where = found["data"] if "part" not in found else f"{found['part']} part of {found['data']}"
    sizes = f"{counted(found['sequences'], 'sequence')}, {counted(found['steps'], 'scored step')}"
    names, rows = [name for name in FIGURES if name in found], found["outputs"]
    width = max(len(what), len("overall"), *(min(len(name), 24) for name in rows)) + 1
    lines = [f"{where}: {sizes}, loss {four_digits(found['loss'])}"]
    lines.append(f"{what:<{width}}" + "".join(f"{FIGURES[name]:>{_wide(name)}}" for name in names))
    shown = list(rows.items())[:MOST_ROWS] if len(rows) > 1 or what == "class" else []
    for label, row in [*shown, ("overall", found)] if shown else [*rows.items()]:
        figures = "".join(f"{_figure(row[name]):>{_wide(name)}}" for name in names)
        lines.append(f"{label[:24]:<{width}}{figures}")
    if len(rows) > len(shown) > 0:
        lines.insert(-1, f"... and {len(rows) - len(shown)} more, which --json shows")
    scored = sum(any(value is not None for value in row.values()) for row in rows.values())
    if scored < len(rows):
        lines.append(f"overall covers {scored:,} of {counted(len(rows), 'output')}: the others have no scored target.")
    if "nrmse" in found:
        lines.append("NRMSE is the RMSE divided by the standard deviation of the targets.")
    return lines


def _wide(name: str) -> int:
    return max(_WIDTH, len(FIGURES[name]) + 2)


def _figure(value: float | None) -> str:
    return "-" if value is None else four_digits(value)
