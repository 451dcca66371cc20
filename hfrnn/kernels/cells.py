"""The two memory cells of lstm, lstm-krause, mlstm and mlstm-standard: one time step without its matrix products.

Both cells take the gate pre-activations a = (a_i, a_f, a_o, a_g); c' is the cell state of the step before.

    Standard cell                                        [S thesis] 3.2.2
    F1  i, f, o = sigma(a_i, a_f, a_o)                   [S thesis] 3.2.2, gates
    F2  g = tanh(a_g)                                    [S thesis] 3.2.2, input activation
    F3  c = f*c' + i*g                                   [S thesis] 3.2.2, state update
    F4  z = tanh(c), h = o*z                             [S thesis] 3.2.2, state update

    Krause's cell                                        [K] 2.11-2.18
    F1  i, f, o = sigma(a_i, a_f, a_o)                   [K] 2.12, 2.13 and the forget gate of 2.18
    F2  g = a_g                                          [K] 2.11
    F3  c = f*c' + i*g                                   [K] 2.18
    F4  zeta = c*o, h = tanh(zeta)                       [K] 2.15

Each step is linearised once, for all products that follow. The coefficients are the derivatives of F1 to F4; [K]
7.2-7.4 leave out the factors s*(1-s) of the gates.

        Standard cell                Krause's cell
    L1  k_i = g*i*(1-i)              g*i*(1-i)           dc/da_i, from F1, F3
    L2  k_f = c'*f*(1-f)             c'*f*(1-f)          dc/da_f, from F1, F3
    L3  k_o = z*o*(1-o)              k_zo*(1-h*h)        dh/da_o, from F1, F4
    L4  k_g = i*(1-g*g)              i                   dc/da_g, from F2, F3
    L5  k_c = o*(1-z*z)              o*(1-h*h)           dh/dc, from F4
    L6                               k_zo = c*o*(1-o)    dzeta/da_o, from F1, F4

With these coefficients both cells have the same R-forward and backward routines:

    R1  Rc = f*Rc' + k_i*Ra_i + k_f*Ra_f + k_g*Ra_g      [K] 7.5
    R2  Rh = k_o*Ra_o + k_c*Rc                           [K] 7.6, 7.7
    R3  Rzeta = k_zo*Ra_o + o*Rc                         [K] 7.6, for the structural metrics

    B1  dc = dc_next + k_c*dh                            [K] 7.11, 7.13
    B2  da = k * (dc, dc, dh, dc)                        [K] 7.12, 7.14-7.16
    B3  dc += o*e, da_o += k_zo*e, before B2             [K] 3.28 for zeta; e: what a structural metric adds to dzeta
    B4  dc_next of step t-1 = dc*f                       [K] 7.13

zeta is the hidden pre-activation of Krause's cell, which the structural metrics may penalise. The standard cell has no
such pre-activation.
"""

from __future__ import annotations

from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import sigmoid_, slope_of_tanh


class Cell:
    """What both cells share: their buffers, R-forward and backward."""

    metrics: tuple[str, ...] = ("hidden",)
    """The structural metrics that the cell serves (SPEC 5)."""

    def begin(self, tape: Tape, K: int, B: int, H: int, state: Arrays) -> tuple[Array, Array, Array]:
        """Make the buffers of a segment and store the state before it in their first rows.

        Returns
        -------
        a : (K, B, 4H), or (1, B, 4H) where nothing is recorded
            The gate pre-activations of step t go to `a[t % len(a)]`; `forward` turns them into gates.
        cs : (K + 1, B, H), or (2, B, H) where nothing is recorded
            The cell states; `cs[t % len(cs)]` is c_{t-1}.
        hs : (K + 1, B, H)
            The hidden states; `hs[t]` is h_{t-1}.
        """
        rows = K if tape.records else 1
        a, cs, hs = tape.new("k", rows, B, 4 * H), tape.scratch("cs", rows + 1, B, H), tape.new("h", K + 1, B, H)
        cs[0], hs[0] = state["c"], state["h"]
        return a, cs, hs

    def forward(self, tape: Tape, t: int, U: Array) -> None:
        """Compute the gates, c and h of step t from the recurrent part of a, in its buffer, and U (B, 4H or more)."""
        raise NotImplementedError

    def linearize(self, tape: Tape, K: int) -> None:
        """Replace the gates of all K steps, in the buffer `k`, by their coefficients."""
        raise NotImplementedError

    def finish(self, tape: Tape, K: int) -> Arrays:
        """Return the state after the segment; linearise all its steps where the tape records."""
        cs, h = tape["cs"], tape["h"][K]
        c = tape.new("c", *h.shape)
        c[...] = cs[K % cs.shape[0]]
        if tape.records:
            self.linearize(tape, K)
        return {"h": h, "c": c}

    def rforward(
        self, tape: Tape, t: int, Ra: Array, recurrent: Array, Rc: Array, Rh: Array, Rzeta: Array | None
    ) -> None:
        """Compute Rh (and Rzeta where it is given) of step t; Rc changes from that of step t-1 to that of step t.

        The tangents of the gate pre-activations are Ra + recurrent, each (B, 4H); Ra is overwritten.
        """
        xp = tape.xp
        Ra += recurrent
        Ri, Rf, Ro, Rg = gates_of(Ra)
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

    def backward(
        self, tape: Tape, t: int, dh: Array, dhs: Array, dc: Array, da: Array, dzeta: Array | None = None
    ) -> None:
        """Compute da (B, 4H or more) of step t; dc changes from the adjoint of c_t to that of c_{t-1}.

        The adjoint of h_t is dh + dhs, each (B, H); dh is overwritten. `dzeta` (B, H) is e of B3.
        """
        xp, H, k = tape.xp, dc.shape[-1], tape["k"][t]
        dh += dhs
        work = tape.scratch("work", *dc.shape)
        xp.multiply(dh, tape["k_c"][t], out=work)
        dc += work  # B1
        if dzeta is not None:
            dc += tape["o"][t] * dzeta  # B3
        for n, adjoint in enumerate((dc, dc, dh, dc)):
            columns = slice(n * H, (n + 1) * H)
            xp.multiply(k[:, columns], adjoint, out=da[:, columns])  # B2
        if dzeta is not None:
            da[:, 2 * H : 3 * H] += tape["k_zo"][t] * dzeta  # B3
        dc *= tape["f"][t]  # B4


