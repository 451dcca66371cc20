"""Fixed points of a network under constant inputs, with their stability and linearization.

Sussillo & Barak 2013, "Opening the black box: low-dimensional dynamics in high-dimensional recurrent neural networks",
look for the minima of the speed from states that the network visits. Here the Jacobian is exact, and the steps are
those of Newton and of Levenberg and Marquardt (`search.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import NOT_NEGATIVE, POSITIVE, count, function, number
from hfrnn.dynamics.search import search
from hfrnn.dynamics.transition import PeriodMap, Transition
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, Message, NonFiniteError
from hfrnn.wording import brief, counted


@brief
class Linearization(NamedTuple):
    """The linear system close to a fixed point: h' = J h + Ju u + ..., z = readout h + ..., as differences from it.

    Mode i is the direction `right[:, i]` of the state. Inputs reach it through `input_modes[i]`, and it reaches the
    outputs through `output_modes[:, i]`.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("gru", n_in=2, hidden=3, n_out=1)
    >>> found = hfrnn.dynamics.fixed_points(net, net.init(seed=0), np.zeros(2), np.zeros((1, 3)))
    >>> found.linearized(0).input_modes.shape
    (3, 2)
    """

    J: HostArray
    """(n, n), d new state i / d old state j, over one period."""
    Ju: HostArray
    """(n, n_in), d new state i / d input j."""
    readout: HostArray
    """(n_outputs, n), d output i / d old state j, through the step; outputs before the loss's own function (logits)."""
    eigenvalues: HostArray
    """(n,) complex, those of J, by falling modulus."""
    right: HostArray
    """(n, n) complex, whose columns are the eigenvectors of J."""
    left: HostArray
    """(n, n) complex, whose rows are the left eigenvectors; `left @ right` is the identity."""
    input_modes: HostArray
    """(n, n_in) complex, `left @ Ju`."""
    output_modes: HostArray
    """(n_outputs, n) complex, `readout @ right`."""


@dataclass(frozen=True, eq=False)
class FixedPoints:
    """P points that `fixed_points` found, the stable ones first, then by their number of unstable directions.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("gru", n_in=2, hidden=3, n_out=1)
    >>> found = hfrnn.dynamics.fixed_points(net, net.init(seed=0), np.zeros(2), np.zeros((1, 3)))
    >>> found
    <1 fixed point in 3 dimensions, 1 stable>
    """

    states: HostArray
    """(P, n), the entries in the order of `to_vectors`."""
    speed: HostArray
    """(P,), |F(h, u) - h|, over one period of a clockwork."""
    eigenvalues: HostArray
    """(P, n) complex, those of dF/dh, by falling modulus."""
    stable: HostArray
    """(P,), whether all eigenvalues lie inside the unit circle."""
    inputs: HostArray
    """(P, n_in) real values or (P,) symbols."""
    hits: HostArray
    """(P,), the number of starts from which the search ended at the point."""
    period: int
    """The number of steps of F: 1, or one period of a clockwork."""
    _map: PeriodMap = field(repr=False)

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        n, stable = self.states.shape[1], int(self.stable.sum())
        return f"<{counted(len(self), 'fixed point')} in {counted(n, 'dimension')}, {stable} stable>"

    @property
    def unstable(self) -> HostArray:
        """The number of eigenvalues on or outside the unit circle, (P,)."""
        return np.asarray((abs(self.eigenvalues) >= 1).sum(axis=1))

    @property
    def time_constants(self) -> HostArray:
        """The time constants of the modes, (P, n): -period / log|eigenvalue| steps; below 0 where a mode grows."""
        with np.errstate(divide="ignore"):
            return np.asarray(-self.period / np.log(abs(self.eigenvalues)))

    def linearized(self, p: int) -> Linearization:
        """Return the linear system at point number p, with the directions of inputs, modes and outputs.

        Raises
        ------
        InputError
            There is no such point, or its Jacobian has too few eigenvectors.
        """
        p = count("p", p)
        if p >= len(self):
            raise InputError(f"p is {p}: there are {counted(len(self), 'fixed point')}, counted from 0")
        h, u = self.states[p : p + 1], self.inputs[p : p + 1]
        of_state, of_inputs = self._map.linear(h, u, of_inputs=True)
        assert of_inputs is not None
        J, Ju = of_state[0], of_inputs[0]
        eigenvalues, right = np.linalg.eig(J)
        order = np.argsort(-abs(eigenvalues), kind="stable")
        eigenvalues, right = eigenvalues[order].astype(complex), right[:, order].astype(complex)
        try:
            left = np.linalg.inv(right)
        except np.linalg.LinAlgError:
            raise InputError(f"p is {p}: the Jacobian there has too few eigenvectors, choose another point") from None
        readout = self._map.readout(h, u)[0]
        return Linearization(J, Ju, readout, eigenvalues, right, left, left @ Ju, readout @ right)


