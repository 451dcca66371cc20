"""Feed-forward network over a fixed-size ordinally-forgetting encoding (FOFE) of all inputs so far (Zhang et al. 2015).

The code of the inputs e up to t is z_t = alpha * z_{t-1} + e_t, and h_t = f(sum_k z_{t-k} @ W[k] + b) for k = 0..n-1.
Both maps are linear, so that the recursion can run on z @ W, where U holds e @ W:

                                                        k = 0..n-1 throughout; slot k reads the code k steps back
F1  s_t = alpha * s_{t-1} + sum_k U_{t-k}[k]            Zhang et al. 2015, times W: s_t = sum_k z_{t-k} @ W[k]
F2  a_t = s_t + U_t[b]                                  slot b holds the bias and nothing else
F3  h_t = f(a_t)                                        f = tanh, logistic or relu

L1  k_t = f'(a_t)                                       derivative of F3, once for all products

R1  Rs_t = alpha * Rs_{t-1} + sum_k RU_{t-k}[k]         F1 by the rules of [P]
R2  Ra_t = Rs_t + RU_t[b]                               F2 by the rules of [P]
R3  Rh_t = k_t * Ra_t                                   F3 by the rules of [P]

B1  da_t = dh_t * k_t (+ e_t), dU_t[b] = da_t           adjoint of F3 and F2; e_t: what a structural metric adds
B2  ds_t = da_t + alpha * ds_{t+1}                      adjoint of F2 and F1
B3  dU_t[k] = ds_{t+k}                                  adjoint of F1

There is no recurrent matrix. The state holds `s` and, for n > 1, `partial` of fnn.py. With alpha = 0 the network is
`fnn`. The layers above the first in a stack are `fnn` with n = 1. Source: S. Zhang, H. Jiang, M. Xu, J. Hou and L. Dai,
*The fixed-size ordinally-forgetting encoding method for neural network language models*, 2015.
"""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Slot, Tape
from hfrnn.kernels.fnn import FNN
from hfrnn.kernels.hornn_fofe import ALPHA
from hfrnn.kernels.rnn import ACTIVATION, activate_, slope_of
from hfrnn.option import Option


class FOFEFNN(FNN):
    """`fofe-fnn`: H units that read the codes of the inputs up to now and up to the `codes` - 1 steps before."""

    options: ClassVar[tuple[Option | str, ...]] = (
        Option("codes", int, 1, "Number of codes that each step reads, its own included.", least=1, unit="codes"),
        ACTIVATION,
        ALPHA,
    )

    def __init__(self, hidden: int, codes: int = 1, activation: str = "tanh", alpha: float = 0.6) -> None:
        super().__init__(hidden, codes, activation)
        self.alpha = alpha
        self.slots = (
            *(Slot(f"s{k}", hidden, below=k == 0) for k in range(codes)),
            Slot("b", hidden, bias=True, input=False),
        )

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"s": (B, self.hidden), **super().state_shapes(B)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, U.shape, self.hidden
        a = tape.new("h", K + self.order - 1, B, H)
        after = self._forget(tape, "", U, state, a)  # F1
        hs = a[:K]
        hs += U[:, :, -H:]  # F2
        activate_(xp, self.activation, hs)  # F3
        if tape.records:
            slope_of(xp, self.activation, hs, tape.new("slope", K, B, H))  # L1
        return hs, after

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, RU.shape, self.hidden
        sums = tape.scratch("Ras", K + self.order - 1, B, H)
        after = self._forget(tape, "R", RU, Rstate, sums)  # R1
        Ra = sums[:K]
        Ra += RU[:, :, -H:]  # R2
        if tape.keeps_preactivation:
            tape.preactivation_tangent(K, B, H)[...] = Ra
        Rhs = tape.new("Rh", K, B, H)
        xp.multiply(tape["slope"], Ra, out=Rhs)  # R3
        return Rhs, after

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H), alpha = tape.xp, dhs.shape, self.alpha
        sums, dU = self.adjoints(tape, dstate, K, B), tape.scratch("dU", K, B, (self.order + 1) * H)
        ds, work = sums[:K], tape.scratch("work", B, H)
        xp.multiply(dhs, tape["slope"], out=ds)  # B1
        if preactivation_adjoint is not None:
            ds += preactivation_adjoint  # B1
        dU[:, :, -H:] = ds  # B1
        work[...] = dstate["s"]  # B2
        for t in reversed(range(K)):
            ds_t = ds[t]
            ds_t += work  # B2
            xp.multiply(ds_t, alpha, out=work)  # B2
        for k in range(self.order):
            dU[:, :, k * H : (k + 1) * H] = sums[k : k + K]  # B3
        before = tape.new("ds", B, H)
        before[...] = work  # B2
        return dU, {"s": before, **self.partial(tape, "dpartial", sums[: self.order - 1])}

    def _forget(self, tape: Tape, prefix: str, U: Array, state: Arrays, sums: Array) -> Arrays:
        """sums[t] <- alpha * sums[t-1] + sum_k U[t-k] of slot k, for the K steps of U; return the state after them."""
        K, (B, H) = U.shape[0], sums.shape[1:]
        self.add_up(U, state, sums)  # F1, R1
        work, s = tape.scratch("work", B, H), state["s"]
        for t in range(K):
            tape.xp.multiply(s, self.alpha, out=work)  # F1, R1
            s = sums[t]
            s += work  # F1, R1
        after = tape.new(f"{prefix}s", B, H)
        after[...] = s  # F1, R1
        return {"s": after, **self.partial(tape, f"{prefix}partial", sums[K:])}
