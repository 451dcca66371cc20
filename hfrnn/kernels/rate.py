"""The rate network: a leaky state x, and the rates r = phi(x) that the units send (Song, Yang and Wang 2016).

F1  n_t = U_t + r_{t-1} @ W_h                           the input current of the units
F2  x_t = (1-leak) * x_{t-1} + leak * n_t               leak = dt/tau: fixed, or sigma(q), one per unit
F3  r_t = phi(x_t)                                      phi = tanh, logistic, relu or softplus; r_t is the output

L1  k_t = phi'(x_t)                                     derivative of F3, once for all products
L2  e_t = dx_t/dq = (n_t - x_{t-1}) * leak*(1-leak)     derivative of F2, where the leak is learned

R1  Rn_t = RU_t + r_{t-1} @ R(W_h) + Rr_{t-1} @ W_h     F1 by the rules of [P]
R2  Rx_t = (1-leak) * Rx_{t-1} + leak * Rn_t            F2 by the rules of [P]
           + e_t * Rq
R3  Rr_t = k_t * Rx_t                                   F3 by the rules of [P]

B1  dx_t += dr_t * k_t (+ s_t)                          adjoint of F3; dr_t: output, layer above and step t+1;
                                                        s_t: what a structural metric adds ([K] 3.28)
B2  dn_t = leak * dx_t, dU_t = dn_t                     adjoint of F2
B3  dr_{t-1} = dn_t @ W_h.T                             adjoint of F1
B4  dx_{t-1} = (1-leak) * dx_t                          adjoint of F2
B5  dW_h = sum_t r_{t-1}.T @ dn_t                       adjoint of F1
    dq = sum_t e_t * dx_t                               adjoint of F2

F2 is one Euler step of tau dx/dt = -x + U + r @ W_h. The state is x alone: r before a segment is computed from it. With
leak = 1, r is the plain network's h. x is the hidden pre-activation that the structural metrics may penalise. Source:
H. F. Song, G. R. Yang and X.-J. Wang, *Training excitatory-inhibitory recurrent neural networks for cognitive tasks*,
2016.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.leaky import ACTIVATION, LEAK, LEARN_LEAK
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import activate_, slope_of
from hfrnn.kernels.share import Share
from hfrnn.option import Option


class Rate(Kernel):
    """`rate`: H units with the activation phi and the leak, fixed or learned."""

    options: ClassVar[tuple[Option | str, ...]] = (ACTIVATION, LEAK, LEARN_LEAK)
    transposed: ClassVar[tuple[str, ...]] = ("W_h",)

    def __init__(self, hidden: int, activation: str = "tanh", leak: float = 0.2, learn_leak: bool = False) -> None:
        self.hidden = self.width = hidden
        self.activation, self.leak = activation, Share("leak", leak, learn_leak)
        self.slots = (Slot("x", hidden, bias=True, below=True),)
        # relu has no matching distance of [K] 3.28
        self.metrics = ("hidden", "preactivation") if activation == "relu" else ("hidden", "matching", "preactivation")

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, self.hidden), **self.leak.shapes(self.hidden)}

    def initializers(self) -> dict[str, Initializer]:
        return {**super().initializers(), **self.leak.initializers()}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"x": (B, self.hidden)}

    def slope(self, xp: Any, h: Array) -> Array:
        return slope_of(xp, self.activation, h, xp.empty_like(h))

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H) = tape.xp, U.shape
        leak, learned = self.leak.value(p, tape), self.leak.learned
        kept, steps = 1.0 - leak, K if tape.records and learned else 1
        x, ns, work = tape.new("x", B, H), tape.new("e", steps, B, H), tape.scratch("work", B, H)
        x[...] = state["x"]
        rs = tape.new("r", K + 1, B, H)  # rs[t] = r_{t-1}
        rs[0] = x
        activate_(xp, self.activation, rs[0])  # F3
        for t in range(K):
            n, r = ns[t % steps], rs[t + 1]
            xp.matmul(rs[t], p["W_h"], out=n)
            n += U[t]  # F1
            xp.multiply(n, leak, out=work)
            if learned:
                n -= x  # L2
            x *= kept
            x += work  # F2
            r[...] = x
            activate_(xp, self.activation, r)  # F3
        if tape.records:
            slope_of(xp, self.activation, rs, tape.new("k", K + 1, B, H))  # L1; k[t] is that of step t-1
            if learned:
                ns *= leak * kept  # L2
        return rs[1:], {"x": x}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), rs, k = tape.xp, RU.shape, tape["r"], tape["k"]
        leak, learned = self.leak.value(p, tape), self.leak.learned
        kept = 1.0 - leak
        Rn = product(tape, rs[:K], v["W_h"], out=tape.scratch("Rn", K, B, H))
        Rn += RU
        Rxs = tape.preactivation_tangent(K, B, H) if tape.keeps_preactivation else None
        Rx, Rr, work = tape.new("Rx", B, H), tape.scratch("Rr_before", B, H), tape.scratch("work", B, H)
        Rx[...] = Rstate["x"]
        xp.multiply(k[0], Rx, out=Rr)  # R3
        Rrs = tape.new("Rr", K, B, H)
        for t in range(K):
            Rn_t = Rn[t]
            xp.matmul(Rr, p["W_h"], out=work)
            Rn_t += work  # R1
            Rn_t *= leak
            Rx *= kept
            Rx += Rn_t  # R2
            if learned:
                xp.multiply(tape["e"][t], v["q"], out=work)
                Rx += work  # R2
            if Rxs is not None:
                Rxs[t] = Rx
            Rr = Rrs[t]
            xp.multiply(k[t + 1], Rx, out=Rr)  # R3
        return Rrs, {"x": Rx}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H), k, W_T = tape.xp, dhs.shape, tape["k"], transpose(p, "W_h")
        leak, learned = self.leak.value(p, tape), self.leak.learned
        kept = 1.0 - leak
        dU, des = tape.scratch("dU", K, B, H), tape.scratch("de", K if learned else 1, B, H)
        dx, dr = tape.new("dx", B, H), tape.scratch("dr", B, H)
        dx[...], dr[...] = dstate["x"], 0
        for t in reversed(range(K)):
            dr += dhs[t]
            dr *= k[t + 1]
            dx += dr  # B1
            if preactivation_adjoint is not None:
                dx += preactivation_adjoint[t]  # B1
            if learned:
                xp.multiply(dx, tape["e"][t], out=des[t])  # B5
            xp.multiply(dx, leak, out=dU[t])  # B2
            xp.matmul(dU[t], W_T, out=dr)  # B3
            dx *= kept  # B4
        dr *= k[0]
        dx += dr  # B1
        add_weight_gradient(tape, tape["r"][:K], dU, grad["W_h"])  # B5
        if learned:
            add_bias_gradient(des, grad["q"])  # B5
        return dU, {"x": dx}
