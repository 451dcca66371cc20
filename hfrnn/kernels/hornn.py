"""Higher-order recurrent networks ([S] 3-5): a step hears the N steps before it, each through a matrix of its own.

                                                        n = 1..N throughout
F1  x_n = h_{t-n} @ W_h[n]
F2  hornn        a_t = U_t + sum_n x_n
    hornn-fofe   a_t = U_t + sum_n alpha^n * x_n
    hornn-max    a_t = U_t + max_n x_n                  elementwise; a tie goes to the smallest n
F3  h_t = f(a_t)                                        f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       once for all products
L2  c_n = da_t/dx_n                                     hornn-max: 1 where x_n won, else 0; hornn-fofe: alpha^n; else 1

R1  Rx_n = h_{t-n} @ R(W_h[n]) + Rh_{t-n} @ W_h[n]
R2  Ra_t = RU_t + sum_n c_n * Rx_n
R3  Rh_t = k_t * Ra_t

B1  da_t = dh_t * k_t, dU_t = da_t                      dh_t: from the output, the layer above and steps t+1..t+N
B2  dx_n = c_n * da_t
B3  dh_{t-n} += dx_n @ W_h[n].T
B4  dW_h[n] = sum_t h_{t-n}.T @ dx_n

The state `history` (N, B, H) holds h_{t-1}, ..., h_{t-N}, the latest first as in W_h. Inside, states lie in the order
of time in one buffer of N + K, so that h_{t-n} is a view of it for all t at once. hornn-gated ([S] 6-7), in
hornn_gated.py, has products of a second matrix beside x_n, with coefficients of their own, and R and B are the same.
"""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.arrays.parameters import Initializer, normal
from hfrnn.kernels.base import Arrays, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import ACTIVATION, RNN, activate_, slope_of
from hfrnn.option import Option

ORDER = Option("order", int, 3, "Number of earlier steps that each step reads.", least=1, unit="steps")
ALPHA = Option("alpha", float, 0.6, "Weight of each earlier step, relative to the step after it.", least=0, most=1)

Steps = int | slice
TIE = 1e-30
"""Products no further apart than this tie in hornn-max: the square of a complex step, 1e-40, is to decide nothing."""


