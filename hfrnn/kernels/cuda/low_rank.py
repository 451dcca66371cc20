"""Fused low-rank: the equations of kernels/low_rank.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import low_rank as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.launch import KINDS, Kernels
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose


class LowRank(reference.LowRank):
    """`low-rank` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), R, run, kind = tape.xp, U.shape, self.rank, Kernels("low_rank", tape), KINDS[self.activation]
        recorded, learned, rows = int(tape.records), int(self.leak.learned), K if tape.records else 1
        leak, x, rs = units_share(self.leak, p, tape, H), tape.new("x", B, H), tape.new("r", K + 1, B, H)
        s, c = tape.new("s", rows, B, R), tape.new("e", K if recorded and learned else 1, B, H)
        k = tape.new("k", K + 1, B, H) if recorded else rs  # k[t] and rs[t] are those of step t-1
        x[...] = state["x"]
        run.each("low_rank_begin", B * H, B * H, kind, recorded, x, rs, k)  # F4, L1
        for t in range(K):
            s_t, c_t = s[t % rows], c[t % c.shape[0]]
            xp.matmul(rs[t], p["N"], out=s_t)  # F1
            run.each("low_rank_scale", B * R, B * R, H, s_t)  # F1
            xp.matmul(s_t, p["M"], out=c_t)  # F2
            run.each("low_rank_forward", B * H, t, B, H, kind, recorded, learned, U, leak, x, c, rs, k)  # F2-F4, L1, L2
        return rs[1:], {"x": x}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), R, run, k = tape.xp, RU.shape, self.rank, Kernels("low_rank", tape), tape["k"]
        leak, learned = units_share(self.leak, p, tape, H), self.leak.learned
        e, Rq = (tape["e"], v["q"]) if learned else (k, leak)
        Rs = product(tape, tape["r"][:K], v["N"], out=tape.scratch("Rs", K, B, R))
        Rc = product(tape, tape["s"], v["M"], out=tape.scratch("Rc", K, B, H))
        Rrs, Rx, recurrent = tape.new("Rr", K + 1, B, H), tape.new("Rx", B, H), tape.scratch("recurrent", B, H)
        overlap = tape.scratch("overlap", B, R)
        Rx[...] = Rstate["x"]
        xp.multiply(k[0], Rx, out=Rrs[0])  # R4; Rrs[t] = Rr_{t-1}
        for t in range(K):
            xp.matmul(Rrs[t], p["N"], out=overlap)
            run.each("low_rank_roverlap", B * R, t, B * R, H, overlap, Rs)  # R1
            xp.matmul(Rs[t], p["M"], out=recurrent)
            step = RU, Rc, recurrent, leak, k, e, Rq, Rx, Rrs
            run.each("low_rank_rforward", B * H, t, B, H, int(learned), *step)  # R2-R4
        return Rrs[1:], {"x": Rx}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, KINDS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), R, run, k = tape.xp, dhs.shape, self.rank, Kernels("low_rank", tape), tape["k"]
        leak, learned = units_share(self.leak, p, tape, H), self.leak.learned
        dU, ds, dx, dr = (
            tape.scratch("dU", K, B, H), tape.scratch("ds", K, B, R), tape.new("dx", B, H), tape.scratch("dr", B, H)
        )  # fmt: skip
        e, de = (tape["e"], tape.scratch("de", K, B, H)) if learned else (k, dU)
        N_T, M_T = transpose(p, "N"), transpose(p, "M")
        dx[...], dr[...] = dstate["x"], 0
        for t in reversed(range(K)):
            step = dhs, dr, leak, k, e, dx, dU, de
            run.each("low_rank_backward", B * H, t, B, H, int(learned), *step)  # B1, B2, B5, B6
            xp.matmul(dU[t], M_T, out=ds[t])  # B3
            run.each("low_rank_scale", B * R, B * R, H, ds[t])  # B3
            xp.matmul(ds[t], N_T, out=dr)  # B4
        dr *= k[0]
        dx += dr  # B1
        add_weight_gradient(tape, tape["s"], dU, grad["M"])  # B6
        add_weight_gradient(tape, tape["r"][:K], ds, grad["N"])  # B6
        if learned:
            add_bias_gradient(de, grad["q"])  # B6
        return dU, {"x": dx}
