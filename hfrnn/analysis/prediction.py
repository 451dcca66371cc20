"""Run a trained network on sequences: predict, and score the predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.initial_states import estimated
from hfrnn.analysis.scores import Score, figures
from hfrnn.arrays.backend import Array, HostArray, host_copy
from hfrnn.checks import first_twice, flag, instance, shown
from hfrnn.data.scaling import Scaling
from hfrnn.engine.batch import Batch
from hfrnn.engine.heads.own_loss import LossHead
from hfrnn.engine.network import Network
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.losses import LOSSES
from hfrnn.wording import brief

STEPS = 1000
"""Most steps that run at once where the state is carried; the results do not depend on it."""
TOGETHER = 50_000
"""Most steps of all sequences that run at once."""

HostStates = list[dict[str, HostArray]]


@brief
class Prediction(NamedTuple):
    """What a network predicts.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> hfrnn.Prediction(np.zeros((5, 4, 1)), None)
    Prediction(outputs=float64 (5, 4, 1), states=None, deviations=None)
    """

    outputs: HostArray
    """Real values, rates of the poisson loss, or probabilities, (T, B, n_out); 0 in the padding."""
    states: HostStates | None
    """The state after every step if asked, one dict of arrays (T, B, H) per layer, as `net.run(..., states=True)`."""
    deviations: HostArray | None = None
    """The predicted standard deviations of the gaussian loss, (T, B, n_out); None for other losses."""


def predict(
    net: Network, theta: Array, batch: Batch, states: bool = False, scaling: Scaling | None = None,
    estimate_state: int | None = None,
) -> Prediction:  # fmt: skip
    """Predict the outputs of every step.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    batch : Batch
        Targets are needed for `estimate_state` only.
    states : bool
        Whether to return the state after every step too.
    scaling : Scaling, optional
        The scaling of the run (`hfrnn.load_scaling`). The batch and the results are then in the units of the data.
    estimate_state : int, optional
        Steps of each sequence whose targets give the state before the first one (`estimate_initial_state`). By default
        the states are those of the batch, else the learned one, else zeros.

    Returns
    -------
    Prediction
        Arrays in the memory of the host.

    Raises
    ------
    InputError
        The batch does not fit the network.
    NonFiniteError
        An output is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)))  # 5 steps of 4 sequences
    >>> hfrnn.predict(net, net.init(seed=0), batch).outputs.shape
    (5, 4, 1)
    """
    theta, states = checked_vector(net, theta, batch), flag("states", states)
    instance("scaling", scaling, Scaling, "the scaling of the run, as hfrnn.load_scaling returns it", or_none=True)
    if estimate_state is not None:
        batch = estimated(net, theta, batch, estimate_state, scaling)
    columns = [_run_columns(net, theta, read_batch(net, part, scaling), states) for part in parts_of(batch)]
    outputs = np.concatenate([_lengthened(z, batch.T) for z, _ in columns], axis=1)
    every = [
        [{name: _lengthened(x, batch.T) if x.ndim > 1 else x for name, x in layer.items()} for layer in each]
        for _, each in columns if each is not None
    ]  # fmt: skip
    found = _joined(every, lambda array: None if array.ndim == 1 else -2)  # all sequences share the time of clockwork
    deviations = _deviations(net, outputs, batch, scaling)
    return Prediction(_expected(net, outputs, batch, scaling), found, deviations)


def score(
    net: Network, theta: Array, batch: Batch, names: Sequence[str] | None = None, scaling: Scaling | None = None,
    estimate_state: int | None = None,
) -> Score:  # fmt: skip
    """Score the predictions of a network: mean squared error, R2, NRMSE and fit, or cross-entropy and accuracy.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    batch : Batch
        Its weights and lengths count as in training.
    names : sequence of str, optional
        Names of the outputs or classes; by default their numbers, counted from 0.
    scaling : Scaling, optional
        The scaling of the run (`hfrnn.load_scaling`). The batch and the results are then in the units of the data.
    estimate_state : int, optional
        Steps of each sequence whose targets give the state before the first one (`estimate_initial_state`). By default
        the states are those of the batch, else the learned one, else zeros.
        Weights say which of these steps are scored too.

    Returns
    -------
    Score
        The overall figures and those of each output.

    Raises
    ------
    InputError
        The batch does not fit the network, or has no targets.
    NonFiniteError
        An output is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))  # 5 steps of 4 sequences
    >>> sorted(hfrnn.score(net, net.init(seed=0), batch).overall)
    ['fit', 'mse', 'nrmse', 'r2', 'rmse']
    """
    theta = checked_vector(net, theta, batch)
    check_names(net, names)
    if not isinstance(batch, RaggedBatch) and batch.targets is None:
        raise InputError("the batch has no targets: give them to score the predictions")
    if estimate_state is not None:
        batch = estimated(net, theta, batch, estimate_state, scaling)
    rows = []
    for part in parts_of(batch):
        read = read_batch(net, part, scaling)
        net.prepare(read)  # checks the targets and weights
        rows.append(scored_rows(_run_columns(net, theta, read)[0], part))
    outputs, targets, weights = (np.concatenate(each) for each in zip(*rows, strict=True))
    loss = net.loss_name
    if LOSSES[loss].real_values:
        loss, outputs = "squared", expected_values(net, outputs, scaling)
    return figures(loss, outputs, targets, weights, names)


def check_names(net: Network, names: Sequence[str] | None) -> None:
    """Raise InputError unless names are one string for each output, all different, or None."""
    listed = isinstance(names, list | tuple) and len(names) == net.n_out and all(isinstance(n, str) for n in names)
    if names is not None and not listed:
        raise InputError(f"names is {shown(names)}: give a list of {net.n_out} strings, one for each output, or None")
    if names is not None and (twice := first_twice(names)) is not None:
        raise InputError(f"names has {shown(twice)} twice, and figures have one line for each name: give other names")


def scored_rows(outputs: HostArray, batch: Batch) -> tuple[HostArray, HostArray, HostArray]:
    """Return the outputs (N, n_out), targets (N, ...) and weights (N, ...) of the steps with a weight above 0."""
    assert batch.targets is not None
    weights = np.ones((batch.T, batch.B)) if batch.weights is None else host_copy(batch.weights)
    exists = exists_in(batch)
    weights = np.where(exists if weights.ndim == 2 else exists[:, :, None], weights, 0)
    used = weights > 0 if weights.ndim == 2 else (weights > 0).any(axis=2)
    return outputs[used], host_copy(batch.targets)[used], weights[used]


def scored_targets(net: Network, batch: Batch) -> HostArray:
    """Return the targets (T, B, n_out) in float64, NaN where they are not scored; a class is 1 among zeros."""
    targets, weights = host_copy(batch.targets), net.backend.to_host(batch.output_weights(net.backend))
    if targets.ndim == 2:
        targets = np.eye(net.n_out)[np.where(weights[..., 0] > 0, targets, 0)]
    return np.where(weights > 0, targets, np.nan).astype(np.float64)


def most_varied(values: HostArray, most: int) -> list[int]:
    """Return the numbers of the outputs of (T, B, n_out) values that vary most, in order; NaN does not count."""
    known = np.isfinite(values)
    counts = np.maximum(known.sum(axis=(0, 1)), 1)
    mean = np.where(known, values, 0.0).sum(axis=(0, 1)) / counts
    spread = (np.where(known, values - mean, 0.0) ** 2).sum(axis=(0, 1)) / counts
    return sorted(np.argsort(-spread, kind="stable")[:most].tolist())


def checked_vector(net: Network, theta: Array, batch: Batch) -> Array:
    """Return theta on the device of a network, after checking the three arguments."""
    theta = instance("net", net, Network, "a hfrnn.Network").vector(theta)
    instance("batch", batch, Batch, "a hfrnn.Batch")
    return theta


def read_batch(net: Network, batch: Batch, scaling: Scaling | None) -> Batch:
    """Return the batch with its inputs as the network reads them, and its targets as they are."""
    instance("scaling", scaling, Scaling, "the scaling of the run, as hfrnn.load_scaling returns it", or_none=True)
    if scaling is None:
        return batch
    inputs = host_copy(batch.inputs)
    if inputs.ndim == 3:
        width = len(scaling.input_mean) if scaling.input_mean is not None else inputs.shape[2]
        if inputs.shape[2] != width:
            raise InputError(f"inputs have {inputs.shape[2]} values per step, and the scaling is for {width}")
        inputs = scaling.scale_inputs(inputs).astype(net.dtype)
    return Batch(inputs, batch.targets, batch.weights, batch.lengths, batch.initial_state)


def _lengthened(values: HostArray, T: int) -> HostArray:
    """Return an array of T steps: zeros follow its own."""
    if len(values) == T:
        return values
    return np.concatenate([values, np.zeros((T - len(values), *values.shape[1:]), values.dtype)])


def parts_of(batch: Batch) -> Iterator[Batch]:
    """Yield the batch in parts of a bounded number of steps."""
    if isinstance(batch, RaggedBatch):
        start = 0
        for stop in range(1, batch.B + 1):
            if stop == batch.B or int(batch.lengths[start : stop + 1].max()) * (stop + 1 - start) > TOGETHER:
                yield batch.columns(start, stop)
                start = stop
        return
    width = max(TOGETHER // min(batch.T, STEPS if batch.lengths is None else batch.T), 1)
    for start in range(0, batch.B, width):
        yield batch.columns(start, min(start + width, batch.B))


def in_time(
    net: Network, theta: Array, batch: Batch, states: bool = False
) -> Iterator[tuple[HostArray, list[dict[str, Any]], HostStates | None]]:
    """Yield outputs, the state after them, and every state if asked, at most `STEPS` steps at a time.

    Sequences of mixed lengths run in one go.
    """
    state = batch.initial_state
    for start in range(0, batch.T, STEPS if batch.lengths is None else batch.T):
        mixed = batch.lengths is not None
        part = batch if mixed else Batch(batch.inputs[start : start + STEPS]).with_state(state)
        every = None
        if states:
            z, state, found = net.run(theta, part, states=True)
            every = [{name: net.backend.to_host(value) for name, value in layer.items()} for layer in found]
        else:
            z, state = net.run(theta, part)
        yield net.backend.to_host(z), state, every


def _run_columns(net: Network, theta: Array, batch: Batch, states: bool = False) -> tuple[HostArray, HostStates | None]:
    """Return the outputs (T, B, n_out) of some sequences before any softmax, and the state of every step if asked."""
    with np.errstate(over="ignore", invalid="ignore"):  # outputs that are not finite are refused below
        parts = list(in_time(net, theta, batch, states))
    outputs = np.concatenate([z for z, _, _ in parts])
    if not np.isfinite(outputs).all():
        raise NonFiniteError("the network's outputs are not finite: its weights are too large, use another checkpoint")
    return outputs, _joined([every for _, _, every in parts if every is not None], lambda array: 0)


def _joined(parts: list[HostStates], axis: Callable[[HostArray], int | None]) -> HostStates | None:
    """Join states along an axis; None takes the longest array as it is. There are no states without parts."""
    found: HostStates = []
    for l, layer in enumerate(parts[0] if parts else []):
        found.append({})
        for name, first in layer.items():
            along = axis(first)
            arrays = [part[l][name] for part in parts]
            found[l][name] = max(arrays, key=len) if along is None else np.concatenate(arrays, axis=along)
    return found or None


def _expected(net: Network, z: HostArray, batch: Batch, scaling: Scaling | None) -> HostArray:
    """Return outputs as real values in the units of the data, or probabilities; 0 in the padding."""
    if LOSSES[net.loss_name].real_values:
        p = expected_values(net, z, scaling)
    elif net.loss_name == "logistic":
        p = 0.5 * np.tanh(0.5 * z) + 0.5
    else:
        p = np.exp(z - z.max(axis=2, keepdims=True))
        p /= p.sum(axis=2, keepdims=True)
    return np.where(exists_in(batch)[:, :, None], p, 0).astype(p.dtype)


def expected_values(net: Network, z: HostArray, scaling: Scaling | None) -> HostArray:
    """Return the predicted targets (..., n_out) in the units of the data, given outputs z of the network."""
    p = net.head.loss.prediction(np, z) if isinstance(net.head, LossHead) else z
    return p if scaling is None else scaling.unscale_outputs(p)


def _deviations(net: Network, z: HostArray, batch: Batch, scaling: Scaling | None) -> HostArray | None:
    """Return the predicted standard deviations in the units of the data, 0 in the padding; None without them."""
    found = net.head.loss.deviation(np, z) if isinstance(net.head, LossHead) else None
    if found is None:
        return None
    if scaling is not None and scaling.target_deviation is not None:
        found = found * scaling.target_deviation
    return np.where(exists_in(batch)[:, :, None], found, 0).astype(z.dtype)


def exists_in(batch: Batch) -> NDArray[np.bool_]:
    """Return which steps (T, B) are not padding."""
    lengths = np.full(batch.B, batch.T) if batch.lengths is None else host_copy(batch.lengths)
    return np.arange(batch.T)[:, None] < lengths
