"""Loss, gradient, Gauss-Newton product and Jacobian products of one shard of a batch, in segments of time.

The gradient runs forward over all segments, then backward over them. The head runs in the backward pass, so that its
outputs exist for one segment at a time. The Gauss-Newton product `J' H_L J v` ([Sch]) runs R-forward over all segments.
Then, from the last segment to the first, it computes the head's curvature product, adds structural damping, and runs
the same backward pass as the gradient.

The caller chooses what a sweep keeps between passes (SPEC 8): `Keep.ALL` (states and predictions), `Keep.STATES`, or
`Keep.NOTHING`. The last one stores only the state before each segment, and runs a segment again when it is needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, Backend, Buffers, HostArray, get_backend
from hfrnn.arrays.vectors import Scalar
from hfrnn.engine.batch import Batch, mean_over_outputs, zero_padding
from hfrnn.engine.clipped_errors import StepwiseKernel
from hfrnn.engine.heads.output_map import INPUT
from hfrnn.engine.input_map import Groups, InputMap
from hfrnn.engine.layout import Layout
from hfrnn.engine.noise import NoiseOfBatch
from hfrnn.engine.plan import Keep
from hfrnn.engine.states import SegmentStates, States
from hfrnn.errors import InputError
from hfrnn.kernels.base import Factors, Tape

SEGMENTS = 64
"""Segments whose gradients are added in float32. The sums of so many each are added in float64."""


def adds_in_double(segments: int, dtype: Any) -> bool:
    """Return whether a sweep with so many segments takes a vector in float64 to add their gradients.

    Added one after another in float32, those of 20,000 segments would lose two of their seven digits.
    """
    return segments > SEGMENTS and dtype == "float32"


@dataclass
class Segment:
    """A segment of time, and what a sweep keeps of it.

    Attributes
    ----------
    span : slice
        The steps of the segment.
    tapes : list of Tape
        One per layer.
    head_tape : Tape
    scored : object
        The targets as the head's `arrange` returns them; None without targets.
    hs, Rhs : list of (K, B, width) arrays
        Hidden states of each layer, and their tangents.
    """

    span: slice
    tapes: list[Tape]
    head_tape: Tape
    scored: Any = None
    hs: list[Array] = field(default_factory=list)
    Rhs: list[Array] = field(default_factory=list)


class Sweep:
    """The passes of one shard of a batch through a network.

    Parameters
    ----------
    layout : Layout
    batch : Batch
        As `layout.prepare` returns it.
    total_weight : float
        The sum of the weights of the whole batch, not only of this shard.
    boundaries : sequence of int, optional
        The boundaries of the segments of time, from 0 to T; one segment by default.
    keep : Keep
        What to keep between passes.
    dtype : data type, optional
        The type to compute in; the layout's by default. Complex steps need complex128.
    scratch : Buffers, optional
        Buffers for temporary arrays. Sweeps that never run at the same time may share them.
    kept : Buffers, optional
        Buffers for kept arrays. Sweeps may share them only if they keep nothing between calls.
    metric : {"hidden", "matching", "preactivation"}
        The metric of structural damping that `product` uses.
    noise : NoiseOfBatch, optional
        Noise to add to U, for the sequences of this shard.
    clip_error : float, optional
        Largest absolute value of an entry of the error between two time steps (`clipped_errors.py`). A sweep with this
        limit computes gradients only.
    """

    factors_adjoints = True
    """Whether nothing but the head adds to the adjoint of the uppermost layer."""

    def __init__(
        self, layout: Layout, batch: Batch, total_weight: float, *, boundaries: Sequence[int] | None = None,
        keep: Keep = Keep.ALL, dtype: Any = None, scratch: Buffers | None = None, kept: Buffers | None = None,
        metric: str = "hidden", noise: NoiseOfBatch | None = None, clip_error: float | None = None,
    ) -> None:  # fmt: skip
        self.metric, self.noise = metric, noise
        self.layout, self.batch, self.keep = layout, batch, keep
        self.kernels: list[Any] = [layer.kernel for layer in layout.layers]
        if clip_error is not None:
            self.kernels = [StepwiseKernel(kernel, clip_error / total_weight) for kernel in self.kernels]
        self.backend = layout.backend
        self.xp = layout.backend.xp
        self.scratch = scratch or Buffers(self.backend, dtype or layout.dtype)
        self.kept = kept or Buffers(self.backend, self.scratch.dtype)
        self.inputs = InputMap(
            layout.layers, layout.n_in, layout.embedding, self.backend, batch.inputs, self.scratch,
            host=None if batch.host is None else batch.host.inputs,
        )  # fmt: skip
        self.total_weight = total_weight
        weights = batch.output_weights(self.backend)  # (T, B, n_out) or (T, B, 1), float64
        self.weights = mean_over_outputs(weights)  # (T, B)
        kind = "float64" if self.scratch.dtype.kind == "c" else self.scratch.dtype
        self.scale = (weights / total_weight).astype(kind)
        self.exists = batch.exists(self.backend)  # (T, B), or None without padding
        self.mask = None if self.exists is None else self.exists[:, :, None].astype(kind)  # (T, B, 1)
        edges = list(boundaries or (0, batch.T))
        spans = [slice(start, stop) for start, stop in itertools.pairwise(edges)]
        again = len(spans) if keep is Keep.NOTHING and len(spans) > 1 else 0
        self.states = SegmentStates(layout, batch, self.kept, again)
        self.final_state: States = []
        self.start_adjoint: States = []  # of the state before the first step, from the last backward pass
        if keep is Keep.NOTHING:  # all segments use the same buffers in turn
            tapes, head_tape = self._tapes("0.")
            self.segments = [Segment(span, tapes, head_tape) for span in spans]
        else:
            self.segments = [Segment(span, *self._tapes(f"{s}.")) for s, span in enumerate(spans)]
        home = None if batch.host is None else batch.host.step_weights(get_backend("numpy"))
        self._arrange(self.backend.to_host(self.weights) if home is None else home, batch.output_shares(self.backend))
        self.p: Groups = {}

    def _tapes(self, prefix: str) -> tuple[list[Tape], Tape]:
        """Return a tape for each layer, and one for the head."""
        tapes = [Tape(f"{prefix}{l}.", self.kept, self.scratch) for l in range(len(self.layout.layers))]
        for tape in tapes:
            tape.keeps_preactivation = self.metric != "hidden"
        head_buffers = self.kept if self.keep is Keep.ALL else self.scratch
        head_prefix = f"{prefix}head." if self.keep is Keep.ALL else "head."
        return tapes, Tape(head_prefix, head_buffers, self.scratch)

    # ------------------------------------------------------------------ what callers ask for

    def loss(self, theta: Array) -> Scalar:
        """Return this shard's part of the loss: its sum of w*loss, divided by the total weight of the batch."""
        losses: list[Scalar] = []
        self._over_segments(theta, lambda segment: losses.append(self._loss(segment)))
        return sum(losses) / self.total_weight

    def gradient(self, theta: Array, grad: Array) -> Scalar:
        """Return the loss, add its gradient to `grad` (n_parameters,), and set `final_state`.

        If `grad` is (P, n_parameters), each of P parts of equal size has its row; the network must separate parts.
        """
        after = self._over_segments(theta, records=True)
        self.final_state = [{key: x if isinstance(x, int) else x.copy() for key, x in layer.items()} for layer in after]
        losses: list[Scalar] = []
        head, groups = self.layout.head, self.layout.groups(grad)

        def adjoint(segment: Segment, dhs: list[Array]) -> None:
            losses.append(self._loss(segment))
            fed = self.fed(segment)
            head.gradient(self.p["output"], fed, segment.scored, segment.head_tape, groups["output"], dhs)

        self._backward_over_segments(adjoint, grad, groups)
        return sum(reversed(losses)) / self.total_weight

    def prepare(self, theta: Array) -> None:
        """Run forward at `theta` before products. `theta` must not change until the next `prepare`."""
        keeps_all = self.keep is Keep.ALL
        visit = self._losses if keeps_all and self.batch.targets is not None else None
        self._over_segments(theta, visit, records=True)

    def product(self, v: Array, out: Array, structural: float = 0.0) -> None:
        """Add this shard's part of G v, with structural damping (SPEC 5), to `out` (n_parameters,)."""
        head, vgroups, grad = self.layout.head, self._direction(v), self.layout.groups(out)
        self._rforward_over_segments(vgroups)

        def adjoint(segment: Segment, dhs: list[Array]) -> None:
            if self.keep is not Keep.ALL:
                self._losses(segment)
            own, vown, gown = (groups["output"] for groups in (self.p, vgroups, grad))
            fed, Rfed = self.fed(segment), self.Rfed(segment, vgroups)
            head.product(own, vown, fed, Rfed, segment.scored, segment.head_tape, gown, dhs)

        strength = structural / self.total_weight
        damp = None if structural == 0 else lambda segment, dhs: self._structural(segment, dhs, strength)
        self._backward_over_segments(adjoint, out, grad, vgroups, damp)

    def sequence_losses(self, theta: Array) -> Array:
        """Return each sequence's sum of w*loss, (B,), divided by the total weight."""
        parts: list[Array] = []

        def add(segment: Segment) -> None:
            weights = self.weights[segment.span]
            parts.append(self.xp.where(weights > 0, self._losses(segment) * weights, 0.0).sum(axis=0))

        self._over_segments(theta, add)
        return sum(parts) / self.total_weight

    def state_gradient(self, theta: Array, state: States) -> States:
        """Return the gradient of the loss in the state before the first step, at a state in place of the batch's own.

        Each sequence has its own state, so its part is the gradient of its own loss.
        """
        self.states.begin(state)
        self.gradient(theta, self.backend.zeros((self.layout.n_parameters,), self.scratch.dtype))
        return self.start_adjoint

    def state_product(self, theta: Array, state: States, v: States) -> States:
        """Return the Gauss-Newton product with a direction v of the state before the first step, at `state`."""
        self.states.begin(state, v)
        self.prepare(theta)
        still = self.backend.zeros((self.layout.n_parameters,), self.scratch.dtype)
        self.product(still, self.backend.zeros(still.shape, self.scratch.dtype))
        return self.start_adjoint

    def logits(self, theta: Array) -> tuple[Array, States]:
        """Return the logits (T, B, n_out), 0 in the padding, and the state after the last step."""
        return self._collect(theta, self.layout.head.n_logits, self.layout.head.logits)

    def loss_and_logits(self, theta: Array) -> tuple[Scalar, Array]:
        """Return `loss` and the logits of `logits`, from one forward pass."""
        losses: list[Scalar] = []
        take, visit = self.layout.head.logits, lambda segment: losses.append(self._loss(segment))
        logits, _ = self._collect(theta, self.layout.head.n_logits, take, visit)
        return sum(losses) / self.total_weight, logits

    def outputs(self, theta: Array) -> tuple[Array, States]:
        """Return the head's outputs (T, B, n_outputs), 0 in the padding, and the state after the last step."""
        return self._collect(theta, self.layout.head.n_outputs, lambda _, z: z)

    def _collect(
        self, theta: Array, width: int, take: Callable[[Backend, Array], Array],
        visit: Callable[[Segment], Any] = lambda segment: None,
    ) -> tuple[Array, States]:  # fmt: skip
        collected = self.backend.empty((self.batch.T, self.batch.B, width), self.scratch.dtype)

        def collect(segment: Segment) -> None:
            z = self.layout.head.outputs(self.p["output"], self.fed(segment), segment.head_tape)
            collected[segment.span] = take(self.backend, z)
            visit(segment)

        state = self._over_segments(theta, collect)
        return zero_padding(self.backend, collected, self.exists), state

    def log_probabilities(self, theta: Array) -> tuple[Array, States]:
        """Return minus the loss of every step (T, B), 0 in the padding, and the state after the last step."""
        log_p = self.backend.empty((self.batch.T, self.batch.B), self.scratch.dtype)
        self._arrange(np.ones((self.batch.T, self.batch.B)))

        def collect(segment: Segment) -> None:
            log_p[segment.span] = -self._losses(segment)

        state = self._over_segments(theta, collect)
        return zero_padding(self.backend, log_p, self.exists), state

    def jacobian_product(self, v: Array) -> Array:
        """Return J v, the tangent of the outputs along v: (T, B, n_outputs), 0 in the padding."""
        head, vgroups = self.layout.head, self._direction(v)
        Rz = self.backend.empty((self.batch.T, self.batch.B, head.n_outputs), self.scratch.dtype)

        def collect(segment: Segment) -> None:
            p, v, fed, Rfed = self.p["output"], vgroups["output"], self.fed(segment), self.Rfed(segment, vgroups)
            Rz[segment.span] = head.routputs(p, v, fed, Rfed, segment.head_tape)

        self._rforward_over_segments(vgroups, collect)
        return zero_padding(self.backend, Rz, self.exists)

    def jacobian_transpose_product(self, u: Array, out: Array) -> None:
        """Add J' u to `out` for u (T, B, n_outputs). Values of u in the padding are ignored.

        `out` is (n_parameters,), or (B, n_parameters) for the part of each sequence, as for `gradient`.
        """
        z = zero_padding(self.backend, u, self.exists)
        head, groups = self.layout.head, self.layout.groups(out)

        def adjoint(segment: Segment, dhs: list[Array]) -> None:
            fed = self.fed(segment)
            head.backward(self.p["output"], fed, z[segment.span], segment.head_tape, groups["output"], dhs)

        self._restore(len(self.segments) - 1)
        self._backward_over_segments(adjoint, out, groups)

    # ------------------------------------------------------------------ passes over the segments

    def _over_segments(
        self, theta: Array, visit: Callable[[Segment], Any] | None = None, records: bool = False
    ) -> States:
        """Run forward over all segments, call `visit` after each, and return the state after the last step.

        With `records`, a backward pass may follow. The tapes then hold all segments, or the last one for Keep.NOTHING.
        """
        self.p = self.layout.groups(theta, self.scratch, backward=records)
        state, last = self.states.initial(self.p), len(self.segments) - 1
        for s, segment in enumerate(self.segments):
            if records:
                self.states.save("state", s, state)
            state = self._forward(segment, state, records and (self.keep is not Keep.NOTHING or s == last))
            if visit is not None:
                visit(segment)
        return state

    def _rforward_over_segments(self, v: Groups, visit: Callable[[Segment], None] | None = None) -> None:
        """Run R-forward over all segments, after `prepare`."""
        Rstate = self.states.initial_tangent(v)
        for s, segment in enumerate(self.segments):
            self.states.save("Rstate", s, Rstate)
            self._restore(s)
            Rstate = self._rforward(segment, v, Rstate)
            if visit is not None:
                visit(segment)

    def _backward_over_segments(
        self, adjoint: Callable[[Segment, list[Array]], None], out: Array, grad: Groups, v: Groups | None = None,
        damp: Callable[[Segment, list[Array]], list[Array] | None] | None = None,
    ) -> None:  # fmt: skip
        """Run backward from the last segment to the first. `adjoint` writes a segment's dhs; `damp` adds to it.

        All add to `out`, whose parts are `grad`. The sums of many segments in float32 are added in float64.
        """
        dstate = self.states.zeros
        last = len(self.segments) - 1
        total = None
        if adds_in_double(len(self.segments), out.dtype):
            total = self.scratch.get("sum_of_segments", out.shape, "float64")
            total[...] = 0
        for s, segment in reversed(list(enumerate(self.segments))):
            if s != last:
                self._restore(s)
                if v is not None and self.keep is Keep.NOTHING:
                    self._rforward(segment, v, self.states.saved("Rstate", s))
            dhs = self._places_of_adjoints(segment)
            for l, dh in enumerate(dhs):
                if l not in self.layout.head.widths:
                    dh[...] = 0
            self._adjoint_of_outputs(segment, adjoint, dhs, grad)
            preactivation_adjoints = None if damp is None else damp(segment, dhs)
            dstate = self._backward(segment, dhs, dstate, grad, preactivation_adjoints)
            if total is not None and s % SEGMENTS == 0:
                total += out
                out[...] = total if s == 0 else 0
        self.start_adjoint = dstate
        self.states.add_gradient(dstate, grad)

    def _maps_in_loops(self, l: int, kernel: Any, tape: Tape) -> bool:
        """Return whether the loops of a layer compute its few inputs' part of U themselves."""
        return l == 0 and self.inputs.narrow is not None and kernel.takes_factors(tape)

    def sums_of_inputs(self, l: int, segment: Segment, grad: Groups, several: int = 0) -> Array | None:
        """Let the loops of a layer add up the gradients of k adjoints in the input map, in arrays (k, n_in + 1, slots).

        Return None if they are to return dU instead, as for parts of the sequences. For several adjoints, the blocks of
        grad have their axis first.
        """
        tape = segment.tapes[l]
        in_loops = self._maps_in_loops(l, self.kernels[l], tape) and grad["layer0"]["W_x"].ndim == (3 if several else 2)
        sums = self.inputs.empty_sums(several or 1) if in_loops else None
        tape.inputs = None if sums is None else (self.inputs.extended[segment.span], sums)  # type: ignore[index]
        return sums

    def leaves_factors(self, segment: Segment) -> bool:
        """Return whether the adjoint of the uppermost layer is `Factors`: its few outputs' part, and the damping."""
        head, last = self.layout.head, len(segment.tapes) - 1
        whole = list(head.widths) == [last] and head.leaves_factors(segment.scored, _steps(segment), segment.head_tape)
        return whole and self.factors_adjoints and bool(self.kernels[last].takes_factors(segment.tapes[last]))

    def _places_of_adjoints(self, segment: Segment) -> list[Any]:
        """Return where the head writes the adjoint of each layer: an array, or the `Factors` of the uppermost."""
        last = len(segment.hs) - 1
        places: list[Any] = [self.scratch.get(f"dhs{l}", h.shape) for l, h in enumerate(segment.hs[:-1])]
        if self.leaves_factors(segment):
            return [*places, Factors(None, None)]
        return [*places, self.scratch.get(f"dhs{last}", segment.hs[last].shape)]

    def _direction(self, v: Array) -> Groups:
        """Return a direction in parameter space, by group, for R-forward."""
        return self.layout.groups(v, self.scratch, "R", backward=False)

    def _restore(self, s: int) -> None:
        """Run forward over segment s again, if its tapes no longer hold it."""
        if self.keep is Keep.NOTHING and len(self.segments) > 1:
            self._forward(self.segments[s], self.states.saved("state", s), records=True)

    # ------------------------------------------------------------------ one segment

    def _forward(self, segment: Segment, state: States, records: bool) -> States:
        below = None
        after: States = []
        segment.hs = []
        for l, (kernel, tape) in enumerate(zip(self.kernels, segment.tapes, strict=True)):
            tape.records = records
            if self.noise is None and self._maps_in_loops(l, kernel, tape):
                U = self.inputs.factors(self.p, segment.span)
            else:
                U = self.scratch.get("U", (_steps(segment), self.batch.B, self.layout.layers[l].slots))
                self.inputs.forward(l, self.p, segment.span, below, U)
                if self.noise is not None:
                    self.noise.add(l, segment.span, U)
            below, layer_state = kernel.forward(self.p[f"layer{l}"], U, state[l], tape)
            segment.hs.append(below)
            after.append(layer_state)
        return after

    def _rforward(self, segment: Segment, v: Groups, Rstate: States) -> States:
        below = Rbelow = None
        after: States = []
        segment.Rhs = []
        for l, (layer, tape) in enumerate(zip(self.layout.layers, segment.tapes, strict=True)):
            if self._maps_in_loops(l, layer.kernel, tape):
                RU = self.inputs.factors(v, segment.span)
            else:
                RU = self.scratch.get("RU", (_steps(segment), self.batch.B, layer.slots))
                self.inputs.rforward(l, self.p, v, segment.span, below, Rbelow, RU)
            group = f"layer{l}"
            Rbelow, layer_state = layer.kernel.rforward(self.p[group], v[group], tape, RU, Rstate[l])
            below = segment.hs[l]
            segment.Rhs.append(Rbelow)
            after.append(layer_state)
        return after

    def _backward(
        self, segment: Segment, dhs: list[Array], dstate: States, grad: Groups,
        preactivation_adjoints: list[Array] | None = None,
    ) -> States:  # fmt: skip
        before: States = []
        for l in reversed(range(len(self.layout.layers))):
            group, tape, kernel = f"layer{l}", segment.tapes[l], self.kernels[l]
            more = {} if preactivation_adjoints is None else {"preactivation_adjoint": preactivation_adjoints[l]}
            sums = self.sums_of_inputs(l, segment, grad)
            dU, layer_state = kernel.backward(self.p[group], tape, dhs[l], dstate[l], grad[group], **more)
            below, dbelow = (segment.hs[l - 1], dhs[l - 1]) if l > 0 else (None, None)
            if sums is None:
                self.inputs.backward(l, self.p, segment.span, below, dU, dbelow, grad)
            else:
                self.inputs.add_sums(grad, sums[0])
            before.append(layer_state)
        return before[::-1]

    # ------------------------------------------------------------------ head and damping of one segment

    def fed(self, segment: Segment) -> list[Array]:
        """Return what feeds the output: the hidden states of all layers and, with `feedthrough`, the input."""
        return [*segment.hs, self.inputs.dense(self.p, segment.span)] if self.layout.feedthrough else segment.hs

    def Rfed(self, segment: Segment, v: Groups) -> list[Array]:
        """Return the tangents of `fed` along v."""
        return [*segment.Rhs, self.inputs.dense_tangent(v, segment.span)] if self.layout.feedthrough else segment.Rhs

    def _adjoint_of_outputs(
        self, segment: Segment, adjoint: Callable[[Segment, list[Array]], None], dhs: list[Array], grad: Groups
    ) -> None:
        """Let `adjoint` write dhs and, with `feedthrough`, the adjoint of the input, which an embedding takes."""
        if not self.layout.feedthrough:
            adjoint(segment, dhs)
            return
        dx = self.scratch.get("dx_of_output", (*dhs[0].shape[:2], self.layout.head.widths[INPUT]))
        adjoint(segment, [*dhs, dx])
        self.inputs.dense_backward(segment.span, dx, grad)

    def _arrange(self, wanted: HostArray, shares: Array | None = None) -> None:
        """Prepare the targets of each segment, at least for the steps where `wanted` (T, B) is not 0."""
        if self.batch.targets is not None:
            head, spans = self.layout.head, [segment.span for segment in self.segments]
            targets = ((head.reads_targets and self.batch.host) or self.batch).targets
            scored_parts = head.arrange(self.backend, targets, self.scale, wanted, spans, shares)
            for segment, scored in zip(self.segments, scored_parts, strict=True):
                segment.scored = scored

    def _losses(self, segment: Segment) -> Array:
        """Return the loss of every step, (K, B). The head's tape then holds the prediction."""
        if segment.scored is None:
            raise InputError("the batch has no targets: a loss needs them")
        return self.layout.head.losses(self.p["output"], self.fed(segment), segment.scored, segment.head_tape)

    def _loss(self, segment: Segment) -> Scalar:
        """Return the segment's sum of w*loss in double precision. The head's tape then holds the prediction."""
        losses = self._losses(segment)
        wide = losses.astype("complex128" if losses.dtype.kind == "c" else "float64")
        weights = self.weights[segment.span]
        total = self.xp.where(weights > 0, wide * weights, 0.0).sum()
        return total.item() if self.backend.on_host else total

    def _structural(self, segment: Segment, dhs: list[Array], strength: float) -> list[Array] | None:
        """Add structural damping times `strength`, to dhs for the metric "hidden".

        The other metrics return it instead, as one adjoint of the pre-activation per layer.
        """
        if self.metric == "hidden" and isinstance(dhs[-1], Factors):
            weights = self.scratch.get("damping", segment.hs[-1].shape[:2])
            weights[...] = strength if self.mask is None else strength * self.mask[segment.span][:, :, 0]
            dhs[-1].weights, dhs[-1].Rh = weights, segment.Rhs[-1]
        terms = []
        for l, Rhs in enumerate(segment.Rhs):
            if isinstance(dhs[l], Factors):
                continue
            tangent = segment.tapes[l]["Ra"] if self.metric == "preactivation" else Rhs
            term = self.scratch.get(f"structural{l}", tangent.shape)
            self.xp.multiply(tangent, strength, out=term)
            if self.mask is not None:
                term *= self.mask[segment.span]
            terms.append(term)
        if self.metric != "hidden":
            return terms
        for dh, term in zip(dhs, terms, strict=False):  # without the last one, where it is `Factors`
            dh += term
        return None


def _steps(segment: Segment) -> int:
    return int(segment.span.stop - segment.span.start)
