"""Higher-order recurrent network with max pooling ([S] 4): each unit takes the largest of its N products.

                                                        n = 1..N throughout
F1  x_n = h_{t-n} @ W_h[n]                              [S] 4, inside the maximum
F2  a_t = U_t + max_n x_n                               [S] 4, elementwise; a tie goes to the smallest n
F3  h_t = f(a_t)                                        [S] 4; f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       derivative of F3, once for all products
L2  c_n = 1 where x_n is the largest, else 0            derivative of F2

R1  Rx_n = h_{t-n} @ R(W_h[n]) + Rh_{t-n} @ W_h[n]      F1 by the rules of [P]
R2  Ra_t = RU_t + sum_n c_n * Rx_n                      F2 by the rules of [P]
R3  Rh_t = k_t * Ra_t                                   F3 by the rules of [P]

B1  da_t = dh_t * k_t (+ e_t), dU_t = da_t              adjoint of F3; e_t: what a structural metric adds ([K] 3.28)
B2  dx_n = c_n * da_t                                   adjoint of F2
B3  dh_{t-n} += dx_n @ W_h[n].T                         adjoint of F1
B4  dW_h[n] = sum_t h_{t-n}.T @ dx_n                    adjoint of F1

Zero states before the start compete too. State and buffers are those of hornn.py.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.hornn import HORNN, adjoints_of_states, latest_first, steps_before
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import activate_, slope_of

TIE = 1e-30
"""Products that differ by no more than this are tied: the square of a complex step, 1e-40, must not decide."""


class MaxHORNN(HORNN):
    """`hornn-max`: H units; of the products with the last `order` states each unit takes the largest."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H), N, W = tape.xp, U.shape, self.order, p["W_h"]
        rows = K if tape.records else 1
        x, best, winner = tape.scratch("x", N, B, H), tape.scratch("best", B, H), tape.scratch("winner", B, H)
        c = tape.new("c", N, rows, B, H)
        hs = tape.new("h", N + K, B, H)  # hs[N + t] = h_t
        hs[:N] = state["history"][::-1]
        for t in range(K):
            for n in range(N):
                xp.matmul(hs[N + t - 1 - n], W[n], out=x[n])  # F1
            best[...] = x[0]
            winner[...] = 0
            for n in range(1, N):
                better = x[n].real - best.real > TIE  # F2
                best[...] = xp.where(better, x[n], best)
                winner[...] = xp.where(better, n, winner)
            a = hs[N + t]
            a[...] = U[t]
            for n in range(N):
                c_n = c[n, t % rows]
                c_n[...] = winner == n  # L2
                x[n] *= c_n  # NaN stays NaN, whichever product is the largest
                a += x[n]  # F2
            activate_(xp, self.activation, a)  # F3
        if tape.records:
            slope_of(xp, self.activation, hs[N:], tape.new("slope", K, B, H))  # L1
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), N, hs, slope, c = tape.xp, RU.shape, self.order, tape["h"], tape["slope"], tape["c"]
        Rx, Rxs = tape.scratch("Rx", B, H), tape.scratch("Rxs", K, B, H)
        Ra = tape.preactivation_tangent(K, B, H)
        Ra[...] = RU
        for n in range(N):
            product(tape, steps_before(hs, n, N, K), v["W_h"][n], out=Rxs)  # R1
            Rxs *= c[n]
            Ra += Rxs  # R2
        Rhs = tape.new("Rh", N + K, B, H)
        Rhs[:N] = Rstate["history"][::-1]
        for t in range(K):
            Ra_t = Ra[t]
            for n in range(N):
                xp.matmul(Rhs[N + t - 1 - n], p["W_h"][n], out=Rx)  # R1
                Rx *= c[n, t]
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
        xp, (K, B, H), N, hs, slope, c = tape.xp, dhs.shape, self.order, tape["h"], tape["slope"], tape["c"]
        das, dx, dxs = tape.scratch("da", K, B, H), tape.scratch("dx", B, H), tape.scratch("dxs", K, B, H)
        work, W_T = tape.scratch("work", B, H), transpose(p, "W_h")
        dh = adjoints_of_states(tape, dstate, K, N)
        for t in reversed(range(K)):
            dh_t, da = dh[N + t], das[t]
            dh_t += dhs[t]
            xp.multiply(dh_t, slope[t], out=da)  # B1
            if preactivation_adjoint is not None:
                da += preactivation_adjoint[t]  # B1
            for n in range(N):
                xp.multiply(c[n, t], da, out=dx)  # B2
                xp.matmul(dx, W_T[n], out=work)
                dh[N + t - 1 - n] += work  # B3
        for n in range(N):
            xp.multiply(c[n], das, out=dxs)  # B2
            add_weight_gradient(tape, steps_before(hs, n, N, K), dxs, grad["W_h"][n])  # B4
        return das, {"history": latest_first(tape, "dhistory", dh[:N])}
