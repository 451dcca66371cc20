"""The two memory cells that lstm, lstm-krause, mlstm and mlstm-standard are made of: one step, everything but products.

Both take the gate pre-activations a = (a_i, a_f, a_o, a_g), whatever they were made from.

Standard cell ([S thesis] 3.2.2)                     Krause's cell ([K] 2.11-2.18)

    F1  i, f, o = sigma(a_i, a_f, a_o)                   F1  the same
    F2  g = tanh(a_g)                                    F2  g = a_g
    F3  c = f*c' + i*g                                   F3  the same
    F4  z = tanh(c), h = o*z                             F4  h = tanh(c*o)

    R1  R(i, f, o) = s*(1-s) * Ra, s = i, f, o           R1  the same
    R2  Rg = (1 - g*g) * Ra_g                            R2  Rg = Ra_g
    R3  Rc = f*Rc' + Rf*c' + i*Rg + Ri*g                 R3  the same
    R4  Rh = Ro*z + o*(1 - z*z)*Rc                       R4  Rzeta = o*Rc + c*Ro, Rh = (1 - h*h)*Rzeta

    B1  do = dh*z, dc = dh*o*(1 - z*z) + dc_next         B1  dzeta = dh*(1 - h*h), do = dzeta*c, dc = dzeta*o + dc_next
    B2  di = dc*g, df = dc*c', dg = dc*i                 B2  the same
    B3  da = s*(1-s)*(di, df, do)                        B3  the same
    B4  da_g = (1 - g*g)*dg                              B4  da_g = dg
    B5  dc_next of step t-1 = dc*f                       B5  the same

zeta = c*o is the hidden pre-activation of Krause's cell, which the structural metrics may penalise; the standard
cell has none. [K] 7.2-7.4 leave out the factor s*(1-s) of R1.
"""

from __future__ import annotations

from typing import Any

from hfrnn.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import sigmoid_, times_sigmoid_slope_, times_tanh_slope_


