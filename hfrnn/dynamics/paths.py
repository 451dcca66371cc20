"""The states of a network along sequences, by condition, and after a change of its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn.arrays.array_checks import array, is_array
from hfrnn.arrays.backend import Array, HostArray, get_backend, host_copy
from hfrnn.checks import count, instance, shown, string
from hfrnn.data.scaling import Scaling
from hfrnn.dynamics.state_vectors import on_host
from hfrnn.dynamics.transition import Transition
from hfrnn.engine.batch import Batch, zero_padding
from hfrnn.engine.network import Network
from hfrnn.errors import InputError
from hfrnn.wording import brief, counted

if TYPE_CHECKING:
    import pandas as pd


@brief
@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of states.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1)
    >>> found = hfrnn.dynamics.trajectories(net, net.init(seed=0), hfrnn.Batch(np.ones((5, 4, 2))))
    >>> components = found.components(2)
    >>> components.project(found.states).shape
    (5, 4, 2)
    """

    mean: HostArray
    """(n,), the mean state."""
    directions: HostArray
    """(k, n), orthonormal, by falling variance."""
    shares: HostArray
    """(k,), the share of the variance along each of them."""

    def project(self, states: HostArray) -> HostArray:
        """Return the coordinates (..., k) of states (..., n)."""
        return np.asarray((states - self.mean) @ self.directions.T)


