"""The training objective of a network on a batch: loss, gradient and curvature operators, summed over shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.arrays.threads import CallLock, Threads
from hfrnn.arrays.vectors import Scalar, fetch, unshared
from hfrnn.checks import NOT_NEGATIVE, POSITIVE, choice, count, instance, number
from hfrnn.choices import METRICS
from hfrnn.engine.batch import Batch
from hfrnn.engine.closed_loop import ClosedLoop, ClosedLoopSweep
from hfrnn.engine.layout import Layout
from hfrnn.engine.noise import StateNoise
from hfrnn.engine.operators import check_output, make_operator
from hfrnn.engine.plan import ALONE, Keep, Plan, segment_boundaries
from hfrnn.engine.planner import make_plan
from hfrnn.engine.sequence_gradients import SequenceDerivatives
from hfrnn.engine.several_vectors import SeveralVectors, blocks_of_vectors, takes_several
from hfrnn.engine.sums import VectorSum, share, states_of_ranks
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError, Message
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.ranks.mpi import ranks_of
from hfrnn.ranks.one import Ranks

COMPLEX_STEP = 1e-20
"""The step eps of the complex-step derivative."""


class Objective(SequenceDerivatives):
    """The objective f(theta) = sum w*loss / sum w + (l2/2)*|theta|^2 over a batch (SPEC 3), with its derivatives.

    Parameters
    ----------
    net : Network
    batch : Batch
        Its arrays must not change while the objective is in use.
    threads : int, optional
        Number of threads. By default the number of processors, but 1 for a batch of little work, which more threads
        would slow down. The results do not depend on it.
    checkpoint : None, int, "sqrt" or "auto"
        What is kept of the forward pass. None: everything. An integer: the states every that many steps. "sqrt": the
        states every ceil(sqrt(T)) steps. "auto": the fastest plan that fits `memory`.
    memory : int, optional
        Memory budget for "auto" in bytes; by default 4 GiB, on a GPU a share of its free memory.
    plan : Plan, optional
        An existing plan, used instead of `checkpoint` and `memory`.
    like : Objective, optional
        An objective of the same network that is no longer used. Its buffers are reused.
    noise : StateNoise, optional
        Noise on the states, the same in every loss, gradient and product. Default none.
    closed_loop : ClosedLoop, optional
        Inputs that are outputs of the step before, in every loss, gradient and product. Default none.
    comm : mpi4py.MPI.Comm, optional
        Ranks that share the work. All of them make the same objectives with the same batches, call the same methods in
        the same order, and get the same results. Default one process.
    shards : int, optional
        Cut the batch into at least so many shards, if every shard gets 8 sequences or more. The default is 2, and 1 on
        a GPU. Give the number of ranks times the number of threads. This is ignored if `plan` is given. The last bits
        of the results depend on the shards.

    Raises
    ------
    InputError
        The batch does not match the network, or an argument is out of range.
    RankError
        Another rank has failed, does not answer, or has other weights; any call that adds over shards may raise it.

    Notes
    -----
    Several Python threads may use an objective and its operators at the same time. Each call waits until the one before
    it has finished, because the calls share buffers; calls of different objectives run side by side.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> loss, gradient = objective.loss_and_gradient(theta)
    >>> G = objective.gauss_newton(theta, structural=0.1, tikhonov=0.01)
    >>> G
    <Gauss-Newton matrix 21 x 21, float64>
    >>> (G @ gradient).shape
    (21,)
    """

    def __init__(
        self, net: Layout, batch: Batch, threads: int | None = None, checkpoint: int | str | None = "auto",
        memory: int | None = None, plan: Plan | None = None, like: Objective | None = None,
        noise: StateNoise | None = None, comm: Any = None, shards: int | None = None,
        closed_loop: ClosedLoop | None = None,
    ) -> None:  # fmt: skip
        self.net: Layout = instance("net", net, Layout, "a hfrnn.Network")
        instance("batch", batch, Batch, "a hfrnn.Batch")
        instance("like", like, Objective, "a hfrnn.Objective", or_none=True)
        instance("noise", noise, StateNoise, "a hfrnn.StateNoise", or_none=True)
        instance("closed_loop", closed_loop, ClosedLoop, "a hfrnn.ClosedLoop", or_none=True)
        threads = count("threads", threads, 1, or_none=True)
        self.batch, self.ranks = net.prepare(batch), comm if isinstance(comm, Ranks) else ranks_of(comm)
        self.plan = instance("plan", plan, Plan, "a Plan", or_none=True) or make_plan(
            net, batch.T, batch.B, checkpoint, memory, batch.symbols, weighs_outputs=batch.weighs_outputs,
            least_shards=shards, lengths=batch.shard_lengths, loops=bool(closed_loop and closed_loop.share),
        )  # fmt: skip
        self.plan.check(batch.B)
        little_work = threads is None and batch.T * batch.B * net.n_parameters < ALONE
        self.threads = Threads(1 if little_work or not net.backend.on_host else threads, most=self.plan.workers)
        self.host_threads = Threads(threads)
        """For what the host computes beside a device."""
        self.total_weight = self.batch.total_weight(net.backend)
        self._count = len(self.plan.parts)
        self._columns = self.plan.parts[slice(*self.ranks.owned(self._count))]  # of the shards of this rank
        self._parts = [self.batch.columns(start, stop) for start, stop in self._columns]
        self.noise = noise.of_batch(net.layers, net.backend, net.dtype, batch.B) if noise and noise.scale else None
        self.loop = closed_loop.of_batch(net, self.batch) if closed_loop and closed_loop.share else None
        self._passing: dict[tuple[Keep, float | None], list[Sweep]] = {}
        self._passing_buffers: list[tuple[Buffers, Buffers]] = []
        self._vectors = VectorSum(net.backend, (net.n_parameters,), net.dtype, self.threads, self.ranks)
        self.lock = CallLock()
        self._latest: list[Sweep] | None = None
        if like is not None and self._suits(like):
            self._passing_buffers, self._vectors, self.lock = like._passing_buffers, like._vectors, like.lock

    def _suits(self, like: Objective) -> bool:
        """Return whether the buffers of another objective can be used by this one."""
        return (
            (like.net.n_parameters, like.net.dtype, like.net.backend.name)
            == (self.net.n_parameters, self.net.dtype, self.net.backend.name)
            and (like.threads.threads, like._count) == (self.threads.threads, self._count)
            and like.ranks is self.ranks
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.net!r} on {self.batch.B:,} x {self.batch.T:,} steps>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise InputError(
            "an Objective cannot be pickled or copied: pickle its network and its batch, and make an Objective of them"
        )

    def loss(self, theta: Array) -> float:
        """Return f at theta (n_parameters,), in nats."""
        return fetch(self.lazy_loss(self.net.vector(theta)))[0]

    def lazy_loss(self, theta: Array) -> Scalar:
        """Return `loss`. On a device the call does not wait: it returns an array (), and theta may hold anything."""
        theta = self.net.lazy_vector(theta)
        with self.lock:
            sweeps = self._transient(Keep.NOTHING)
            parts = list(self.threads.ordered(lambda s: sweeps[s].loss(theta), len(sweeps)))
            return self.ranks.sum_scalars(parts, self._count) + self._penalty(theta)

    def loss_and_logits(self, theta: Array) -> tuple[float, Array]:
        """Return f in nats, and the logits (T, B, n_out) as `net.run` does, from one forward pass."""
        theta = self.net.vector(theta)
        logits = self.net.backend.zeros((self.batch.T, self.batch.B, self.net.head.n_logits), self.net.dtype)

        def run(s: int) -> Scalar:
            (start, stop), T = self._columns[s], self._parts[s].T
            loss, logits[:T, start:stop] = sweeps[s].loss_and_logits(theta)
            return loss

        with self.lock:
            sweeps = self._transient(Keep.NOTHING)
            loss = self.ranks.sum_scalars(list(self.threads.ordered(run, len(sweeps))), self._count)
            logits = share(self.net.backend, self.ranks, logits, self._edges, axis=1)
        return fetch(loss + self._penalty(theta))[0], logits

    def loss_and_errors(self, theta: Array) -> tuple[float, float]:
        """Return f in nats, and the share of scored steps whose target does not have the largest output.

        The targets are symbols, classes, or one number per class, of which the largest is the class.
        """
        theta = self.net.vector(theta)

        def run(s: int) -> tuple[Scalar, float, float]:
            loss, logits = sweeps[s].loss_and_logits(theta)
            part, backend = self._parts[s], self.net.backend
            scored = part.step_weights(backend) > 0
            targets = backend.asarray(part.targets)
            wrong = scored & (logits.argmax(axis=2) != (targets if targets.ndim == 2 else targets.argmax(axis=2)))
            return loss, float(wrong.sum().item()), float(scored.sum().item())

        with self.lock:
            sweeps = self._transient(Keep.NOTHING)
            found = list(self.threads.ordered(run, len(sweeps)))
            loss, wrong, scored = (self.ranks.sum_scalars([each[k] for each in found], self._count) for k in range(3))
        return fetch(loss + self._penalty(theta))[0], fetch(wrong)[0] / fetch(scored)[0]

    def loss_and_gradient(
        self, theta: Array, out: Array | None = None, clip_error: float | None = None
    ) -> tuple[float, Array]:
        """Return f in nats and its gradient (n_parameters,), in `out` if given, else in a new vector.

        With `clip_error`, above 0, backpropagation through time limits every entry of the error that a step hands to
        the one before it to this absolute value ([S] 4). The error is the adjoint of the state for the summed w*loss
        of the batch, not for its mean. The result is not the gradient of f, then.
        """
        theta = self.net.vector(theta)
        penalty = self._penalty(theta)  # before the call, as `out` may be theta
        loss, gradient = self._loss_and_gradient(theta, out, clip_error)
        return fetch(loss + penalty)[0], gradient

    def data_loss_and_gradient(
        self, theta: Array, out: Array | None = None, clip_error: float | None = None
    ) -> tuple[Scalar, Array]:
        """Return f without its penalty, in nats, and the gradient of f with it, as `loss_and_gradient` does.

        On a device the call does not wait: the loss is an array () there, and theta may hold anything.
        """
        return self._loss_and_gradient(self.net.lazy_vector(theta), out, clip_error)

    def _loss_and_gradient(self, theta: Array, out: Array | None, clip_error: float | None) -> tuple[Scalar, Array]:
        clip_error = number("clip_error", clip_error, POSITIVE, or_none=True)
        if clip_error is not None and self.loop is not None:
            raise InputError(Message("{clip_error} limits errors between steps, and {closed_loop} adds a path: leave "
                                     "one of them out"))  # fmt: skip
        if out is None:
            out = self.net.backend.empty((self.net.n_parameters,), self.net.dtype)
        else:
            check_output(self.net.backend, "out", out, (self.net.n_parameters,), self.net.dtype)
            theta = unshared(self.net.backend.xp, theta, out)
        with self.lock:
            if self.ranks.size > 1:
                self.ranks.check_weights(self.net.backend.to_host(theta))
            sweeps = self._transient(self.plan.keep_of_gradients, clip_error)
            losses = self._vectors.add(lambda s, vector: sweeps[s].gradient(theta, vector), self._count, out)
            loss, self._latest = self.ranks.sum_scalars(losses, self._count), sweeps
        if self.net.l2:
            out += self.net.l2 * theta
        return loss, out

    def penalty(self, theta: Array) -> float:
        """Return the part of the loss that is not the data's: l2/2 * |theta|^2."""
        return fetch(self._penalty(self.net.vector(theta)))[0]

    def _penalty(self, theta: Array) -> Scalar:
        if not self.net.l2:
            return 0.0
        wide = theta.astype("float64")
        square = (wide * wide).sum()
        return 0.5 * self.net.l2 * (float(square) if self.net.backend.on_host else square)

    def final_state(self) -> list[dict[str, Any]]:
        """Return the state after step T of the latest `loss_and_gradient`, one dict per layer.

        For a sequence that is shorter than its shard, this is the state after its padding; `net.run` returns the one
        after its end.

        Raises
        ------
        InputError
            `loss_and_gradient` has not been called yet.
        """
        with self.lock:
            if self._latest is None:
                raise InputError("there is no final state yet: call loss_and_gradient first")
            own = [sweep.final_state for sweep in self._latest]
            return states_of_ranks(self.net, self.ranks, own, self._columns, self._edges)

    def gauss_newton(self, theta: Array, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden") -> Any:
        """Return the damped Gauss-Newton matrix at theta, `J' H_L J + mu*S + (lambda + l2)*I`, as a LinearOperator.

        Parameters
        ----------
        theta : (n_parameters,) array
        structural : float
            mu, the strength of structural damping S, 0 or more ([MS], [K] 3.24-3.30).
        tikhonov : float
            lambda, the strength of Tikhonov damping, 0 or more.
        metric : {"hidden", "matching", "preactivation"}
            How S measures the change of the hidden states (SPEC 5).

        Returns
        -------
        LinearOperator (n_parameters, n_parameters)
            A symmetric operator with its own copy of theta. Use `G @ v`, or `G.apply(v, out)`, which writes to `out`
            and reuses its buffers.

        Raises
        ------
        InputError
            A strength is negative or not finite, or the architecture does not support the metric.
        """
        structural = number("structural", structural, NOT_NEGATIVE)
        tikhonov = number("tikhonov", tikhonov, NOT_NEGATIVE)
        metric = choice("metric", metric, METRICS)
        if structural and metric not in self.net.metrics:
            raise InputError(
                f"architecture {self.net.arch!r} has no metric {metric!r}: use {' or '.join(self.net.metrics)}"
            )
        theta = self.net.vector(theta).copy()
        sweeps = self._prepared(theta, metric if structural else "hidden")
        diagonal = tikhonov + self.net.l2

        def apply(v: Array, out: Array) -> None:
            with self.lock:
                self._vectors.add(lambda s, vector: sweeps[s].product(v, vector, structural), self._count, out)
                if diagonal:
                    scaled = self._vectors.take()
                    self.net.backend.xp.multiply(v, diagonal, out=scaled)
                    out += scaled
                    self._vectors.give_back(scaled)

        def several(V: Array, out: Array) -> None:
            def product(some: slice, s: int, part: Array) -> None:
                SeveralVectors(sweeps[s], len(part)).product(V[some], part, structural)

            self._sums_of_several(sweeps, product, out)
            if diagonal:
                out += diagonal * V

        n, together = self.net.n_parameters, several if self._takes_several(sweeps) else None
        name = "Gauss-Newton matrix"
        operator = make_operator(self.net.backend, (n, n), self.net.dtype, apply, name=name, several=together)
        operator.tikhonov = tikhonov
        return operator

    def hessian(self, theta: Array) -> Any:
        """Return the exact Hessian at theta as a LinearOperator in float64.

        It uses complex steps: `H v = Im grad(theta + i*eps*v) / eps` with eps = 1e-20.
        """
        theta = self.net.vector(theta).astype("complex128")
        buffers = zip(self._worker_buffers("complex128"), self._worker_buffers("complex128"), strict=True)
        sweeps = self._make_sweeps(Keep.NOTHING, list(buffers), "complex128")
        grad = self.net.backend.empty(theta.shape, "complex128")
        vectors = VectorSum(self.net.backend, theta.shape, "complex128", self.threads, self.ranks)

        def apply(v: Array, out: Array) -> None:
            moved = theta + (1j * COMPLEX_STEP) * v
            with self.lock:
                vectors.add(lambda s, vector: sweeps[s].gradient(moved, vector), self._count, grad)
                out[...] = grad.imag / COMPLEX_STEP + self.net.l2 * v

        return make_operator(self.net.backend, (theta.size, theta.size), np.dtype("float64"), apply, name="Hessian")

    def jacobian(self, theta: Array) -> Any:
        """Return the Jacobian of the logits as a LinearOperator (T*B*n_out, n_parameters).

        Rows are time-major; those of the padding are 0. For the class softmax the shape is
        (T*B*(C + n_out), n_parameters). Each step then has C class outputs and n_out symbol outputs, in the order of
        the columns of `output.W_class{l}` and `output.W_y{l}`.
        """
        theta = self.net.vector(theta).copy()
        sweeps = self._prepared(theta)
        shape = (self.batch.T, self.batch.B, self.net.head.n_outputs)

        def apply(v: Array, out: Array) -> None:
            z = out.reshape(shape)
            with self.lock:
                results = self.threads.ordered(lambda s: sweeps[s].jacobian_product(v), len(sweeps))
                for (start, stop), Rz in zip(self._columns, results, strict=True):
                    z[: len(Rz), start:stop] = Rz
                    z[len(Rz) :, start:stop] = 0
                if self.ranks.size > 1:
                    z[...] = share(self.net.backend, self.ranks, z, self._edges, axis=1)

        def adjoint(u: Array, out: Array) -> None:
            dz = u.reshape(shape)

            def transpose(s: int, vector: Array) -> None:
                part = self.net.backend.asarray(dz[: self._parts[s].T, slice(*self._columns[s])])
                sweeps[s].jacobian_transpose_product(part, vector)

            with self.lock:
                self._vectors.add(transpose, self._count, out)

        def several(V: Array, out: Array) -> None:
            z = out.reshape(len(V), *shape)

            def store(some: slice, s: int) -> None:
                (start, stop), T = self._columns[s], self._parts[s].T
                z[some, :T, start:stop] = SeveralVectors(sweeps[s], some.stop - some.start).jacobian_product(V[some])
                z[some, T:, start:stop] = 0

            with self.lock:
                for some in blocks_of_vectors(sweeps, len(V)):
                    self.threads.run(partial(store, some), len(sweeps))

        def several_adjoints(U: Array, out: Array) -> None:
            dz = U.reshape(len(U), *shape)

            def transposes(some: slice, s: int, part: Array) -> None:
                own = dz[some, : self._parts[s].T, slice(*self._columns[s])]
                own = self.net.backend.asarray(own)
                SeveralVectors(sweeps[s], len(part)).jacobian_transpose_product(own, part)

            self._sums_of_several(sweeps, transposes, out)

        sizes = shape[0] * shape[1] * shape[2], self.net.n_parameters
        together = (several, several_adjoints) if self._takes_several(sweeps) else ()
        return make_operator(self.net.backend, sizes, self.net.dtype, apply, adjoint, "Jacobian", *together)

    def _takes_several(self, sweeps: list[Sweep]) -> bool:
        """Return whether products of these sweeps may have several vectors, so that the same shards have them all."""
        return self.ranks.size == 1 and all(takes_several(sweep) for sweep in sweeps)

    def _sums_of_several(self, sweeps: list[Sweep], task: Callable[[slice, int, Array], None], out: Array) -> None:
        """Write sums over shards to `out` (k, n_parameters); `task(some, s, part)` adds shard s's rows to `part`."""
        backend, (_, n) = self.net.backend, out.shape

        def one(some: slice, s: int, part: Array) -> None:
            task(some, s, part.reshape(-1, n))

        with self.lock:
            for some in blocks_of_vectors(sweeps, len(out)):
                sums = VectorSum(backend, (out[some].size,), self.net.dtype, self.threads, self.ranks)
                sums.add(partial(one, some), self._count, out[some].reshape(-1))

    # ------------------------------------------------------------------ shards

    @property
    def matrix_blocks(self) -> tuple[MatrixBlock, ...]:
        """The parameter blocks as matrices, for the Kronecker preconditioner."""
        return self.net.matrix_blocks

    @property
    def _edges(self) -> list[int]:
        """The boundaries of the ranks' sequences."""
        return [self.plan.shards[shard] for shard in self.ranks.edges(self._count)]

    def _make_sweeps(
        self, keep: Keep, buffers: Sequence[tuple[Buffers, Buffers | None]], dtype: Any = None, metric: str = "hidden",
        clip_error: float | None = None,
    ) -> list[Sweep]:  # fmt: skip
        how: dict[str, Any] = {"keep": keep, "dtype": dtype, "metric": metric, "clip_error": clip_error}
        return [
            self.sweep(part, columns, self.total_weight, scratch=scratch, kept=kept, **how)
            for part, columns, (scratch, kept) in zip(self._parts, self._columns, buffers, strict=True)
        ]

    def sweep(self, part: Batch, columns: tuple[int, int], total_weight: float, **how: Any) -> Sweep:
        """Return a sweep over `part`, the sequences `columns` of the batch, with their noise and their feedback."""
        how["noise"] = self.noise and self.noise.part(*columns)
        if self.loop is not None:
            return ClosedLoopSweep(self.net, part, total_weight, self.loop.part(*columns), **how)
        steps = segment_boundaries(part.T, self.plan.segment)
        return Sweep(self.net, part, total_weight, boundaries=steps, **how)

    def _worker_buffers(self, dtype: Any = None) -> list[Buffers]:
        """Return buffers for each shard. Shards that run on the same worker share them."""
        buffers = [Buffers(self.net.backend, dtype or self.net.dtype) for _ in range(self.threads.threads)]
        return [buffers[s % len(buffers)] for s in range(len(self._parts))]

    def _transient(self, keep: Keep, clip_error: float | None = None) -> list[Sweep]:
        """Return sweeps for a loss or a gradient. Shards of one worker share all buffers: nothing outlives a call."""
        if not self._passing_buffers:
            self._passing_buffers = list(zip(self._worker_buffers(), self._worker_buffers(), strict=True))
        key = keep, clip_error
        if key not in self._passing:
            for other in [each for each in self._passing if each[1] not in (None, clip_error)]:
                del self._passing[other]
            self._passing[key] = self._make_sweeps(keep, self._passing_buffers, clip_error=clip_error)
        return self._passing[key]

    def _prepared(self, theta: Array, metric: str = "hidden") -> list[Sweep]:
        """Return sweeps for an operator. Each keeps its own forward pass at theta."""
        buffers = [(scratch, None) for scratch in self._worker_buffers()]
        sweeps = self._make_sweeps(self.plan.keep, buffers, metric=metric)
        self.threads.run(lambda s: sweeps[s].prepare(theta), len(sweeps))
        return sweeps
