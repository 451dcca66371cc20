"""Compiled hornn-max: the equations of kernels/hornn_max.py, under its numbers.

`winner` holds the number n of the largest product, counted from 0, so that c_n is 1 where winner == n.
"""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import hornn_max as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.hornn import adjoints_of_states, latest_first, steps_before
from hfrnn.kernels.hornn_max import TIE
from hfrnn.kernels.numba.pointwise import ONE, ZERO, compile_loop, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def max_forward(W: Array, U: Array, hs: Array, x: Array, winner: Array, slope: Array) -> None:
    K, B, H = U.shape
    N, rows, recorded = W.shape[0], winner.shape[0], slope.shape[0] == K
    for t in range(K):
        for n in range(N):
            np.dot(hs[N + t - 1 - n], W[n], x[n])  # F1
        w, h = winner[t % rows], hs[N + t]
        for b in range(B):
            for j in range(H):
                h[b, j] = x[0, b, j]
                w[b, j] = ZERO
            for n in range(1, N):
                for j in range(H):
                    better = x[n, b, j] - h[b, j] > TIE  # F2
                    h[b, j] = x[n, b, j] if better else h[b, j]
                    w[b, j] = n if better else w[b, j]  # L2
            for j in range(H):
                h[b, j] = U[t, b, j]
            for n in range(N):
                for j in range(H):
                    h[b, j] += x[n, b, j] * (ONE if w[b, j] == n else ZERO)  # F2; NaN stays NaN
            for j in range(H):
                h[b, j] = tanh(h[b, j])  # F3
                if recorded:
                    slope[t, b, j] = ONE - h[b, j] * h[b, j]  # L1


@compile_loop
def add_winners(n: int, winner: Array, Rx: Array, Ra: Array) -> None:
    K, B, H = Ra.shape
    for t in range(K):
        for b in range(B):
            for j in range(H):
                Ra[t, b, j] += Rx[t, b, j] * (ONE if winner[t, b, j] == n else ZERO)  # R2


@compile_loop
def max_rforward(W: Array, winner: Array, Ra: Array, slope: Array, Rhs: Array, Rx: Array) -> None:
    K, B, H = Ra.shape
    N = W.shape[0]
    for t in range(K):
        for n in range(N):
            np.dot(Rhs[N + t - 1 - n], W[n], Rx)  # R1
            for b in range(B):
                for j in range(H):
                    Ra[t, b, j] += Rx[b, j] * (ONE if winner[t, b, j] == n else ZERO)  # R2
        for b in range(B):
            for j in range(H):
                Rhs[N + t, b, j] = slope[t, b, j] * Ra[t, b, j]  # R3


@compile_loop
def max_backward(
    W_T: Array, winner: Array, dhs: Array, slope: Array, dh: Array, da: Array, dx: Array, work: Array
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
                    dx[n, t, b, j] = da[t, b, j] * (ONE if winner[t, b, j] == n else ZERO)  # B2
            np.dot(dx[n, t], W_T[n], work)
            for b in range(B):
                for j in range(H):
                    dh[N + t - 1 - n, b, j] += work[b, j]  # B3


class MaxHORNN(reference.MaxHORNN):
    """`hornn-max` with compiled loops, for tanh units."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().forward(p, U, state, tape)
        (K, B, H), N = U.shape, self.order
        hs, slope = tape.new("h", N + K, B, H), tape.new("slope", K if tape.records else 0, B, H)
        winner = tape.new("winner", K if tape.records else 1, B, H)
        hs[:N] = state["history"][::-1]
        max_forward(p["W_h"], U, hs, tape.scratch("x", N, B, H), winner, slope)  # F1-F3, L1, L2
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, H), N, winner = RU.shape, self.order, tape["winner"]
        Ra, Rxs, Rhs = tape.scratch("Ra", K, B, H), tape.scratch("Rxs", K, B, H), tape.new("Rh", N + K, B, H)
        Ra[...] = RU
        for n in range(N):
            add_winners(n, winner, product(tape, steps_before(tape["h"], n, N, K), v["W_h"][n], out=Rxs), Ra)  # R1, R2
        Rhs[:N] = Rstate["history"][::-1]
        max_rforward(p["W_h"], winner, Ra, tape["slope"], Rhs, tape.scratch("Rx", B, H))  # R1-R3
        return Rhs[N:], {"history": latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), N = dhs.shape, self.order
        da, dxs, work = tape.scratch("da", K, B, H), tape.scratch("dxs", N, K, B, H), tape.scratch("work", B, H)
        dh, W_T = adjoints_of_states(tape, dstate, K, N), np.ascontiguousarray(transpose(p, "W_h"))
        max_backward(W_T, tape["winner"], dhs, tape["slope"], dh, da, dxs, work)  # B1-B3
        for n in range(N):
            add_weight_gradient(tape, steps_before(tape["h"], n, N, K), dxs[n], grad["W_h"][n])  # B4
        return da, {"history": latest_first(tape, "dhistory", dh[:N])}
