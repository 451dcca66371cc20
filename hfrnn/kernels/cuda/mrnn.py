"""Fused mrnn: the equations of kernels/mrnn.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import mrnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.launch import KINDS, Kernels
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


class MRNN(reference.MRNN):
    """`mrnn` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, S), H, recorded = tape.xp, U.shape, self.hidden, int(tape.records)
        run, multiplied = Kernels("rnn", tape), Kernels("multiplied", tape)
        U_m, xi, m = (tape.new(name, K, B, H) for name in ("U_m", "xi", "m"))
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        slope = tape.new("slope", K, B, H) if recorded else hs
        hs[0] = state["h"]
        for t in range(K):
            xp.matmul(hs[t], p["W_hm"], out=xi[t])  # F1
            multiplied.each("multiplied_forward", B * H, t, B, H, S, U, xi, U_m, m)  # F2
            xp.matmul(m[t], p["W_mh"], out=hs[t + 1])  # F3
            run.each("rnn_forward", B * H, t, B, H, S, KINDS["tanh"], recorded, U, hs, slope)  # F3, F4, L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, S), H = tape.xp, RU.shape, self.hidden
        run, multiplied = Kernels("rnn", tape), Kernels("multiplied", tape)
        slope, U_m, xi, m = tape["slope"], tape["U_m"], tape["xi"], tape["m"]
        Rxi = product(tape, tape["h"][:K], v["W_hm"], out=tape.scratch("Rxi", K, B, H))
        Ra = product(tape, m, v["W_mh"], out=tape.scratch("Ra", K, B, H))
        Rhs, Rh = tape.new("Rh", K, B, H), Rstate["h"]
        Rm, recurrent = tape.scratch("Rm", B, H), tape.scratch("recurrent", B, H)
        for t in range(K):
            xp.matmul(Rh, p["W_hm"], out=recurrent)
            multiplied.each("multiplied_rforward", B * H, t, B, H, S, RU, Rxi, recurrent, U_m, xi, Rm)  # R1, R2
            xp.matmul(Rm, p["W_mh"], out=recurrent)
            run.each("rnn_rforward", B * H, t, B, H, S, RU, recurrent, slope, Ra, Rhs)  # R3, R4
            Rh = Rhs[t]
        return Rhs, {"h": Rh}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H) = tape.xp, dhs.shape
        run, multiplied = Kernels("rnn", tape), Kernels("multiplied", tape)
        slope, U_m, xi, m = tape["slope"], tape["U_m"], tape["xi"], tape["m"]
        dU, da, dxi = tape.scratch("dU", K, B, 2 * H), tape.scratch("da", K, B, H), tape.scratch("dxi", K, B, H)
        dh, dm, W_mh_T, W_hm_T = (
            tape.new("dh", B, H),
            tape.scratch("dm", B, H),
            transpose(p, "W_mh"),
            transpose(p, "W_hm"),
        )
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            run.each("rnn_backward", B * H, t, B, H, 2 * H, H, dhs, slope, dh, da, dU)  # B1
            xp.matmul(da[t], W_mh_T, out=dm)  # B2
            multiplied.each("multiplied_backward", B * H, t, B, H, 2 * H, dm, U_m, xi, dxi, dU)  # B3
            xp.matmul(dxi[t], W_hm_T, out=dh)  # B4
        add_weight_gradient(tape, m, da, grad["W_mh"])  # B5
        add_weight_gradient(tape, tape["h"][:K], dxi, grad["W_hm"])  # B5
        return dU, {"h": dh}
