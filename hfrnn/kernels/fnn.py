"""Feed-forward network over the last n inputs (Bengio and others 2003; [S thesis] 4.4.3).

                                                        k = 0..n-1 throughout; slot k reads the input k steps back
F1  a_t = sum_k U_{t-k}[k]                              [S thesis] 4.4.3: each place in the window has its own weights
F2  h_t = f(a_t)                                        [S thesis] 4.4.3; f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       derivative of F2, once for all products

R1  Ra_t = sum_k RU_{t-k}[k]                            F1 by the rules of [P]
R2  Rh_t = k_t * Ra_t                                   F2 by the rules of [P]

B1  da_t = dh_t * k_t (+ e_t)                           adjoint of F2; e_t: what a structural metric adds ([K] 3.28)
B2  dU_t[k] = da_{t+k}                                  adjoint of F1

There is no recurrent matrix and no loop over time. The state `partial` (n-1, B, H) holds what the inputs before a
segment add to a in its first n-1 steps. Before the start of a sequence it is zero, as for inputs of zero. Only slot 0
has a bias, so that it counts once. With n = 1 the layer has no state. The layers above the first in a stack are such
layers: they read h_t of the layer below, not its past. Source: Y. Bengio, R. Ducharme, P. Vincent and C. Janvin, *A
neural probabilistic language model*, 2003.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.rnn import ACTIVATION, activate_, slope_of
from hfrnn.option import Option


class FNN(Kernel):
    """`fnn`: H units that read the present input and the `order` - 1 before it; f as for `rnn`."""

    one_unit = True

    options: ClassVar[tuple[Option | str, ...]] = (
        Option("order", int, 3, "Number of inputs that each step reads, its own included.", least=1, unit="inputs"),
        ACTIVATION,
    )

    def __init__(self, hidden: int, order: int = 3, activation: str = "tanh") -> None:
        self.hidden = self.width = hidden
        self.order, self.activation = order, activation
        self.slots = (Slot("h", hidden, bias=True, below=True), *(Slot(f"h{k}", hidden) for k in range(1, order)))
        # relu has no matching distance of [K] 3.28
        self.metrics = ("hidden", "preactivation") if activation == "relu" else ("hidden", "matching", "preactivation")

    def above(self) -> Kernel:
        return FNN(self.hidden, 1, self.activation)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"partial": (self.order - 1, B, self.hidden)} if self.order > 1 else {}

    def slope(self, xp: Any, h: Array) -> Array:
        return slope_of(xp, self.activation, h, xp.empty_like(h))

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, U.shape, self.hidden
        a = tape.new("h", K + self.order - 1, B, H)
        self.add_up(U, state, a)  # F1
        after = self.partial(tape, "partial", a[K:])
        hs = a[:K]
        activate_(xp, self.activation, hs)  # F2
        if tape.records:
            slope_of(xp, self.activation, hs, tape.new("slope", K, B, H))  # L1
        return hs, after

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, RU.shape, self.hidden
        Ra = tape.scratch("Ras", K + self.order - 1, B, H)
        self.add_up(RU, Rstate, Ra)  # R1
        if tape.keeps_preactivation:
            tape.preactivation_tangent(K, B, H)[...] = Ra[:K]
        Rhs = tape.new("Rh", K, B, H)
        xp.multiply(tape["slope"], Ra[:K], out=Rhs)  # R2
        return Rhs, self.partial(tape, "Rpartial", Ra[K:])

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
        da, dU = self.adjoints(tape, dstate, K, B), tape.scratch("dU", K, B, self.order * H)
        das = da[:K]
        xp.multiply(dhs, tape["slope"], out=das)  # B1
        if preactivation_adjoint is not None:
            das += preactivation_adjoint  # B1
        for k in range(self.order):
            dU[:, :, k * H : (k + 1) * H] = da[k : k + K]  # B2
        return dU, self.partial(tape, "dpartial", da[: self.order - 1])

    def add_up(self, U: Array, state: Arrays, sums: Array) -> None:
        """sums[t] <- sum_k U[t-k] of slot k, for the K steps of U (K, B, slots) and the n-1 after them: (K+n-1, B, H).

        Inputs after the segment count as 0; the part of those before it is in the state.
        """
        K, H = U.shape[0], self.hidden
        sums[:K] = U[:, :, :H]  # F1, R1
        sums[K:] = 0  # F1, R1
        if self.order > 1:
            begun = sums[: self.order - 1]
            begun += state["partial"]  # F1, R1
        for k in range(1, self.order):
            later = sums[k : k + K]
            later += U[:, :, k * H : (k + 1) * H]  # F1, R1

    def adjoints(self, tape: Tape, dstate: Arrays, K: int, B: int) -> Array:
        """Return the buffer (K+n-1, B, H) for the adjoints of `add_up`'s sums, with those after the segment written."""
        da = tape.scratch("da", K + self.order - 1, B, self.hidden)
        if self.order > 1:
            da[K:] = dstate["partial"]  # B2
        return da

    def partial(self, tape: Tape, name: str, rows: Array) -> Arrays:
        """Return the state, its tangent or its adjoint from its n-1 rows, in a buffer of its own; {} if n = 1."""
        if self.order == 1:
            return {}
        kept = tape.new(name, *rows.shape)
        kept[...] = rows  # F1, R1, B2
        return {"partial": kept}
