"""Fused state-space: the equations of kernels/state_space.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import state_space as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product
from hfrnn.kernels.cuda.launch import KINDS, Kernels, contiguous_transpose
from hfrnn.kernels.fused import is_fused, side_by_side
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


class StateSpace(reference.StateSpace):
    """`state-space` with fused steps: the states and the units read h_{t-1} in one product, with W = [A, W_1]."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, _), n, m = tape.xp, U.shape, self.hidden, self.units
        run, kind, recorded = Kernels("state_space", tape), KINDS[self.activation], int(tape.records)
        rows = K if recorded else 1
        hs, gs = tape.new("h", K + 1, B, n), tape.new("g", rows, B, m)  # hs[t] = h_{t-1}
        k = tape.new("k", K, B, m) if recorded else gs
        hs[0] = state["h"]
        if (segment := self._segment(tape, B)).fit:
            given = U, p["A"], p["W_1"], p["W_3"], hs, gs, k
            segment.run("forward", K, B, n, m, kind, recorded, *given)  # F1-F3, L1
            return hs[1:], {"h": hs[K]}
        W = side_by_side(tape, "W", p["A"], p["W_1"])
        recurrent, of_units = tape.scratch("recurrent", B, n + m), tape.scratch("of_units", B, n)
        for t in range(K):
            xp.matmul(hs[t], W, out=recurrent)  # F1, F3
            run.each("state_space_units", B * m, t, B, n, m, kind, recorded, U, recurrent, gs, k)  # F1, F2, L1
            xp.matmul(gs[t % rows], p["W_3"], out=of_units)  # F3
            run.each("state_space_states", B * n, t, B, n, m, U, recurrent, of_units, hs)  # F3
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, _), n, m, run = tape.xp, RU.shape, self.hidden, self.units, Kernels("state_space", tape)
        hs, gs, k = tape["h"][:K], tape["g"], tape["k"]
        Ra = product(tape, hs, v["W_1"], out=tape.scratch("Ra", K, B, m))
        more = product(tape, hs, v["A"], out=tape.scratch("more", K, B, n))
        more += product(tape, gs, v["W_3"], out=tape.scratch("of_tangents", K, B, n))
        Rhs = tape.new("Rh", K + 1, B, n)  # Rhs[t] = Rh_{t-1}
        Rhs[0] = Rstate["h"]
        if (segment := self._segment(tape, B)).fit:
            given = RU, p["A"], p["W_1"], p["W_3"], k, more, Ra, Rhs
            segment.run("rforward", K, B, n, m, *given)  # R1-R3
            return Rhs[1:], {"h": Rhs[K]}
        W = side_by_side(tape, "W", p["A"], p["W_1"])
        recurrent, of_units = tape.scratch("recurrent", B, n + m), tape.scratch("of_units", B, n)
        for t in range(K):
            xp.matmul(Rhs[t], W, out=recurrent)
            run.each("state_space_runits", B * m, t, B, n, m, RU, recurrent, k, Ra)  # R1, R2
            xp.matmul(Ra[t], p["W_3"], out=of_units)
            run.each("state_space_rstates", B * n, t, B, n, m, RU, recurrent, of_units, more, Rhs)  # R3
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, n), m, run, k = tape.xp, dhs.shape, self.units, Kernels("state_space", tape), tape["k"]
        dU, ds, das = tape.scratch("dU", K, B, n + m), tape.scratch("ds", K, B, n), tape.scratch("da", K, B, m)
        dh, dg = tape.new("dh", B, n), tape.scratch("dg", B, m)
        dh[...] = dstate["h"]
        if (segment := self._segment(tape, B)).fit:
            matrices = (contiguous_transpose(tape, p, name) for name in self.transposed)
            segment.run("backward", K, B, n, m, dhs, *matrices, k, dh, ds, das, dU)  # B1-B3
        else:
            W_T, W_3T = side_by_side(tape, "W", p["A"], p["W_1"]).swapaxes(0, 1), transpose(p, "W_3")
            for t in reversed(range(K)):
                run.each("state_space_backward_states", B * n, t, B, n, m, dhs, dh, ds, dU)  # B1
                xp.matmul(ds[t], W_3T, out=dg)  # B2
                run.each("state_space_backward_units", B * m, t, B, n, m, dg, k, das, dU)  # B2
                xp.matmul(dU[t], W_T, out=dh)  # B3
        add_weight_gradient(tape, tape["h"][:K], ds, grad["A"])  # B4
        add_weight_gradient(tape, tape["g"], ds, grad["W_3"])  # B4
        add_weight_gradient(tape, tape["h"][:K], das, grad["W_1"])  # B4
        return dU, {"h": dh}

    def _segment(self, tape: Tape, B: int) -> GridKernels:
        """Return the kernels that run a whole segment, for B sequences."""
        return GridKernels("state_space", tape, B, self.products())

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        n, m = self.hidden, self.units
        return Passes((Product(n, (m, n)), Product(m, (n,))), (Product(n + m, (n,)), Product(n, (m,))))