@brief
@dataclass(frozen=True, eq=False)
class Trajectories:
    """The states and outputs of a network along B sequences; NaN in the padding.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1)
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)))
    >>> found = hfrnn.dynamics.trajectories(net, net.init(seed=0), batch, {"side": ["left", "left", "right", "right"]})
    >>> values, states, outputs = found.means("side")
    >>> values, states.shape, outputs.shape
    (['left', 'right'], (2, 5, 3), (2, 5, 1))
    """

    states: HostArray
    """(T, B, n), after every step, the entries in the order of `to_vectors`."""
    outputs: HostArray
    """(T, B, n_out), in the units of the data for the squared loss; for the others, the outputs of `net.run`."""
    conditions: dict[str, HostArray]
    """The conditions by name, a value for each sequence, (B,)."""
    names: list[str]
    """The names of the n state entries, as `layer0.h[3]`."""

    def visited(self) -> HostArray:
        """Return all states without the padding, (N, n)."""
        return np.asarray(self.states[np.isfinite(self.states).all(axis=2)])

    def means(self, condition: str) -> tuple[list[Any], HostArray, HostArray]:
        """Return the values of a condition, and the means over the sequences with each of them.

        Returns
        -------
        values : list
            In sorted order, C of them.
        states : (C, T, n) array
        outputs : (C, T, n_out) array
            NaN where all sequences have ended.
        """
        string("condition", condition)
        if condition not in self.conditions:
            known = ", ".join(self.conditions) or "none"
            raise InputError(f"condition is {shown(condition)}: the trajectories have {known}")
        values, of = np.unique(self.conditions[condition], return_inverse=True)
        parts = [[_mean(x[:, of == c]) for c in range(len(values))] for x in (self.states, self.outputs)]
        return values.tolist(), np.stack(parts[0]), np.stack(parts[1])

    def components(self, k: int | None = None) -> Components:
        """Return the k principal components of the visited states: 3 by default, at most n."""
        states, n = self.visited(), self.states.shape[2]
        k = min(3, n) if k is None else count("k", k, 1, n)
        mean = states.mean(axis=0)
        _, sizes, directions = np.linalg.svd(states - mean, full_matrices=len(states) < len(mean))
        variances = np.zeros(len(directions))
        variances[: len(sizes)] = sizes**2
        return Components(mean, directions[:k], variances[:k] / max(variances.sum(), np.finfo(float).tiny))

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each step of each sequence, without the padding.

        Its columns are `sequence` and `step`, counted from 0, the conditions, `output0`, `output1`, ..., and the state
        entries under their names.
        """
        import pandas as pd

        b, t = np.nonzero(np.isfinite(self.states).all(axis=2).T)
        columns: dict[str, Any] = {"sequence": b, "step": t}
        columns |= {name: values[b] for name, values in self.conditions.items()}
        columns |= {f"output{j}": self.outputs[t, b, j] for j in range(self.outputs.shape[2])}
        columns |= {name: self.states[t, b, j] for j, name in enumerate(self.names)}
        return pd.DataFrame(columns)


def _mean(values: HostArray) -> HostArray:
    """Return the means (T, m) over the sequences of values (T, b, m) that are not NaN; NaN where all are."""
    known = np.isfinite(values)
    numbers = known.sum(axis=1)
    sums = np.where(known, values, 0.0).sum(axis=1)
    return np.where(numbers > 0, sums / np.maximum(numbers, 1), np.nan)


def trajectories(
    net: Network, theta: Array, batch: Batch, conditions: Mapping[str, Any] | pd.DataFrame | None = None,
    scaling: Scaling | None = None,
) -> Trajectories:  # fmt: skip
    """Run a network on sequences, and return its states and outputs after every step, with the sequences' conditions.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    batch : Batch
        Targets are not needed.
    conditions : mapping of str to (B,) array or list, or DataFrame; optional
        The values of conditions for each sequence: those of a DataFrame with a row for each sequence.
    scaling : Scaling, optional
        The scaling of the run (`hfrnn.load_scaling`). The batch and the outputs are then in the units of the data.

    Returns
    -------
    Trajectories

    Raises
    ------
    InputError
        The batch does not fit the network, or a condition does not fit the batch.
    NonFiniteError
        The states are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1)
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)))  # 5 steps of 4 sequences
    >>> found = hfrnn.dynamics.trajectories(net, net.init(seed=0), batch, {"side": ["left", "left", "right", "right"]})
    >>> found.to_frame().columns.tolist()
    ['sequence', 'step', 'side', 'output0', 'layer0.h[0]', 'layer0.h[1]', 'layer0.h[2]']
    """
    step = Transition(net, theta)
    batch = instance("batch", batch, Batch, "a hfrnn.Batch").padded()
    B = batch.B
    found = _conditions(conditions, B)
    lengths = np.full(B, batch.T) if batch.lengths is None else np.asarray(host_copy(batch.lengths))
    padding = np.arange(batch.T)[:, None] >= lengths
    inputs = zero_padding(get_backend("numpy"), host_copy(batch.inputs), ~padding)  # it may hold anything, also NaN
    series = step.time_series(inputs, scaling, "inputs of the batch")
    states, outputs = step.run(series, *step.first_state(B, batch.initial_state), lengths)
    outputs = _in_units(net, outputs, scaling)
    states[padding] = outputs[padding] = np.nan
    return Trajectories(states, outputs, found, step.places.names)


def _in_units(net: Network, outputs: HostArray, scaling: Scaling | None) -> HostArray:
    """Return outputs (..., n_out) in the units of the data for the squared loss; as they are for the others."""
    return outputs if scaling is None or net.loss_name != "squared" else scaling.unscale_outputs(outputs)


def _conditions(given: Any, B: int) -> dict[str, HostArray]:
    """Return conditions as arrays (B,) by name, after checking them."""
    if given is None:
        return {}
    if not (isinstance(given, Mapping) or hasattr(given, "columns")):
        raise InputError(
            f"conditions is {shown(given)}: give a dict of one list of values for each name, or a DataFrame"
        )
    found = {}
    for name in given:
        string("a name of conditions", name)
        values = given[name]
        listed = isinstance(values, list | tuple) or is_array(values) or hasattr(values, "to_numpy")
        values = np.asarray(host_copy(values)) if listed else np.zeros(())
        if values.shape != (B,):
            raise InputError(f"conditions has no {B} values under {name!r}: give one value for each sequence")
        found[name] = values
    return found


@brief
@dataclass(frozen=True, eq=False)
class Perturbation:
    """A run of a network from a state, and runs from C changed states.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1)
    >>> found = hfrnn.dynamics.perturb(net, net.init(seed=0), np.ones((5, 1, 2)), np.zeros((1, 3)), np.eye(3))
    >>> found.distance.shape
    (5, 3, 1)
    """

    states: HostArray
    """(T, C, B, n), after every step from the changed states."""
    outputs: HostArray
    """(T, C, B, n_out), in the units of the data for the squared loss; for the others, the outputs of `net.run`."""
    unchanged_states: HostArray
    """(T, B, n)."""
    unchanged_outputs: HostArray
    """(T, B, n_out)."""

    @property
    def distance(self) -> HostArray:
        """The Euclidean distances of the states from those of the unchanged run, (T, C, B)."""
        return np.asarray(np.linalg.norm(self.states - self.unchanged_states[:, None], axis=-1))


def perturb(
    net: Network, theta: Array, inputs: Any, state: Any, changes: Any, scaling: Scaling | None = None
) -> Perturbation:
    """Run a network from a state, and from the same state with changes.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    inputs : (T, B, n_in) array of real values, or (T, B) array of integer symbols
        Without the axis B they are those of one sequence.
    state : list of dict, or (B, n) array
        The state before the first step.
    changes : (C, n) or (C, B, n) array
        What is added to the vectors of the state, for all sequences or for each.
    scaling : Scaling, optional
        The scaling of the run (`hfrnn.load_scaling`). The inputs and outputs are then in the units of the data.

    Returns
    -------
    Perturbation

    Raises
    ------
    InputError
        An array does not fit the network.
    NonFiniteError
        The states are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1)
    >>> found = hfrnn.dynamics.perturb(net, net.init(seed=0), np.ones((5, 1, 2)), np.zeros((1, 3)), 0.1 * np.eye(3))
    >>> bool(found.distance[-1].max() < 1e-3)  # this network forgets
    True
    """
    step = Transition(net, theta)
    series = step.time_series(inputs, scaling)
    (T, B), (h, clock) = series.shape[:2], step.places.checked("state", state)
    if len(h) != B:
        raise InputError(f"state has {counted(len(h), 'sequence')}, and inputs has {B}: give one state for each")
    found = on_host("changes", changes)
    shape = (None, step.n) if found.ndim == 2 else (None, B, step.n)
    more = np.asarray(array("changes", found, shape, finite=True), np.float64)
    C, every = len(more), h + (more[:, None] if more.ndim == 2 else more)  # (C, B, n)
    if not C:
        raise InputError("changes are empty: give one change or more")
    together = np.concatenate([h[None], every]).reshape(-1, step.n)
    copies = np.tile(series, (1, C + 1, *(1,) * (series.ndim - 2)))
    states, outputs = step.run(copies, together, clock)
    outputs = _in_units(net, outputs, scaling)
    states, outputs = (x.reshape(T, C + 1, B, -1) for x in (states, outputs))
    return Perturbation(states[:, 1:], outputs[:, 1:], states[:, 0], outputs[:, 0])
