"""The multiplicative recurrent network ([K] 2.20).

F1  xi_t = h_{t-1} @ W_hm                               [K] 2.20, first matrix
F2  m_t = U_m * xi_t                                    [K] 2.20, diagonal matrix
F3  a_t = U_h + m_t @ W_mh                              [K] 2.20, second matrix
F4  h_t = tanh(a_t)                                     [K] 2.20

L1  k_t = 1 - h_t*h_t                                   derivative of F4, once for all products

R1  Rxi_t = h_{t-1} @ R(W_hm) + Rh_{t-1} @ W_hm         F1 by the rule [K] 3.20
R2  Rm_t = RU_m * xi_t + U_m * Rxi_t                    F2 by the rule [K] 3.21
R3  Ra_t = RU_h + m_t @ R(W_mh) + Rm_t @ W_mh           F3 by the rule [K] 3.20
R4  Rh_t = k_t * Ra_t                                   F4 by the rule [K] 3.22

B1  da_t = dh_t * k_t (+ e_t), dU_h = da_t              adjoint of F4; e_t: what a structural metric adds ([K] 3.28)
B2  dm_t = da_t @ W_mh.T                                adjoint of F3
B3  dxi_t = dm_t * U_m, dU_m = dm_t * xi_t              adjoint of F2
B4  dh_{t-1} = dxi_t @ W_hm.T                           adjoint of F1
B5  dW_mh = sum_t m_t.T @ da_t                          adjoint of F3
    dW_hm = sum_t h_{t-1}.T @ dxi_t                     adjoint of F1
"""

from __future__ import annotations

from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import (
    add_weight_gradient,
    multiplied_backward,
    multiplied_rforward,
    product,
    slope_of_tanh,
    transpose,
)


class MRNN(Kernel):
    """`mrnn`: H units and H multiplicative units between them."""

    metrics = ("hidden", "matching", "preactivation")
    scale = 0.05
    transposed = ("W_hm", "W_mh")

    def __init__(self, hidden: int) -> None:
        self.hidden = self.width = hidden
        self.slots = (Slot("h", hidden, bias=True, below=True), Slot("m", hidden))
        self.added_to = {"W_mh": ("h",)}

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_hm": (self.hidden, self.hidden), "W_mh": (self.hidden, self.hidden)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def slope(self, xp: Any, h: Array) -> Array:
        return 1.0 - h * h

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, U.shape, self.hidden
        U_m = tape.new("U_m", K, B, H)
        U_m[...] = U[:, :, H:]
        xi, m = tape.new("xi", K, B, H), tape.new("m", K, B, H)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        for t in range(K):
            xp.matmul(hs[t], p["W_hm"], out=xi[t])  # F1
            xp.multiply(U_m[t], xi[t], out=m[t])  # F2
            a = hs[t + 1]
            xp.matmul(m[t], p["W_mh"], out=a)
            a += U[t, :, :H]  # F3
            xp.tanh(a, out=a)  # F4
        if tape.records:
            slope_of_tanh(xp, hs[1:], tape.new("slope", K, B, H))  # L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, RU.shape, self.hidden
        hs, slope, U_m, xi, m = tape["h"], tape["slope"], tape["U_m"], tape["xi"], tape["m"]
        Rxi = product(tape, hs[:K], v["W_hm"], out=tape.scratch("Rxi", K, B, H))
        Ra = product(tape, m, v["W_mh"], out=tape.preactivation_tangent(K, B, H))
        Ra += RU[:, :, :H]
        Rhs = tape.new("Rh", K, B, H)
        Rh, Rm, work = Rstate["h"], tape.scratch("Rm", B, H), tape.scratch("work", B, H)
        for t in range(K):
            xp.matmul(Rh, p["W_hm"], out=work)
            multiplied_rforward(xp, Rxi[t], work, U_m[t], RU[t], xi[t], Rm)  # R1, R2
            xp.matmul(Rm, p["W_mh"], out=work)
            Ra[t] += work  # R3
            Rh = Rhs[t]
            xp.multiply(slope[t], Ra[t], out=Rh)  # R4
        return Rhs, {"h": Rh}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H) = tape.xp, dhs.shape
        hs, slope, U_m, xi, m = tape["h"], tape["slope"], tape["U_m"], tape["xi"], tape["m"]
        dU, dxi, dm = tape.scratch("dU", K, B, 2 * H), tape.scratch("dxi", K, B, H), tape.scratch("dm", B, H)
        das, W_mh_T, W_hm_T = dU[:, :, :H], transpose(p, "W_mh"), transpose(p, "W_hm")
        dh = tape.new("dh", B, H)
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            da = das[t]
            xp.multiply(dh, slope[t], out=da)  # B1
            if preactivation_adjoint is not None:
                da += preactivation_adjoint[t]  # B1
            xp.matmul(da, W_mh_T, out=dm)  # B2
            multiplied_backward(xp, dm, U_m[t], xi[t], dxi[t], dU[t])  # B3
            xp.matmul(dxi[t], W_hm_T, out=dh)  # B4
        add_weight_gradient(tape, m, das, grad["W_mh"])  # B5
        add_weight_gradient(tape, hs[:K], dxi, grad["W_hm"])  # B5
        return dU, {"h": dh}
