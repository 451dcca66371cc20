"""Fused rnn: the equations of kernels/rnn.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import rnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product, whole_segment
from hfrnn.kernels.cuda.launch import KINDS, Kernels, SegmentKernels, before_segment, contiguous_transpose
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.pointwise import add_weight_gradient, product


class RNN(reference.RNN):
    """`rnn` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), run, kind = tape.xp, U.shape, Kernels("rnn", tape), KINDS[self.activation]
        hs, recorded = tape.new("h", K + 1, B, H), int(tape.records)  # hs[t] = h_{t-1}
        slope = tape.new("slope", K, B, H) if recorded else hs
        hs[0] = state["h"]
        if (segment := self._segment(tape, B)).fit:
            segment.run("forward", K, B, H, kind, recorded, U, p["W_h"], hs, slope)  # F1, F2, L1
            return hs[1:], {"h": hs[K]}
        for t in range(K):
            xp.matmul(hs[t], p["W_h"], out=hs[t + 1])  # F1
            run.each("rnn_forward", B * H, t, B, H, H, kind, recorded, U, hs, slope)  # F1, F2, L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), run, slope = tape.xp, RU.shape, Kernels("rnn", tape), tape["slope"]
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Ra", K, B, H))
        Rhs, recurrent = tape.new("Rh", K, B, H), tape.scratch("recurrent", B, H)
        Rh = before_segment(tape, K, Rstate["h"])
        if (segment := self._segment(tape, B)).fit:
            segment.run("rforward", K, B, H, RU, p["W_h"], Rh, slope, Ra, Rhs)  # R1, R2
            return Rhs, {"h": Rhs[K - 1]}
        for t in range(K):
            xp.matmul(Rh, p["W_h"], out=recurrent)
            run.each("rnn_rforward", B * H, t, B, H, H, RU, recurrent, slope, Ra, Rhs)  # R1, R2
            Rh = Rhs[t]
        return Rhs, {"h": Rh}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, KINDS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), run, slope = tape.xp, dhs.shape, Kernels("rnn", tape), tape["slope"]
        dU, dh, W_T = tape.scratch("dU", K, B, H), tape.new("dh", B, H), contiguous_transpose(tape, p, "W_h")
        dh[...] = dstate["h"]
        if (segment := self._segment(tape, B)).fit:
            segment.run("backward", K, B, H, dhs, W_T, slope, dh, dU)  # B1, B2
        else:
            for t in reversed(range(K)):
                run.each("rnn_backward", B * H, t, B, H, H, H, dhs, slope, dh, dU, dU)  # B1
                xp.matmul(dU[t], W_T, out=dh)  # B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        return dU, {"h": dh}

    def _segment(self, tape: Tape, B: int) -> SegmentKernels | GridKernels:
        """Return the kernels that run a whole segment, for B sequences."""
        of_block = SegmentKernels("rnn", tape, B, self.hidden, self.hidden**2, 2 * self.hidden)
        return whole_segment(of_block, GridKernels("rnn", tape, B, self.products()))

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        one = (Product(self.hidden, (self.hidden,)),)
        return Passes(one, one)
