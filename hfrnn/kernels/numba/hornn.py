"""Compiled hornn and hornn-fofe: the equations of kernels/hornn_fofe.py, under its numbers.

hornn is the case in which every power of alpha is 1, so that F2, R2 and B2 multiply by 1.
"""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import hornn as plain
from hfrnn.kernels import hornn_fofe as fofe
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.hornn import adjoints_of_states, latest_first, steps_before
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def hornn_forward(W: Array, powers: Array, U: Array, hs: Array, slope: Array, x: Array) -> None:
    K, B, H = U.shape
    N, recorded = W.shape[0], slope.shape[0] == K
    for t in range(K):
        for n in range(N):
            np.dot(hs[N + t - 1 - n], W[n], x)  # F1
            for b in range(B):
                for j in range(H):
                    a = U[t, b, j] if n == 0 else hs[N + t, b, j]
                    hs[N + t, b, j] = a + powers[n] * x[b, j]  # F2
        for b in range(B):
            for j in range(H):
                h = tanh(hs[N + t, b, j])  # F3
                hs[N + t, b, j] = h
                if recorded:
                    slope[t, b, j] = ONE - h * h  # L1


@compile_loop
def hornn_rforward(W: Array, powers: Array, Ra: Array, slope: Array, Rhs: Array, Rx: Array) -> None:
    K, B, H = Ra.shape
    N = W.shape[0]
    for t in range(K):
        for n in range(N):
            np.dot(Rhs[N + t - 1 - n], W[n], Rx)  # R1
            for b in range(B):
                for j in range(H):
                    Ra[t, b, j] += powers[n] * Rx[b, j]  # R2
        for b in range(B):
            for j in range(H):
                Rhs[N + t, b, j] = slope[t, b, j] * Ra[t, b, j]  # R3


@compile_loop
def hornn_backward(
    W_T: Array, powers: Array, dhs: Array, slope: Array, dh: Array, da: Array, dx: Array, work: Array
) -> None:
    K, B, H = dhs.shape
    N = W_T.shape[0]
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                da[t, b, j] = (dh[N + t, b, j] + dhs[t, b, j]) * slope[t, b, j]  # B1
        for n in range(N):
            for b in range(B):
                for j in range(H):
                    dx[b, j] = powers[n] * da[t, b, j]  # B2
            np.dot(dx, W_T[n], work)
            for b in range(B):
                for j in range(H):
                    dh[N + t - 1 - n, b, j] += work[b, j]  # B3


class HORNN(plain.HORNN):
    """`hornn` with compiled loops, for tanh units."""

    def _powers(self, tape: Tape) -> Array:
        return np.ones(self.order, tape.kept.dtype)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().forward(p, U, state, tape)
        (K, B, H), N = U.shape, self.order
        hs, slope = tape.new("h", N + K, B, H), tape.new("slope", K if tape.records else 0, B, H)
        hs[:N] = state["history"][::-1]
        hornn_forward(p["W_h"], self._powers(tape), U, hs, slope, tape.scratch("x", B, H))  # F1-F3, L1
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, H), N, powers = RU.shape, self.order, self._powers(tape)
        Ra, Rxs, Rhs = tape.scratch("Ra", K, B, H), tape.scratch("Rxs", K, B, H), tape.new("Rh", N + K, B, H)
        Ra[...] = RU
        for n in range(N):
            product(tape, steps_before(tape["h"], n, N, K), v["W_h"][n], out=Rxs)  # R1
            Rxs *= powers[n]
            Ra += Rxs  # R2
        Rhs[:N] = Rstate["history"][::-1]
        hornn_rforward(p["W_h"], powers, Ra, tape["slope"], Rhs, tape.scratch("Rx", B, H))  # R1-R3
        return Rhs[N:], {"history": latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), N, powers = dhs.shape, self.order, self._powers(tape)
        das, dxs = tape.scratch("da", K, B, H), tape.scratch("dxs", K, B, H)
        dx, work, dh = tape.scratch("dx", B, H), tape.scratch("work", B, H), adjoints_of_states(tape, dstate, K, N)
        W_T = np.ascontiguousarray(transpose(p, "W_h"))
        hornn_backward(W_T, powers, dhs, tape["slope"], dh, das, dx, work)  # B1-B3
        for n in range(N):
            np.multiply(das, powers[n], out=dxs)  # B2
            add_weight_gradient(tape, steps_before(tape["h"], n, N, K), dxs, grad["W_h"][n])  # B4
        return das, {"history": latest_first(tape, "dhistory", dh[:N])}


class FOFE(HORNN, fofe.FOFE):
    """`hornn-fofe` with compiled loops, for tanh units."""

    def _powers(self, tape: Tape) -> Array:
        return np.array(self.powers, tape.kept.dtype)
