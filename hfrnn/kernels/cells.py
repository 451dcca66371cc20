"""The two memory cells that lstm, lstm-krause, mlstm and mlstm-standard are made of: one step, everything but products.

Both take the gate pre-activations a = (a_i, a_f, a_o, a_g), whatever they were made from.

    Standard cell ([S thesis] 3.2.2)                     Krause's cell ([K] 2.11-2.18)

    F1  i, f, o = sigma(a_i, a_f, a_o)                   the same
    F2  g = tanh(a_g)                                    g = a_g
    F3  c = f*c' + i*g                                   the same
    F4  h = o*z, z = tanh(c)                             h = tanh(zeta), zeta = c*o

Where derivatives are to follow, the step is linearised once and for all products:

    L1  k_i = dc/da_i = g*i*(1-i)                        the same
    L2  k_f = dc/da_f = c'*f*(1-f)                       the same
    L3  k_o = dh/da_o = z*o*(1-o)                        c*o*(1-o)*(1-h*h)
    L4  k_g = dc/da_g = i*(1-g*g)                        i
    L5  k_c = dh/dc   = o*(1-z*z)                        o*(1-h*h)
    L6                                                   k_zo = dzeta/da_o = c*o*(1-o), dzeta/dc = o

and what is left is the same for both cells:

    R1  Rc = f*Rc' + k_i*Ra_i + k_f*Ra_f + k_g*Ra_g
    R2  Rh = k_o*Ra_o + k_c*Rc
    R3  Rzeta = k_zo*Ra_o + o*Rc                         for the structural metrics

    B1  dc = dc_next + k_c*dh
    B2  da = k * (dc, dc, dh, dc)
    B3  dc += o*e, da_o += k_zo*e, before B2             e: what a structural metric adds to dzeta
    B4  dc_next of step t-1 = dc*f

zeta is the hidden pre-activation of Krause's cell, which the structural metrics may penalise; the standard cell has
none. [K] 7.2-7.4 leave out the factors s*(1-s) of L1-L3.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import sigmoid_, slope_of_tanh


class StandardCell:
    """The cell with a squashed input and h = o*tanh(c)."""

    metrics: tuple[str, ...] = ("hidden",)

    krause: ClassVar[bool] = False
    """Which of the compiled cells this is."""

    def begin(self, tape: Tape, K: int, B: int, H: int, state: Arrays) -> None:
        """Make the buffers of a segment and put the state before it where step 0 looks for it."""
        rows = K if tape.records else 1
        depth = 2 if tape.compiled else rows + 1  # cs[t] = c_{t-1}, in turn where not all are needed
        tape.scratch("cs", depth, B, H)[0] = state["c"]
        tape.new("h", K + 1, B, H)[0] = state["h"]  # h[t] = h_{t-1}
        tape.new("k", rows, B, 4 * H)
        if tape.compiled:  # which linearises step by step
            tape.new("f", rows, B, H)
            tape.new("k_c", rows, B, H)

    def gates(self, tape: Tape, t: int) -> Array:
        """Where the pre-activations of step t are to be written, (B, 4H)."""
        k = tape["k"]
        return k[t % k.shape[0]]

    def forward(self, tape: Tape, t: int, U: Array) -> None:
        """From the recurrent part of a in `gates` and U (B, 4H or more) to the gates, c and h of step t."""
        xp, a, cs, h = tape.xp, self.gates(tape, t), tape["cs"], tape["h"][t + 1]
        H = h.shape[-1]
        a += U[:, : 4 * H]
        i, f, o, g = (a[:, n * H : (n + 1) * H] for n in range(4))
        before, c = cs[t % cs.shape[0]], cs[(t + 1) % cs.shape[0]]
        work = tape.scratch("work", *h.shape)
        sigmoid_(xp, a[:, : 3 * H])  # F1
        self.squash_input_(xp, g)  # F2
        xp.multiply(f, before, out=c)
        xp.multiply(i, g, out=work)
        c += work  # F3
        self.output(tape, t, c, o, h)  # F4

    def squash_input_(self, xp: Any, g: Array) -> None:
        xp.tanh(g, out=g)

    def output(self, tape: Tape, t: int, c: Array, o: Array, h: Array) -> None:
        rows, B = tape["k"].shape[:2]
        z = tape.scratch("zs", rows, B, h.shape[-1])[t % rows]
        tape.xp.tanh(c, out=z)
        tape.xp.multiply(o, z, out=h)

    def finish(self, tape: Tape, K: int) -> Arrays:
        """The state after the segment; linearises all steps at once where the tape records."""
        cs, h = tape["cs"], tape["h"][K]
        c = tape.new("c", *h.shape)
        c[...] = cs[K % cs.shape[0]]
        if tape.records and not tape.compiled:
            self.linearize(tape, K)
        return {"h": h, "c": c}

    def linearize(self, tape: Tape, K: int) -> None:
        """From the gates of all steps, in `k`, to the coefficients that take their place."""
        xp, k, cs = tape.xp, tape["k"], tape["cs"]
        (_, B, H), before = cs.shape, cs[:K]
        i, f, o, g = (k[:, :, n * H : (n + 1) * H] for n in range(4))
        tape.new("f", K, B, H)[...] = f
        slope, k_g = tape.scratch("slopes", K, B, H), tape.scratch("k_g", K, B, H)
        factor = self.output_slope(tape, K, slope)
        xp.multiply(o, slope, out=tape.new("k_c", K, B, H))  # L5
        self.input_slope(xp, g, k_g)
        k_g *= i  # L4
        if tape.keeps_preactivation:
            tape.new("o", K, B, H)[...] = o
        gates, work = k[:, :, : 3 * H], tape.scratch("gate_work", K, B, 3 * H)
        xp.subtract(1.0, gates, out=work)
        gates *= work
        i *= g  # L1
        f *= before  # L2
        o *= factor
        self.finish_output(tape, o, slope)  # L3
        g[...] = k_g

    def output_slope(self, tape: Tape, K: int, slope: Array) -> Array:
        """The slope of the tanh in F4 for all steps; returns what stands beside o*(1-o) in k_o."""
        zs: Array = tape["zs"]
        slope_of_tanh(tape.xp, zs, slope)
        return zs

    def input_slope(self, xp: Any, g: Array, out: Array) -> None:
        """out <- dg/da_g."""
        slope_of_tanh(xp, g, out)

    def finish_output(self, tape: Tape, k_o: Array, slope: Array) -> None:
        """k_o is whole."""

    def rforward(
        self, tape: Tape, t: int, Ra: Array, recurrent: Array, Rc: Array, Rh: Array, Rzeta: Array | None
    ) -> None:
        """From the parts of Ra (B, 4H) and Rc of step t-1 (overwritten by step t's) to Rh, and Rzeta where asked."""
        xp, H = tape.xp, Rc.shape[-1]
        Ra += recurrent
        Ri, Rf, Ro, Rg = (Ra[:, n * H : (n + 1) * H] for n in range(4))
        if Rzeta is not None:
            xp.multiply(tape["k_zo"][t], Ro, out=Rzeta)  # R3
        Ra *= tape["k"][t]
        Rc *= tape["f"][t]
        Rc += Ri
        Rc += Rf
        Rc += Rg  # R1
        xp.multiply(tape["k_c"][t], Rc, out=Rh)
        Rh += Ro  # R2
        if Rzeta is not None:
            Rzeta += tape["o"][t] * Rc  # R3

    def backward(self, tape: Tape, t: int, dh: Array, dhs: Array, dc: Array, da: Array) -> None:
        """From the parts of dh, and dc's from step t+1 (overwritten by that for step t-1), to da (B, 4H or more)."""
        xp, H, k = tape.xp, dc.shape[-1], tape["k"][t]
        dh += dhs
        work = tape.scratch("work", *dc.shape)
        xp.multiply(dh, tape["k_c"][t], out=work)
        dc += work  # B1
        extra = None if tape.preactivation_adjoint is None else tape.preactivation_adjoint[t]
        if extra is not None:
            dc += tape["o"][t] * extra  # B3
        for n, adjoint in enumerate((dc, dc, dh, dc)):
            columns = slice(n * H, (n + 1) * H)
            xp.multiply(k[:, columns], adjoint, out=da[:, columns])  # B2
        if extra is not None:
            da[:, 2 * H : 3 * H] += tape["k_zo"][t] * extra  # B3
        dc *= tape["f"][t]  # B4


class KrauseCell(StandardCell):
    """The cell with a linear input and h = tanh(c*o)."""

    metrics = ("hidden", "matching", "preactivation")

    krause = True

    def squash_input_(self, xp: Any, g: Array) -> None:
        """g = a_g."""

    def output(self, tape: Tape, t: int, c: Array, o: Array, h: Array) -> None:
        tape.xp.multiply(c, o, out=h)
        tape.xp.tanh(h, out=h)

    def output_slope(self, tape: Tape, K: int, slope: Array) -> Array:
        slope_of_tanh(tape.xp, tape["h"][1:], slope)
        return tape["cs"][1:]

    def input_slope(self, xp: Any, g: Array, out: Array) -> None:
        out[...] = 1

    def finish_output(self, tape: Tape, k_o: Array, slope: Array) -> None:
        if tape.keeps_preactivation:
            tape.new("k_zo", *k_o.shape)[...] = k_o  # L6
        k_o *= slope
