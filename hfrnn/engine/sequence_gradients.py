"""Derivatives of each sequence of a batch, or of each part: gradients, and products with the transposed Jacobian.

A backward pass over many sequences computes the adjoints dU_t of all of them at once. Only its last step, the sum of
h_t.T @ dU_t over time steps, is made for each sequence or part by itself. So the matrix products of every time step
have one row per sequence. They would have a single row if the sequences ran one after another.

Reference: Goodfellow 2015, "Efficient per-example gradient computations", for networks without recurrence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import Array, Buffers
from hfrnn.arrays.threads import CallLock
from hfrnn.arrays.vectors import unshared
from hfrnn.checks import count
from hfrnn.engine.operators import check_output
from hfrnn.engine.plan import Keep, equal_boundaries, segment_boundaries
from hfrnn.engine.sums import VectorSum, share
from hfrnn.engine.sweep import Sweep

if TYPE_CHECKING:
    from hfrnn.arrays.threads import Threads
    from hfrnn.engine.batch import Batch
    from hfrnn.engine.layout import Layout
    from hfrnn.engine.noise import NoiseOfBatch
    from hfrnn.engine.plan import Plan
    from hfrnn.ranks.one import Ranks


class _SequenceSweeps:
    """Sweeps whose results have one row per sequence: one per shard, or one per sequence if the network needs that.

    Parameters
    ----------
    objective : Objective
        Its threads, its noise and its plan are used.
    keep : Keep
        What a sweep keeps between calls.
    transient : bool
        Whether sweeps of one worker share all buffers, because nothing outlives a call.
    """

    def __init__(self, objective: SequenceDerivatives, keep: Keep, transient: bool) -> None:
        net, batch, plan = objective.net, objective.batch, objective.plan
        self.net, self.batch, self.threads = net, batch, objective.threads
        self.columns = plan.parts if net.separates_parts else [(b, b + 1) for b in range(batch.B)]
        boundaries = segment_boundaries(batch.T, plan.segment)
        workers = [[Buffers(net.backend, net.dtype) for _ in range(2)] for _ in range(self.threads.threads)]
        self.sweeps = []
        for s, (start, stop) in enumerate(self.columns):
            scratch, kept = workers[s % len(workers)]
            noise = None if objective.noise is None else objective.noise.part(start, stop)
            self.sweeps.append(
                Sweep(
                    net, batch.columns(start, stop), 1.0, boundaries=boundaries, keep=keep, scratch=scratch,
                    kept=kept if transient else None, noise=noise,
                )
            )  # fmt: skip

    def rows(self, s: int, out: Array) -> Array:
        """Return where sweep s adds its results: its rows of `out` (B, n_parameters), or a single row as a vector."""
        start, stop = self.columns[s]
        rows: Array = out[start:stop] if self.net.separates_parts else out[start]
        return rows

    def output(self, out: Array | None, given: Array) -> tuple[Array, Array]:
        """Return zeros (B, n_parameters), in `out` if that is given and right; and `given`, copied if it lies there."""
        shape, backend = (self.batch.B, self.net.n_parameters), self.net.backend
        if out is None:
            return backend.zeros(shape, self.net.dtype), given
        check_output(backend, "out", out, shape, self.net.dtype)
        given = unshared(backend.xp, given, out)
        out[...] = 0
        return out, given


class PartGradients:
    """Compute the gradients of the summed w*loss of parts of a batch, without l2.

    Parameters
    ----------
    objective : Objective
        Its batch, its noise, its threads and its plan's segments are used.
    theta : (n_parameters,) array
    """

    def __init__(self, objective: SequenceDerivatives, theta: Array) -> None:
        self._objective, self._theta, plan = objective, theta, objective.plan
        net = objective.net
        self._buffers = [[Buffers(net.backend, net.dtype) for _ in range(2)] for _ in range(objective.threads.threads)]
        self._keep = plan.keep_of_gradients
        self._steps = segment_boundaries(objective.batch.T, plan.segment)

    def add(self, task: int, columns: tuple[int, int], out: Array) -> None:
        """Add the gradient of the sequences from columns[0] up to columns[1] to `out`.

        Parameters
        ----------
        task : int
            Calls whose numbers agree modulo the number of threads share buffers.
        columns : (int, int)
        out : (n_parameters,) or (P, n_parameters) array
            With P rows, these sequences are P parts of equal size, and each part has a row. The network must separate
            parts if P is above 1.
        """
        objective, (scratch, kept) = self._objective, self._buffers[task % len(self._buffers)]
        noise = None if objective.noise is None else objective.noise.part(*columns)
        sweep = Sweep(
            objective.net, objective.batch.columns(*columns), 1.0, boundaries=self._steps, keep=self._keep,
            scratch=scratch, kept=kept, noise=noise,
        )  # fmt: skip
        sweep.gradient(self._theta, out[0] if out.shape == (1, self._theta.shape[0]) else out)


def runs_of_parts(edges: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Return runs of parts of equal size, with at most that many sequences, or one part: (first, first of the next).

    Examples
    --------
    >>> from hfrnn.engine.plan import equal_boundaries
    >>> from hfrnn.engine.sequence_gradients import runs_of_parts
    >>> edges = equal_boundaries(11, 4)
    >>> edges
    (0, 3, 6, 9, 11)
    >>> runs_of_parts(edges, 6)
    [(0, 2), (2, 3), (3, 4)]
    """
    starts = [0]
    for j in range(1, len(edges) - 1):
        size, first = edges[j + 1] - edges[j], starts[-1]
        if size != edges[first + 1] - edges[first] or edges[j + 1] - edges[first] > most:
            starts.append(j)
    return list(pairwise([*starts, len(edges) - 1]))


