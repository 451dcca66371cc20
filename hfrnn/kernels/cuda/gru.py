"""Fused gru: the equations of kernels/gru.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import gru as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product
from hfrnn.kernels.cuda.launch import Kernels, contiguous_transpose
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.pointwise import add_weight_gradient, product


class GRU(reference.GRU):
    """`gru` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, _), H, run = tape.xp, U.shape, self.hidden, Kernels("gru", tape)
        recorded, rows = int(tape.records), K if tape.records else 1
        rz, q, g = tape.new("rz", rows, B, 2 * H), tape.new("q", rows, B, H), tape.new("k_g", rows, B, H)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        k_rz = tape.new("k_rz", K, B, 2 * H) if recorded else rz
        hs[0] = state["h"]
        if (segment := self._segment(tape, B)).fit:
            given = U, p["W_h"], p["W_hg"], hs, rz, q, g, k_rz
            segment.run("forward", K, B, H, recorded, *given)  # F1-F4, L1-L3
            return hs[1:], {"h": hs[K]}
        for t in range(K):
            xp.matmul(hs[t], p["W_h"], out=rz[t % rows])  # F1
            run.each("gru_reset", B * H, t, B, H, recorded, U, hs, rz, q, k_rz)  # F1, F2, L1
            xp.matmul(q[t % rows], p["W_hg"], out=g[t % rows])  # F3
            run.each("gru_update", B * H, t, B, H, recorded, U, hs, rz, g, k_rz)  # F3, F4, L2, L3
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, _), H, run = tape.xp, RU.shape, self.hidden, Kernels("gru", tape)
        rz, k_rz, k_g = tape["rz"], tape["k_rz"], tape["k_g"]
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Ra_rz", K, B, 2 * H))
        Ra_g = product(tape, tape["q"], v["W_hg"], out=tape.scratch("Ra_g", K, B, H))
        Rhs, Rq = tape.new("Rh", K + 1, B, H), tape.scratch("Rq", B, H)  # Rhs[t] = Rh_{t-1}
        recurrent, wide = tape.scratch("recurrent", B, H), tape.scratch("wide", B, 2 * H)
        Rhs[0] = Rstate["h"]
        if (segment := self._segment(tape, B)).fit:
            given = RU, p["W_h"], p["W_hg"], rz, k_rz, k_g, Ra, Ra_g, Rq, Rhs
            segment.run("rforward", K, B, H, *given)  # R1-R4
            return Rhs[1:], {"h": Rhs[K]}
        for t in range(K):
            xp.matmul(Rhs[t], p["W_h"], out=wide)
            run.each("gru_rreset", B * H, t, B, H, RU, wide, rz, k_rz, Rhs, Ra, Rq)  # R1, R2
            xp.matmul(Rq, p["W_hg"], out=recurrent)
            run.each("gru_rupdate", B * H, t, B, H, RU, recurrent, rz, k_g, Ra, Ra_g, Rhs)  # R3, R4
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, H), run, W_T, W_g_T = (
            tape.xp,
            dhs.shape,
            Kernels("gru", tape),
            contiguous_transpose(tape, p, "W_h"),
            contiguous_transpose(tape, p, "W_hg"),
        )
        rz, k_rz, k_g = tape["rz"], tape["k_rz"], tape["k_g"]
        dU, da, da_g = tape.scratch("dU", K, B, 3 * H), tape.scratch("da", K, B, 2 * H), tape.scratch("da_g", K, B, H)
        dh, dq, recurrent = tape.new("dh", B, H), tape.scratch("dq", B, H), tape.scratch("recurrent", B, H)
        dh[...], recurrent[...] = dstate["h"], 0
        if (segment := self._segment(tape, B)).fit:
            segment.run("backward", K, B, H, dhs, W_T, W_g_T, rz, k_rz, k_g, dh, da, da_g, dU)  # B1-B4
        else:
            for t in reversed(range(K)):
                step = dhs, recurrent, rz, k_rz, k_g, dh, da, da_g, dU
                run.each("gru_backward_update", B * H, t, B, H, *step)  # B1, B4
                xp.matmul(da_g[t], W_g_T, out=dq)  # B2
                run.each("gru_backward_reset", B * H, t, B, H, dq, rz, k_rz, dh, da, dU)  # B3, B4
                xp.matmul(da[t], W_T, out=recurrent)  # B4
            dh += recurrent  # B4
        add_weight_gradient(tape, tape["h"][:K], da, grad["W_h"])  # B5
        add_weight_gradient(tape, tape["q"], da_g, grad["W_hg"])  # B5
        return dU, {"h": dh}

    def _segment(self, tape: Tape, B: int) -> GridKernels:
        """Return the kernels that run a whole segment, for B sequences."""
        return GridKernels("gru", tape, B, self.products())

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        H = self.hidden
        one = Product(H, (H,))
        return Passes((Product(H, (H, H)), one), (Product(2 * H, (H,)), one))
