"""The line at the top of a run in the report: the task, the best score, when it was reached, and what came after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hfrnn.choices import UNITS
from hfrnn.wording import four_digits, some_of

if TYPE_CHECKING:
    from hfrnn.analysis.scores import Score

NAMES = 3
"""Most names of inputs or outputs in the line."""
RISE = 1e-3
"""Least rise of a loss above its best value that is called one, as a share of that value."""

LogColumns = Mapping[str, Sequence[Any]]


def score_words(score: Score, names: Sequence[str]) -> str:
    """Return a score in the units of the data: `RMSE a 0.1200, b 3.400, fit 91.2%`, or `accuracy 97.0%`."""
    overall = score.overall
    if "rmse" not in overall:
        accuracy, entropy = overall["accuracy"], overall["cross_entropy"]
        if accuracy is not None:
            return f"accuracy {accuracy:.1%}"
        return "" if entropy is None else f"cross-entropy {four_digits(entropy)} nats"
    errors = {name: row["rmse"] for name, row in score.outputs.items() if row["rmse"] is not None}
    each = [f"{name} {four_digits(error)}" if names else four_digits(error) for name, error in errors.items()]
    fit = "" if overall["fit"] is None else f", fit {overall['fit']:.1f}%"
    return f"RMSE {some_of(each, NAMES)}{fit}"


def verdict(task: str, level: str, columns: LogColumns, score: str) -> str:
    """Return one line on a run from the columns of its log.

    `level` is that of the symbols of a text, "" for other data, and `score` that of the best weights in the units of
    the data, "" if it is not known.
    """
    updates = columns["update"]
    if not updates:
        return f"{task}: no update yet"
    part = "valid" if any(loss is not None for loss in columns["valid_loss"]) else "train"
    losses = [(n, loss) for n, loss in enumerate(columns[f"{part}_loss"]) if loss is not None]
    if not losses:
        return f"{task}: no loss is known after {updates[-1]:,} updates"
    best, least = min(losses, key=lambda each: each[1])
    figure = _figure(part, level, columns, best, least, score)
    name = "validation" if part == "valid" else "training loss"
    later = [loss for n, loss in losses if n > best]
    return f"{task}: {figure}; {name} best at {updates[best]:,} of {updates[-1]:,}{_since(least, later)}"


def _figure(part: str, level: str, columns: LogColumns, n: int, loss: float, score: str) -> str:
    """Return the best score: that in the units of the data, else the figures of record n."""
    errors, bits = columns["valid_errors"][n], columns[f"{part}_bits"][n]
    if bits is not None:
        perplexity = columns["valid_perplexity"][n] if part == "valid" else None
        more = "" if perplexity is None else f", perplexity {perplexity:.2f}"
        return f"{bits:.4f} bits per {UNITS[level]}{more}"
    if part == "valid" and errors is not None:
        return f"{errors:.1%} wrong" + (f", {score}" if score else "")
    return score or f"loss {four_digits(loss)}"


def _since(best: float, later: Sequence[float]) -> str:
    """Return what the loss has done since its best value, in words that follow it."""
    if not later:
        return ", the last one"
    middle = len(later) // 2
    means = [math.fsum(half) / len(half) for half in (later[: middle or 1], later[middle:])]
    rises = len(later) > 1 and means[1] > means[0] and later[-1] - best > RISE * abs(best)
    return ", rising since" if rises else ", not better since"
