"""Fused lstm-1997: the equations of kernels/lstm_1997.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import lstm_1997 as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.launch import Kernels
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


class LSTM1997(reference.LSTM1997):
    """`lstm-1997` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, _), H, run = tape.xp, U.shape, self.hidden, Kernels("lstm_1997", tape)
        rows = K if tape.records else 1  # of the buffers that only derivatives need
        k, k_c, hs = tape.new("k", rows, B, 3 * H), tape.new("k_c", rows, B, H), tape.new("h", K + 1, B, H)
        c = tape.new("c", B, H)
        hs[0], c[...] = state["h"], state["c"]
        for t in range(K):
            xp.matmul(hs[t], p["W_h"], out=k[t % rows])  # F1
            run.each("lstm_1997_forward", B * H, t, B, H, int(tape.records), U, c, hs, k, k_c)  # F1-F5, L1-L4
        return hs[1:], {"h": hs[K], "c": c}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, S), H, run = tape.xp, RU.shape, self.hidden, Kernels("lstm_1997", tape)
        k, k_c = tape["k"], tape["k_c"]
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rgates", K, B, S))
        Rhs, Rc, recurrent = tape.new("Rh", K, B, H), tape.new("Rc", B, H), tape.scratch("recurrent", B, S)
        Rh, Rc[...] = Rstate["h"], Rstate["c"]
        for t in range(K):
            xp.matmul(Rh, p["W_h"], out=recurrent)
            run.each("lstm_1997_rforward", B * H, t, B, H, RU, Ra, recurrent, k, k_c, Rc, Rhs)  # R1-R3
            Rh = Rhs[t]
        return Rhs, {"h": Rh, "c": Rc}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, H), run, W_T = tape.xp, dhs.shape, Kernels("lstm_1997", tape), transpose(p, "W_h")
        dU, dh, dc = tape.scratch("dU", K, B, 3 * H), tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...], dc[...] = dstate["h"], dstate["c"]
        for t in reversed(range(K)):
            run.each("lstm_1997_backward", B * H, t, B, H, dhs, tape["k"], tape["k_c"], dh, dc, dU)  # B1, B2
            xp.matmul(dU[t], W_T, out=dh)  # B3
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B4
        return dU, {"h": dh, "c": dc}
