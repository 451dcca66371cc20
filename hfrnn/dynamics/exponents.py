"""Lyapunov exponents of a network along a trajectory: how fast small differences of the state grow or shrink.

Q holds k orthonormal directions. A step takes them to J Q, and a QR decomposition makes them orthonormal again. The
logarithms of the diagonal of R, averaged over the steps, are the k largest exponents.

E1  Q_t R_t = J_t Q_{t-1}                               Benettin et al. 1980; Shimada & Nagashima 1979
E2  exponent_i = mean over t of log |R_t[i, i]|         in nats per step

Where the network runs freely, the next input x belongs to the state: (h, x) goes to (F(h, x), S(z)). S is the scaling
that makes an input of the outputs z, F1 of engine/feedback.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import is_array
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import count, function
from hfrnn.data.scaling import Scaling
from hfrnn.dynamics.state_vectors import Clock
from hfrnn.dynamics.transition import Transition
from hfrnn.engine.feedback import FedInputs, Feedback, make_feedback
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, Message, NonFiniteError
from hfrnn.wording import counted

ERROR_BLOCKS = 20
"""Largest number of blocks of steps whose means give the standard errors."""


@dataclass(frozen=True, eq=False)
class Lyapunov:
    """The k largest Lyapunov exponents of a network.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1)
    >>> hfrnn.dynamics.lyapunov(net, net.init(seed=0), np.zeros((50, 1, 2)), np.zeros((1, 3)), k=2).exponents.shape
    (2,)
    """

    exponents: HostArray
    """(k,), in nats per step, falling; -inf for a direction that a step erases."""
    errors: HostArray
    """(k,), their standard errors, from the means over blocks of steps and over the sequences; NaN with one block."""
    steps: int
    """The number of steps that count, of each sequence."""
    sequences: int

    @property
    def dimension(self) -> float:
        """The Kaplan-Yorke dimension; NaN if it needs more exponents than there are."""
        sums = np.cumsum(self.exponents)
        negative = np.flatnonzero(sums < 0)
        if not negative.size:
            return float("nan")
        j = int(negative[0])
        return 0.0 if j == 0 else j + float(sums[j - 1] / abs(self.exponents[j]))


def lyapunov(
    net: Network, theta: Array, inputs: Any, state: Any = None, k: int | None = None, *, free_steps: int | None = None,
    scaling: Scaling | None = None, washout: int | None = None, seed: int = 0,
    progress: Callable[[int, int], object] | None = None, feedback: FedInputs | None = None,
) -> Lyapunov:  # fmt: skip
    """Compute Lyapunov exponents along the trajectory that inputs drive, or along a free run after them.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    inputs : (T, B, n_in) array of real values, or (T, B) array of integer symbols
        The network reads them. Exponents are averaged over the B sequences. Without the axis B, (T, n_in) or (T,), they
        are those of one sequence.
    state : list of dict, (B, n) array, or (B,) integers; optional
        The state before the first step, or the numbers of recordings, as for `hfrnn.Batch`; by default zeros, or what
        the network has learned.
    k : int, optional
        Number of exponents, at most n, the number of state entries; all n by default.
    free_steps : int, optional
        After the inputs, the network runs on its own outputs for this many steps, as `hfrnn.free_run`, and the
        exponents are those of the free run. By default they are those of the T steps that the inputs drive.
    scaling : Scaling, optional
        The scaling of the run (`hfrnn.load_scaling`). The inputs are then in the units of the data.
    washout : int, optional
        Number of steps, at the beginning, that do not count, while the directions align; by default a tenth.
    seed : int
        Seed of the first directions, 0 or more.
    progress : callable, optional
        Called with the number of steps done so far and the number in all.
    feedback : sequence of int or None, optional
        For each output, the input that it is one step later in a free run, as for `hfrnn.free_run`; every input must be
        fed back. By default the outputs are the inputs, all of them in the same order.

    Returns
    -------
    Lyapunov

    Raises
    ------
    InputError
        A number is out of its range, the inputs or the state do not fit, or the outputs cannot be inputs.
    NonFiniteError
        The states are not finite.

    References
    ----------
    Benettin, Galgani, Giorgilli & Strelcyn 1980, "Lyapunov characteristic exponents for smooth dynamical systems".
    Vogt, Puelma Touzel, Shlizerman & Lajoie 2022, "On Lyapunov exponents for RNNs".

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=1, hidden=2, n_out=1, dtype="float64")
    >>> theta = np.zeros(net.n_parameters)
    >>> net.views(theta)["layer0.W_h"][...] = np.diag([0.9, 0.5])
    >>> found = hfrnn.dynamics.lyapunov(net, theta, np.zeros((200, 1, 1)), washout=100)  # linear at the zero state
    >>> np.exp(found.exponents).round(12).tolist()
    [0.9, 0.5]
    """
    step = Transition(net, theta)
    seed, progress = count("seed", seed), function("progress", progress, "done, total", or_none=True)
    k = step.n if k is None else count("k", k, 1, step.n)
    free_steps = count("free_steps", free_steps, 1, or_none=True)
    series = step.time_series(inputs, scaling)
    T, B = series.shape[:2]
    numbered = is_array(state) and state.ndim == 1
    given = step.first_state(B, state) if state is None or numbered else step.places.checked("state", state)
    if len(given[0]) != B:
        raise InputError(f"state has {counted(len(given[0]), 'sequence')}, and inputs has {B}: give one state for each")
    total = T if free_steps is None else free_steps
    washout = total // 10 if washout is None else count("washout", washout, 0)
    if washout >= total:
        raise InputError(Message(
            "{washout!s} is {0:,}, and there are {1}: give a smaller number, or more steps", washout,
            counted(total, "step"),
        ))  # fmt: skip
    if feedback is not None and free_steps is None:
        raise InputError("feedback was given without free_steps: it is for a free run, so leave it out")
    loop = None if free_steps is None else _loop(step.net, series, feedback, scaling)
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore", invalid="ignore"):  # states that are not finite are refused
        tell = progress or (lambda done, of: None)
        if free_steps is None:
            grown = _driven(step, series, given, k, rng, tell)
        else:
            assert loop is not None
            grown = _free(step, series, given, k, rng, free_steps, loop, tell)
    return _averaged(grown[washout:])


def _loop(net: Network, series: HostArray, columns: FedInputs | None, scaling: Scaling | None) -> Feedback:
    """Return the feedback of a free run without data; raise InputError unless every input is fed back."""
    if net.loss_name != "squared" or (columns is None and net.n_in != net.n_out) or series.ndim == 2:
        raise InputError(
            f"the outputs of this network cannot be its inputs: n_in is {net.n_in}, n_out is {net.n_out} and the "
            f"loss is {net.loss_name!r}; a free run needs real inputs, as many real outputs, and the loss 'squared'"
        )
    loop = make_feedback(net, columns, scaling)
    if not loop.whole:
        verb = "is" if len(loop.inputs) == 1 else "are"
        raise InputError(
            f"{len(loop.inputs)} of {counted(net.n_in, 'input')} {verb} fed back, and the exponents of a free run need "
            "all of them: compute those that the inputs of the data drive"
        )
    return loop


def _averaged(grown: HostArray) -> Lyapunov:
    """Return the exponents from the logarithms of growth (steps, B, k)."""
    steps, B, _ = grown.shape
    exponents = grown.mean(axis=(0, 1))
    blocks = np.stack([part.mean(axis=0) for part in np.array_split(grown, min(ERROR_BLOCKS, steps))])
    means = blocks.reshape(-1, blocks.shape[2])
    with np.errstate(invalid="ignore"):  # of infinite exponents
        errors = means.std(axis=0, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.full_like(exponents, np.nan)
    order = np.argsort(-exponents, kind="stable")
    return Lyapunov(exponents[order], errors[order], steps, B)


def _orthonormal(Q: HostArray) -> tuple[HostArray, HostArray]:
    """Return orthonormal directions (B, m, k) that span those of Q, and the logarithms of their growth (B, k)."""
    Q, R = np.linalg.qr(Q)  # E1
    with np.errstate(divide="ignore"):
        return Q, np.log(abs(np.diagonal(R, axis1=1, axis2=2)))  # E2


def _rows(Q: HostArray) -> HostArray:
    """Return directions (B, m, k) as rows (k*B, m), for copies of the states."""
    return np.ascontiguousarray(Q.transpose(2, 0, 1)).reshape(-1, Q.shape[1])


def _directions(rows: HostArray, B: int) -> HostArray:
    """Return rows (k*B, m) as directions (B, m, k)."""
    return np.asarray(rows.reshape(-1, B, rows.shape[1]).transpose(1, 2, 0))


def _copies(values: HostArray, k: int) -> HostArray:
    return np.tile(values, (k, *(1,) * (values.ndim - 1)))


def _check_finite(h: HostArray, steps: int) -> None:
    if not np.isfinite(h).all():
        raise NonFiniteError(f"the states are not finite after {counted(steps, 'step')}: give fewer steps")


def _driven(
    step: Transition, series: HostArray, given: tuple[HostArray, Clock], k: int, rng: np.random.Generator,
    tell: Callable[[int, int], object],
) -> HostArray:  # fmt: skip
    """Return the logarithms of growth (T, B, k) along the trajectory that inputs drive."""
    (h, clock), (T, B) = given, series.shape[:2]
    Q, grown = _orthonormal(rng.standard_normal((B, step.n, k)))[0], np.empty((T, B, k))
    for t in range(T):
        after, _, clock = step.forward(_copies(h, k), _copies(series[t], k), clock, records=True)
        tangents, _ = step.tangents(_rows(Q), None)
        h = after[:B]
        _check_finite(h, t + 1)
        Q, grown[t] = _orthonormal(_directions(tangents, B))
        tell(t + 1, T)
    return grown


def _free(
    step: Transition, series: HostArray, given: tuple[HostArray, Clock], k: int, rng: np.random.Generator, steps: int,
    loop: Feedback, tell: Callable[[int, int], object],
) -> HostArray:  # fmt: skip
    """Return the logarithms of growth (steps, B, k) along a free run, in the space of states and next inputs."""
    net, (h, clock), B, n = step.net, given, series.shape[1], step.n

    def next_input(z: HostArray) -> HostArray:
        x = np.empty((len(z), net.n_in))
        loop.write(z, x)
        return x

    handed: list[HostArray] = []
    for inputs in series:
        h, handed, clock = step.forward(h, inputs, clock)
    x = next_input(step.outputs(handed))
    Q, grown = _orthonormal(rng.standard_normal((B, n + net.n_in, k)))[0], np.empty((steps, B, k))
    for t in range(steps):
        after, handed, clock = step.forward(_copies(h, k), _copies(x, k), clock, records=True)
        rows = _rows(Q)
        tangents, Rhanded = step.tangents(rows[:, :n], rows[:, n:])
        Rx = np.empty((len(rows), net.n_in))
        Rx[:, loop.inputs] = loop.gain * step.output_tangents(handed, Rhanded)[:, loop.outputs]
        h, x = after[:B], next_input(step.outputs([each[:B] for each in handed]))
        _check_finite(h, t + 1)
        Q, grown[t] = _orthonormal(_directions(np.concatenate([tangents, Rx], axis=1), B))
        tell(t + 1, steps)
    return grown
