"""Long short-term memory as in 1997, without a forget gate: the cell keeps all that it has ([K] 2.11-2.15).

F1  a_t = U_t + h_{t-1} @ W_h                           [K] 2.11-2.13; gates i, o and input g side by side
F2  i, o = sigma(a_i, a_o)                              [K] 2.12, 2.13, input and output gates
F3  g = tanh(a_g)                                       [S thesis] 3.2.2; [K] 2.11 has a_g itself
F4  c_t = c_{t-1} + i*g                                 [K] 2.14
F5  z = tanh(c_t), h_t = o*z                            [S thesis] 3.2.2; [K] 2.15 has tanh(c*o)

L1  k_i = dc/da_i = g * i*(1-i)                         derivative of F4 and F2, once for all products
L2  k_o = dh/da_o = z * o*(1-o)                         derivative of F5 and F2
L3  k_g = dc/da_g = i * (1-g*g)                         derivative of F4 and F3
L4  k_c = dh/dc = o * (1-z*z)                           derivative of F5

R1  Ra_t = RU_t + h_{t-1} @ R(W_h) + Rh_{t-1} @ W_h     [K] 7.1-7.4
R2  Rc_t = Rc_{t-1} + k_i*Ra_i + k_g*Ra_g               [K] 7.5, without the forget gate
R3  Rh_t = k_o*Ra_o + k_c*Rc_t                          F5 by the rules of [P]

B1  dc_t += k_c*dh_t                                    adjoint of F5; dh_t: output, layer above and step t+1
B2  da_t = k * (dc_t, dh_t, dc_t), dU_t = da_t          adjoint of F5 and F4; blocks i, o, g
B3  dh_{t-1} = da_t @ W_h.T                             adjoint of F1; dc_{t-1} = dc_t by F4
B4  dW_h = sum_t h_{t-1}.T @ da_t                       adjoint of F1

Gates and squashing are those of lstm. Source: S. Hochreiter and J. Schmidhuber, *Long short-term memory*, 1997; its
squashing functions are other ones, and its derivatives are truncated.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, sigmoid_, slope_of_tanh, transpose


class LSTM1997(Kernel):
    """`lstm-1997`: H cells with input and output gates."""

    output_bias = True
    transposed = ("W_h",)

    def __init__(self, hidden: int) -> None:
        self.hidden = self.width = hidden
        self.slots = tuple(Slot(name, hidden, bias=True, below=True) for name in "iog")

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, 3 * self.hidden)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden), "c": (B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, U.shape, self.hidden
        steps = K if tape.records else 1  # rows of the buffers that only derivatives need
        k, zs, work = tape.new("k", steps, B, 3 * H), tape.scratch("zs", steps, B, H), tape.scratch("work", B, H)
        hs, c = tape.new("h", K + 1, B, H), tape.new("c", B, H)  # hs[t] = h_{t-1}
        hs[0], c[...] = state["h"], state["c"]
        for t in range(K):
            a, z = k[t % steps], zs[t % steps]
            xp.matmul(hs[t], p["W_h"], out=a)
            a += U[t]  # F1
            i, o, g = a[:, :H], a[:, H : 2 * H], a[:, 2 * H :]
            sigmoid_(xp, a[:, : 2 * H])  # F2
            xp.tanh(g, out=g)  # F3
            xp.multiply(i, g, out=work)
            c += work  # F4
            xp.tanh(c, out=z)
            xp.multiply(o, z, out=hs[t + 1])  # F5
        if tape.records:
            self._linearize(tape, K, B)
        return hs[1:], {"h": hs[K], "c": c}

    def _linearize(self, tape: Tape, K: int, B: int) -> None:
        """Replace the gates and g of all steps, in the buffer `k`, by their coefficients."""
        xp, k, zs, H = tape.xp, tape["k"], tape["zs"], self.hidden
        gates, i, o, g = k[:, :, : 2 * H], k[:, :, :H], k[:, :, H : 2 * H], k[:, :, 2 * H :]
        k_g, slopes = tape.scratch("k_g", K, B, H), tape.scratch("slopes", K, B, 2 * H)
        slope_of_tanh(xp, g, k_g)
        k_g *= i  # L3
        k_c = slope_of_tanh(xp, zs, tape.new("k_c", K, B, H))
        k_c *= o  # L4
        xp.subtract(1.0, gates, out=slopes)
        gates *= slopes
        i *= g  # L1
        o *= zs  # L2
        g[...] = k_g

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, S), H, k, k_c = tape.xp, RU.shape, self.hidden, tape["k"], tape["k_c"]
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rgates", K, B, S))
        Ra += RU
        Rhs, Rc, work = tape.new("Rh", K, B, H), tape.new("Rc", B, H), tape.scratch("recurrent", B, S)
        Rh = Rstate["h"]
        Rc[...] = Rstate["c"]
        for t in range(K):
            Ra_t = Ra[t]
            xp.matmul(Rh, p["W_h"], out=work)
            Ra_t += work  # R1
            Ra_t *= k[t]
            Rc += Ra_t[:, :H]
            Rc += Ra_t[:, 2 * H :]  # R2
            Rh = Rhs[t]
            xp.multiply(k_c[t], Rc, out=Rh)
            Rh += Ra_t[:, H : 2 * H]  # R3
        return Rhs, {"h": Rh, "c": Rc}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), k, k_c, W_T = tape.xp, dhs.shape, tape["k"], tape["k_c"], transpose(p, "W_h")
        dU, work = tape.scratch("dU", K, B, 3 * H), tape.scratch("work", B, H)
        dh, dc = tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...], dc[...] = dstate["h"], dstate["c"]
        for t in reversed(range(K)):
            dh += dhs[t]
            xp.multiply(dh, k_c[t], out=work)
            dc += work  # B1
            for n, adjoint in enumerate((dc, dh, dc)):
                columns = slice(n * H, (n + 1) * H)
                xp.multiply(k[t, :, columns], adjoint, out=dU[t, :, columns])  # B2
            xp.matmul(dU[t], W_T, out=dh)  # B3
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B4
        return dU, {"h": dh, "c": dc}
