"""A batch of sequences: inputs, targets, weights, lengths and initial states. Arrays are time-major."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array, as_array, is_array, is_tensor, shown_type
from hfrnn.arrays.backend import Array, Backend, HostArray, get_backend, host_copy
from hfrnn.arrays.tensors import shared
from hfrnn.checks import count, is_number, shown
from hfrnn.errors import InputError
from hfrnn.wording import counted, short

State = Sequence[dict[str, Any]]
"""One dict of arrays per layer. The batch is axis -2; an integer `t` holds for the whole batch."""
GivenState = State | Array
"""A state, or its entries as an array (B, n)."""


class Batch:
    """Sequences to train on or to score, with time on the first axis.

    Parameters
    ----------
    inputs : (T, B) integer symbols, or (T, B, n_in) real values
    targets : (T, B) integer symbols, or (T, B, n_out) real values; optional
        Symbols for the softmax and class softmax, real values for the other losses; the softmax also takes
        probabilities (T, B, n_out). Not needed to run a network. Where the weight is 0 and in the padding, symbols may
        be any integers, such as -100, and real values may be NaN.
    weights : (T, B) array of numbers, 0 or more, or (T, B, n_out) for the squared and logistic losses; optional
        The weight of each step's loss, or of each output's loss; 0 where nothing is predicted. Default 1.
    lengths : (B,) integers from 1 to T, optional
        An array or a list: the number of steps of each sequence. Later steps are padding: they are computed, but do not
        count. If the states overflow there, the derivatives may be NaN. Default T.
    initial_state : sequence of dict, (B, n) array of real values, or (B,) integers; optional
        The state before the first step, one dict of arrays per layer, as `net.run` returns it. The batch is axis -2.
        For clockwork the dict also holds the time `t`, one integer for the whole batch. Or all entries of each
        sequence's state in a row, layer by layer, the names of a layer's arrays sorted, without `t`; a row of NaN
        stands for zeros. Or (B,) integers: the numbers of recordings whose states the network has learned (its
        argument `recordings`), counted from 0; -1 for another recording. Default zeros, or the state that the network
        has learned.

    Raises
    ------
    InputError
        The shapes do not match each other, or a number is out of range.

    Notes
    -----
    Tensors of PyTorch are taken too, and read where they are: on the host as NumPy arrays, on a GPU as CuPy arrays.

    The loss of a batch is `sum w*loss / sum w`, where the loss of a step sums over its outputs. With weights
    (T, B, n_out), each step adds `sum_k w_k*loss_k`, over its outputs k, to the numerator, and the mean of its w_k to
    the denominator. The loss of the batch is then n_out times the weighted mean of the losses of all outputs. Weights
    that are equal over the outputs give the same results as the weights (T, B) that they repeat.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> symbols = np.zeros((11, 3), dtype=int)  # 3 sequences of 11 symbols, time first
    >>> hfrnn.Batch(symbols[:-1], symbols[1:])
    <Batch of 3 sequences, 10 steps: inputs int64 (10, 3), targets int64 (10, 3)>
    """

    def __init__(
        self,
        inputs: Array,
        targets: Array | None = None,
        weights: Array | None = None,
        lengths: Array | None = None,
        initial_state: GivenState | None = None,
    ) -> None:
        inputs, targets = _without_tensors("inputs", inputs), _without_tensors("targets", targets)
        weights, lengths = _without_tensors("weights", weights), _without_tensors("lengths", lengths)
        inputs = as_array("inputs", inputs)
        if inputs.ndim not in (2, 3) or inputs.dtype.kind not in ("iu" if inputs.ndim == 2 else "f"):
            raise InputError(
                f"inputs are {_describe(inputs)}; expected an array (T, B) of integer symbols or (T, B, n_in) of real "
                "values, time first"
            )
        T, B = inputs.shape[:2]
        if T < 1 or B < 1:
            raise InputError(f"inputs are {_describe(inputs)}; at least one step and one sequence are needed")
        if targets is not None:
            targets = as_array("targets", targets)
            if targets.dtype.kind not in "iuf":
                raise InputError(
                    f"targets have type {shown_type(targets)}: give integer symbols or floating-point numbers, for "
                    "example targets.astype(float)"
                )
            if targets.ndim not in (2, 3) or targets.shape[:2] != (T, B):
                raise InputError(
                    f"targets are {_describe(targets)}; inputs of {T} steps and {B} sequences need ({T}, {B}, ...)"
                )
        if weights is not None:
            weights = _checked_weights(weights, (T, B), targets, finite=lengths is None)
        if lengths is not None:
            home = get_backend("numpy") if isinstance(lengths, list | tuple | range) else None
            lengths = array("lengths", lengths, (B,), "iu", backend=home, advice="one per sequence")
            low, high = lengths.min().item(), lengths.max().item()
            if low < 1 or high > T:
                raise InputError(f"lengths go from {low} to {high}; expected 1 to {T}")
        if initial_state is not None:
            initial_state = _state_without_tensors(initial_state)
            initial_state = _checked_rows(initial_state, B) if is_array(initial_state) else initial_state
            _check_state(initial_state)
        self.inputs, self.targets, self.weights, self.lengths = inputs, targets, weights, lengths
        self.initial_state = initial_state
        self.host: Batch | None = None  # the same batch in the memory of the host, if it was moved from there

    def __repr__(self) -> str:
        names = ("inputs", "targets", "weights", "lengths")
        held = ", ".join(f"{name} {short(x)}" for name in names if (x := getattr(self, name)) is not None)
        return f"<Batch of {counted(self.B, 'sequence')}, {counted(self.T, 'step')}: {held}>"

    def __copy__(self) -> Batch:
        """Return a batch with the same arrays. They stay on their device; pickling would move them to the host."""
        found = Batch.__new__(Batch)
        found.__dict__.update(self.__dict__)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the arrays, in the memory of the host."""
        state = dict(self.__dict__)
        for name in ("inputs", "targets", "weights", "lengths"):
            state[name] = host_copy(state[name])
        if self.initial_state is not None:
            layers: Any = self.initial_state
            state["initial_state"] = host_copy(layers) if is_array(layers) else [
                {name: host_copy(x) for name, x in layer.items()} for layer in layers
            ]  # fmt: skip
        return state

    @property
    def T(self) -> int:
        """The number of steps."""
        return int(self.inputs.shape[0])

    @property
    def B(self) -> int:
        """The number of sequences."""
        return int(self.inputs.shape[1])

    @property
    def symbols(self) -> bool:
        """Whether the inputs are symbols."""
        return bool(self.inputs.ndim == 2)

    @property
    def weighs_outputs(self) -> bool:
        """Whether every output has its own weight."""
        return self.weights is not None and self.weights.ndim == 3

    def made_ready(self, ready: Callable[[Batch], Batch]) -> Batch:
        """Return this batch after a function has made it ready for a network."""
        return ready(self)

    @property
    def shard_lengths(self) -> HostArray | None:
        """The steps of each sequence, if shards are padded to their own longest one only; None if all have T steps."""
        return None

    def by_length(self) -> Batch:
        """Return the sequences in an order that suits shards: this batch, whose shards all have T steps."""
        return self

    def padded(self) -> Batch:
        """Return the batch with arrays of all sequences: this one."""
        return self

    def columns(self, start: int, stop: int) -> Batch:
        """Return a batch of the sequences from `start` up to, but not including, `stop`; its arrays are views."""
        count("start", start, 0, self.B - 1), count("stop", stop, int(start) + 1, self.B)
        part = copy.copy(self)
        part.inputs = self.inputs[:, start:stop]
        part.targets = None if self.targets is None else self.targets[:, start:stop]
        part.weights = None if self.weights is None else self.weights[:, start:stop]
        part.lengths = None if self.lengths is None else self.lengths[start:stop]
        part.host = None if self.host is None else self.host.columns(start, stop)
        if self.initial_state is not None:
            part.initial_state = chosen_states(self.initial_state, slice(start, stop))
        return part

    def with_state(self, state: GivenState | None) -> Batch:
        """Return this batch with a state from the network itself, which is not checked: it may be infinite or NaN."""
        found = copy.copy(self)
        found.initial_state = state
        return found

    def home(self, backend: Backend) -> Backend:
        """Return the backend where the arrays lie: NumPy, or the one that is given."""
        given = (self.inputs, self.targets, self.weights, self.lengths)
        on_host = all(x is None or isinstance(x, np.ndarray) for x in given)
        return get_backend("numpy") if on_host and not backend.on_host else backend

    def moved(self, backend: Backend) -> Batch:
        """Return this batch, whose arrays lie on the host, on the device of a backend."""
        found = copy.copy(self)
        found.inputs, found.host = backend.asarray(self.inputs), self
        found.targets = None if self.targets is None else backend.asarray(self.targets)
        found.weights = None if self.weights is None else backend.asarray(self.weights)
        return found

    def exists(self, backend: Backend) -> Array | None:
        """Return (T, B) Booleans that are False in the padding, or None if the batch has no `lengths`."""
        if self.lengths is None:
            return None
        steps = backend.xp.arange(self.T).reshape(self.T, 1)
        return steps < backend.asarray(self.lengths).reshape(1, self.B)

    def output_weights(self, backend: Backend) -> Array:
        """Return the weights in float64, 0 in the padding: (T, B, n_out), or (T, B, 1) if they are given per step."""
        xp = backend.xp
        if self.weights is None:
            weights = xp.ones((self.T, self.B, 1), dtype="float64")
        else:
            weights = backend.asarray(self.weights, dtype="float64").reshape(self.T, self.B, -1)
        exists = self.exists(backend)
        return weights if exists is None else xp.where(exists[:, :, None], weights, 0.0)

    def step_weights(self, backend: Backend) -> Array:
        """Return the weights of the steps (T, B) in float64, 0 in the padding: the mean over the outputs of a step."""
        return mean_over_outputs(self.output_weights(backend))

    def output_shares(self, backend: Backend) -> Array | None:
        """Return each output's weight divided by the weight of its step, (T, B, n_out) in float64.

        A step without weight has shares of 0. The result is None if the weights are given per step.
        """
        if self.weights is None or self.weights.ndim == 2:
            return None
        weights = self.output_weights(backend)
        steps = mean_over_outputs(weights)[:, :, None]
        return weights / backend.xp.where(steps > 0, steps, 1.0)

    def total_weight(self, backend: Backend) -> float:
        """Return the sum of the weights of all steps outside the padding; raise InputError if it is 0 or infinite."""
        weights = self.step_weights(backend) if self.host is None else self.host.step_weights(get_backend("numpy"))
        with np.errstate(over="ignore"):  # an infinite sum is refused
            return checked_total(float(weights.sum().item()))