def fixed_points(
    net: Network, theta: Array, inputs: Any, starts: Any, tolerance: float = 1e-8, *, slow: float | None = None,
    distance: float = 1e-3, iterations: int = 100, progress: Callable[[int, int], object] | None = None,
) -> FixedPoints:  # fmt: skip
    """Find fixed points of a network: states h with F(h, u) = h under constant inputs u.

    From every start, Newton's steps and, where they fail, damped Gauss-Newton steps lower the speed |F(h, u) - h|.
    Points that are closer than `distance` are taken as one.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    inputs : (n_in,) array of real values, or an integer symbol
        The constant inputs u; or those of each start, (S, n_in) or (S,).
    starts : (..., n) array, or list of dict
        States to start from, usually such that the network visits (`trajectories`, `to_vectors`): vectors of all state
        entries, or a state with one dict of arrays for each layer. The phase of a clockwork is the time `t` of the
        state, or 0 for vectors.
    tolerance : float
        Largest speed of a fixed point, above 0. The speed is the Euclidean norm of F(h, u) - h in float64.
    slow : float, optional
        Return also slow points: those where the search ended, with a speed of at most this.
    distance : float
        Euclidean distance below which two points are the same one, 0 or more. Only points of equal inputs are compared.
    iterations : int
        Largest number of steps from each start, 1 or more.
    progress : callable, optional
        Called with the number of starts done so far and the number in all.

    Returns
    -------
    FixedPoints

    Raises
    ------
    InputError
        A number is out of its range, or the inputs or starts do not fit the network.
    NonFiniteError
        A start leads to states that are not finite.

    Notes
    -----
    All computations are in float64 on the host. The fixed points of a clockwork are those of its map over one period.
    At a kink of a relu or a maximum, the Jacobian is that of the branch that the step takes.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, bias=False)
    >>> theta = net.init(seed=0)
    >>> starts = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    >>> found = hfrnn.dynamics.fixed_points(net, theta, np.zeros(2), starts)
    >>> found, bool(found.speed.max() <= 1e-8)  # with such small weights, the zero state is the only one
    (<1 fixed point in 3 dimensions, 1 stable>, True)
    """
    step = Transition(net, theta)
    tolerance, distance = number("tolerance", tolerance, POSITIVE), number("distance", distance, NOT_NEGATIVE)
    slow, iterations = number("slow", slow, POSITIVE, or_none=True), count("iterations", iterations, 1)
    progress = function("progress", progress, "done, total", or_none=True)
    if slow is not None and slow <= tolerance:
        raise InputError(Message(
            "{slow!s} is {0:g}, and {tolerance!s} is {1:g}: give a larger speed, or leave it out", slow, tolerance
        ))  # fmt: skip
    states, clock = step.places.checked("starts", starts)
    if not len(states):
        raise InputError("starts are empty: give one state or more")
    u = step.inputs(inputs, len(states))
    residual = PeriodMap(step, clock)
    with np.errstate(over="ignore", invalid="ignore"):  # states that are not finite are refused below
        found = search(residual, states, u, tolerance, iterations, progress)
    if not np.isfinite(found.speed).all():
        raise NonFiniteError("the states after the starts are not finite: the weights are too large, use another run")
    ended = np.flatnonzero(found.speed <= (tolerance if slow is None else slow))
    chosen, hits = unique_points(found.states[ended], found.speed[ended], u[ended], distance)
    chosen = ended[chosen]
    h, u = found.states[chosen], u[chosen]
    eigenvalues = np.empty((len(h), step.n), complex)
    for p in range(len(h)):
        values = np.linalg.eigvals(residual.jacobian(h[p : p + 1], u[p : p + 1])[0])
        eigenvalues[p] = values[np.argsort(-abs(values), kind="stable")]
    unstable = (abs(eigenvalues) >= 1).sum(axis=1)
    order = np.argsort(unstable, kind="stable")
    return FixedPoints(
        h[order], found.speed[chosen][order], eigenvalues[order], unstable[order] == 0, u[order], hits[order],
        residual.period, residual,
    )  # fmt: skip


def unique_points(
    points: HostArray, speed: HostArray, inputs: HostArray, distance: float
) -> tuple[HostArray, HostArray]:
    """Return the numbers of distinct points (P, n) in rising order, and how many points each of them stands for.

    The slowest point of those that are closer to it than `distance`, with the same inputs, stands for them.
    """
    rows = inputs if inputs.ndim == 2 else inputs[:, None]
    left, chosen, hits = np.argsort(speed, kind="stable"), [], []
    while left.size:
        first = left[0]
        difference = points[left] - points[first]
        same = (np.sqrt((difference**2).sum(axis=1)) < distance) & (rows[left] == rows[first]).all(axis=1)
        same[0] = True
        chosen.append(first)
        hits.append(int(same.sum()))
        left = left[~same]
    order = np.argsort(np.array(chosen, int), kind="stable")
    return np.array(chosen, int)[order], np.array(hits, int)[order]
