"""Fused lstm and lstm-krause: the equations of kernels/lstm.py, under its numbers."""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels import lstm as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product, whole_segment
from hfrnn.kernels.cuda.launch import Kernels, SegmentKernels, before_segment, contiguous_transpose
from hfrnn.kernels.fused import begin_cell, is_fused, last_state
from hfrnn.kernels.pointwise import add_weight_gradient, product


class LSTM(reference.LSTM):
    """`lstm` with fused steps."""

    krause: ClassVar[int] = 0
    """Whether the cell is Krause's."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, S), H, run = tape.xp, U.shape, self.hidden, Kernels("cells", tape)
        cs, hs, k, f, k_c = begin_cell(tape, K, B, H, state)
        recorded = int(tape.records)
        if (segment := self._segment(tape, B, 2 * H)).fit:
            c = tape.new("c", B, H)
            c[...] = state["c"]
            given = U, p["W_h"], c, hs, k, f, k_c
            segment.run("forward", K, B, H, self.krause, recorded, *given)  # F1, F2
            return hs[1:], {"h": hs[K], "c": c}
        for t in range(K):
            xp.matmul(hs[t], p["W_h"], out=k[t % k.shape[0]])  # F1
            run.each("cell_forward", B * H, t, B, H, S, self.krause, recorded, U, cs, hs, k, f, k_c)  # F1, F2
        return hs[1:], last_state(tape, K)

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, S), H, run = tape.xp, RU.shape, self.hidden, Kernels("cells", tape)
        k, f, k_c = tape["k"], tape["f"], tape["k_c"]
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rgates", K, B, S))
        Rhs, Rc, recurrent = tape.new("Rh", K, B, H), tape.new("Rc", B, H), tape.scratch("recurrent", B, S)
        Rh, Rc[...] = before_segment(tape, K, Rstate["h"]), Rstate["c"]
        if (segment := self._segment(tape, B, 2 * H)).fit:
            segment.run("rforward", K, B, H, RU, p["W_h"], Rh, Ra, k, f, k_c, Rc, Rhs)  # R1, R2
            return Rhs, {"h": Rhs[K - 1], "c": Rc}
        for t in range(K):
            xp.matmul(Rh, p["W_h"], out=recurrent)
            run.each("cell_rforward", B * H, t, B, H, S, RU, Ra, recurrent, k, f, k_c, Rc, Rhs)  # R1, R2
            Rh = Rhs[t]
        return Rhs, {"h": Rh, "c": Rc}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), run, W_T = tape.xp, dhs.shape, Kernels("cells", tape), contiguous_transpose(tape, p, "W_h")
        k, f, k_c = tape["k"], tape["f"], tape["k_c"]
        dU, dh, dc = tape.scratch("dU", K, B, 4 * H), tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...], dc[...] = dstate["h"], dstate["c"]
        if (segment := self._segment(tape, B, 8 * H)).fit:
            segment.run("backward", K, B, H, dhs, W_T, k, f, k_c, dh, dc, dU)  # B1, B2
        else:
            for t in reversed(range(K)):
                run.each("cell_backward", B * H, t, B, H, 4 * H, dhs, k, f, k_c, dh, dc, dU, dU)  # B1
                xp.matmul(dU[t], W_T, out=dh)  # B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        return dU, {"h": dh, "c": dc}

    def _segment(self, tape: Tape, B: int, rows: int) -> SegmentKernels | GridKernels:
        """Return the kernels that run a whole segment, for B sequences; see `SegmentKernels` for `rows`."""
        of_block = SegmentKernels("lstm", tape, B, self.hidden, 4 * self.hidden**2, rows)
        return whole_segment(of_block, GridKernels("lstm", tape, B, self.products()))

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        H = self.hidden
        return Passes((Product(H, (H, H, H, H)),), (Product(4 * H, (H,)),))


class KrauseLSTM(LSTM, reference.KrauseLSTM):
    """`lstm-krause` with fused steps."""

    krause = 1
