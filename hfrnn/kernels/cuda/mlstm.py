"""Fused mlstm and mlstm-standard: the equations of kernels/mlstm.py, under its numbers."""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels import mlstm as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product, whole_segment
from hfrnn.kernels.cuda.launch import Kernels, SegmentKernels, before_segment, contiguous_transpose
from hfrnn.kernels.fused import begin_cell, is_fused, last_state
from hfrnn.kernels.pointwise import add_weight_gradient, product


class MLSTM(reference.MLSTM):
    """`mlstm` with fused steps."""

    krause: ClassVar[int] = 1
    """Whether the cell is Krause's."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, S), H = tape.xp, U.shape, self.hidden
        cells, multiplied = Kernels("cells", tape), Kernels("multiplied", tape)
        cs, hs, k, f, k_c = begin_cell(tape, K, B, H, state)
        U_m, xi, m = (tape.new(name, K, B, H) for name in ("U_m", "xi", "m"))
        recorded = int(tape.records)
        if (segment := self._segment(tape, B, 2 * H)).fit:
            c = tape.new("c", B, H)
            c[...] = state["c"]
            given = U, p["W_hm"], p["W_m"], c, hs, k, f, k_c, U_m, xi, m
            segment.run("forward", K, B, H, self.krause, recorded, *given)  # F1-F4
            return hs[1:], {"h": hs[K], "c": c}
        for t in range(K):
            xp.matmul(hs[t], p["W_hm"], out=xi[t])  # F1
            multiplied.each("multiplied_forward", B * H, t, B, H, S, U, xi, U_m, m)  # F2
            xp.matmul(m[t], p["W_m"], out=k[t % k.shape[0]])  # F3
            cells.each("cell_forward", B * H, t, B, H, S, self.krause, recorded, U, cs, hs, k, f, k_c)  # F3, F4
        return hs[1:], last_state(tape, K)

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, S), H, W_hm, W_m = tape.xp, RU.shape, self.hidden, p["W_hm"], p["W_m"]
        cells, multiplied = Kernels("cells", tape), Kernels("multiplied", tape)
        U_m, xi, m, k, f, k_c = (tape[name] for name in ("U_m", "xi", "m", "k", "f", "k_c"))
        Rxi = product(tape, tape["h"][:K], v["W_hm"], out=tape.scratch("Rxi", K, B, H))
        Ra = product(tape, m, v["W_m"], out=tape.scratch("Rgates", K, B, 4 * H))
        Rhs, Rc, Rm = tape.new("Rh", K, B, H), tape.new("Rc", B, H), tape.scratch("Rm", B, H)
        work, recurrent = tape.scratch("work", B, H), tape.scratch("recurrent", B, 4 * H)
        Rh, Rc[...] = before_segment(tape, K, Rstate["h"]), Rstate["c"]
        if (segment := self._segment(tape, B, 2 * H)).fit:
            given = RU, W_hm, W_m, Rh, Rxi, Ra, k, f, k_c, U_m, xi, Rc, Rhs
            segment.run("rforward", K, B, H, *given)  # R1-R4
            return Rhs, {"h": Rhs[K - 1], "c": Rc}
        for t in range(K):
            xp.matmul(Rh, W_hm, out=work)
            multiplied.each("multiplied_rforward", B * H, t, B, H, S, RU, Rxi, work, U_m, xi, Rm)  # R1, R2
            xp.matmul(Rm, W_m, out=recurrent)
            cells.each("cell_rforward", B * H, t, B, H, S, RU, Ra, recurrent, k, f, k_c, Rc, Rhs)  # R3, R4
            Rh = Rhs[t]
        return Rhs, {"h": Rh, "c": Rc}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), W_m_T, W_hm_T = (
            tape.xp,
            dhs.shape,
            contiguous_transpose(tape, p, "W_m"),
            contiguous_transpose(tape, p, "W_hm"),
        )
        cells, multiplied = Kernels("cells", tape), Kernels("multiplied", tape)
        U_m, xi, m, k, f, k_c = (tape[name] for name in ("U_m", "xi", "m", "k", "f", "k_c"))
        dU, da, dxi = tape.scratch("dU", K, B, 5 * H), tape.scratch("da", K, B, 4 * H), tape.scratch("dxi", K, B, H)
        dm, dh, dc = tape.scratch("dm", B, H), tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...], dc[...] = dstate["h"], dstate["c"]
        if (segment := self._segment(tape, B, 5 * H)).fit:
            given = dhs, W_hm_T, W_m_T, k, f, k_c, U_m, xi, dh, dc, da, dxi, dU
            segment.run("backward", K, B, H, *given)  # B1-B4
        else:
            for t in reversed(range(K)):
                cells.each("cell_backward", B * H, t, B, H, 5 * H, dhs, k, f, k_c, dh, dc, da, dU)  # B1
                xp.matmul(da[t], W_m_T, out=dm)  # B2
                multiplied.each("multiplied_backward", B * H, t, B, H, 5 * H, dm, U_m, xi, dxi, dU)  # B3
                xp.matmul(dxi[t], W_hm_T, out=dh)  # B4
        add_weight_gradient(tape, m, da, grad["W_m"])  # B5
        add_weight_gradient(tape, tape["h"][:K], dxi, grad["W_hm"])  # B5
        return dU, {"h": dh, "c": dc}

    def _segment(self, tape: Tape, B: int, rows: int) -> SegmentKernels | GridKernels:
        """Return the kernels that run a whole segment, for B sequences; see `SegmentKernels` for `rows`."""
        of_block = SegmentKernels("mlstm", tape, B, self.hidden, 5 * self.hidden**2, rows)
        return whole_segment(of_block, GridKernels("mlstm", tape, B, self.products()))

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        H = self.hidden
        one, gates = Product(H, (H,)), Product(H, (H, H, H, H))
        return Passes((one, gates), (Product(4 * H, (H,)), one))


class StandardMLSTM(MLSTM, reference.StandardMLSTM):
    """`mlstm-standard` with fused steps."""

    krause = 0
