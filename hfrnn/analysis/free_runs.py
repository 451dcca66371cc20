"""Free runs: outputs of a network are its inputs one step later, and other inputs come from the data.

A free run begins after a warm-up, in which all inputs come from the data. Its errors show what a network is worth as a
model of a system (simulation); the errors k steps after many warm-ups show how far ahead it predicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hfrnn.analysis.initial_states import estimated
from hfrnn.analysis.prediction import TOGETHER, check_names, checked_vector, exists_in, in_time, parts_of, read_batch
from hfrnn.analysis.scores import Score, figures
from hfrnn.arrays.backend import Array, HostArray, host_copy
from hfrnn.checks import count, instance, shown
from hfrnn.data.scaling import Scaling
from hfrnn.engine.batch import Batch, State, joined_states
from hfrnn.engine.feedback import FedInputs, Feedback, make_feedback
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, Message, NonFiniteError
from hfrnn.wording import counted

STARTS = 1000
"""Most starts of a sequence that are tried for errors k steps ahead."""

Rows = tuple[HostArray, HostArray, HostArray]
"""Outputs (N, n_out), targets (N, n_out) and weights (N, n_out) of scored steps."""


def free_run(
    net: Network, theta: Array, batch: Batch, steps: int | None = None, scaling: Scaling | None = None,
    feedback: FedInputs | None = None, warm_up: int | None = None, estimate_state: int | None = None,
) -> HostArray:  # fmt: skip
    """Let a network of a dynamical system run on its own outputs.

    The network first reads all inputs of the warm-up. From then on, its outputs are the next inputs. The inputs that
    no output is fed back to, the drive of the system, come from the batch.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
        A network with the squared loss.
    batch : Batch
        The inputs (T, B, n_in). With an `initial_state` and `warm_up=1`, the network begins in that state and reads
        the first inputs only.
    steps : int, optional
        Number of steps to run freely, 1 or more. With a drive at most, and by default, T - warm_up + 1.
    scaling : Scaling, optional
        The scaling of the run (`hfrnn.load_scaling`). The batch and the results are then in the units of the data.
    feedback : sequence of int or None, optional
        For each output, the input that it is one step later, counted from 0; None for an output that is not fed back.
        By default the outputs are the inputs, all of them in the same order.
    warm_up : int, optional
        Steps that are read before the free run, 1 to T; by default all. Sequences of different lengths must all be as
        long.
    estimate_state : int, optional
        Steps of each sequence whose targets give the state before the first one (`estimate_initial_state`). By default
        the states are those of the batch, else the learned one, else zeros.

    Returns
    -------
    (steps, B, n_out) array
        The first entry is the output after the last input of the warm-up: the prediction of the step that follows.
        With a drive, a sequence ends one step after its own inputs; its later entries are 0.

    Raises
    ------
    InputError
        The outputs cannot be inputs, or the batch does not fit the network.
    NonFiniteError
        The outputs have grown beyond all bounds.

    Examples
    --------
    A system with a drive u and an output y. The network reads u and y, and predicts the next y.

    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> u, y = np.ones((9, 4, 1)), np.zeros((9, 4, 1))  # 9 steps of 4 recordings
    >>> batch = hfrnn.Batch(np.concatenate([u, y], axis=2))
    >>> hfrnn.free_run(net, net.init(seed=0), batch, feedback=[1], warm_up=3).shape
    (7, 4, 1)
    """
    theta, loop = _checked(net, theta, batch, feedback, scaling)
    steps, batch = count("steps", steps, 1, or_none=True), batch.padded()
    if batch.symbols:
        raise InputError("the inputs of the batch are symbols, and a free run needs real inputs: give (T, B, n_in)")
    if steps is None and loop.whole:
        raise InputError("a network whose inputs are all fed back can run for ever: give a number of steps")
    if estimate_state is not None:
        batch = estimated(net, theta, batch, estimate_state, scaling)
    warm_up = batch.T if warm_up is None and batch.lengths is None else warm_up
    warm_up = count("warm_up", warm_up, 1, int(_lengths(batch).min()), or_none=True)
    if batch.lengths is not None and warm_up is None:
        if not loop.whole:
            raise InputError(Message("the lengths of the batch differ: give {warm_up!s}, the same for all sequences"))
        if _counts_steps(net):
            raise InputError(
                f"the lengths of the batch differ, and {net.arch} counts the steps: give one length for all"
            )
    most = None if loop.whole or warm_up is None else batch.T - warm_up + 1
    steps = most if steps is None else steps
    assert steps is not None
    if most is not None and steps > most:
        raise InputError(Message(
            "{0} after a warm-up of {1} were asked for, and the inputs of the data last for {2}: give at most {2}, or "
            "a shorter {warm_up!s}", counted(steps, "free step"), counted(warm_up or 0, "step"), most,
        ))  # fmt: skip
    read, begun = read_batch(net, batch, scaling), batch if warm_up is None else _first(batch, warm_up)
    drive = None
    if not loop.whole and warm_up is not None:
        drive = np.where(exists_in(batch)[:, :, None], host_copy(read.inputs), 0)[warm_up : warm_up + steps - 1]
    with np.errstate(over="ignore", invalid="ignore"):  # outputs that are not finite are refused below
        z, state = _last_output(net, theta, read_batch(net, begun, scaling))
        found = np.stack(list(_on(net, theta, loop, (z, state), drive, steps)))
    found = found if scaling is None else scaling.unscale_outputs(found)
    found[np.arange(steps)[:, None] >= free_lengths(batch, loop, warm_up, steps)] = 0
    return found


def free_lengths(batch: Batch, loop: Feedback, warm_up: int | None, steps: int) -> HostArray:
    """Return how many of the `steps` each sequence runs freely, (B,): with a drive, up to one step after its data."""
    if loop.whole or warm_up is None:
        return np.full(batch.B, steps)
    return np.asarray(np.minimum(_lengths(batch) - warm_up + 1, steps))


def score_free_run(
    net: Network, theta: Array, batch: Batch, names: Sequence[str] | None = None, scaling: Scaling | None = None,
    feedback: FedInputs | None = None, warm_up: int | None = None,
) -> Score:  # fmt: skip
    """Score a free run against the targets: the error of the network as a simulation of the system.

    Parameters
    ----------
    net, theta, batch, scaling, feedback : as in `hfrnn.free_run`
        The targets of the batch are the outputs of the same steps. Its weights and lengths count as in training.
    names : sequence of str, optional
        Names of the outputs.
    warm_up : int, optional
        Steps that are read before the free run, as in `hfrnn.free_run`. Outputs count from the last of them. By default
        1 more than have weight 0 at the beginning of all sequences: the first scored output is the first one of the
        free run.

    Returns
    -------
    Score
        As `hfrnn.score` returns it.

    Raises
    ------
    InputError, NonFiniteError
        As `hfrnn.free_run`; or the batch has no targets.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> batch = hfrnn.Batch(np.ones((9, 4, 2)), np.ones((9, 4, 1)))
    >>> hfrnn.score_free_run(net, net.init(seed=0), batch, feedback=[1], warm_up=3).steps
    28
    """
    theta, loop = _checked(net, theta, batch, feedback, scaling)
    warm_up, rows = scoring_warm_up(net, batch, names, warm_up), []
    for part in parts_of(batch):
        if warm_up > part.T:
            continue
        read, y, w = _of_part(net, part, scaling)
        with np.errstate(over="ignore", invalid="ignore"):
            begun = _last_output(net, theta, _first(read, warm_up))
            z = np.stack(list(_on(net, theta, loop, begun, read.inputs[warm_up:], part.T - warm_up + 1)))
        rows.append(_scored(z, y[warm_up - 1 :], w[warm_up - 1 :]))
    return _figures(net, rows, names, scaling)


def score_ahead(
    net: Network, theta: Array, batch: Batch, ahead: Sequence[int], names: Sequence[str] | None = None,
    scaling: Scaling | None = None, feedback: FedInputs | None = None, warm_up: int | None = None, starts: int = STARTS,
) -> dict[int, Score]:  # fmt: skip
    """Score predictions k steps ahead, from many starts.

    From each start, the network runs freely for k steps; up to the start, all its inputs come from the batch. The error
    1 step ahead is that of `hfrnn.score`. All k are scored from the same starts.

    Parameters
    ----------
    net, theta, batch, names, scaling, feedback, warm_up : as in `hfrnn.score_free_run`
        The first start is after the warm-up.
    ahead : sequence of int
        The numbers of steps k, each 1 or more.
    starts : int
        Most starts of a sequence, 1 or more; they are spread evenly over its steps.

    Returns
    -------
    dict of int to Score
        For each k. Without a scored target k steps after a start, its figures are refused.

    Raises
    ------
    InputError, NonFiniteError
        As `hfrnn.score_free_run`; or no sequence is long enough.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> batch = hfrnn.Batch(np.ones((9, 4, 2)), np.ones((9, 4, 1)))
    >>> found = hfrnn.score_ahead(net, net.init(seed=0), batch, [1, 5], feedback=[1])
    >>> {k: each.steps for k, each in found.items()}
    {1: 20, 5: 20}
    """
    theta, loop = _checked(net, theta, batch, feedback, scaling)
    asked: Any = ahead
    several = isinstance(asked, list | tuple | range) or (isinstance(asked, np.ndarray) and asked.ndim == 1)
    if not several or len(asked) == 0:
        raise InputError(f"ahead is {shown(ahead)}: give a list of whole numbers, 1 or more")
    steps = sorted({count("ahead", k, 1) for k in ahead})
    warm_up, starts = scoring_warm_up(net, batch, names, warm_up), count("starts", starts, 1)
    if warm_up + steps[-1] - 1 > batch.T:
        raise InputError(Message(
            "{0} ahead were asked for, and the longest sequence has {1}, {2:,} of them warm-up: give a smaller number, "
            "or a shorter {warm_up!s}", counted(steps[-1], "step"), counted(batch.T, "step"), warm_up,
        ))  # fmt: skip
    rows: dict[int, list[Rows]] = {k: [] for k in steps}
    for part in parts_of(batch):
        if warm_up + steps[-1] - 1 > part.T:
            continue
        read, y, w = _of_part(net, part, scaling)
        with np.errstate(over="ignore", invalid="ignore"):
            for group in _starts(net, theta, read, warm_up, steps[-1], starts):
                after = np.concatenate([read.inputs[s + 1 : s + steps[-1]] for s in group.at], axis=1)
                outputs = list(_on(net, theta, loop, (group.z, group.state), after, steps[-1]))
                reach = np.repeat(np.array(group.at) + steps[-1], part.B) <= np.tile(_lengths(part), len(group.at))
                for k in steps:
                    known = [np.concatenate([each[s + k - 1] for s in group.at]) for each in (y, w)]
                    rows[k].append(_scored(outputs[k - 1], known[0], known[1] * reach[:, None]))
    return {k: _figures(net, rows[k], names, scaling) for k in steps}


def _checked(
    net: Network, theta: Array, batch: Batch, feedback: FedInputs | None, scaling: Scaling | None
) -> tuple[Array, Feedback]:
    theta = checked_vector(net, theta, batch)
    instance("scaling", scaling, Scaling, "the scaling of the run, as hfrnn.load_scaling returns it", or_none=True)
    return theta, make_feedback(net, feedback, scaling)


class _Group(NamedTuple):
    """Starts of a batch that run freely together: the last steps `at` that are read, and what follows from them."""

    at: list[int]
    z: HostArray  # the outputs after these steps (starts * B, n_out)
    state: State


def _starts(net: Network, theta: Array, batch: Batch, warm_up: int, reach: int, most: int) -> Iterator[_Group]:
    """Run a batch with the inputs of the data, and yield its starts in groups of a bounded number of steps."""
    last = batch.T - reach
    chosen = np.unique(np.linspace(warm_up - 1, last, min(most, last - warm_up + 2)).round().astype(int)).tolist()
    size = 1 if _counts_steps(net) else max(TOGETHER // (reach * batch.B), 1)
    begin, state = 0, batch.initial_state
    held: list[tuple[int, HostArray, State]] = []
    for s in chosen:
        z, state = _last_output(net, theta, Batch(batch.inputs[begin : s + 1]).with_state(state))
        begin = s + 1
        held.append((s, z, state))
        if len(held) == size or s == chosen[-1]:
            at, outputs, states = zip(*held, strict=True)
            yield _Group(list(at), np.concatenate(outputs), joined_states(net.backend.xp, states))
            held = []


def _on(
    net: Network, theta: Array, loop: Feedback, begun: tuple[HostArray, State], drive: HostArray | None, steps: int
) -> Iterator[HostArray]:
    """Yield `steps` outputs (B, n_out), in the network's units; the first is that of `begun`.

    `drive` (steps - 1, B, n_in) holds the other inputs; None if every input is fed back.
    """
    z, state = begun
    for step in range(steps):
        if not np.isfinite(z).all():
            after = counted(step, "free step")
            raise NonFiniteError(f"the outputs are not finite after {after}: give fewer steps, or train it longer")
        yield z
        if step + 1 < steps:
            x = np.zeros((len(z), net.n_in)) if drive is None else drive[step].astype(np.float64)
            loop.write(z, x)
            outputs, state = net.continued(theta, Batch(x[None].astype(net.dtype)).with_state(state))
            z = net.backend.to_host(outputs)[0]


def _last_output(net: Network, theta: Array, batch: Batch) -> tuple[HostArray, State]:
    """Return the output (B, n_out) after the last input of each sequence, and the state."""
    if batch.lengths is not None:
        z, state = net.run(theta, batch)
        return net.backend.to_host(z)[host_copy(batch.lengths) - 1, np.arange(batch.B)], state
    for outputs, after, _ in in_time(net, theta, batch):
        last = outputs[-1], after
    return last


def _first(batch: Batch, steps: int) -> Batch:
    """Return the first steps of the inputs of a batch."""
    return Batch(batch.inputs[:steps]).with_state(batch.initial_state)


def _of_part(net: Network, part: Batch, scaling: Scaling | None) -> tuple[Batch, HostArray, HostArray]:
    """Return some sequences as the network reads them, on the host; their targets, and weights (T, B, n_out)."""
    read = read_batch(net, part, scaling)
    net.prepare(read)  # checks the targets and weights
    weights = np.ones((part.T, part.B)) if part.weights is None else host_copy(part.weights)
    weights = weights[:, :, None] if weights.ndim == 2 else weights
    exists = exists_in(part)[:, :, None]
    inputs = np.where(exists, host_copy(read.inputs), 0)
    weights = np.where(exists, weights, 0.0) * np.ones(net.n_out)
    return Batch(inputs).with_state(part.initial_state), host_copy(part.targets), weights


def _scored(z: HostArray, targets: HostArray, weights: HostArray) -> Rows:
    """Return the rows with a weight above 0 of arrays (..., n_out)."""
    used = (weights > 0).any(axis=-1)
    return z[used], targets[used], weights[used]


def _figures(net: Network, rows: Sequence[Rows], names: Sequence[str] | None, scaling: Scaling | None) -> Score:
    z, y, w = (np.concatenate(each) for each in zip(*rows, strict=True))
    return figures("squared", z if scaling is None else scaling.unscale_outputs(z), y, w, names)


def scoring_warm_up(net: Network, batch: Batch, names: Sequence[str] | None, warm_up: int | None) -> int:
    """Return the warm-up, by default the steps that no sequence scores at the beginning, and the first scored one."""
    check_names(net, names)
    if batch.symbols or batch.targets is None:
        raise InputError("a free run is scored with real inputs and targets: give both in the batch")
    if warm_up is None and batch.weights is not None:
        scored = host_copy(batch.weights).reshape(batch.T, -1).any(axis=1)
        warm_up = int(scored.argmax()) + 1
    return int(count("warm_up", 1 if warm_up is None else warm_up, 1, batch.T))


def _lengths(batch: Batch) -> HostArray:
    return np.full(batch.B, batch.T) if batch.lengths is None else host_copy(batch.lengths)


def _counts_steps(net: Network) -> bool:
    """Return whether the state holds the number of the step, as that of clockwork does."""
    return not all(shape for each in net.layers for shape in each.kernel.state_shapes(1).values())
