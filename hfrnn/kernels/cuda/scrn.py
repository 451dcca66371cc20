"""Fused scrn: the equations of kernels/scrn.py, under its numbers. The context units of a segment are one launch."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import scrn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.launch import KINDS, Kernels
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose


class SCRN(reference.SCRN):
    """`scrn` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, S), H, C, kind = tape.xp, U.shape, self.hidden, self.context, KINDS["logistic"]
        context, hidden, recorded = Kernels("scrn", tape), Kernels("rnn", tape), int(tape.records)
        alpha, learned = units_share(self.alpha, p, tape, C), int(self.alpha.learned)
        ss, hs = tape.new("s", K + 1, B, C), tape.new("h", K + 1, B, H)  # ss[t] = s_{t-1}, hs[t] = h_{t-1}
        ss[0], hs[0] = state["s"], state["h"]
        e = tape.new("e", K, B, C) if recorded and learned else ss
        context.each("scrn_forward", B * C, K, B, C, S, recorded, learned, U, alpha, ss, e)  # F1, L2
        a_s = product(tape, ss[1:], p["W_s"], out=tape.scratch("a_s", K, B, H))
        a_s += U[:, :, :H]  # F2
        slope = tape.new("slope", K, B, H) if recorded else hs
        for t in range(K):
            xp.matmul(hs[t], p["W_h"], out=hs[t + 1])  # F2
            hidden.each("rnn_forward", B * H, t, B, H, H, kind, recorded, a_s, hs, slope)  # F2, F3, L1
        return self.side_by_side(tape, "y", hs[1:], ss[1:]), {"h": hs[K], "s": ss[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, S), H, C = tape.xp, RU.shape, self.hidden, self.context
        context, hidden, hs, ss = Kernels("scrn", tape), Kernels("rnn", tape), tape["h"], tape["s"]
        alpha, learned = units_share(self.alpha, p, tape, C), self.alpha.learned
        e, Rq = (tape["e"], v["q"]) if learned else (ss, alpha)
        Rss, Rhs = tape.new("Rs", K + 1, B, C), tape.new("Rh", K + 1, B, H)
        Rss[0], Rhs[0] = Rstate["s"], Rstate["h"]
        context.each("scrn_rforward", B * C, K, B, C, S, int(learned), RU, alpha, e, Rq, Rss)  # R1
        Ra, work = tape.scratch("Ra", K, B, H), tape.scratch("works", K, B, H)
        product(tape, hs[:K], v["W_h"], out=Ra)
        for x, W in ((Rss[1:], p["W_s"]), (ss[1:], v["W_s"])):
            product(tape, x, W, out=work)
            Ra += work  # R2
        recurrent, Rh_after = tape.scratch("recurrent", B, H), Rhs[1:]
        for t in range(K):
            xp.matmul(Rhs[t], p["W_h"], out=recurrent)
            hidden.each("rnn_rforward", B * H, t, B, H, S, RU, recurrent, tape["slope"], Ra, Rh_after)  # R2, R3
        return self.side_by_side(tape, "Ry", Rh_after, Rss[1:]), {"h": Rhs[K], "s": Rss[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, S), H, C = tape.xp, dhs.shape, self.hidden, self.context
        context, hidden, W_T = Kernels("scrn", tape), Kernels("rnn", tape), transpose(p, "W_h")
        alpha, learned = units_share(self.alpha, p, tape, C), self.alpha.learned
        da, dss, dU = tape.scratch("da", K, B, H), tape.scratch("ds", K, B, C), tape.scratch("dU", K, B, S)
        dh, ds = tape.new("dh", B, H), tape.new("ds_before", B, C)
        dh[...], ds[...] = dstate["h"], dstate["s"]
        for t in reversed(range(K)):
            hidden.each("rnn_backward", B * H, t, B, H, S, S, dhs, tape["slope"], dh, da, dU)  # B1
            xp.matmul(da[t], W_T, out=dh)  # B2
        product(tape, da, p["W_s"].T, out=dss)
        e = tape["e"] if learned else dss
        context.each("scrn_backward", B * C, K, B, C, S, int(learned), dhs, alpha, e, dss, ds, dU)  # B3, B4, B5
        add_weight_gradient(tape, tape["h"][:K], da, grad["W_h"])  # B5
        add_weight_gradient(tape, tape["s"][1:], da, grad["W_s"])  # B5
        if learned:
            add_bias_gradient(dss, grad["q"])  # B5
        return dU, {"h": dh, "s": ds}
