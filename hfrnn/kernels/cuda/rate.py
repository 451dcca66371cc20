"""Fused rate: the equations of kernels/rate.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import rate as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product, whole_segment
from hfrnn.kernels.cuda.launch import KINDS, Kernels, SegmentKernels, contiguous_transpose
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product


class Rate(reference.Rate):
    """`rate` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), run, kind = tape.xp, U.shape, Kernels("rate", tape), KINDS[self.activation]
        recorded, learned = int(tape.records), int(self.leak.learned)
        leak, x, rs = units_share(self.leak, p, tape, H), tape.new("x", B, H), tape.new("r", K + 1, B, H)
        n = tape.new("e", K if recorded and learned else 1, B, H)
        k = tape.new("k", K + 1, B, H) if recorded else rs  # k[t] and rs[t] are those of step t-1
        x[...] = state["x"]
        run.each("rate_begin", B * H, B * H, kind, recorded, x, rs, k)  # F3, L1
        if (segment := self._segment(tape, B)).fit:
            given = U, p["W_h"], leak, x, n, rs, k
            segment.run("forward", K, B, H, kind, recorded, learned, *given)  # F1-F3, L1, L2
            return rs[1:], {"x": x}
        for t in range(K):
            xp.matmul(rs[t], p["W_h"], out=n[t % n.shape[0]])  # F1
            run.each("rate_forward", B * H, t, B, H, kind, recorded, learned, U, leak, x, n, rs, k)  # F1-F3, L1, L2
        return rs[1:], {"x": x}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), run, k = tape.xp, RU.shape, Kernels("rate", tape), tape["k"]
        leak, learned = units_share(self.leak, p, tape, H), self.leak.learned
        e, Rq = (tape["e"], v["q"]) if learned else (k, leak)
        Rn = product(tape, tape["r"][:K], v["W_h"], out=tape.scratch("Rn", K, B, H))
        Rrs, Rx, recurrent = tape.new("Rr", K + 1, B, H), tape.new("Rx", B, H), tape.scratch("recurrent", B, H)
        Rx[...] = Rstate["x"]
        xp.multiply(k[0], Rx, out=Rrs[0])  # R3; Rrs[t] = Rr_{t-1}
        if (segment := self._segment(tape, B)).fit:
            given = RU, p["W_h"], Rn, leak, k, e, Rq, Rx, Rrs
            segment.run("rforward", K, B, H, int(learned), *given)  # R1-R3
            return Rrs[1:], {"x": Rx}
        for t in range(K):
            xp.matmul(Rrs[t], p["W_h"], out=recurrent)
            run.each("rate_rforward", B * H, t, B, H, int(learned), RU, Rn, recurrent, leak, k, e, Rq, Rx, Rrs)  # R1-R3
        return Rrs[1:], {"x": Rx}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, KINDS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), run, k, W_T = (
            tape.xp,
            dhs.shape,
            Kernels("rate", tape),
            tape["k"],
            contiguous_transpose(tape, p, "W_h"),
        )
        leak, learned = units_share(self.leak, p, tape, H), self.leak.learned
        dU, dx, dr = tape.scratch("dU", K, B, H), tape.new("dx", B, H), tape.scratch("dr", B, H)
        e, de = (tape["e"], tape.scratch("de", K, B, H)) if learned else (k, dU)
        dx[...], dr[...] = dstate["x"], 0
        if (segment := self._segment(tape, B)).fit:
            given = dhs, W_T, leak, k, e, dx, dr, dU, de
            segment.run("backward", K, B, H, int(learned), *given)  # B1-B5
        else:
            for t in reversed(range(K)):
                step = dhs, dr, leak, k, e, dx, dU, de
                run.each("rate_backward", B * H, t, B, H, int(learned), *step)  # B1, B2, B4, B5
                xp.matmul(dU[t], W_T, out=dr)  # B3
        dr *= k[0]
        dx += dr  # B1
        add_weight_gradient(tape, tape["r"][:K], dU, grad["W_h"])  # B5
        if learned:
            add_bias_gradient(de, grad["q"])  # B5
        return dU, {"x": dx}

    def _segment(self, tape: Tape, B: int) -> SegmentKernels | GridKernels:
        """Return the kernels that run a whole segment, for B sequences."""
        of_block = SegmentKernels("rate", tape, B, self.hidden, self.hidden**2, 2 * self.hidden)
        return whole_segment(of_block, GridKernels("rate", tape, B, self.products()))

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        one = (Product(self.hidden, (self.hidden,)),)
        return Passes(one, one)
