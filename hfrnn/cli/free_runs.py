"""Options of commands that let a network run on its own outputs, and the scores of such runs."""

from __future__ import annotations

from typing import Any

import click

from hfrnn.errors import InputError

WHOLE = "all"
"""What stands for all steps that the data have."""
feedback_option = click.option(
    "--feedback", metavar="NAMES", help="Inputs that outputs become; 0: none.  [default: by name]"
)


def columns_of(folder: Any, given: Any, net: Any, feedback: str | None) -> list[int | None] | None:
    """Return the inputs that the outputs of a network are one step later, as an option or the names say."""
    from hfrnn.data.feedback import feedback_columns

    chosen = folder.config().values.get("feedback")
    if feedback is not None:
        chosen = [each.strip() for each in feedback.split(",")]
    return feedback_columns(chosen, given.input_names, given.output_names, given.ahead, net.n_in, net.n_out)


def steps_of(text: str, option: str) -> int | None:
    """Return a number of steps; None for "all"."""
    if text == WHOLE:
        return None
    if text.isdecimal() and len(text) < 19 and int(text) > 0:
        return int(text)
    raise InputError(f"{option} is {text}: give a whole number of steps, 1 or more, or {WHOLE}")


def scores_ahead(
    net: Any, theta: Any, given: Any, ahead: list[int | None], columns: list[int | None] | None
) -> dict[str, Any]:
    """Return a `Score` for each number of steps, in the order of `ahead`."""
    from hfrnn.analysis.free_runs import score_ahead, score_free_run

    how = {"names": given.names, "scaling": given.scaling, "feedback": columns}
    numbers = [k for k in ahead if k is not None]
    found = score_ahead(net, theta, given.batch, numbers, **how) if numbers else {}
    whole = score_free_run(net, theta, given.batch, **how) if None in ahead else None
    return {WHOLE if k is None else str(k): whole if k is None else found[k] for k in ahead}