class SequenceJacobian:
    """The Jacobian of a network's outputs at theta, for products that keep the sequences apart.

    Parameters
    ----------
    objective : Objective
    theta : (n_parameters,) array

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> J = objective.sequence_jacobian(theta)
    >>> J.shape  # steps, sequences, outputs
    (5, 4, 1)
    """

    def __init__(self, objective: SequenceDerivatives, theta: Array) -> None:
        self._theta = objective.net.vector(theta).copy()
        self._sweeps = _SequenceSweeps(objective, objective.plan.keep, transient=False)
        self.shape = (objective.batch.T, objective.batch.B, objective.net.head.n_outputs)
        self._lock = CallLock()
        sweeps = self._sweeps.sweeps
        for _ in self._sweeps.threads.ordered(lambda s: sweeps[s].prepare(self._theta), len(sweeps)):
            pass

    def transpose_products(self, u: Array, out: Array | None = None) -> Array:
        """Return J_b' u_b for every sequence b, where J_b is the Jacobian of the outputs of sequence b.

        Parameters
        ----------
        u : (T, B, n_outputs) array
            Values in the padding are ignored.
        out : (B, n_parameters) array, optional
            Where to write the result.

        Returns
        -------
        (B, n_parameters) array
        """
        sweeps, backend = self._sweeps, self._sweeps.net.backend
        u = backend.asarray(array("u", u, self.shape, backend=backend), dtype=sweeps.net.dtype)
        out, u = sweeps.output(out, u)

        def product(s: int) -> None:
            start, stop = sweeps.columns[s]
            sweeps.sweeps[s].jacobian_transpose_product(u[:, start:stop], sweeps.rows(s, out))

        with self._lock:
            for _ in sweeps.threads.ordered(product, len(sweeps.sweeps)):
                pass
        return out


def per_sequence_gradients(objective: SequenceDerivatives, theta: Array, out: Array | None = None) -> Array:
    """Return `Objective.per_sequence_gradients`."""
    sequences = _SequenceSweeps(objective, objective.plan.keep_of_gradients, transient=True)
    out, theta = sequences.output(out, objective.net.vector(theta))
    sweeps = sequences.sweeps
    for _ in sequences.threads.ordered(lambda s: sweeps[s].gradient(theta, sequences.rows(s, out)), len(sweeps)):
        pass
    return out


