"""Validation sequences for the report: targets and predictions, computed when a report is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.analysis.prediction import most_varied, predict, score, scored_targets
from hfrnn.analysis.sequences import own_sequences
from hfrnn.arrays.backend import HostArray
from hfrnn.engine.batch import Batch
from hfrnn.errors import HfrnnError
from hfrnn.report.verdict import score_words
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load

SEQUENCES = 3
"""Sequences that the page draws."""
OUTPUTS = 3
"""Outputs that the page draws: those whose targets vary most."""
STEPS = 1000
"""Most steps of a sequence that the page draws."""


def read_examples(folder: RunFolder) -> dict[str, Any] | None:
    """Return some validation sequences of a run on real values, or with classes of arrays, as JSON values.

    There are none (None) for a text or a task of symbols. `why` says why others cannot be computed. Else `outputs` are
    the names of the drawn outputs, and each of `sequences` has `targets` and `predictions`, a list of numbers for each
    output (None where the target is not scored). `score` is that of the whole validation part in words.
    """
    kind = folder.config().kind
    if kind.in_bits:
        return None
    try:
        net, theta, _ = load(folder.path)
        if net.head.integer_targets and not kind.has_parts:
            return None
        given = own_sequences(folder, washout=folder.config().values.get("washout"))
        batch = _first_steps(given.batch)
        predicted = predict(net, theta, batch, scaling=given.scaling)
        words = ""
        if kind.scores_outputs:
            words = score_words(score(net, theta, given.batch, given.names, given.scaling), given.output_names)
    except HfrnnError as error:
        return {"why": f"The predictions of this run cannot be computed: {error}."}
    lengths = np.full(batch.B, batch.T) if batch.lengths is None else np.asarray(batch.lengths)
    targets = scored_targets(net, batch)
    chosen = most_varied(targets, OUTPUTS)
    what = "class" if net.head.integer_targets else "output"
    return {
        "score": words,
        "outputs": [given.output_names[k] if given.output_names else f"{what} {k}" for k in chosen],
        "sequences": [
            {
                "targets": [_numbers(targets[:length, b, k]) for k in chosen],
                "predictions": [_numbers(predicted.outputs[:length, b, k]) for k in chosen],
            }
            for b, length in enumerate(lengths.tolist())
        ],
    }  # fmt: skip


def _first_steps(batch: Batch) -> Batch:
    """Return the first steps of the first sequences."""
    part, T = batch.columns(0, min(SEQUENCES, batch.B)), min(batch.T, STEPS)
    weights = None if part.weights is None else part.weights[:T]
    lengths = None if part.lengths is None else np.minimum(part.lengths, T)
    targets = None if part.targets is None else part.targets[:T]
    return Batch(part.inputs[:T], targets, weights, lengths, part.initial_state)


def _numbers(values: HostArray) -> list[float | None]:
    """Return numbers with five significant digits; None for what is not finite."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]
