"""Gated recurrent units ([S thesis] 3.2.3).

F1  r_t, z_t = sigma(a_r, a_z)                          [S thesis] 3.2.3, reset and update gates
    (a_r, a_z) = U_rz + h_{t-1} @ W_h
F2  q_t = r_t * h_{t-1}                                 [S thesis] 3.2.3, inside the candidate
F3  g_t = tanh(U_g + q_t @ W_hg)                        [S thesis] 3.2.3, candidate
F4  h_t = z_t*h_{t-1} + (1 - z_t)*g_t                   [S thesis] 3.2.3, state

L1  k_r = dq/da_r = h_{t-1} * r*(1-r)                   derivative of F2 and F1, once for all products
L2  k_z = dh/da_z = (h_{t-1} - g) * z*(1-z)             derivative of F4 and F1
L3  k_g = dh/da_g = (1 - z) * (1 - g*g)                 derivative of F4 and F3

R1  Ra_r, Ra_z = RU_rz + h_{t-1} @ R(W_h)               F1 by the rules of [P]
                       + Rh_{t-1} @ W_h
R2  Rq_t = k_r*Ra_r + r*Rh_{t-1}                        F2 by the rules of [P]
R3  Ra_g = RU_g + q_t @ R(W_hg) + Rq_t @ W_hg           F3 by the rules of [P]
R4  Rh_t = k_z*Ra_z + k_g*Ra_g + z*Rh_{t-1}             F4 by the rules of [P]

B1  da_z = dh_t*k_z, da_g = dh_t*k_g                    adjoint of F4
B2  dq_t = da_g @ W_hg.T                                adjoint of F3
B3  da_r = dq_t*k_r, dU_t = (da_r, da_z, da_g)          adjoint of F2
B4  dh_{t-1} = z*dh_t + r*dq_t + (da_r, da_z) @ W_h.T   adjoint of F4, F2 and F1
B5  dW_h = sum_t h_{t-1}.T @ (da_r, da_z)               adjoint of F1
    dW_hg = sum_t q_t.T @ da_g                          adjoint of F3
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, sigmoid_, slope_of_tanh, transpose


class GRU(Kernel):
    """`gru`: H units, each with a reset gate r, an update gate z and a candidate g."""

    output_bias = True
    transposed = ("W_h", "W_hg")

    def __init__(self, hidden: int) -> None:
        self.hidden = self.width = hidden
        self.slots = tuple(Slot(name, hidden, bias=True, below=True) for name in "rzg")
        self.added_to = {"W_h": ("r", "z"), "W_hg": ("g",)}

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, 2 * self.hidden), "W_hg": (self.hidden, self.hidden)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, U.shape, self.hidden
        steps = K if tape.records else 1  # rows of the buffers that only derivatives need
        rz, q, g = tape.new("rz", steps, B, 2 * H), tape.new("q", steps, B, H), tape.new("k_g", steps, B, H)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        for t in range(K):
            gates, q_t, g_t, h = rz[t % steps], q[t % steps], g[t % steps], hs[t + 1]
            xp.matmul(hs[t], p["W_h"], out=gates)
            gates += U[t, :, : 2 * H]
            sigmoid_(xp, gates)  # F1
            xp.multiply(gates[:, :H], hs[t], out=q_t)  # F2
            xp.matmul(q_t, p["W_hg"], out=g_t)
            g_t += U[t, :, 2 * H :]
            xp.tanh(g_t, out=g_t)  # F3
            xp.subtract(hs[t], g_t, out=h)
            h *= gates[:, H:]
            h += g_t  # F4
        if tape.records:
            self._linearize(tape, hs[:K])
        return hs[1:], {"h": hs[K]}

    def _linearize(self, tape: Tape, before: Array) -> None:
        """Compute the coefficients from r, z and g of all steps; k_g takes the place of g."""
        xp, rz, g, (K, B, H) = tape.xp, tape["rz"], tape["k_g"], before.shape
        k, difference = tape.new("k_rz", K, B, 2 * H), tape.scratch("difference", K, B, H)
        k_r, k_z = k[:, :, :H], k[:, :, H:]
        xp.subtract(before, g, out=difference)
        slope_of_tanh(xp, g, g)
        xp.subtract(1.0, rz, out=k)
        g *= k_z  # L3
        k *= rz
        k_r *= before  # L1
        k_z *= difference  # L2

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, RU.shape, self.hidden
        hs, q, rz, k_rz, k_g = tape["h"], tape["q"], tape["rz"], tape["k_rz"], tape["k_g"]
        Ra = product(tape, hs[:K], v["W_h"], out=tape.scratch("Ra_rz", K, B, 2 * H))
        Ra += RU[:, :, : 2 * H]
        Ra_g = product(tape, q, v["W_hg"], out=tape.scratch("Ra_g", K, B, H))
        Ra_g += RU[:, :, 2 * H :]
        Rhs, Rh, Rq = tape.new("Rh", K, B, H), Rstate["h"], tape.scratch("Rq", B, H)
        work, wide = tape.scratch("work", B, H), tape.scratch("wide", B, 2 * H)
        for t in range(K):
            Ra_t, Rh_t = Ra[t], Rhs[t]
            xp.matmul(Rh, p["W_h"], out=wide)
            Ra_t += wide  # R1
            Ra_t *= k_rz[t]
            xp.multiply(rz[t, :, :H], Rh, out=Rq)
            Rq += Ra_t[:, :H]  # R2
            xp.matmul(Rq, p["W_hg"], out=work)
            work += Ra_g[t]  # R3
            work *= k_g[t]
            xp.multiply(rz[t, :, H:], Rh, out=Rh_t)
            Rh_t += Ra_t[:, H:]
            Rh_t += work  # R4
            Rh = Rh_t
        return Rhs, {"h": Rh}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H) = tape.xp, dhs.shape
        hs, q, rz, k_rz, k_g = tape["h"], tape["q"], tape["rz"], tape["k_rz"], tape["k_g"]
        dU = tape.scratch("dU", K, B, 3 * H)
        das, das_g, W_T, W_g_T = dU[:, :, : 2 * H], dU[:, :, 2 * H :], transpose(p, "W_h"), transpose(p, "W_hg")
        dh, dq, work = tape.new("dh", B, H), tape.scratch("dq", B, H), tape.scratch("work", B, H)
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            da, da_g = das[t], das_g[t]
            xp.multiply(dh, k_rz[t, :, H:], out=da[:, H:])
            xp.multiply(dh, k_g[t], out=da_g)  # B1
            xp.matmul(da_g, W_g_T, out=dq)  # B2
            xp.multiply(dq, k_rz[t, :, :H], out=da[:, :H])  # B3
            dh *= rz[t, :, H:]
            dq *= rz[t, :, :H]
            dh += dq
            xp.matmul(da, W_T, out=work)
            dh += work  # B4
        add_weight_gradient(tape, hs[:K], das, grad["W_h"])  # B5
        add_weight_gradient(tape, q, das_g, grad["W_hg"])  # B5
        return dU, {"h": dh}
