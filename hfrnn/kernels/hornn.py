"""Higher-order recurrent network ([S] 3): a step depends on the N hidden states before it, each by its own matrix.

                                                        n = 1..N throughout
F1  x_n = h_{t-n} @ W_h[n]                              [S] 3, one summand
F2  a_t = U_t + sum_n x_n                               [S] 3
F3  h_t = f(a_t)                                        [S] 3; f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       derivative of F3, once for all products

R1  Rx_n = h_{t-n} @ R(W_h[n]) + Rh_{t-n} @ W_h[n]      F1 by the rules of [P]
R2  Ra_t = RU_t + sum_n Rx_n                            F2 by the rules of [P]
R3  Rh_t = k_t * Ra_t                                   F3 by the rules of [P]

B1  da_t = dh_t * k_t (+ e_t), dU_t = da_t              adjoint of F3; e_t: what a structural metric adds ([K] 3.28)
B2  dh_{t-n} += da_t @ W_h[n].T                         adjoint of F1 and F2
B3  dW_h[n] = sum_t h_{t-n}.T @ da_t                    adjoint of F1

dh_t comes from the output, the layer above and steps t+1..t+N. The state `history` (N, B, H) holds h_{t-1}, ...,
h_{t-N}, the latest first as in W_h. Inside, the hidden states lie in the order of time in one buffer of N + K steps, so
that h_{t-n} for all t of a segment is a view of it.
"""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer, normal
from hfrnn.kernels.base import Arrays, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import ACTIVATION, RNN, activate_, slope_of
from hfrnn.option import Option

ORDER = Option("order", int, 3, "Number of earlier steps that each step reads.", least=1, unit="steps")


class HORNN(RNN):
    """`hornn`: H units that depend on the hidden states of the last `order` steps; f as for `rnn`."""

    options: ClassVar[tuple[Option | str, ...]] = (ORDER, ACTIVATION)
    blocks: ClassVar[tuple[str, ...]] = ("W_h",)
    """The names of the parameters of shape (N, H, H)."""

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
        xp, (K, B, H), N, W = tape.xp, U.shape, self.order, p["W_h"]
        x = tape.scratch("x", B, H)
        hs = tape.new("h", N + K, B, H)  # hs[N + t] = h_t
        hs[:N] = state["history"][::-1]
        for t in range(K):
            a = hs[N + t]
            a[...] = U[t]
            for n in range(N):
                xp.matmul(hs[N + t - 1 - n], W[n], out=x)  # F1
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
        for n in range(N):
            Ra += product(tape, steps_before(hs, n, N, K), v["W_h"][n], out=Rxs)  # R1, R2
        Rhs = tape.new("Rh", N + K, B, H)
        Rhs[:N] = Rstate["history"][::-1]
        for t in range(K):
            Ra_t = Ra[t]
            for n in range(N):
                xp.matmul(Rhs[N + t - 1 - n], p["W_h"][n], out=Rx)  # R1
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
        das, work, W_T = tape.scratch("da", K, B, H), tape.scratch("work", B, H), transpose(p, "W_h")
        dh = adjoints_of_states(tape, dstate, K, N)
        for t in reversed(range(K)):
            dh_t, da = dh[N + t], das[t]
            dh_t += dhs[t]
            xp.multiply(dh_t, slope[t], out=da)  # B1
            if preactivation_adjoint is not None:
                da += preactivation_adjoint[t]  # B1
            for n in range(N):
                xp.matmul(da, W_T[n], out=work)
                dh[N + t - 1 - n] += work  # B2
        for n in range(N):
            add_weight_gradient(tape, steps_before(hs, n, N, K), das, grad["W_h"][n])  # B3
        return das, {"history": latest_first(tape, "dhistory", dh[:N])}


def steps_before(hs: Array, n: int, N: int, K: int) -> Array:
    """Return h_{t-1-n} for the K steps t of a segment, a view (K, B, H) of all states (N + K, B, H)."""
    return hs[N - 1 - n : N - 1 - n + K]


def latest_first(tape: Tape, name: str, states: Array) -> Array:
    """Return N states (N, B, H), given in the order of time, as a history in a buffer of its own."""
    history = tape.new(name, *states.shape)
    history[...] = states[::-1]
    return history


def adjoints_of_states(tape: Tape, dstate: Arrays, K: int, N: int) -> Array:
    """Return the buffer (N + K, B, H) in which row N + t collects the adjoint of h_t from the steps after it."""
    history = dstate["history"]
    dh = tape.scratch("dh", N + K, *history.shape[1:])
    dh[:K] = 0
    dh[K:] = history[::-1]
    return dh
