"""An architecture of your own, defined outside hfrnn: the LSTM with peepholes, `lstm-peephole`.

    python examples/peephole_lstm.py                                    check every derivative, then train a little
    hfrnn train --kernel examples/peephole_lstm.py --arch lstm-peephole --peephole-scale 0.5

Each gate also reads its own cell, with one weight per unit: i and f read the cell before the step, o the cell after it
(F. Gers and J. Schmidhuber, Recurrent nets that time and count, 2000). docs/adding-an-architecture.md derives the
equations below.

F1  a = U_t + h_{t-1} @ W_h                             columns a_i, a_f, a_o, a_g
F2  i, f = sigma(a_i + p_i*c_{t-1}, a_f + p_f*c_{t-1}), g = tanh(a_g)
F3  c_t = f*c_{t-1} + i*g
F4  o = sigma(a_o + p_o*c_t)
F5  h_t = o*z, z = tanh(c_t)

The derivatives of one step, computed once for all products (* is the elementwise product):

L1  k_i = dc/da_i = g*i*(1-i)
L2  k_f = dc/da_f = c_{t-1}*f*(1-f)
L3  k_g = dc/da_g = i*(1-g*g)
L4  k_o = dh/da_o = z*o*(1-o)
L5  k_c = dc_t/dc_{t-1} = f + p_i*k_i + p_f*k_f         through the cell and both gates
L6  k_h = dh_t/dc_t = o*(1-z*z) + p_o*k_o               through the tanh and the output gate

R1  Ra = RU_t + h_{t-1} @ R(W_h) + Rh_{t-1} @ W_h + (R(p_i)*c_{t-1}, R(p_f)*c_{t-1}, R(p_o)*c_t, 0)
R2  Rc_t = k_c*Rc_{t-1} + k_i*Ra_i + k_f*Ra_f + k_g*Ra_g
R3  Rh_t = k_h*Rc_t + k_o*Ra_o

B1  dc_t = (from step t+1) + k_h*dh_t
B2  da = (k_i*dc_t, k_f*dc_t, k_o*dh_t, k_g*dc_t), dU_t = da
B3  dc_{t-1} = k_c*dc_t
B4  dh_{t-1} = da @ W_h.T
B5  dW_h = sum_t h_{t-1}.T @ da
B6  dp_i = sum_t c_{t-1}*da_i, dp_f = sum_t c_{t-1}*da_f, dp_o = sum_t c_t*da_o, over the sequences too
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import hfrnn
from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer, normal
from hfrnn.gradcheck import gradcheck, table
from hfrnn.kernels.base import Arrays
from hfrnn.kernels.pointwise import add_weight_gradient, product, rows, sigmoid_, slope_of_tanh, transpose


@hfrnn.register_kernel("lstm-peephole")
class PeepholeLSTM(hfrnn.Kernel):
    """`lstm-peephole`: H cells with input, forget and output gates that read the cell."""

    output_bias = True
    transposed = ("W_h",)
    options = (
        hfrnn.Option(
            "peephole_scale", float, 0.1, "Standard deviation of initial peephole weights.",
            above=0,
        ),
    )  # fmt: skip

    def __init__(self, hidden: int, peephole_scale: float = 0.1) -> None:
        self.hidden = self.width = hidden
        self.peephole_scale = peephole_scale
        self.slots = tuple(hfrnn.Slot(name, hidden, bias=True, below=True) for name in "ifog")

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        H = self.hidden
        return {"W_h": (H, 4 * H), "p_i": (H,), "p_f": (H,), "p_o": (H,)}

    def initializers(self) -> dict[str, Initializer]:
        peepholes = dict.fromkeys(("p_i", "p_f", "p_o"), normal(self.peephole_scale))
        return {"W_h": normal(self.scale), **peepholes}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden), "c": (B, self.hidden)}

    def parts(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return the columns of i, f, o and g as views."""
        H = self.hidden
        return x[..., :H], x[..., H : 2 * H], x[..., 2 * H : 3 * H], x[..., 3 * H :]

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: hfrnn.Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, U.shape, self.hidden
        steps, cells = (
            (K, K + 1) if tape.records else (1, 2)
        )  # without a record, arrays that only derivatives need hold one step
        gates, zs = tape.new("k", steps, B, 4 * H), tape.scratch("z", steps, B, H)
        hs, cs = tape.new("h", K + 1, B, H), tape.new("c", cells, B, H)  # hs[t] = h_{t-1}, cs[t] = c_{t-1}
        hs[0], cs[0] = state["h"], state["c"]
        work = tape.scratch("work", B, H)
        for t in range(K):
            a, z, h = gates[t % steps], zs[t % steps], hs[t + 1]
            before, c = cs[t % cells], cs[(t + 1) % cells]
            i, f, o, g = self.parts(a)
            xp.matmul(hs[t], p["W_h"], out=a)
            a += U[t]  # F1
            xp.multiply(before, p["p_i"], out=work)
            i += work
            xp.multiply(before, p["p_f"], out=work)
            f += work
            sigmoid_(xp, a[:, : 2 * H])
            xp.tanh(g, out=g)  # F2
            xp.multiply(f, before, out=c)
            xp.multiply(i, g, out=work)
            c += work  # F3
            xp.multiply(c, p["p_o"], out=work)
            o += work
            sigmoid_(xp, o)  # F4
            xp.tanh(c, out=z)
            xp.multiply(o, z, out=h)  # F5
        if tape.records:
            self.linearize(p, tape, cs[:K], zs)
        return hs[1:], {"h": hs[K], "c": cs[K % cells]}

    def linearize(self, p: Arrays, tape: hfrnn.Tape, before: Array, z: Array) -> None:
        """Replace the gates of all steps, in `k`, by the derivatives L1 to L4; compute L5 and L6."""
        xp, k, (K, B, H) = tape.xp, tape["k"], before.shape
        i, f, o, g = self.parts(k)
        k_c, k_h, k_g = tape.new("k_c", K, B, H), tape.new("k_h", K, B, H), tape.scratch("k_g", K, B, H)
        k_c[...] = f
        slope_of_tanh(xp, z, k_h)
        k_h *= o
        slope_of_tanh(xp, g, k_g)
        k_g *= i  # L3
        gates, work = k[:, :, : 3 * H], tape.scratch("gate_work", K, B, 3 * H)
        xp.subtract(1.0, gates, out=work)
        gates *= work
        i *= g  # L1
        f *= before  # L2
        o *= z  # L4
        g[...] = k_g
        through = tape.scratch("through", K, B, H)
        for whole, slope, peephole in ((k_c, i, "p_i"), (k_c, f, "p_f"), (k_h, o, "p_o")):
            xp.multiply(slope, p[peephole], out=through)
            whole += through  # L5, L6

    def rforward(self, p: Arrays, v: Arrays, tape: hfrnn.Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, S), H = tape.xp, RU.shape, self.hidden
        hs, k, k_c, k_h = tape["h"], tape["k"], tape["k_c"], tape["k_h"]
        Ras = product(tape, hs[:K], v["W_h"], out=tape.scratch("Ra", K, B, S))
        Ras += RU
        seen = tape.scratch("seen", K, B, H)
        for name, cells, Ra in self.peepholes(tape["c"], Ras):
            xp.multiply(cells, v[name], out=seen)
            Ra += seen
        Rhs, Rc = tape.new("Rh", K, B, H), tape.new("Rc", B, H)
        Rh = Rstate["h"]
        Rc[...] = Rstate["c"]
        recurrent = tape.scratch("recurrent", B, S)
        for t in range(K):
            Ra = Ras[t]
            xp.matmul(Rh, p["W_h"], out=recurrent)
            Ra += recurrent  # R1
            Ra *= k[t]
            Ri, Rf, Ro, Rg = self.parts(Ra)
            Rc *= k_c[t]
            Rc += Ri
            Rc += Rf
            Rc += Rg  # R2
            Rh = Rhs[t]
            xp.multiply(k_h[t], Rc, out=Rh)
            Rh += Ro  # R3
        return Rhs, {"h": Rh, "c": Rc}

    def backward(self, p: Arrays, tape: hfrnn.Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), W_T = tape.xp, dhs.shape, transpose(p, "W_h")
        k, k_c, k_h = tape["k"], tape["k_c"], tape["k_h"]
        dU = tape.scratch("dU", K, B, 4 * H)
        dh, dc, work = tape.new("dh", B, H), tape.new("dc", B, H), tape.scratch("work", B, H)
        dh[...], dc[...] = dstate["h"], dstate["c"]
        for t in reversed(range(K)):
            dh += dhs[t]
            xp.multiply(k_h[t], dh, out=work)
            dc += work  # B1
            for slope, adjoint, da in zip(self.parts(k[t]), (dc, dc, dh, dc), self.parts(dU[t]), strict=True):
                xp.multiply(slope, adjoint, out=da)  # B2
            dc *= k_c[t]  # B3
            xp.matmul(dU[t], W_T, out=dh)  # B4
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B5
        seen = tape.scratch("seen", K, B, H)
        for name, cells, da in self.peepholes(tape["c"], dU):
            xp.multiply(cells, da, out=seen)
            grad[name] += rows(seen).sum(axis=0)  # B6
        return dU, {"h": dh, "c": dc}

    def peepholes(self, cs: Array, x: Array) -> tuple[tuple[str, Array, Array], ...]:
        """Return each peephole weight's name, the cells that it reads, and its gate's columns of x, over all steps."""
        i, f, o, _ = self.parts(x)
        return ("p_i", cs[:-1], i), ("p_f", cs[:-1], f), ("p_o", cs[1:], o)


class Bits(hfrnn.Callback):
    """Print one line per update."""

    def on_update(self, record: dict[str, Any]) -> None:
        print(f"update {record['update']}: {record['valid_bits']:.2f} bits per character")


def main() -> int:
    """Check every derivative and, if all are right, train for a few updates; return the exit status."""
    outcomes = gradcheck(["lstm-peephole"])
    print(table(outcomes))
    if not all(outcome.passed for outcome in outcomes):
        return 1
    print("\ntraining on the manual that is part of every Python:")
    with tempfile.TemporaryDirectory() as folder:
        hfrnn.train(
            arch="lstm-peephole", hidden=32, updates=5, gradient_symbols=10_000, sample_length=0,
            out=Path(folder) / "run", callbacks=[Bits()],
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
