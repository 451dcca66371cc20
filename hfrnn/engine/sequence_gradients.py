"""Derivatives of each sequence of a batch, or of each part: gradients, and products with the transposed Jacobian.

A backward pass over many sequences computes the adjoints dU_t of all of them at once. Only its last step, the sum of
h_t.T @ dU_t over time steps, is made for each sequence or part by itself. So the matrix products of every time step
have one row per sequence, and not a single row.

Reference: Goodfellow 2015, "Efficient per-example gradient computations", for networks without recurrence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import Array, Buffers
from hfrnn.arrays.threads import CallLock
from hfrnn.arrays.vectors import unshared
from hfrnn.checks import count
from hfrnn.engine.operators import check_output
from hfrnn.engine.plan import Keep, equal_boundaries
from hfrnn.engine.sums import VectorSum, share

if TYPE_CHECKING:
    from hfrnn.arrays.threads import Threads
    from hfrnn.engine.batch import Batch
    from hfrnn.engine.layout import Layout
    from hfrnn.engine.plan import Plan
    from hfrnn.engine.sweep import Sweep
    from hfrnn.ranks.one import Ranks


def _columns(objective: SequenceDerivatives) -> list[tuple[int, int]]:
    """Return the sequences of each sweep whose results have one row per sequence: those of a shard, or a single one."""
    return objective.plan.parts if objective.net.separates_parts else [(b, b + 1) for b in range(objective.batch.B)]


def _sweep(
    objective: SequenceDerivatives, columns: tuple[int, int], keep: Keep, scratch: Buffers, kept: Buffers | None = None
) -> Sweep:
    """Return a sweep over the sequences from columns[0] up to columns[1]."""
    return objective.sweep(objective.batch.columns(*columns), columns, 1.0, keep=keep, scratch=scratch, kept=kept)


def _rows(net: Layout, columns: tuple[int, int], out: Array) -> Array:
    """Return where a sweep adds its results: its rows of `out` (B, n_parameters), or a single row as a vector."""
    rows: Array = out[slice(*columns)] if net.separates_parts else out[columns[0]]
    return rows


def _output(net: Layout, B: int, out: Array | None, given: Array) -> tuple[Array, Array]:
    """Return zeros (B, n_parameters), in `out` if that is given and right; and `given`, copied if it lies there."""
    shape, backend = (B, net.n_parameters), net.backend
    if out is None:
        return backend.zeros(shape, net.dtype), given
    check_output(backend, "out", out, shape, net.dtype)
    given = unshared(backend.xp, given, out)
    out[...] = 0
    return out, given


class PartGradients:
    """Compute the gradients of the summed w*loss of parts of a batch at theta (n_parameters,), without l2."""

    def __init__(self, objective: SequenceDerivatives, theta: Array) -> None:
        net, threads = objective.net, objective.threads.threads
        self._objective, self._theta = objective, theta
        self._buffers = [[Buffers(net.backend, net.dtype) for _ in range(2)] for _ in range(threads)]

    def add(self, task: int, columns: tuple[int, int], out: Array) -> None:
        """Add the gradient of the sequences from columns[0] up to columns[1] to `out`, a vector (n_parameters,).

        If `out` is (P, n_parameters), these sequences are P parts of equal size, and each part has a row. The network
        must separate parts then. Calls whose `task` numbers agree modulo the number of threads share buffers.
        """
        objective, (scratch, kept) = self._objective, self._buffers[task % len(self._buffers)]
        _sweep(objective, columns, objective.plan.keep_of_gradients, scratch, kept).gradient(self._theta, out)


def runs_of_parts(edges: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Return runs of parts of equal size, with at most that many sequences, or one part: (first, first of the next).

    >>> runs_of_parts((0, 3, 6, 9, 11), 6)
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
        net, batch, self._threads = objective.net, objective.batch, objective.threads
        self._net, self._theta, self._lock = net, net.vector(theta).copy(), CallLock()
        self.shape = (batch.T, batch.B, net.head.n_outputs)
        self._columns = _columns(objective)
        scratch = [Buffers(net.backend, net.dtype) for _ in range(self._threads.threads)]
        self._sweeps = [
            _sweep(objective, columns, objective.plan.keep, scratch[s % len(scratch)])
            for s, columns in enumerate(self._columns)
        ]
        self._threads.run(lambda s: self._sweeps[s].prepare(self._theta), len(self._sweeps))

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
        net = self._net
        u = net.backend.asarray(array("u", u, self.shape, backend=net.backend), dtype=net.dtype)
        out, u = _output(net, self.shape[1], out, u)

        def product(s: int) -> None:
            columns = self._columns[s]
            sweep = self._sweeps[s]
            sweep.jacobian_transpose_product(u[: sweep.batch.T, slice(*columns)], _rows(net, columns, out))

        with self._lock:
            self._threads.run(product, len(self._sweeps))
        return out


class SequenceDerivatives:
    """The methods of an objective that keep the sequences of its batch apart."""

    net: Layout
    batch: Batch
    plan: Plan
    threads: Threads
    ranks: Ranks
    lock: CallLock
    total_weight: float

    def sweep(self, part: Batch, columns: tuple[int, int], total_weight: float, **how: Any) -> Sweep:
        """Return a sweep over `part`, the sequences `columns` of the batch, with their noise and their feedback."""
        raise NotImplementedError

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
        out, theta = _output(self.net, self.batch.B, out, self.net.vector(theta))
        columns, gradients = _columns(self), PartGradients(self, theta)
        self.threads.run(lambda s: gradients.add(s, columns[s], _rows(self.net, columns[s], out)), len(columns))
        return out

    def squared_gradients(self, theta: Array) -> Array:
        """Return D = sum_b g_b^2 / sum w, where g_b is the gradient of the summed w*loss of sequence b (SPEC 6).

        D does not include l2. It is exact: each sequence runs by itself, and its gradient is summed over time before
        it is squared. The call takes several times as long as `loss_and_gradient`, because its matrix products have
        one row per step, and needs memory for one sequence per thread.

        Parameters
        ----------
        theta : (n_parameters,) array

        Returns
        -------
        (n_parameters,) array
            A new vector with entries of 0 or more, as `hfrnn.optim.cg.diagonal_preconditioner` takes it.
        """
        net, theta = self.net, self.net.vector(theta)
        out = net.backend.empty((net.n_parameters,), net.dtype)
        start, _ = self.ranks.owned(self.batch.B)
        gradients = PartGradients(self, theta)

        def square(k: int, vector: Array) -> None:
            gradients.add(k, (start + k, start + k + 1), vector)
            net.backend.xp.multiply(vector, vector, out=vector)

        VectorSum(net.backend, out.shape, net.dtype, self.threads, self.ranks).add(square, self.batch.B, out)
        out /= self.total_weight
        return out

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
        net, ranks, theta = self.net, self.ranks, self.net.vector(theta)
        most = min(count("parts", parts, 1), self.batch.B)
        edges = equal_boundaries(self.batch.B, most)
        widest = max(stop - start for start, stop in self.plan.parts) if net.separates_parts else 0
        runs = runs_of_parts(edges, widest)
        rows = net.backend.zeros((most, net.n_parameters), net.dtype)
        start, stop = ranks.owned(len(runs))
        gradients = PartGradients(self, theta)

        def store(k: int) -> None:
            first, after = runs[start + k]
            gradients.add(k, (edges[first], edges[after]), rows[first:after] if after - first > 1 else rows[first])

        with self.lock:
            self.threads.run(store, stop - start)
            own = [runs[k][0] if k < len(runs) else most for k in ranks.edges(len(runs))]
            rows = share(net.backend, ranks, rows, own)
        rows /= math.sqrt(self.total_weight)
        return rows

    def sequence_jacobian(self, theta: Array) -> SequenceJacobian:
        """Return the Jacobian at theta (n_parameters,) for products that keep the sequences apart.

        Its method `transpose_products(u)` returns J_b' u_b for every sequence b.
        """
        return SequenceJacobian(self, theta)
