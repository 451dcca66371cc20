"""The leaky recurrent network: each unit moves by a share of the way to its new value (Jaeger and others 2007).

F1  a_t = U_t + h_{t-1} @ W_h                           as rnn.py F1
F2  g_t = phi(a_t)                                      phi = tanh, logistic, relu or softplus
F3  h_t = (1-leak) * h_{t-1} + leak * g_t               leak = dt/tau: fixed, or sigma(q), one per unit

L1  k_t = dh_t/da_t = leak * phi'(a_t)                  derivative of F3 and F2, once for all products
L2  e_t = dh_t/dq = (g_t - h_{t-1}) * leak*(1-leak)     derivative of F3, where the leak is learned

R1  Ra_t = RU_t + h_{t-1} @ R(W_h) + Rh_{t-1} @ W_h     F1 by the rules of [P]
R2  Rh_t = (1-leak) * Rh_{t-1} + k_t * Ra_t             F3 by the rules of [P]
           + e_t * Rq

B1  da_t = dh_t * k_t, dU_t = da_t                      adjoint of F3 and F2; dh_t: output, layer above and step t+1
B2  dh_{t-1} = (1-leak) * dh_t + da_t @ W_h.T           adjoint of F3 and F1
B3  dW_h = sum_t h_{t-1}.T @ da_t                       adjoint of F1
    dq = sum_t e_t * dh_t                               adjoint of F3

F3 is one Euler step of tau dh/dt = -h + phi(a). With leak = 1 it is the plain network. Source: H. Jaeger, M.
Lukosevicius, D. Popovici and U. Siewert, *Optimization and applications of echo state networks with leaky-integrator
neurons*, 2007.
"""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import activate_, slope_of
from hfrnn.kernels.share import Share
from hfrnn.option import Option

ACTIVATION = Option(
    "activation", str, "tanh", "Activation function phi of the units.", choices=("tanh", "logistic", "relu", "softplus")
)
LEAK = Option("leak", float, 0.2, "Share of the way to its new value that a unit moves in a step.", above=0, most=1)
LEARN_LEAK = Option("learn_leak", bool, False, "Learn the leak, one value for each unit.")


class Leaky(Kernel):
    """`leaky`: H units with the activation phi and the leak, fixed or learned."""

    options: ClassVar[tuple[Option | str, ...]] = (ACTIVATION, LEAK, LEARN_LEAK)
    transposed: ClassVar[tuple[str, ...]] = ("W_h",)

    def __init__(self, hidden: int, activation: str = "tanh", leak: float = 0.2, learn_leak: bool = False) -> None:
        self.hidden = self.width = hidden
        self.activation, self.leak = activation, Share("leak", leak, learn_leak)
        self.slots = (Slot("h", hidden, bias=True, below=True),)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, self.hidden), **self.leak.shapes(self.hidden)}

    def initializers(self) -> dict[str, Initializer]:
        return {**super().initializers(), **self.leak.initializers()}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H) = tape.xp, U.shape
        leak, steps = self.leak.value(p, tape), K if tape.records else 1
        hs, gs = tape.new("h", K + 1, B, H), tape.scratch("g", steps, B, H)  # hs[t] = h_{t-1}
        kept, work = 1.0 - leak, tape.scratch("work", B, H)
        hs[0] = state["h"]
        for t in range(K):
            g, h = gs[t % steps], hs[t + 1]
            xp.matmul(hs[t], p["W_h"], out=g)
            g += U[t]  # F1
            activate_(xp, self.activation, g)  # F2
            xp.multiply(hs[t], kept, out=h)
            xp.multiply(g, leak, out=work)
            h += work  # F3
        if tape.records:
            k = slope_of(xp, self.activation, gs, tape.new("k", K, B, H))
            k *= leak  # L1
            if self.leak.learned:
                e = tape.new("e", K, B, H)
                xp.subtract(gs, hs[:K], out=e)
                e *= leak * kept  # L2
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), hs, k = tape.xp, RU.shape, tape["h"], tape["k"]
        kept, learned = 1.0 - self.leak.value(p, tape), self.leak.learned
        Ra = product(tape, hs[:K], v["W_h"], out=tape.scratch("Ra", K, B, H))
        Ra += RU
        Rhs, Rh, work = tape.new("Rh", K, B, H), Rstate["h"], tape.scratch("work", B, H)
        for t in range(K):
            Ra_t, Rh_t = Ra[t], Rhs[t]
            xp.matmul(Rh, p["W_h"], out=work)
            Ra_t += work  # R1
            Ra_t *= k[t]
            xp.multiply(Rh, kept, out=Rh_t)
            Rh_t += Ra_t  # R2
            if learned:
                xp.multiply(tape["e"][t], v["q"], out=work)
                Rh_t += work  # R2
            Rh = Rh_t
        return Rhs, {"h": Rh}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), k, W_T = tape.xp, dhs.shape, tape["k"], transpose(p, "W_h")
        kept, learned = 1.0 - self.leak.value(p, tape), self.leak.learned
        dU, des = tape.scratch("dU", K, B, H), tape.scratch("de", K if learned else 1, B, H)
        dh, work = tape.new("dh", B, H), tape.scratch("work", B, H)
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            xp.multiply(dh, k[t], out=dU[t])  # B1
            if learned:
                xp.multiply(dh, tape["e"][t], out=des[t])  # B3
            xp.matmul(dU[t], W_T, out=work)
            dh *= kept
            dh += work  # B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        if learned:
            add_bias_gradient(des, grad["q"])  # B3
        return dU, {"h": dh}
