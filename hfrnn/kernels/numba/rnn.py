"""Compiled rnn: the equations of kernels/rnn.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import rnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def rnn_forward(W: Array, U: Array, hs: Array, slope: Array) -> None:
    K, B, H = U.shape
    recorded = slope.shape[0] == K
    for t in range(K):
        np.dot(hs[t], W, hs[t + 1])
        for b in range(B):
            for j in range(H):
                h = tanh(hs[t + 1, b, j] + U[t, b, j])  # F1, F2
                hs[t + 1, b, j] = h
                if recorded:
                    slope[t, b, j] = ONE - h * h  # L1


@compile_loop
def rnn_rforward(W: Array, Rh: Array, Ra: Array, RU: Array, slope: Array, Rhs: Array, work: Array) -> None:
    K, B, H = RU.shape
    for t in range(K):
        np.dot(Rh if t == 0 else Rhs[t - 1], W, work)
        for b in range(B):
            for j in range(H):
                Rhs[t, b, j] = slope[t, b, j] * (Ra[t, b, j] + RU[t, b, j] + work[b, j])  # R1, R2


@compile_loop
def rnn_backward(W_T: Array, dhs: Array, slope: Array, dh: Array, dU: Array) -> None:
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                dU[t, b, j] = (dh[b, j] + dhs[t, b, j]) * slope[t, b, j]  # B1
        np.dot(dU[t], W_T, dh)  # B2


class RNN(reference.RNN):
    """`rnn` with compiled loops, for tanh units."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().forward(p, U, state, tape)
        K, B, H = U.shape
        hs, slope = tape.new("h", K + 1, B, H), tape.new("slope", K if tape.records else 0, B, H)
        hs[0] = state["h"]
        rnn_forward(p["W_h"], U, hs, slope)  # F1, F2, L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().rforward(p, v, tape, RU, Rstate)
        K, B, H = RU.shape
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Ra", K, B, H))
        Rhs, work = tape.new("Rh", K, B, H), tape.scratch("work", B, H)
        rnn_rforward(p["W_h"], Rstate["h"], Ra, RU, tape["slope"], Rhs, work)  # R1, R2
        return Rhs, {"h": Rhs[K - 1]}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        K, B, H = dhs.shape
        dU, dh = tape.scratch("dU", K, B, H), tape.new("dh", B, H)
        dh[...] = dstate["h"]
        rnn_backward(transpose(p, "W_h"), dhs, tape["slope"], dh, dU)  # B1, B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        return dU, {"h": dh}
