"""Validation sequences for the report: targets, predictions, and principal components of the hidden states.

They are computed when a report is written: a run folder holds the weights, and the data are read again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.analysis.prediction import HostStates, most_varied, predict, scored_targets
from hfrnn.analysis.sequences import own_sequences
from hfrnn.arrays.backend import HostArray
from hfrnn.engine.batch import Batch
from hfrnn.errors import HfrnnError
from hfrnn.runs.data import is_arrays, is_text
from hfrnn.runs.load import load
from hfrnn.runs.run_folder import RunFolder

SEQUENCES = 3
"""Sequences that the page draws."""
OUTPUTS = 3
"""Outputs that the page draws: those whose targets vary most."""
STEPS = 1000
"""Most steps of a sequence that the page draws."""
FITTED = 20
"""Sequences whose states give the principal components."""
COMPONENTS = 3


def read_examples(folder: RunFolder) -> dict[str, Any] | None:
    """Return some validation sequences of a run on real values, or with classes of arrays, as JSON values.

    Parameters
    ----------
    folder : RunFolder

    Returns
    -------
    dict or None
        None for a text or a task of symbols. Else `why`, the reason why there are no sequences, or
        `outputs` : names of the drawn outputs
        `shares` : shares of the variance of the states that the principal components have
        `sequences` : for each sequence `targets` and `predictions`, a list of numbers for each output (None where the
        target is not scored), and `components`, a list of numbers for each principal component
    """
    config = folder.config()
    if is_text(config):
        return None
    try:
        net, theta, _ = load(folder.path)
        if net.head.integer_targets and not is_arrays(config):
            return None
        given = own_sequences(folder)
        batch = _first_steps(given.batch)
        predicted = predict(net, theta, batch, states=True, scaling=given.scaling)
    except HfrnnError as error:
        return {"why": f"The predictions of this run cannot be computed: {error}."}
    assert predicted.states is not None
    lengths = np.full(batch.B, batch.T) if batch.lengths is None else np.asarray(batch.lengths)
    components, shares = principal_components(predicted.states, lengths)
    targets = scored_targets(net, batch)
    chosen = most_varied(targets, OUTPUTS)
    what = "class" if net.head.integer_targets else "output"
    return {
        "outputs": [given.output_names[k] if given.output_names else f"{what} {k}" for k in chosen],
        "shares": [round(share, 4) for share in shares],
        "sequences": [
            {
                "targets": [_numbers(targets[:length, b, k]) for k in chosen],
                "predictions": [_numbers(predicted.outputs[:length, b, k]) for k in chosen],
                "components": [_numbers(component) for component in components[:length, b].T],
            }
            for b, length in enumerate(lengths[:SEQUENCES].tolist())
        ],
    }  # fmt: skip


def principal_components(states: HostStates, lengths: HostArray) -> tuple[HostArray, list[float]]:
    """Return the first principal components of hidden states.

    Parameters
    ----------
    states : list of dict
        The states of every step, as `net.run(..., states=True)` returns them. The hidden states of all layers count;
        cells and context units do not. Of a history, only its newest states count. Layers without a state, as in a
        feed-forward network, do not count.
    lengths : (B,) integers
        The steps of each sequence.

    Returns
    -------
    components : (T, B, 3) array
        Fewer than 3 if the states have fewer directions, none without states; arbitrary in the padding.
    shares : list of float
        Share of the variance that each component has.
    """
    if not any(states):
        return np.zeros((int(lengths.max()), len(lengths), 0)), []
    hidden = np.concatenate([_hidden(layer) for layer in states if layer], axis=-1).astype(np.float64)  # (T, B, H)
    exists = np.arange(len(hidden))[:, None] < lengths
    mean = hidden[exists].mean(axis=0)
    _, sizes, directions = np.linalg.svd(hidden[exists] - mean, full_matrices=False)
    kept = directions[:COMPONENTS]
    kept = kept * np.where(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)] < 0, -1, 1)[:, None]
    variance = sizes**2
    shares = variance[: len(kept)] / max(float(variance.sum()), np.finfo(float).tiny)
    return (hidden - mean) @ kept.T, shares.tolist()


def _hidden(layer: dict[str, HostArray]) -> HostArray:
    """Return the hidden state (T, B, H) of a layer, the first of its arrays."""
    first = next(value for value in layer.values() if value.ndim >= 3)
    return first[:, 0] if first.ndim == 4 else first


def _first_steps(batch: Batch) -> Batch:
    """Return the first steps of the first sequences."""
    part, T = batch.columns(0, min(FITTED, batch.B)), min(batch.T, STEPS)
    weights = None if part.weights is None else part.weights[:T]
    lengths = None if part.lengths is None else np.minimum(part.lengths, T)
    return Batch(part.inputs[:T], None if part.targets is None else part.targets[:T], weights, lengths)


def _numbers(values: HostArray) -> list[float | None]:
    """Return numbers with five significant digits; None for what is not finite."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]
