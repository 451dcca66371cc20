"""Predictions as a file: a `.npz` of arrays, or a `.csv` with the prediction of every row of a table.

y                outputs in the units of the data, or probabilities; axes as in the file that was read
y_deviation      the predicted standard deviation of each output, for the gaussian loss; axes as those of y
layer0.h, ...    the state after every step, each array of each layer: (sequences, steps, units)
lengths          the steps of each sequence, if they differ
row              for a table: the row that each step predicts, counted from 1
time             for a table with a column of times: the time of that row; for dates, seconds after the first row
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.prediction import Prediction
from hfrnn.analysis.sequences import Given, times_of_rows
from hfrnn.arrays.backend import HostArray, host_copy
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError, Message

FORMATS = (".npz", ".csv")


def free_given(given: Given, warm_up: int | None) -> Given:
    """Return the sequences that a free run begins with: the first `warm_up` steps of all; None for all steps."""
    if warm_up is None:
        return given
    batch = given.batch
    shortest = batch.T if batch.lengths is None else int(host_copy(batch.lengths).min())
    if not 1 <= warm_up <= shortest:
        raise InputError(Message(
            "{warm_up!s} is {0}, and the shortest sequence has {1} steps: give 1 to {1}", warm_up, shortest
        ))  # fmt: skip
    return given._replace(batch=Batch(batch.inputs[:warm_up]).with_state(batch.initial_state))


def file_arrays(
    given: Given, prediction: Prediction, time_first: bool, free: HostArray | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file of predictions.

    `time_first` says whether the file has the steps on the first axis, before the sequences. `free` are the steps of
    each sequence in a free run, which begins after the last step of `given`.
    """

    def arranged(values: NDArray[Any]) -> NDArray[Any]:
        if given.recording:
            return values[..., 0, :]
        return np.ascontiguousarray(np.moveaxis(values, -2, 1 if time_first else 0))

    found = {"y": arranged(prediction.outputs)}
    if prediction.deviations is not None:
        found["y_deviation"] = arranged(prediction.deviations)
    for l, layer in enumerate(prediction.states or []):
        found.update({f"layer{l}.{name}": arranged(value) for name, value in layer.items() if value.ndim > 1})
    lengths = given.batch.lengths if free is None else free
    if lengths is not None and (host_copy(lengths) != len(prediction.outputs)).any():
        found["lengths"] = host_copy(lengths)
    if given.recording and given.input_names:
        first = 1 if free is None else given.batch.T
        found["row"] = np.arange(first, first + len(found["y"])) + given.ahead
    if given.recording and given.times is not None and len(given.times) > 1:
        found["time"] = times_of_rows(given.times, found["row"] - 1)
    return found


def csv_text(arrays: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> str:
    """Return a table of the predictions of one recording: the predicted row, perhaps its time, and each output.

    `arrays` are those of `file_arrays`. Without names, outputs are called y0, y1, ... Numbers have nine significant
    digits, and more if the range of their column is small beside its mean.
    """
    y, names = arrays["y"], names or tuple(f"y{k}" for k in range(arrays["y"].shape[1]))
    if "y_deviation" in arrays:
        y = np.concatenate([y, arrays["y_deviation"]], axis=1)
        names = (*names, *(f"{name}_deviation" for name in names))
    digits = [_digits(column) for column in y.T]
    rows = arrays.get("row", np.arange(1, len(y) + 1)).tolist()
    places = list(zip(rows, *([arrays["time"].tolist()] if "time" in arrays else []), strict=True))
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(["row", *(["time"] if "time" in arrays else []), *names])
    for place, values in zip(places, y.tolist(), strict=True):
        writer.writerow([*place, *(f"{value:.{n}g}" for value, n in zip(values, digits, strict=True))])
    return content.getvalue()


def _digits(column: NDArray[Any]) -> int:
    """Return how many significant digits of a column show about nine of its range."""
    size = float(np.abs(column).max(initial=0.0))
    if not 0.0 < size < math.inf:
        return 9
    share = max(float(np.ptp(column.astype("float64"))) / size, 1e-8)
    return 9 + max(math.ceil(-math.log10(share)) - 1, 0)
