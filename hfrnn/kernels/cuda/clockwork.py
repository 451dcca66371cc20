"""Fused clockwork and hierarchical: the equations of kernels/clockwork.py, under its numbers.

A step is one product with all of W_h, in which the blocks that no module reads are 0, and one launch: on a GPU that
costs less time than a product for each active module.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import clockwork as reference
from hfrnn.kernels import hierarchical
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.launch import Kernels
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


class Clockwork(reference.Clockwork):
    """`clockwork` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), run, recorded = tape.xp, U.shape, Kernels("clockwork", tape), int(tape.records)
        tape.start = start = state["t"]
        hs, a = tape.new("h", K + 1, B, H), tape.scratch("a", B, H)  # hs[t] = h_{t-1}
        slope = tape.new("slope", K, B, H) if recorded else hs
        period, W = self._period(tape), self._read(tape, "W_read", p["W_h"])
        hs[0] = state["h"]
        for t in range(K):
            xp.matmul(hs[t], W, out=a)  # F1
            run.each("clockwork_forward", B * H, t, B, H, start, recorded, period, U, a, hs, slope)  # F1-F3, L1
        return hs[1:], {"h": hs[K], "t": start + K}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), run, start, slope = tape.xp, RU.shape, Kernels("clockwork", tape), tape.start, tape["slope"]
        Ra = product(tape, tape["h"][:K], self._read(tape, "RW_read", v["W_h"]), out=tape.scratch("Ra", K, B, H))  # R1
        period, W = self._period(tape), self._read(tape, "W_read", p["W_h"])
        Rhs, recurrent = tape.new("Rh", K + 1, B, H), tape.scratch("recurrent", B, H)  # Rhs[t] = Rh_{t-1}
        Rhs[0] = Rstate["h"]
        for t in range(K):
            xp.matmul(Rhs[t], W, out=recurrent)
            run.each("clockwork_rforward", B * H, t, B, H, start, period, RU, Ra, recurrent, slope, Rhs)  # R1-R3
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, H), run, start = tape.xp, dhs.shape, Kernels("clockwork", tape), tape.start
        period, W_T = self._period(tape), self._read_transpose(tape, transpose(p, "W_h"))
        dU, dh, recurrent = tape.scratch("dU", K, B, H), tape.new("dh", B, H), tape.scratch("recurrent", B, H)
        dh[...], recurrent[...] = dstate["h"], 0
        for t in reversed(range(K)):
            run.each("clockwork_backward", B * H, t, B, H, start, period, dhs, recurrent, tape["slope"], dh, dU)  # B1
            xp.matmul(dU[t], W_T, out=recurrent)  # B2
        dh += recurrent  # B2
        dW = tape.scratch("dW", *grad["W_h"].shape)
        dW[...] = 0
        add_weight_gradient(tape, tape["h"][:K], dU, dW)  # B3
        for group in self.groups:
            for i in group.inputs:
                grad["W_h"][i, group.columns] += dW[i, group.columns]  # B3
        return dU, {"h": dh}

    def _period(self, tape: Tape) -> Array:
        """Return the period of each unit, (H,), as real numbers."""
        period = tape.scratch("period", self.hidden)
        for group in self.groups:
            period[group.columns] = group.period
        return period

    def _read(self, tape: Tape, name: str, W: Array) -> Array:
        """Return W (H, H) with 0 in the blocks that no module reads, in scratch."""
        read = tape.scratch(name, self.hidden, self.hidden)
        read[...] = 0
        for group in self.groups:
            for i in group.inputs:
                read[i, group.columns] = W[i, group.columns]
        return read

    def _read_transpose(self, tape: Tape, W_T: Array) -> Array:
        """Return the transpose of `_read`, from the transpose of W."""
        read = tape.scratch("W_T_read", self.hidden, self.hidden)
        read[...] = 0
        for group in self.groups:
            for i in group.inputs:
                read[group.columns, i] = W_T[group.columns, i]
        return read


class Hierarchical(Clockwork, hierarchical.Hierarchical):
    """`hierarchical` with fused steps."""
