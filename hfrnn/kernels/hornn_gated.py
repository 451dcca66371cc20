"""Gated higher-order recurrent network ([S] 6-7): a gate for each unit and each of the N steps before.

                                                        n = 1..N throughout
F1  x_n = h_{t-n} @ W_h[n]                              [S] 6, one summand
F2  r_n = sigma(U_rn + y_n), y_n = h_{t-n} @ W_r[n]     [S] 7
F3  a_t = U_h + sum_n r_n * x_n                         [S] 6
F4  h_t = f(a_t)                                        [S] 6; f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       derivative of F4, once for all products
L2  l_n = da_t/dy_n = x_n * r_n * (1-r_n)               derivative of F3 and F2

R1  Rx_n = h_{t-n} @ R(W_h[n]) + Rh_{t-n} @ W_h[n]      F1 by the rules of [P]; Ry_n in the same way with W_r
R2  Ra_t = RU_h + sum_n l_n * RU_rn                     F3 and F2 by the rules of [P]
           + sum_n (r_n * Rx_n + l_n * Ry_n)
R3  Rh_t = k_t * Ra_t                                   F4 by the rules of [P]

B1  da_t = dh_t * k_t (+ e_t), dU_h = da_t              adjoint of F4; e_t: what a structural metric adds ([K] 3.28)
B2  dx_n = r_n * da_t, dy_n = l_n * da_t, dU_rn = dy_n  adjoint of F3 and F2
B3  dh_{t-n} += dx_n @ W_h[n].T + dy_n @ W_r[n].T       adjoint of F1 and F2
B4  dW_h[n] = sum_t h_{t-n}.T @ dx_n                    adjoint of F1
    dW_r[n] = sum_t h_{t-n}.T @ dy_n                    adjoint of F2

State and buffers are those of hornn.py.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Slot, Tape
from hfrnn.kernels.hornn import HORNN, adjoints_of_states, latest_first, steps_before
from hfrnn.kernels.pointwise import add_weight_gradient, product, sigmoid_, transpose
from hfrnn.kernels.rnn import activate_, slope_of


class GatedHORNN(HORNN):
    """`hornn-gated`: H units that depend on the last `order` states through a gate each; f as for `rnn`."""

    blocks = transposed = ("W_h", "W_r")

    def __init__(self, hidden: int, order: int = 3, activation: str = "tanh") -> None:
        super().__init__(hidden, order, activation)
        gates = tuple(Slot(f"r_{n}", hidden, below=True) for n in range(1, order + 1))
        self.slots += gates
        self.added_to = {"W_h": ("h",), "W_r": tuple(gate.name for gate in gates)}

    def gate_columns(self, n: int) -> slice:
        """Return the columns of U that feed the gate r_{n+1}."""
        return slice((n + 1) * self.hidden, (n + 2) * self.hidden)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, N = tape.xp, U.shape, self.hidden, self.order
        rows = K if tape.records else 1
        x, y, work = tape.scratch("x", B, H), tape.scratch("y", B, H), tape.scratch("work", B, H)
        rs, xs = tape.new("r", N, rows, B, H), tape.new("l", N, rows, B, H)  # l_n takes the place of x_n
        hs = tape.new("h", N + K, B, H)  # hs[N + t] = h_t
        hs[:N] = state["history"][::-1]
        for t in range(K):
            a = hs[N + t]
            a[...] = U[t, :, :H]
            for n in range(N):
                before, r = hs[N + t - 1 - n], rs[n, t % rows]
                xp.matmul(before, p["W_h"][n], out=x)  # F1
                xp.matmul(before, p["W_r"][n], out=y)
                r[...] = U[t, :, self.gate_columns(n)]
                r += y
                sigmoid_(xp, r)  # F2
                xp.multiply(r, x, out=work)
                a += work  # F3
                xs[n, t % rows] = x
            activate_(xp, self.activation, a)  # F4
        if tape.records:
            slope_of(xp, self.activation, hs[N:], tape.new("slope", K, B, H))  # L1
            self._linearize(tape)
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def _linearize(self, tape: Tape) -> None:
        """Compute l_n of all steps in place of x_n."""
        r, l = tape["r"], tape["l"]
        work = tape.scratch("slopes", *r.shape[1:])
        l *= r
        for n in range(self.order):
            l_n = l[n]
            tape.xp.subtract(1.0, r[n], out=work)
            l_n *= work  # L2

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, N, hs, slope = tape.xp, RU.shape, self.hidden, self.order, tape["h"], tape["slope"]
        parts = (("W_h", tape["r"]), ("W_r", tape["l"]))
        Rx, Rxs = tape.scratch("Rx", B, H), tape.scratch("Rxs", K, B, H)
        Ra = tape.preactivation_tangent(K, B, H)
        Ra[...] = RU[:, :, :H]
        for n in range(N):
            xp.multiply(tape["l"][n], RU[:, :, self.gate_columns(n)], out=Rxs)
            Ra += Rxs  # R2
        for name, factor in parts:
            for n in range(N):
                product(tape, steps_before(hs, n, N, K), v[name][n], out=Rxs)  # R1
                Rxs *= factor[n]
                Ra += Rxs  # R2
        Rhs = tape.new("Rh", N + K, B, H)
        Rhs[:N] = Rstate["history"][::-1]
        for t in range(K):
            Ra_t = Ra[t]
            for name, factor in parts:
                for n in range(N):
                    xp.matmul(Rhs[N + t - 1 - n], p[name][n], out=Rx)  # R1
                    Rx *= factor[n, t]
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
        parts = (("W_h", tape["r"], transpose(p, "W_h")), ("W_r", tape["l"], transpose(p, "W_r")))
        das, dx, dxs = tape.scratch("da", K, B, H), tape.scratch("dx", B, H), tape.scratch("dxs", K, B, H)
        work, dh = tape.scratch("work", B, H), adjoints_of_states(tape, dstate, K, N)
        for t in reversed(range(K)):
            dh_t, da = dh[N + t], das[t]
            dh_t += dhs[t]
            xp.multiply(dh_t, slope[t], out=da)  # B1
            if preactivation_adjoint is not None:
                da += preactivation_adjoint[t]  # B1
            for _, factor, W_T in parts:
                for n in range(N):
                    xp.multiply(factor[n, t], da, out=dx)  # B2
                    xp.matmul(dx, W_T[n], out=work)
                    dh[N + t - 1 - n] += work  # B3
        dU = tape.scratch("dU", K, B, (1 + N) * H)
        dU[:, :, :H] = das  # B1
        for name, factor, _ in parts:
            for n in range(N):
                xp.multiply(factor[n], das, out=dxs)  # B2
                add_weight_gradient(tape, steps_before(hs, n, N, K), dxs, grad[name][n])  # B4
                if name == "W_r":
                    dU[:, :, self.gate_columns(n)] = dxs  # B2
        return dU, {"history": latest_first(tape, "dhistory", dh[:N])}