def chosen_states(state: GivenState | None, columns: Any) -> Any:
    """Return the states of some sequences, by a slice, numbers or Booleans; None without states."""
    if state is None or is_array(state):
        return None if state is None else state[columns]
    return [
        {name: x[..., columns, :] if getattr(x, "shape", ()) else x for name, x in layer.items()} for layer in state
    ]


def joined_states(xp: Any, parts: Sequence[State]) -> list[dict[str, Any]]:
    """Return the states of several batches as those of one; an integer `t` is that of the first."""
    return [
        {
            name: xp.concatenate([part[l][name] for part in parts], axis=-2) if getattr(x, "shape", ()) else x
            for name, x in layer.items()
        }
        for l, layer in enumerate(parts[0])
    ]


def checked_total(total: float) -> float:
    """Return the sum of the weights of a batch; raise InputError if it is 0 or infinite."""
    if not total > 0:
        raise InputError("the weights of the batch sum to 0: give at least one step a weight above 0")
    if total == float("inf"):
        raise InputError("the weights of the batch sum to infinity: give smaller weights")
    return total


def zero_padding(backend: Backend, values: Array, exists: Array | None) -> Array:
    """Return an array (T, B, ...) of a backend, with 0 where `exists` (T, B) is False, whatever was there."""
    values = backend.asarray(values)
    if exists is None:
        return values
    zeroed = backend.xp.where(exists if values.ndim == 2 else exists[:, :, None], values, 0)
    return zeroed.astype(values.dtype, copy=False)


