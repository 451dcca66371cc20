"""Products of one shard with k vectors in one sweep: its kernels carry all tangents or adjoints through each step.

The loops of a kernel read the coefficients and the matrices of a step once for all vectors, and one call runs them for
all. Each product has the bits of a product with this vector alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.engine.batch import zero_padding
from hfrnn.engine.input_map import Groups
from hfrnn.engine.plan import Keep, equal_boundaries
from hfrnn.engine.states import States
from hfrnn.engine.sweep import Segment, Sweep

MOST = 16
"""Vectors of a sweep at most."""
MATRIX_BYTES, ARRAY_BYTES = 2**19, 2**26
"""Bytes of the recurrent matrices of all vectors, and of their arrays over all steps of a shard."""


def takes_several(sweep: Sweep) -> bool:
    """Return whether the products of a sweep may have several vectors."""
    kept = sweep.keep is not Keep.NOTHING or len(sweep.segments) == 1
    layers = zip(sweep.kernels, sweep.segments[0].tapes, strict=True)
    return type(sweep) is Sweep and kept and all(kernel.takes_several(tape) for kernel, tape in layers)


def blocks_of_vectors(sweeps: Sequence[Sweep], count: int) -> Iterator[slice]:
    """Return slices of `count` vectors, so many that their recurrent matrices and arrays stay in the caches."""
    most = min((_most(sweep) for sweep in sweeps), default=1)
    edges = equal_boundaries(count, -(-count // most))
    return itertools.starmap(slice, itertools.pairwise(edges))


def _most(sweep: Sweep) -> int:
    """Return how many vectors the products of a sweep have at a time."""
    item, matrices, row = sweep.scratch.dtype.itemsize, 0, 0
    for kernel in sweep.kernels:
        matrices += sum(math.prod(shape) for shape in kernel.parameter_shapes().values())
        row += kernel.width + 2 * sum(slot.width for slot in kernel.slots)
    arrays = sweep.batch.T * sweep.batch.B * row
    return int(max(1, min(MOST, MATRIX_BYTES // (matrices * item), ARRAY_BYTES // (arrays * item))))


class SeveralVectors:
    """The products of a prepared sweep with vectors (k, n_parameters), or with k adjoints of the outputs."""

    def __init__(self, sweep: Sweep, count: int) -> None:
        self.sweep, self.count, self.layout, self.xp = sweep, count, sweep.layout, sweep.xp
        self.head: Any = sweep.layout.head  # a FullHead, where the uppermost layer leaves factors

    def product(self, V: Array, out: Array, structural: float = 0.0) -> None:
        """Add this shard's part of G v, with structural damping (SPEC 5), to each row of `out` (k, n_parameters)."""
        sweep, head = self.sweep, self.head
        v, grad = self._stacked(V), self._stacked(out)
        self._rforward_over_segments(V, v)

        def adjoint(segment: Segment) -> list[Any]:
            if sweep.keep is not Keep.ALL:
                sweep._losses(segment)
            own = sweep.p["output"]
            if sweep.leaves_factors(segment):
                Rz = head.routputs_of_several(v["output"], segment.tapes[-1]["Rz"])
                last = head.product_of_several(own, Rz, segment.scored, segment.head_tape, grad["output"])
                return [*self._places(segment, but_last=True), last]

            def each(vown: Groups, Rfed: list[Array], grown: Groups, dhs: list[Any]) -> None:
                given = own, vown["output"], sweep.fed(segment), Rfed, segment.scored, segment.head_tape
                head.product(*given, grown["output"], dhs)

            return self._each_adjoint(segment, V, out, each)

        self._backward_over_segments(adjoint, out, grad, structural / sweep.total_weight)

    def jacobian_product(self, V: Array) -> Array:
        """Return J v for each v, the tangents of the outputs: (k, T, B, n_outputs), 0 in the padding."""
        sweep, head, v = self.sweep, self.head, self._stacked(V)
        shape = self.count, sweep.batch.T, sweep.batch.B, head.n_outputs
        found = sweep.backend.empty(shape, sweep.scratch.dtype)

        def collect(segment: Segment) -> None:
            if sweep.leaves_factors(segment):
                found[:, segment.span] = head.routputs_of_several(v["output"], segment.tapes[-1]["Rz"])
                return
            own, fed = sweep.p["output"], sweep.fed(segment)
            for i, each in enumerate(self.layout.groups(vector) for vector in V):
                Rfed = self._Rfed(segment, each, i)
                found[i, segment.span] = head.routputs(own, each["output"], fed, Rfed, segment.head_tape)

        self._rforward_over_segments(V, v, collect)
        for each in found:
            each[...] = zero_padding(sweep.backend, each, sweep.exists)
        return found

    def jacobian_transpose_product(self, u: Array, out: Array) -> None:
        """Add J' u to each row of `out` (k, n_parameters), for u (k, T, B, n_outputs); its padding is ignored."""
        sweep, head, grad = self.sweep, self.head, self._stacked(out)
        dz = self.xp.stack([zero_padding(sweep.backend, each, sweep.exists) for each in u])

        def adjoint(segment: Segment) -> list[Any]:
            own, part = sweep.p["output"], sweep.backend.asarray(dz[:, segment.span])
            if sweep.leaves_factors(segment):
                last = head.backward_of_several(own, part, grad["output"])
                return [*self._places(segment, but_last=True), last]
            parts = iter(part)

            def each(_: Groups, Rfed: list[Array], grown: Groups, dhs: list[Any]) -> None:
                head.backward(own, sweep.fed(segment), next(parts), segment.head_tape, grown["output"], dhs)

            return self._each_adjoint(segment, None, out, each)

        self._backward_over_segments(adjoint, out, grad)

    # ------------------------------------------------------------------ passes over the segments

    def _stacked(self, V: Array) -> Groups:
        """Return the blocks of vectors (k, n_parameters) by group, with the axis of k first."""
        groups = self.layout.groups(V)
        return {
            group: {name: block.transpose(-1, *range(block.ndim - 1)) for name, block in blocks.items()}
            for group, blocks in groups.items()
        }

    def _rforward_over_segments(
        self, V: Array, v: Groups, visit: Callable[[Segment], None] | None = None
    ) -> None:  # fmt: skip
        sweep = self.sweep
        Rstate = self._zero_states()
        if sweep.states.learned:
            for i, each in enumerate(V):
                for own, layer in zip(Rstate, sweep.states.initial_tangent(self.layout.groups(each)), strict=True):
                    for name, x in layer.items():
                        own[name][i] = x
        for l, kernel in enumerate(sweep.kernels):
            kernel.prepare(v[f"layer{l}"], sweep.scratch, f"R{l}.", backward=False)
        for segment in sweep.segments:
            Rstate = self._rforward(segment, V, v, Rstate)
            if visit is not None:
                visit(segment)

    def _zero_states(self) -> States:
        zeros = self.sweep.states.zeros
        return [{name: self.xp.zeros((self.count, *x.shape), x.dtype) for name, x in layer.items()} for layer in zeros]

    def _rforward(self, segment: Segment, V: Array, v: Groups, Rstate: States) -> States:
        sweep, after = self.sweep, []
        below: Any = None
        Rbelow: Any = None
        steps, last = segment.span.stop - segment.span.start, len(segment.tapes) - 1
        segment.Rhs = []
        for l, (kernel, tape) in enumerate(zip(sweep.kernels, segment.tapes, strict=True)):
            group = f"layer{l}"
            if sweep._maps_in_loops(l, kernel, tape):
                RU = sweep.inputs.factors(v, segment.span)
            else:
                RU = sweep.scratch.get("RU", (self.count, steps, sweep.batch.B, self.layout.layers[l].slots))
                for i, each in enumerate(self.layout.groups(vector) for vector in V):
                    Rown = None if Rbelow is None else Rbelow[i]
                    sweep.inputs.rforward(l, sweep.p, each, segment.span, below, Rown, RU[i])
            tape.outputs = None
            if l == last and sweep.leaves_factors(segment):
                Rz = tape.new("Rz", self.count, steps, sweep.batch.B, self.head.n_outputs)
                tape.outputs = self.head.outputs_in_loops(sweep.p["output"], v["output"], Rz)
            Rbelow, state = kernel.rforward_several(sweep.p[group], v[group], tape, RU, Rstate[l])
            tape.outputs, below = None, segment.hs[l]
            segment.Rhs.append(Rbelow)
            after.append({key: self.xp.ascontiguousarray(x) for key, x in state.items()})
        return after

    def _backward_over_segments(
        self, adjoint: Callable[[Segment], list[Any]], out: Array, grad: Groups, strength: float = 0.0
    ) -> None:
        sweep, dstate = self.sweep, self._zero_states()
        for segment in reversed(sweep.segments):
            dhs = adjoint(segment)
            if strength:
                sweep._structural(segment, dhs, strength)
            dstate = self._backward(segment, dhs, dstate, out, grad)
        if sweep.states.learned:
            for i, each in enumerate(out):
                own = [{key: x[i] for key, x in layer.items()} for layer in dstate]
                sweep.states.add_gradient(own, self.layout.groups(each))

    def _places(self, segment: Segment, but_last: bool = False) -> list[Array]:
        """Return arrays (k, K, B, width) for the adjoints of the layers, with 0 where the head writes nothing."""
        places = []
        for l, h in enumerate(segment.hs[:-1] if but_last else segment.hs):
            places.append(self.sweep.scratch.get(f"dhs{l}", (self.count, *h.shape)))
            if l not in self.layout.head.widths:
                places[l][...] = 0
        return places

    def _each_adjoint(
        self, segment: Segment, V: Array | None, out: Array,
        write: Callable[[Groups, list[Array], Groups, list[Any]], None],
    ) -> list[Any]:  # fmt: skip
        """Let `write` compute the adjoint of each vector; its arguments are v, its `fed`, its gradient and dhs."""
        sweep, dhs = self.sweep, self._places(segment)
        for i, each in enumerate(out):
            v = {} if V is None else self.layout.groups(V[i])
            Rfed = [] if V is None else self._Rfed(segment, v, i)
            grad = self.layout.groups(each)

            def adjoint(_: Segment, own: list[Any], v: Groups = v, Rfed: Any = Rfed, grad: Groups = grad) -> None:
                write(v, Rfed, grad, own)

            sweep._adjoint_of_outputs(segment, adjoint, [dh[i] for dh in dhs], grad)
        return dhs

    def _backward(self, segment: Segment, dhs: list[Any], dstate: States, out: Array, grad: Groups) -> States:
        sweep, before = self.sweep, []
        for l in reversed(range(len(sweep.kernels))):
            group, tape = f"layer{l}", segment.tapes[l]
            sums = sweep.sums_of_inputs(l, segment, grad, self.count)
            dU, state = sweep.kernels[l].backward_several(sweep.p[group], tape, dhs[l], dstate[l], grad[group])
            if sums is not None:
                sweep.inputs.add_sums(grad, sums)
            else:
                for i, each in enumerate(out):
                    below, dbelow = (segment.hs[l - 1], dhs[l - 1][i]) if l > 0 else (None, None)
                    sweep.inputs.backward(l, sweep.p, segment.span, below, dU[i], dbelow, self.layout.groups(each))
            before.append(state)
        return before[::-1]

    def _Rfed(self, segment: Segment, v: Groups, i: int) -> list[Array]:
        """Return the tangents of what feeds the output, for one vector."""
        Rhs = [each[i] for each in segment.Rhs]
        return [*Rhs, self.sweep.inputs.dense_tangent(v, segment.span)] if self.layout.feedthrough else Rhs
