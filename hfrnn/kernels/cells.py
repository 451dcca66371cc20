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

from hfrnn.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import sigmoid_, slope_of_tanh


class StandardCell:
    """The cell with a squashed input and h = o*tanh(c)."""

    metrics: tuple[str, ...] = ("hidden",)

    def begin(self, tape: Tape, K: int, B: int, H: int, state: Arrays) -> None:
        """Make the buffers of a stretch and put the state before it where step 0 looks for it."""
        tape.new("c", 2, B, H)[0] = state["c"]  # c of step t-1 in row t mod 2
        tape.new("h", K + 1, B, H)[0] = state["h"]  # h[t] = h_{t-1}
        if tape.records:
            tape.new("k", K, B, 4 * H)
            tape.new("f", K, B, H)
            tape.new("k_c", K, B, H)
        else:
            tape.new("k", 1, B, 4 * H)
        if tape.keeps_preactivation:
            tape.new("o", K, B, H)
            tape.new("k_zo", K, B, H)

    def gates(self, tape: Tape, t: int) -> Array:
        """Where the pre-activations of step t are to be written, (B, 4H)."""
        return tape["k"][t if tape.records else 0]

    def forward(self, tape: Tape, t: int) -> None:
        """From the pre-activations in `gates` to c and h of step t; linearises where the tape records."""
        xp, a, h = tape.xp, self.gates(tape, t), tape["h"][t + 1]
        before, c = tape["c"][t % 2], tape["c"][(t + 1) % 2]
        H = h.shape[-1]
        i, f, o, g = (a[:, n * H : (n + 1) * H] for n in range(4))
        work = tape.scratch("work", *h.shape)
        sigmoid_(xp, a[:, : 3 * H])  # F1
        self.squash_input_(tape, g)  # F2
        xp.multiply(f, before, out=c)
        xp.multiply(i, g, out=work)
        c += work  # F3
        slope = tape.scratch("slope", *h.shape)  # dh/d(what the tanh of F4 takes)
        factor = self.output(tape, c, o, h, slope)  # F4
        if not tape.records:
            return
        tape["f"][t] = f
        k_c = tape["k_c"][t]
        xp.multiply(o, slope, out=k_c)  # L5
        xp.multiply(i, self.input_slope(tape, g, work), out=work)  # L4
        if tape.keeps_preactivation:
            tape["o"][t] = o
        self._gate_slopes(tape, a[:, : 3 * H])
        i *= g  # L1
        f *= before  # L2
        o *= factor  # L3
        if tape.keeps_preactivation:
            tape["k_zo"][t] = o  # L6
        self.finish_output(o, slope)  # L3
        g[...] = work

    def _gate_slopes(self, tape: Tape, s: Array) -> None:
        """s <- s*(1-s)."""
        work = tape.scratch("gate_work", *s.shape)
        tape.xp.subtract(1.0, s, out=work)
        s *= work

    def squash_input_(self, tape: Tape, g: Array) -> None:
        tape.xp.tanh(g, out=g)

    def input_slope(self, tape: Tape, g: Array, out: Array) -> Array:
        """dg/da_g."""
        return slope_of_tanh(tape.xp, g, out)

    def output(self, tape: Tape, c: Array, o: Array, h: Array, slope: Array) -> Array:
        """Write h and the slope of its tanh; returns the factor of o*(1-o) in k_o."""
        xp, z = tape.xp, tape.scratch("z", *h.shape)
        xp.tanh(c, out=z)
        xp.multiply(o, z, out=h)
        if tape.records:
            slope_of_tanh(xp, z, slope)
        return z

    def finish_output(self, k_o: Array, slope: Array) -> None:
        """k_o is whole."""

    def rforward(self, tape: Tape, t: int, Ra: Array, Rc: Array, Rh: Array, Rzeta: Array | None) -> None:
        """From Ra (B, 4H, overwritten) and Rc of step t-1 (overwritten by step t's) to Rh, and Rzeta where asked."""
        xp, H = tape.xp, Rc.shape[-1]
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

    def backward(self, tape: Tape, t: int, dh: Array, dc: Array, da: Array) -> None:
        """From dh of step t and dc's part from step t+1 (overwritten by the part for step t-1) to da (B, 4H)."""
        xp, H, k = tape.xp, dc.shape[-1], tape["k"][t]
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

    def squash_input_(self, tape: Tape, g: Array) -> None:
        """g = a_g."""

    def input_slope(self, tape: Tape, g: Array, out: Array) -> Array:
        out[...] = 1
        return out

    def output(self, tape: Tape, c: Array, o: Array, h: Array, slope: Array) -> Array:
        xp = tape.xp
        xp.multiply(c, o, out=h)
        xp.tanh(h, out=h)
        if tape.records:
            slope_of_tanh(xp, h, slope)
        return c

    def finish_output(self, k_o: Array, slope: Array) -> None:
        k_o *= slope
