"""Compiled state-space: the equations of kernels/state_space.py, under its numbers.

A few states are too small for a library's matrix products: a step of one sequence is done at once, in loops over the
columns of U, which the matrix W = [A, W_1] (n, n+m) has too.
"""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import state_space as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused, side_by_side
from hfrnn.kernels.numba.pointwise import ACTIVATIONS, activate, compile_loop, slope_of
from hfrnn.kernels.pointwise import add_weight_gradient

MOST_PRODUCTS = 4096
"""Most multiplications of a step of one sequence, n*(n + 2m). A larger network runs the reference."""


@compile_loop
def state_space_forward(kind: int, W: Array, W_3: Array, U: Array, hs: Array, gs: Array, work: Array) -> None:
    (K, B, S), n = U.shape, W.shape[0]
    recorded = gs.shape[0] == K
    for t in range(K):
        row = t if recorded else 0
        for b in range(B):
            for s in range(S):
                work[s] = U[t, b, s]
            for i in range(n):
                h = hs[t, b, i]
                for s in range(S):
                    work[s] += h * W[i, s]  # F1, F3
            for j in range(S - n):
                gs[row, b, j] = activate(kind, work[n + j])  # F2
            for j in range(S - n):
                g = gs[row, b, j]
                for i in range(n):
                    work[i] += g * W_3[j, i]  # F3
            for i in range(n):
                hs[t + 1, b, i] = work[i]


@compile_loop
def state_space_rforward(
    kind: int, W: Array, W_3: Array, V: Array, V_3: Array, RU: Array, hs: Array, gs: Array, Rh: Array, Rhs: Array,
    work: Array,
) -> None:  # fmt: skip
    (K, B, S), n = RU.shape, W.shape[0]
    for t in range(K):
        for b in range(B):
            for s in range(S):
                work[s] = RU[t, b, s]
            for i in range(n):
                h, Rh_i = hs[t, b, i], Rh[b, i]
                for s in range(S):
                    R = work[s] + h * V[i, s]  # R1, R3
                    work[s] = R + Rh_i * W[i, s]  # R1, R3
            for j in range(S - n):
                g = gs[t, b, j]
                Rg = slope_of(kind, g) * work[n + j]  # R2
                for i in range(n):
                    R = work[i] + g * V_3[j, i]  # R3
                    work[i] = R + Rg * W_3[j, i]  # R3
            for i in range(n):
                Rh[b, i] = work[i]
                Rhs[t, b, i] = work[i]


@compile_loop
def state_space_backward(
    kind: int, W_T: Array, W_3T: Array, dhs: Array, gs: Array, dh: Array, dU: Array, work: Array
) -> None:
    (K, B, n), S = dhs.shape, W_T.shape[0]
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for i in range(n):
                dU[t, b, i] = dh[b, i] + dhs[t, b, i]  # B1
                dh[b, i] = 0
            for j in range(S - n):
                work[j] = 0
            for i in range(n):
                d = dU[t, b, i]
                for j in range(S - n):
                    work[j] += d * W_3T[i, j]  # B2
            for j in range(S - n):
                dU[t, b, n + j] = work[j] * slope_of(kind, gs[t, b, j])  # B2
            for s in range(S):
                d = dU[t, b, s]
                for i in range(n):
                    dh[b, i] += d * W_T[s, i]  # B3


class StateSpace(reference.StateSpace):
    """`state-space` with compiled loops for few states, for tanh, logistic and relu units."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not self._is_small(tape):
            return super().forward(p, U, state, tape)
        (K, B, S), n, kind = U.shape, self.hidden, ACTIVATIONS[self.activation]
        hs, gs = tape.new("h", K + 1, B, n), tape.new("g", K if tape.records else 1, B, S - n)
        hs[0] = state["h"]
        state_space_forward(
            kind, side_by_side(tape, "W", p["A"], p["W_1"]), p["W_3"], U, hs, gs, tape.scratch("work", S)
        )  # F1-F3
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not self._is_small(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, S), n, kind = RU.shape, self.hidden, ACTIVATIONS[self.activation]
        Rh, Rhs, work = tape.new("Rh_after", B, n), tape.new("Rh", K, B, n), tape.scratch("work", S)
        Rh[...] = Rstate["h"]
        matrices = (
            side_by_side(tape, "W", p["A"], p["W_1"]),
            p["W_3"],
            side_by_side(tape, "V", v["A"], v["W_1"]),
            v["W_3"],
        )
        state_space_rforward(kind, *matrices, RU, tape["h"], tape["g"], Rh, Rhs, work)  # R1-R3
        return Rhs, {"h": Rh}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not self._is_small(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        (K, B, n), m, kind = dhs.shape, self.units, ACTIVATIONS[self.activation]
        dU, dh, W_T = tape.scratch("dU", K, B, n + m), tape.new("dh", B, n), tape.scratch("W.T", n + m, n)
        dh[...] = dstate["h"]
        W_T[:n], W_T[n:], W_3T = p["A"].T, p["W_1"].T, tape.scratch("W_3T", n, m)
        W_3T[...] = p["W_3"].T
        state_space_backward(kind, W_T, W_3T, dhs, tape["g"], dh, dU, tape.scratch("work", m))  # B1-B3
        ds, das, hs = dU[:, :, :n], dU[:, :, n:], tape["h"][:K]
        add_weight_gradient(tape, hs, ds, grad["A"])  # B4
        add_weight_gradient(tape, tape["g"], ds, grad["W_3"])  # B4
        add_weight_gradient(tape, hs, das, grad["W_1"])  # B4
        return dU, {"h": dh}

    def _is_small(self, tape: Tape) -> bool:
        """Return whether the compiled loops run."""
        n, m = self.hidden, self.units
        return is_fused(tape, self.activation, ACTIVATIONS) and n * (n + 2 * m) <= MOST_PRODUCTS
