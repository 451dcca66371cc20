"""Higher-order recurrent network with FOFE pooling ([S] 5): a step n back counts alpha^n.

                                                        n = 1..N throughout
F1  x_n = h_{t-n} @ W_h[n]                              [S] 5, one summand
F2  a_t = U_t + sum_n alpha^n * x_n                     [S] 5
F3  h_t = f(a_t)                                        [S] 5; f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       derivative of F3, once for all products

R1  Rx_n = h_{t-n} @ R(W_h[n]) + Rh_{t-n} @ W_h[n]      F1 by the rules of [P]
R2  Ra_t = RU_t + sum_n alpha^n * Rx_n                  F2 by the rules of [P]
R3  Rh_t = k_t * Ra_t                                   F3 by the rules of [P]

B1  da_t = dh_t * k_t (+ e_t), dU_t = da_t              adjoint of F3; e_t: what a structural metric adds ([K] 3.28)
B2  dx_n = alpha^n * da_t                               adjoint of F2
B3  dh_{t-n} += dx_n @ W_h[n].T                         adjoint of F1
B4  dW_h[n] = sum_t h_{t-n}.T @ dx_n                    adjoint of F1

State and buffers are those of hornn.py.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.hornn import HORNN, ORDER, adjoints_of_states, latest_first, steps_before
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import ACTIVATION, activate_, slope_of
from hfrnn.option import Option

ALPHA = Option("alpha", float, 0.6, "Weight of each earlier step, relative to the step after it.", least=0, most=1)


class FOFE(HORNN):
    """`hornn-fofe`: H units; each step further back counts `alpha` times as much."""

    options = (ORDER, ACTIVATION, ALPHA)

    def __init__(self, hidden: int, order: int = 3, activation: str = "tanh", alpha: float = 0.6) -> None:
        super().__init__(hidden, order, activation)
        self.alpha = alpha
        self.powers = [self.alpha ** (n + 1) for n in range(order)]

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H), N, W = tape.xp, U.shape, self.order, p["W_h"]
        x = tape.scratch("x", B, H)
        hs = tape.new("h", N + K, B, H)  # hs[N + t] = h_t
        hs[:N] = state["history"][::-1]
        for t in range(K):
            a = hs[N + t]
            a[...] = U[t]
            for n, power in enumerate(self.powers):
                xp.matmul(hs[N + t - 1 - n], W[n], out=x)  # F1
                x *= power
                a += x  # F2
            activate_(xp, self.activation, a)  # F3
        if tape.records:
            slope_of(xp, self.activation, hs[N:], tape.new("slope", K, B, H))  # L1
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), N, hs, slope = tape.xp, RU.shape, self.order, tape["h"], tape["slope"]
        Rx, Rxs = tape.scratch("Rx", B, H), tape.scratch("Rxs", K, B, H)
        Ra = tape.preactivation_tangent(K, B, H)
        Ra[...] = RU
        for n, power in enumerate(self.powers):
            product(tape, steps_before(hs, n, N, K), v["W_h"][n], out=Rxs)  # R1
            Rxs *= power
            Ra += Rxs  # R2
        Rhs = tape.new("Rh", N + K, B, H)
        Rhs[:N] = Rstate["history"][::-1]
        for t in range(K):
            Ra_t = Ra[t]
            for n, power in enumerate(self.powers):
                xp.matmul(Rhs[N + t - 1 - n], p["W_h"][n], out=Rx)  # R1
                Rx *= power
                Ra_t += Rx  # R2
            xp.multiply(slope[t], Ra_t, out=Rhs[N + t])  # R3
        return Rhs[N:], {"history": latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H), N, hs, slope = tape.xp, dhs.shape, self.order, tape["h"], tape["slope"]
        das, dx, dxs = tape.scratch("da", K, B, H), tape.scratch("dx", B, H), tape.scratch("dxs", K, B, H)
        work, W_T = tape.scratch("work", B, H), transpose(p, "W_h")
        dh = adjoints_of_states(tape, dstate, K, N)
        for t in reversed(range(K)):
            dh_t, da = dh[N + t], das[t]
            dh_t += dhs[t]
            xp.multiply(dh_t, slope[t], out=da)  # B1
            if preactivation_adjoint is not None:
                da += preactivation_adjoint[t]  # B1
            for n, power in enumerate(self.powers):
                xp.multiply(da, power, out=dx)  # B2
                xp.matmul(dx, W_T[n], out=work)
                dh[N + t - 1 - n] += work  # B3
        for n, power in enumerate(self.powers):
            xp.multiply(das, power, out=dxs)  # B2
            add_weight_gradient(tape, steps_before(hs, n, N, K), dxs, grad["W_h"][n])  # B4
        return das, {"history": latest_first(tape, "dhistory", dh[:N])}