def mean_over_outputs(weights: Array) -> Array:
    """Return the weights of the steps (T, B), given those of their outputs (T, B, n_out) or (T, B, 1)."""
    with np.errstate(over="ignore"):  # Batch.total_weight refuses an infinite sum
        return weights.sum(axis=-1) / weights.shape[-1]


def _checked_weights(weights: Array, steps: tuple[int, int], targets: Array | None, finite: bool) -> Array:
    """Return weights, one per step or one per output, after checking them. Those of the padding may be infinite."""
    weights = as_array("weights", weights)
    shape: tuple[int | None, ...] = steps
    advice = "one per step and sequence"
    if weights.ndim == 3:
        if targets is not None and targets.ndim == 2:
            raise InputError(
                f"weights have shape {tuple(weights.shape)}, but targets of shape {steps} are symbols: give an array "
                f"{steps} of weights, one per step and sequence"
            )
        shape = (*steps, None if targets is None else targets.shape[2])
        advice = "one per step, sequence and output"
    weights = array("weights", weights, shape, "fiub", finite=finite, advice=advice)
    if not (weights >= 0).all().item():
        raise InputError("weights hold a negative number or NaN; a weight is 0 or more")
    return weights


def _without_tensors(name: str, value: Any) -> Any:
    """Return a tensor as an array in the same memory; return anything else unchanged."""
    return shared(name, value) if is_tensor(value) else value


