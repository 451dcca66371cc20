"""The training objective of a network on a batch: loss, gradient and curvature operators, added up over shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.arrays.threads import Threads
from hfrnn.engine.batch import Batch
from hfrnn.engine.layout import Layout
from hfrnn.engine.operators import make_operator
from hfrnn.engine.plan import Keep, Plan, segment_boundaries
from hfrnn.engine.planner import make_plan
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError
from hfrnn.names import METRICS

COMPLEX_STEP = 1e-20


class Objective:
    """f(theta) = sum w*loss / sum w + (l2/2)*|theta|^2 over a batch (SPEC 3), with its derivatives.

    Parameters
    ----------
    net : Network
    batch : Batch
    threads : int, optional
        By default as many as there are processors. The results do not depend on it.
    checkpoint : None, int, "sqrt" or "auto"
        What is kept of the forward pass: everything; the states every so many steps; every ceil(sqrt(T)) steps; or
        everything if it fits `memory`, else "sqrt".
    memory : int, optional
        The budget of "auto" in bytes, 4 GiB by default.
    plan : Plan, optional
        A plan made before, instead of `checkpoint` and `memory`.
    like : Objective, optional
        An objective of the same network, not to be used any more: its buffers are taken over.

    Raises
    ------
    InputError
        The batch does not fit the network, or an argument is out of its range.
    """

    def __init__(
        self,
        net: Layout,
        batch: Batch,
        threads: int | None = None,
        checkpoint: int | str | None = "auto",
        memory: int | None = None,
        plan: Plan | None = None,
        like: Objective | None = None,
    ) -> None:
        self.net = net
        symbols = batch.inputs.ndim == 2
        self.plan = plan or make_plan(net, batch.T, batch.B, checkpoint, memory, symbols)
        if self.plan.shards[-1] != batch.B:
            raise InputError(f"the plan is for {self.plan.shards[-1]} sequences, and the batch has {batch.B}")
        self.batch = net.prepare(batch)
        self.threads = Threads(threads if net.backend.on_host else 1, most=self.plan.slots)
        self.total_weight = self.batch.total_weight(net.backend)
        self._parts = [self.batch.columns(start, stop) for start, stop in self.plan.parts]
        self._boundaries = segment_boundaries(batch.T, self.plan.segment)
        self._passing: dict[Keep, list[Sweep]] = {}
        self._passing_buffers: list[tuple[Buffers, Buffers]] = []
        self._vectors: list[Array] = []
        if like is not None and len(like._parts) == len(self._parts) and like.threads.threads == self.threads.threads:
            self._passing_buffers, self._vectors = like._passing_buffers, like._vectors

    def loss(self, theta: Array) -> float:
        """f at theta (n_parameters,), in nats."""
        theta = self._vector(theta)
        sweeps = self._transient(Keep.NOTHING)
        parts = self.threads.ordered(lambda s: sweeps[s].loss(theta), len(sweeps))
        return float(sum(parts)) + self._l2_loss(theta)

    def loss_and_gradient(self, theta: Array, out: Array | None = None) -> tuple[float, Array]:
        """f and its gradient (n_parameters,): in `out`, which is overwritten, or a fresh vector."""
        theta = self._vector(theta)
        keep = Keep.NOTHING if self.plan.keep is Keep.NOTHING else Keep.STATES
        sweeps, grad = self._transient(keep), self._empty() if out is None else out
        loss = sum(self._add(sweeps, lambda sweep, part: sweep.gradient(theta, part), grad))
        if self.net.l2:
            grad += self.net.l2 * theta
        return float(loss) + self._l2_loss(theta), grad

    def squared_gradients(self, theta: Array) -> Array:
        """D = sum_b g_b^2 / sum w, with g_b the gradient of sequence b's summed loss w*loss (SPEC 6), without l2.

        Exact: every sequence has a sweep of its own, whose gradient is summed over time before it is squared. The cost
        is the arithmetic of one gradient in products of one row a step, several times the seconds of
        `loss_and_gradient` (docs/damping.md has some), and beside a gradient's memory that of one sequence a thread.

        Parameters
        ----------
        theta : (n_parameters,) array

        Returns
        -------
        (n_parameters,) array
            Fresh, entries 0 or more: what `hfrnn.optim.cg.diagonal_preconditioner` takes.
        """
        theta = self._vector(theta)
        keep = Keep.NOTHING if self.plan.keep is Keep.NOTHING else Keep.STATES
        backend, dtype, count = self.net.backend, self.net.dtype, min(self.threads.threads, self.batch.B)
        buffers = [(Buffers(backend, dtype), Buffers(backend, dtype)) for _ in range(count)]
        vectors, out = self._work(count), self._zeros()

        def square(b: int) -> Array:
            vector, (scratch, kept) = vectors[b % count], buffers[b % count]
            vector[...] = 0
            one, edges = self.batch.columns(b, b + 1), self._boundaries
            Sweep(self.net, one, 1.0, boundaries=edges, keep=keep, scratch=scratch, kept=kept).gradient(theta, vector)
            vector *= vector
            return vector

        for vector in self.threads.ordered(square, self.batch.B):
            out += vector
        out /= self.total_weight
        return out

    def final_state(self) -> list[dict[str, Any]]:
        """The state after the last step, as the last `loss_and_gradient` found it, a dict a layer."""
        keep = Keep.NOTHING if self.plan.keep is Keep.NOTHING else Keep.STATES
        states, xp = [sweep.final_state for sweep in self._passing[keep]], self.net.backend.xp
        return [
            {
                name: value if isinstance(value, int) else xp.concatenate([s[l][name] for s in states], axis=-2)
                for name, value in layer.items()
            }
            for l, layer in enumerate(states[0])
        ]

    def gauss_newton(self, theta: Array, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden") -> Any:
        """The damped Gauss-Newton matrix at theta, `J' H_L J + mu*S + lambda*I` (+ l2*I), as a LinearOperator.

        Parameters
        ----------
        theta : (n_parameters,) array
        structural : float
            mu, the weight of structural damping S, 0 or more ([MS], [K] 3.24-3.30).
        tikhonov : float
            lambda, 0 or more.
        metric : {"hidden", "matching", "preactivation"}
            How S measures the change of the hidden states (SPEC 5).

        Returns
        -------
        LinearOperator (n_parameters, n_parameters)
            Symmetric; `G @ v`, and `G.apply(v, out)` without allocation. It keeps its own copy of theta.

        Raises
        ------
        InputError
            A negative or non-finite strength, or a metric that the architecture does not serve.
        """
        for name, value in (("structural", structural), ("tikhonov", tikhonov)):
            if not (np.isfinite(value) and value >= 0):
                raise InputError(f"{name} is {value!r}: give a number, 0 or more")
        if metric not in METRICS:
            raise InputError(f"metric {metric!r} is not known: use {', '.join(METRICS[:-1])} or {METRICS[-1]}")
        if structural and metric not in self.net.metrics:
            raise InputError(
                f"architecture {self.net.arch!r} has no metric {metric!r}: use {' or '.join(self.net.metrics)}"
            )
        theta = self._vector(theta).copy()
        sweeps = self._prepared(theta, metric if structural else "hidden")
        diagonal = tikhonov + self.net.l2

        def apply(v: Array, out: Array) -> None:
            v = self._vector(v)
            for _ in self._add(sweeps, lambda sweep, part: sweep.product(v, part, structural), out):
                pass
            if diagonal:
                self.net.backend.xp.multiply(v, diagonal, out=self._vectors[0])
                out += self._vectors[0]

        n = self.net.n_parameters
        return make_operator(self.net.backend, (n, n), self.net.dtype, apply)

    def hessian(self, theta: Array) -> Any:
        """The exact Hessian at theta, a LinearOperator in float64: `H v = Im grad(theta + i*eps*v)/eps`, eps 1e-20."""
        theta = self._vector(theta).astype("complex128")
        buffers = Buffers(self.net.backend, "complex128")
        sweeps = self._make_sweeps(Keep.NOTHING, [(buffers, None)] * len(self._parts), "complex128")

        def apply(v: Array, out: Array) -> None:
            moved = theta + (1j * COMPLEX_STEP) * v
            grad = self.net.backend.zeros(moved.shape, "complex128")
            for sweep in sweeps:
                sweep.gradient(moved, grad)
            out[...] = grad.imag / COMPLEX_STEP + self.net.l2 * v

        n = self.net.n_parameters
        return make_operator(self.net.backend, (n, n), np.dtype("float64"), apply)

    def jacobian(self, theta: Array) -> Any:
        """The Jacobian of the logits as a LinearOperator (T*B*n_out, n_parameters), rows time-major, padding rows 0.

        Of the class softmax it is that of the C class outputs and then the n_out symbol outputs of each step, in the
        order of the columns of `output.W_class{l}` and `output.W_y{l}`: (T*B*(C + n_out), n_parameters).
        """
        theta = self._vector(theta).copy()
        sweeps = self._prepared(theta)
        shape = (self.batch.T, self.batch.B, self.net.head.n_outputs)

        def apply(v: Array, out: Array) -> None:
            v, z = self._vector(v), out.reshape(shape)
            results = self.threads.ordered(lambda s: sweeps[s].jacobian_product(v), len(sweeps))
            for (start, stop), Rz in zip(self.plan.parts, results, strict=True):
                z[:, start:stop] = Rz

        def adjoint(u: Array, out: Array) -> None:
            dz = self.net.backend.asarray(u, dtype=self.net.dtype).reshape(shape)
            parts = {id(sweep): dz[:, start:stop] for sweep, (start, stop) in zip(sweeps, self.plan.parts, strict=True)}
            for _ in self._add(sweeps, lambda sweep, g: self._transpose(sweep, parts[id(sweep)], g), out):
                pass

        rows = shape[0] * shape[1] * shape[2]
        return make_operator(self.net.backend, (rows, self.net.n_parameters), self.net.dtype, apply, adjoint)

    # ------------------------------------------------------------------ shards

    def _transpose(self, sweep: Sweep, u: Array, out: Array) -> None:
        sweep.jacobian_transpose_product(self.net.backend.asarray(u), out)

    def _add(self, sweeps: list[Sweep], task: Callable[[Sweep, Array], Any], out: Array) -> list[Any]:
        """out <- the sum of the shards' vectors, in their order; returns what the task returned for each."""
        count = min(self.threads.threads, len(sweeps))
        vectors = self._work(count)

        def run(s: int) -> tuple[Any, Array]:
            vector = vectors[s % count] if s else out
            vector[...] = 0
            return task(sweeps[s], vector), vector

        at_once = len(sweeps) == count  # every shard's vector is there in the end, and can be added by all threads
        results = []
        for result, vector in self.threads.ordered(run, len(sweeps)):
            results.append(result)
            if vector is not out and not at_once:
                out += vector

        def add(lane: int) -> None:
            part = slice(lane * out.size // count, (lane + 1) * out.size // count)
            for vector in vectors[1:]:
                out[part] += vector[part]

        if at_once and count > 1:
            for _ in self.threads.ordered(add, count):
                pass
        return results

    def _make_sweeps(
        self, keep: Keep, buffers: Sequence[tuple[Buffers, Buffers | None]], dtype: Any = None, metric: str = "hidden"
    ) -> list[Sweep]:
        return [
            Sweep(
                self.net, part, self.total_weight, boundaries=self._boundaries, keep=keep, dtype=dtype,
                scratch=scratch, kept=kept, metric=metric,
            )
            for part, (scratch, kept) in zip(self._parts, buffers, strict=True)
        ]  # fmt: skip

    def _slots(self) -> list[Buffers]:
        """Buffers for each shard; shards that never run at the same time share theirs."""
        slots = [Buffers(self.net.backend, self.net.dtype) for _ in range(self.threads.threads)]
        return [slots[s % len(slots)] for s in range(len(self._parts))]

    def _transient(self, keep: Keep) -> list[Sweep]:
        """Sweeps for a loss or a gradient: nothing outlives a call, so they share all buffers of their slot."""
        if not self._passing_buffers:
            self._passing_buffers = list(zip(self._slots(), self._slots(), strict=True))
        if keep not in self._passing:
            self._passing[keep] = self._make_sweeps(keep, self._passing_buffers)
        return self._passing[keep]

    def _prepared(self, theta: Array, metric: str = "hidden") -> list[Sweep]:
        """Sweeps for an operator: each keeps its own forward pass."""
        sweeps = self._make_sweeps(self.plan.keep, [(scratch, None) for scratch in self._slots()], metric=metric)
        for _ in self.threads.ordered(lambda s: sweeps[s].prepare(theta), len(sweeps)):
            pass
        return sweeps

    def _vector(self, theta: Array) -> Array:
        return self.net.backend.asarray(theta, dtype=self.net.dtype)

    def _work(self, count: int) -> list[Array]:
        """So many vectors of arbitrary contents, one for each thread, that are kept for the next call."""
        while len(self._vectors) < count:
            self._vectors.append(self._empty())
        return self._vectors[:count]

    def _zeros(self) -> Array:
        return self.net.backend.zeros((self.net.n_parameters,), self.net.dtype)

    def _empty(self) -> Array:
        return self.net.backend.empty((self.net.n_parameters,), self.net.dtype)

    def _l2_loss(self, theta: Array) -> float:
        if not self.net.l2:
            return 0.0
        wide = theta.astype("float64")
        return 0.5 * self.net.l2 * float((wide * wide).sum().item())