class StandardCell(Cell):
    """The cell with a squashed input and h = o*tanh(c)."""

    def forward(self, tape: Tape, t: int, U: Array) -> None:
        xp, a, before, c, h = _step_arrays(tape, t)
        rows, (B, H) = tape["k"].shape[0], h.shape
        z, work = tape.scratch("zs", rows, B, H)[t % rows], tape.scratch("work", B, H)
        a += U[:, : 4 * H]
        i, f, o, g = gates_of(a)
        sigmoid_(xp, a[:, : 3 * H])  # F1
        xp.tanh(g, out=g)  # F2
        xp.multiply(f, before, out=c)
        xp.multiply(i, g, out=work)
        c += work  # F3
        xp.tanh(c, out=z)
        xp.multiply(o, z, out=h)  # F4

    def linearize(self, tape: Tape, K: int) -> None:
        xp, k, cs, zs = tape.xp, tape["k"], tape["cs"], tape["zs"]
        _, B, H = cs.shape
        i, f, o, g = gates_of(k)
        tape.new("f", K, B, H)[...] = f
        slope, k_g = tape.scratch("slopes", K, B, H), tape.scratch("k_g", K, B, H)
        slope_of_tanh(xp, zs, slope)
        xp.multiply(o, slope, out=tape.new("k_c", K, B, H))  # L5
        slope_of_tanh(xp, g, k_g)
        k_g *= i  # L4
        _times_one_minus(tape, k[:, :, : 3 * H])  # s*(1-s) of L1, L2, L3
        i *= g  # L1
        f *= cs[:K]  # L2
        o *= zs  # L3
        g[...] = k_g


class KrauseCell(Cell):
    """The cell with a linear input and h = tanh(c*o)."""

    metrics = ("hidden", "matching", "preactivation")

    def forward(self, tape: Tape, t: int, U: Array) -> None:
        xp, a, before, c, h = _step_arrays(tape, t)
        B, H = h.shape
        work = tape.scratch("work", B, H)
        a += U[:, : 4 * H]
        i, f, o, g = gates_of(a)  # F2: g = a_g
        sigmoid_(xp, a[:, : 3 * H])  # F1
        xp.multiply(f, before, out=c)
        xp.multiply(i, g, out=work)
        c += work  # F3
        xp.multiply(c, o, out=h)
        xp.tanh(h, out=h)  # F4

    def linearize(self, tape: Tape, K: int) -> None:
        xp, k, cs, hs = tape.xp, tape["k"], tape["cs"], tape["h"]
        _, B, H = cs.shape
        i, f, o, g = gates_of(k)
        tape.new("f", K, B, H)[...] = f
        slope, k_g = tape.scratch("slopes", K, B, H), tape.scratch("k_g", K, B, H)
        slope_of_tanh(xp, hs[1:], slope)
        xp.multiply(o, slope, out=tape.new("k_c", K, B, H))  # L5
        k_g[...] = i  # L4
        if tape.keeps_preactivation:
            tape.new("o", K, B, H)[...] = o
        _times_one_minus(tape, k[:, :, : 3 * H])  # s*(1-s) of L1, L2, L6
        i *= g  # L1
        f *= cs[:K]  # L2
        o *= cs[1:]  # L6
        if tape.keeps_preactivation:
            tape.new("k_zo", K, B, H)[...] = o
        o *= slope  # L3
        g[...] = k_g


def gates_of(a: Array) -> tuple[Array, Array, Array, Array]:
    """Views of the columns i, f, o and g of an array (..., 4H)."""
    H = a.shape[-1] // 4
    return a[..., :H], a[..., H : 2 * H], a[..., 2 * H : 3 * H], a[..., 3 * H :]


def _step_arrays(tape: Tape, t: int) -> tuple[Any, Array, Array, Array, Array]:
    """The array library, and of step t the gate pre-activations, c_{t-1}, c_t and h_t."""
    k, cs = tape["k"], tape["cs"]
    depth = cs.shape[0]
    return tape.xp, k[t % k.shape[0]], cs[t % depth], cs[(t + 1) % depth], tape["h"][t + 1]


def _times_one_minus(tape: Tape, gates: Array) -> None:
    """gates <- gates*(1-gates), in place: (K, B, 3H)."""
    work = tape.scratch("gate_work", *gates.shape)
    tape.xp.subtract(1.0, gates, out=work)
    gates *= work