def _state_without_tensors(state: Any) -> Any:
    """Return a state with arrays in place of tensors; anything else unchanged, also what is no state."""
    state = _without_tensors("initial_state", state)
    layers = state if isinstance(state, list | tuple) else []
    if not any(is_tensor(value) for layer in layers if isinstance(layer, dict) for value in layer.values()):
        return state
    return [
        {key: _without_tensors(f"{key} of layer {l} of initial_state", value) for key, value in layer.items()}
        if isinstance(layer, dict)
        else layer
        for l, layer in enumerate(layers)
    ]


def _checked_rows(rows: Array, B: int) -> Array:
    """Return the entries of states (B, n), or numbers of recordings (B,), after checking them.

    A row of entries may be NaN as a whole.
    """
    if rows.ndim == 1:
        return array("initial_state", rows, (B,), "iu", advice="the recording of each sequence").astype("int64")
    rows = array("initial_state", rows, (B, None), "fiu", finite=False, advice="one row for each sequence")
    unknown = host_copy(rows != rows)
    if (unknown.any(axis=1) != unknown.all(axis=1)).any() or bool((abs(rows) == float("inf")).any()):
        raise InputError(
            "initial_state holds infinity, or NaN in a part of a row: give all entries of a state, or none"
        )
    return rows


def _check_state(state: Any) -> None:
    """Raise InputError unless a state is a sequence of dicts of arrays and whole numbers, or rows that were checked."""
    if is_array(state):
        return
    layers = state if isinstance(state, list | tuple) else []
    if not layers or not all(isinstance(layer, dict) for layer in layers):
        raise InputError(f"initial_state is {shown(state)}: give a list of one dict per layer, as net.run returns it")
    for l, layer in enumerate(layers):
        for key, value in layer.items():
            name = f"{shown(key)} of layer {l} of initial_state"
            if not is_number(value):
                found = as_array(name, value)
                array(name, found, (None,) * found.ndim, "f", finite=True)


def _describe(value: Any) -> str:
    return f"an array of shape {tuple(value.shape)} and type {shown_type(value)}"