def squared_gradients(objective: SequenceDerivatives, theta: Array) -> Array:
    """Return `Objective.squared_gradients`."""
    net, theta = objective.net, objective.net.vector(theta)
    out = net.backend.empty((net.n_parameters,), net.dtype)
    start, _ = objective.ranks.owned(objective.batch.B)
    gradients = PartGradients(objective, theta)

    def square(k: int, vector: Array) -> None:
        gradients.add(k, (start + k, start + k + 1), vector)
        net.backend.xp.multiply(vector, vector, out=vector)

    VectorSum(net.backend, out.shape, net.dtype, objective.threads, objective.ranks).add(square, objective.batch.B, out)
    out /= objective.total_weight
    return out


def part_gradients(objective: SequenceDerivatives, theta: Array, parts: int) -> Array:
    """Return `Objective.part_gradients`."""
    net, ranks, theta = objective.net, objective.ranks, objective.net.vector(theta)
    most = min(count("parts", parts, 1), objective.batch.B)
    edges = equal_boundaries(objective.batch.B, most)
    widest = max(stop - start for start, stop in objective.plan.parts) if net.separates_parts else 0
    runs = runs_of_parts(edges, widest)
    rows = net.backend.zeros((most, net.n_parameters), net.dtype)
    start, stop = ranks.owned(len(runs))
    gradients = PartGradients(objective, theta)

    def store(k: int) -> None:
        first, after = runs[start + k]
        gradients.add(k, (edges[first], edges[after]), rows[first:after])

    with objective.lock:
        for _ in objective.threads.ordered(store, stop - start):
            pass
        own = [runs[k][0] if k < len(runs) else most for k in ranks.edges(len(runs))]
        rows = share(net.backend, ranks, rows, own)
    rows /= math.sqrt(objective.total_weight)
    return rows


class SequenceDerivatives:
    """The methods of an objective that keep the sequences of its batch apart."""

    net: Layout
    batch: Batch
    plan: Plan
    noise: NoiseOfBatch | None
    threads: Threads
    ranks: Ranks
    lock: CallLock
    total_weight: float

    def per_sequence_gradients(self, theta: Array, out: Array | None = None) -> Array:
        """Return the gradient of every sequence's summed loss.

        Parameters
        ----------
        theta : (n_parameters,) array
        out : (B, n_parameters) array, optional
            Where to write the result.

        Returns
        -------
        (B, n_parameters) array
            Row b is g_b, the gradient of the sum of w*loss over the steps of sequence b, without l2. The sum of all
            rows, divided by sum w, is the gradient of the objective without l2.

        Notes
        -----
        The gradients are exact. All sequences of a shard run together (`hfrnn.engine.sequence_gradients`); with a
        class softmax, they run one after another.
        """
        return per_sequence_gradients(self, theta, out)

    def squared_gradients(self, theta: Array) -> Array:
        """Return D = sum_b g_b^2 / sum w, where g_b is the gradient of the summed w*loss of sequence b (SPEC 6).

        D does not include l2. It is exact: each sequence runs by itself, and its gradient is summed over time before
        it is squared. The call takes several times as long as `loss_and_gradient`, because its matrix products have
        one row per step (docs/damping.md has figures), and needs memory for one sequence per thread.

        Parameters
        ----------
        theta : (n_parameters,) array

        Returns
        -------
        (n_parameters,) array
            A new vector with entries of 0 or more, as `hfrnn.optim.cg.diagonal_preconditioner` takes it.
        """
        return squared_gradients(self, theta)

    def part_gradients(self, theta: Array, parts: int = 50) -> Array:
        """Return the gradients of parts of the batch, scaled so that their outer products estimate the curvature.

        Row j is g_j / sqrt(sum w), where g_j is the gradient of the summed w*loss of the sequences of part j, without
        l2. With one sequence per part, the sum of the squared rows is `squared_gradients`.

        Parameters
        ----------
        theta : (n_parameters,) array
        parts : int
            Number of parts of nearly equal size, 1 or more; at most one per sequence. The first parts may have one
            sequence more than the others.

        Returns
        -------
        (parts, n_parameters) array
        """
        return part_gradients(self, theta, parts)

    def sequence_jacobian(self, theta: Array) -> SequenceJacobian:
        """Return the Jacobian at theta for products that keep the sequences apart.

        Parameters
        ----------
        theta : (n_parameters,) array

        Returns
        -------
        SequenceJacobian
            `transpose_products(u)` returns J_b' u_b for every sequence b.
        """
        return SequenceJacobian(self, theta)