class StandardCell:
    """The cell with a squashed input and h = o*tanh(c)."""

    metrics: tuple[str, ...] = ("hidden",)

    def begin(self, tape: Tape, K: int, B: int, H: int, state: Arrays) -> None:
        """Make the buffers of a stretch and put the state before it in their first rows."""
        self.start_common(tape, K, B, H, state)
        tape.new("z", K, B, H)

    def start_common(self, tape: Tape, K: int, B: int, H: int, state: Arrays) -> None:
        tape.new("gates", K, B, 4 * H)
        tape.new("c", K + 1, B, H)[0] = state["c"]  # c[t] = c_{t-1}
        tape.new("h", K + 1, B, H)[0] = state["h"]  # h[t] = h_{t-1}

    def forward(self, tape: Tape, t: int) -> None:
        """From the pre-activations in gates[t] to the gates, c and h of step t."""
        xp = tape.xp
        gates, c, h = tape["gates"][t], tape["c"], tape["h"]
        H = h.shape[-1]
        sigmoid_(xp, gates[:, : 3 * H])  # F1
        self.squash_input_(xp, gates[:, 3 * H :])  # F2
        i, f, o, g = (gates[:, n * H : (n + 1) * H] for n in range(4))
        work = tape.scratch("work", *i.shape)
        xp.multiply(f, c[t], out=c[t + 1])
        xp.multiply(i, g, out=work)
        c[t + 1] += work  # F3
        self.output(tape, t, o)  # F4

    def squash_input_(self, xp: Any, g: Array) -> None:
        xp.tanh(g, out=g)

    def output(self, tape: Tape, t: int, o: Array) -> None:
        z = tape["z"][t]
        tape.xp.tanh(tape["c"][t + 1], out=z)
        tape.xp.multiply(o, z, out=tape["h"][t + 1])

    def rforward(self, tape: Tape, t: int, Ra: Array, Rc: Array, Rh: Array, Rzeta: Array | None) -> None:
        """From Ra (B, 4H, overwritten) and Rc of step t-1 (overwritten by step t's) to Rh, and Rzeta where asked."""
        xp = tape.xp
        gates, c = tape["gates"][t], tape["c"]
        H = c.shape[-1]
        i, f, o, g = (gates[:, n * H : (n + 1) * H] for n in range(4))
        Ri, Rf, Ro, Rg = (Ra[:, n * H : (n + 1) * H] for n in range(4))
        times_sigmoid_slope_(xp, Ra[:, : 3 * H], gates[:, : 3 * H], tape.scratch("gate_work", Ra.shape[0], 3 * H))  # R1
        work = tape.scratch("work", *Rc.shape)
        self.times_input_slope_(xp, Rg, g, work)  # R2
        Rc *= f
        for x, y in ((Rf, c[t]), (i, Rg), (Ri, g)):
            xp.multiply(x, y, out=work)
            Rc += work  # R3
        self.routput(tape, t, o, Ro, Rc, Rh, Rzeta)  # R4

    def times_input_slope_(self, xp: Any, x: Array, g: Array, work: Array) -> None:
        times_tanh_slope_(xp, x, g, work)

    def routput(self, tape: Tape, t: int, o: Array, Ro: Array, Rc: Array, Rh: Array, Rzeta: Array | None) -> None:
        xp, z = tape.xp, tape["z"][t]
        work = tape.scratch("work", *Rc.shape)
        xp.multiply(o, Rc, out=Rh)
        times_tanh_slope_(xp, Rh, z, work)
        xp.multiply(Ro, z, out=work)
        Rh += work

    def backward(self, tape: Tape, t: int, dh: Array, dc: Array, da: Array) -> None:
        """From dh of step t and dc's part from step t+1 (overwritten by the part for step t-1) to da (B, 4H)."""
        xp = tape.xp
        gates, c = tape["gates"][t], tape["c"]
        H = c.shape[-1]
        i, f, o, g = (gates[:, n * H : (n + 1) * H] for n in range(4))
        di, df, do, dg = (da[:, n * H : (n + 1) * H] for n in range(4))
        self.output_backward(tape, t, o, dh, dc, do)  # B1
        xp.multiply(dc, g, out=di)
        xp.multiply(dc, c[t], out=df)
        xp.multiply(dc, i, out=dg)  # B2
        times_sigmoid_slope_(xp, da[:, : 3 * H], gates[:, : 3 * H], tape.scratch("gate_work", da.shape[0], 3 * H))  # B3
        self.times_input_slope_(xp, dg, g, tape.scratch("work", *dc.shape))  # B4
        dc *= f  # B5

    def output_backward(self, tape: Tape, t: int, o: Array, dh: Array, dc: Array, do: Array) -> None:
        xp, z = tape.xp, tape["z"][t]
        xp.multiply(dh, z, out=do)
        work, slope = tape.scratch("work", *dc.shape), tape.scratch("slope", *dc.shape)
        xp.multiply(dh, o, out=work)
        times_tanh_slope_(xp, work, z, slope)
        dc += work


class KrauseCell(StandardCell):
    """The cell with a linear input and h = tanh(c*o)."""

    metrics = ("hidden", "matching", "preactivation")

    def begin(self, tape: Tape, K: int, B: int, H: int, state: Arrays) -> None:
        self.start_common(tape, K, B, H, state)

    def squash_input_(self, xp: Any, g: Array) -> None:
        """g = a_g."""

    def times_input_slope_(self, xp: Any, x: Array, g: Array, work: Array) -> None:
        """The slope is 1."""

    def output(self, tape: Tape, t: int, o: Array) -> None:
        h = tape["h"][t + 1]
        tape.xp.multiply(tape["c"][t + 1], o, out=h)
        tape.xp.tanh(h, out=h)

    def routput(self, tape: Tape, t: int, o: Array, Ro: Array, Rc: Array, Rh: Array, Rzeta: Array | None) -> None:
        xp, c, h = tape.xp, tape["c"][t + 1], tape["h"][t + 1]
        work = tape.scratch("work", *Rc.shape)
        xp.multiply(o, Rc, out=Rh)
        xp.multiply(c, Ro, out=work)
        Rh += work
        if Rzeta is not None:
            Rzeta[...] = Rh
        times_tanh_slope_(xp, Rh, h, work)

    def output_backward(self, tape: Tape, t: int, o: Array, dh: Array, dc: Array, do: Array) -> None:
        xp, c, h = tape.xp, tape["c"][t + 1], tape["h"][t + 1]
        work, slope = tape.scratch("work", *dc.shape), tape.scratch("slope", *dc.shape)
        work[...] = dh
        times_tanh_slope_(xp, work, h, slope)
        if tape.preactivation_adjoint is not None:
            work += tape.preactivation_adjoint[t]
        xp.multiply(work, c, out=do)
        work *= o
        dc += work
