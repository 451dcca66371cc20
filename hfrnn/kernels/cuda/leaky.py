"""Fused leaky: the equations of kernels/leaky.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import leaky as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product, whole_segment
from hfrnn.kernels.cuda.launch import KINDS, Kernels, SegmentKernels, contiguous_transpose
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product


class Leaky(reference.Leaky):
    """`leaky` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), run, kind = tape.xp, U.shape, Kernels("leaky", tape), KINDS[self.activation]
        recorded, learned = int(tape.records), int(self.leak.learned)
        leak, hs = units_share(self.leak, p, tape, H), tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        g = tape.scratch("g", K if recorded else 1, B, H)
        k = tape.new("k", K, B, H) if recorded else hs
        e = tape.new("e", K, B, H) if recorded and learned else hs
        hs[0] = state["h"]
        if (segment := self._segment(tape, B)).fit:
            given = U, p["W_h"], leak, hs, k, e
            segment.run("forward", K, B, H, kind, recorded, learned, *given)  # F1-F3, L1, L2
            return hs[1:], {"h": hs[K]}
        for t in range(K):
            xp.matmul(hs[t], p["W_h"], out=g[t % g.shape[0]])  # F1
            run.each("leaky_forward", B * H, t, B, H, kind, recorded, learned, U, leak, g, hs, k, e)  # F1-F3, L1, L2
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), run, k = tape.xp, RU.shape, Kernels("leaky", tape), tape["k"]
        leak, learned = units_share(self.leak, p, tape, H), self.leak.learned
        e, Rq = (tape["e"], v["q"]) if learned else (k, leak)
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Ra", K, B, H))
        Rhs, recurrent = tape.new("Rh", K + 1, B, H), tape.scratch("recurrent", B, H)  # Rhs[t] = Rh_{t-1}
        Rhs[0] = Rstate["h"]
        if (segment := self._segment(tape, B)).fit:
            given = RU, p["W_h"], Ra, leak, k, e, Rq, Rhs
            segment.run("rforward", K, B, H, int(learned), *given)  # R1, R2
            return Rhs[1:], {"h": Rhs[K]}
        for t in range(K):
            xp.matmul(Rhs[t], p["W_h"], out=recurrent)
            run.each("leaky_rforward", B * H, t, B, H, int(learned), RU, Ra, recurrent, leak, k, e, Rq, Rhs)  # R1, R2
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, H), run, k, W_T = (
            tape.xp,
            dhs.shape,
            Kernels("leaky", tape),
            tape["k"],
            contiguous_transpose(tape, p, "W_h"),
        )
        leak, learned = units_share(self.leak, p, tape, H), self.leak.learned
        dU, dh, recurrent = tape.scratch("dU", K, B, H), tape.new("dh", B, H), tape.scratch("recurrent", B, H)
        e, de = (tape["e"], tape.scratch("de", K, B, H)) if learned else (k, dU)
        dh[...], recurrent[...] = dstate["h"], 0
        if (segment := self._segment(tape, B)).fit:
            given = dhs, W_T, leak, k, e, dh, dU, de
            segment.run("backward", K, B, H, int(learned), *given)  # B1-B3
        else:
            for t in reversed(range(K)):
                step = dhs, recurrent, leak, k, e, dh, dU, de
                run.each("leaky_backward", B * H, t, B, H, int(learned), *step)  # B1-B3
                xp.matmul(dU[t], W_T, out=recurrent)  # B2
            dh += recurrent  # B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        if learned:
            add_bias_gradient(de, grad["q"])  # B3
        return dU, {"h": dh}

    def _segment(self, tape: Tape, B: int) -> SegmentKernels | GridKernels:
        """Return the kernels that run a whole segment, for B sequences."""
        of_block = SegmentKernels("leaky", tape, B, self.hidden, self.hidden**2, 2 * self.hidden)
        return whole_segment(of_block, GridKernels("leaky", tape, B, self.products()))

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        one = (Product(self.hidden, (self.hidden,)),)
        return Passes(one, one)
