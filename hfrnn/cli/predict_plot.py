"""The plot of predictions and their targets. It needs matplotlib (extra `plot`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hfrnn.analysis.prediction import most_varied, scored_targets
from hfrnn.analysis.sequences import Given
from hfrnn.arrays.backend import host_copy
from hfrnn.cli.picture import rendered
from hfrnn.engine.network import Network

SEQUENCES, OUTPUTS = 3, 4
"""Most sequences and outputs that are drawn: the first sequences, and the outputs that vary most."""
STEPS_BEFORE = 200
"""Most steps that are drawn before a free run."""


def picture(net: Network, given: Given, begun: Given, outputs: NDArray[Any], kind: str, free: bool) -> bytes:
    """Return a picture of targets and predictions over the steps, as svg, png or pdf.

    Parameters
    ----------
    net : Network
    given : Given
        The sequences of the data.
    begun : Given
        Those that the network read; the first steps of `given` for a free run.
    outputs : (T, B, n_out) array
        The predictions.
    kind : {"svg", "png", "pdf"}
    free : bool
        Whether the predictions are those of a free run. The inputs of `given` are then its targets, one step ahead.
    """
    T, B, n_out = outputs.shape
    names = given.output_names or tuple(
        f"{'class' if net.head.integer_targets else 'output'} {k}" for k in range(n_out)
    )
    targets = host_copy(given.batch.inputs) if free else None
    if not free and given.batch.targets is not None:
        targets = scored_targets(net, given.batch)
    chosen = most_varied(outputs if targets is None else targets, OUTPUTS)
    columns, rows = min(B, SEQUENCES), len(chosen)
    figure = Figure(figsize=(11.0 if columns == 1 else 4.5 * columns, 1.2 + 1.7 * rows), layout="constrained")
    figure.suptitle(f"{given.name}\n{net.describe()}", fontsize="medium")
    axes = figure.subplots(rows, columns, squeeze=False, sharex="col")
    first = 1 if given.recording else 0  # rows of a recording are counted from 1
    for b in range(columns):
        length = _length(given, b)
        if free:
            start = _length(begun, b)
            shown, at = slice(max(start - STEPS_BEFORE, 0), min(start + T, length)), np.arange(start, start + T) + first
            known_at, predicted = np.arange(length)[shown] + first, outputs[:, b]
        else:
            shown, predicted = slice(length), outputs[:length, b]
            known_at = at = np.arange(length) + first + (given.ahead if given.recording else 0)
        for row, k in enumerate(chosen):
            place = axes[row, b]
            if targets is not None:
                _draw_known(place, known_at, targets[shown, b, k], "data" if free else "target")
            place.plot(at, predicted[:, k], color="C0", linewidth=1, label="prediction")
            place.grid(alpha=0.3)
            place.set_ylabel(names[k] if b == 0 else "")
        if not given.recording:
            axes[0, b].set_title(f"sequence {b}", fontsize="small")
        axes[rows - 1, b].set_xlabel("row" if given.recording else "step")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", frameon=False, fontsize="small")
    return rendered(figure, kind)


def _draw_known(place: Any, at: NDArray[Any], values: NDArray[Any], label: str) -> None:
    """Draw values as a line, and those between two unknown ones as dots."""
    known = np.concatenate([[False], np.isfinite(values), [False]])
    lone = known[1:-1] & ~known[:-2] & ~known[2:]
    place.plot(at, values, color="0.45", linewidth=1.2, label=label)
    place.plot(at[lone], values[lone], "o", markersize=4, color="0.45")


def _length(given: Given, b: int) -> int:
    return given.batch.T if given.batch.lengths is None else int(given.batch.lengths[b])
