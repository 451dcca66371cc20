"""The gated higher-order recurrent network ([S] 6-7): a gate for each unit and each of the N steps before.

                                                        n = 1..N throughout
F1  x_n = h_{t-n} @ W_h[n], y_n = h_{t-n} @ W_r[n]
F2  r_n = sigma(U_rn + y_n)
F3  a_t = U_h + sum_n r_n * x_n
F4  h_t = f(a_t)                                        f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       once for all products
L2  l_n = da_t/dy_n = x_n * r_n * (1-r_n)               beside da_t/dx_n = r_n

R1  Rx_n = h_{t-n} @ R(W_h[n]) + Rh_{t-n} @ W_h[n]      Ry_n likewise with W_r
R2  Ra_t = RU_h + sum_n (r_n * Rx_n + l_n * (RU_rn + Ry_n))
R3  Rh_t = k_t * Ra_t

B1  da_t = dh_t * k_t, dU_h = da_t
B2  dx_n = r_n * da_t, dy_n = l_n * da_t, dU_rn = dy_n
B3  dh_{t-n} += dx_n @ W_h[n].T + dy_n @ W_r[n].T
B4  dW_h[n] = sum_t h_{t-n}.T @ dx_n, dW_r[n] = sum_t h_{t-n}.T @ dy_n

The loops over time are those of hornn.py, with two matrices a step back instead of one.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Slot, Tape
from hfrnn.kernels.hornn import HORNN, Steps
from hfrnn.kernels.pointwise import sigmoid_


class GatedHORNN(HORNN):
    """`hornn-gated`: H units that hear the last `order` steps through a gate each; f as for `rnn`."""

    blocks = transposed = ("W_h", "W_r")

    def __init__(self, hidden: int, order: int = 3, activation: str = "tanh") -> None:
        super().__init__(hidden, order, activation)
        self.slots += tuple(Slot(f"r_{n}", hidden, below=True) for n in range(1, order + 1))

    def gate_columns(self, n: int) -> slice:
        """The columns of U that r_{n+1} hears."""
        return slice((n + 1) * self.hidden, (n + 2) * self.hidden)

    def pool(self, tape: Tape, t: int, U: Array, x: Array, a: Array) -> None:
        xp, (_, N, B, H), rows = tape.xp, x.shape, U.shape[0] if tape.records else 1
        rs, ls, work = tape.new("r", N, rows, B, H), tape.new("l", N, rows, B, H), tape.scratch("work", B, H)
        a[...] = U[t, :, :H]
        for n in range(N):
            r = rs[n, t % rows]
            r[...] = U[t, :, self.gate_columns(n)]
            r += x[1, n]
            sigmoid_(xp, r)  # F2
            xp.multiply(r, x[0, n], out=work)
            a += work  # F3
            ls[n, t % rows] = x[0, n]

    def linearize(self, tape: Tape, K: int) -> None:
        r, l = tape["r"], tape["l"]
        l *= r
        for n in range(self.order):
            l_n, work = l[n], tape.scratch("slopes", *r.shape[1:])
            tape.xp.subtract(1.0, r[n], out=work)
            l_n *= work  # L2

    def route(self, tape: Tape, i: int, n: int, t: Steps, x: Array, out: Array) -> Array:
        tape.xp.multiply(tape[("r", "l")[i]][n, t], x, out=out)
        return out

    def input_tangent(self, tape: Tape, RU: Array, Ra: Array) -> None:
        work = tape.scratch("slopes", *Ra.shape)
        Ra[...] = RU[:, :, : self.hidden]
        for n in range(self.order):
            tape.xp.multiply(tape["l"][n], RU[:, :, self.gate_columns(n)], out=work)
            Ra += work  # R2

    def input_adjoint(self, tape: Tape, das: Array) -> Array:
        K, B, H = das.shape
        dU = tape.scratch("dU", K, B, (1 + self.order) * H)
        dU[:, :, :H] = das  # B1
        for n in range(self.order):
            tape.xp.multiply(tape["l"][n], das, out=dU[:, :, self.gate_columns(n)])  # B2
        return dU