class HORNN(RNN):
    """`hornn`: H units that hear the last `order` steps, any order from 1; f as for `rnn`."""

    options: ClassVar[tuple[Option | str, ...]] = (ORDER, ACTIVATION)
    blocks: ClassVar[tuple[str, ...]] = ("W_h",)
    """The parameters (N, H, H) that the steps before are multiplied with."""

    def __init__(self, hidden: int, order: int = 3, activation: str = "tanh") -> None:
        super().__init__(hidden, activation)
        self.order = order
        self.slots = (Slot("h", hidden, below=True),)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(self.blocks, (self.order, self.hidden, self.hidden))

    def initializers(self) -> dict[str, Initializer]:
        return dict.fromkeys(self.blocks, normal(self.scale))

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"history": (self.order, B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, N = tape.xp, U.shape, self.hidden, self.order
        x = tape.scratch("x", len(self.blocks), N, B, H)
        hs = tape.new("h", N + K, B, H)  # hs[N + t] = h_t
        hs[:N] = state["history"][::-1]
        for t in range(K):
            for i, name in enumerate(self.blocks):
                for n in range(N):
                    xp.matmul(hs[N + t - 1 - n], p[name][n], out=x[i, n])  # F1
            a = hs[N + t]
            self.pool(tape, t, U, x, a)  # F2
            activate_(xp, self.activation, a)  # F3
        if tape.records:
            slope_of(xp, self.activation, hs[N:], tape.new("slope", K, B, H))  # L1
            self.linearize(tape, K)
        return hs[N:], {"history": _latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, N, hs, slope = tape.xp, RU.shape, self.hidden, self.order, tape["h"], tape["slope"]
        Ra = tape.preactivation_tangent(K, B, H)
        self.input_tangent(tape, RU, Ra)
        Rx, Rxs = tape.scratch("Rx", B, H), tape.scratch("Rxs", K, B, H)
        for i, name in enumerate(self.blocks):
            for n in range(N):
                product(tape, _before(hs, n, N, K), v[name][n], out=Rxs)  # R1
                Ra += self.route(tape, i, n, slice(K), Rxs, out=Rxs)  # R2
        Rhs = tape.new("Rh", N + K, B, H)
        Rhs[:N] = Rstate["history"][::-1]
        for t in range(K):
            Ra_t = Ra[t]
            for i, name in enumerate(self.blocks):
                for n in range(N):
                    xp.matmul(Rhs[N + t - 1 - n], p[name][n], out=Rx)  # R1
                    Ra_t += self.route(tape, i, n, t, Rx, out=Rx)  # R2
            xp.multiply(slope[t], Ra_t, out=Rhs[N + t])  # R3
        return Rhs[N:], {"history": _latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), N, hs, slope = tape.xp, dhs.shape, self.order, tape["h"], tape["slope"]
        das, routed, work = tape.scratch("da", K, B, H), tape.scratch("dx", B, H), tape.scratch("work", B, H)
        dh = tape.scratch("dh", N + K, B, H)  # dh[N + t]: of h_t, from the steps after it
        dh[:K] = 0
        dh[K:] = dstate["history"][::-1]
        W_T = [transpose(p, name) for name in self.blocks]
        for t in reversed(range(K)):
            dh_t, da = dh[N + t], das[t]
            dh_t += dhs[t]
            xp.multiply(dh_t, slope[t], out=da)  # B1
            if tape.preactivation_adjoint is not None:
                da += tape.preactivation_adjoint[t]
            for i in range(len(self.blocks)):
                for n in range(N):
                    dx = self.route(tape, i, n, t, da, out=routed)  # B2
                    xp.matmul(dx, W_T[i][n], out=work)
                    before = dh[N + t - 1 - n]
                    before += work  # B3
        all_routed = tape.scratch("dxs", K, B, H)
        for i, name in enumerate(self.blocks):
            for n in range(N):
                dxs = self.route(tape, i, n, slice(K), das, out=all_routed)  # B2
                add_weight_gradient(tape, _before(hs, n, N, K), dxs, grad[name][n])  # B4
        return self.input_adjoint(tape, das), {"history": _latest_first(tape, "dhistory", dh[:N])}

    # ------------------------------------------------------------------ where the variants differ

    def pool(self, tape: Tape, t: int, U: Array, x: Array, a: Array) -> None:
        """a <- the pre-activation of step t, from the products x (blocks, N, B, H; may be overwritten)."""
        a[...] = U[t]
        for n in range(self.order):
            a += x[0, n]  # F2

    def linearize(self, tape: Tape, K: int) -> None:
        """Turn what `pool` left of all steps into the coefficients of `route`."""

    def route(self, tape: Tape, i: int, n: int, t: Steps, x: Array, out: Array) -> Array:
        """c_n * x at step t or at all steps, for the products of block i with h_{t-1-n}; may be written to `out`."""
        return x

    def input_tangent(self, tape: Tape, RU: Array, Ra: Array) -> None:
        """Ra <- what RU adds to the tangents of the pre-activations."""
        Ra[...] = RU  # R2

    def input_adjoint(self, tape: Tape, das: Array) -> Array:
        """dU, from the adjoints of the pre-activations."""
        return das  # B1


class FOFE(HORNN):
    """`hornn-fofe`: a step back counts `alpha` times the step after it."""

    options = (ORDER, ACTIVATION, ALPHA)

    def __init__(self, hidden: int, order: int = 3, activation: str = "tanh", alpha: float = 0.6) -> None:
        super().__init__(hidden, order, activation)
        self.alpha = alpha

    def pool(self, tape: Tape, t: int, U: Array, x: Array, a: Array) -> None:
        for n in range(self.order):
            counted = x[0, n]
            counted *= self.alpha ** (n + 1)
        super().pool(tape, t, U, x, a)

    def route(self, tape: Tape, i: int, n: int, t: Steps, x: Array, out: Array) -> Array:
        tape.xp.multiply(x, self.alpha ** (n + 1), out=out)  # L2
        return out


class MaxHORNN(HORNN):
    """`hornn-max`: of the N products each unit takes the largest; zero states before the start compete too."""

    def pool(self, tape: Tape, t: int, U: Array, x: Array, a: Array) -> None:
        xp, (_, N, B, H), rows = tape.xp, x.shape, U.shape[0] if tape.records else 1
        best, winner = tape.scratch("best", B, H), tape.scratch("winner", B, H)
        best[...] = x[0, 0]
        winner[...] = 0
        for n in range(1, N):
            better = x[0, n].real - best.real > TIE
            best[...] = xp.where(better, x[0, n], best)
            winner[...] = xp.where(better, n, winner)
        routes = tape.new("routes", N, rows, B, H)
        for n in range(N):
            routes[n, t % rows] = winner == n  # L2
            taken = x[0, n]
            taken *= routes[n, t % rows]  # not a number, whoever won, where one of the products is none
        super().pool(tape, t, U, x, a)

    def route(self, tape: Tape, i: int, n: int, t: Steps, x: Array, out: Array) -> Array:
        tape.xp.multiply(tape["routes"][n, t], x, out=out)
        return out


def _before(hs: Array, n: int, N: int, K: int) -> Array:
    """h_{t-1-n} for the K steps t of a segment, a view (K, B, H) of all states (N + K, B, H)."""
    return hs[N - 1 - n : N - 1 - n + K]


def _latest_first(tape: Tape, name: str, states: Array) -> Array:
    """N states in the order of time as a history, in a buffer of its own."""
    history = tape.new(name, *states.shape)
    history[...] = states[::-1]
    return history
