"""Compiled leaky: the equations of kernels/leaky.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import leaky as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.numba.pointwise import ACTIVATIONS, ONE, activate, compile_exact_loop, slope_of
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose


@compile_exact_loop
def leaky_forward(kind: int, W: Array, leak: Array, U: Array, hs: Array, k: Array, e: Array) -> None:
    K, B, H = U.shape
    recorded, learned = k.shape[0] == K, e.shape[0] == K
    for t in range(K):
        np.dot(hs[t], W, hs[t + 1])
        for b in range(B):
            for j in range(H):
                share, before = leak[j], hs[t, b, j]
                g = activate(kind, hs[t + 1, b, j] + U[t, b, j])  # F1, F2
                hs[t + 1, b, j] = before * (ONE - share) + g * share  # F3
                if recorded:
                    k[t, b, j] = slope_of(kind, g) * share  # L1
                if learned:
                    e[t, b, j] = (g - before) * (share * (ONE - share))  # L2


@compile_exact_loop
def leaky_rforward(
    W: Array, leak: Array, Rq: Array, Rh: Array, Ra: Array, RU: Array, k: Array, e: Array, Rhs: Array, work: Array
) -> None:
    K, B, H = RU.shape
    learned = e.shape[0] == K
    for t in range(K):
        previous = Rh if t == 0 else Rhs[t - 1]
        np.dot(previous, W, work)
        for b in range(B):
            for j in range(H):
                R = k[t, b, j] * (Ra[t, b, j] + RU[t, b, j] + work[b, j])  # R1
                R += (ONE - leak[j]) * previous[b, j]  # R2
                if learned:
                    R += e[t, b, j] * Rq[j]  # R2
                Rhs[t, b, j] = R


@compile_exact_loop
def leaky_backward(
    W_T: Array, leak: Array, dhs: Array, k: Array, e: Array, dh: Array, dU: Array, de: Array, work: Array
) -> None:
    K, B, H = dhs.shape
    learned = e.shape[0] == K
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                d = dh[b, j] + dhs[t, b, j]
                dh[b, j] = d
                dU[t, b, j] = d * k[t, b, j]  # B1
                if learned:
                    de[t, b, j] = d * e[t, b, j]  # B3
        np.dot(dU[t], W_T, work)
        for b in range(B):
            for j in range(H):
                dh[b, j] = (ONE - leak[j]) * dh[b, j] + work[b, j]  # B2


class Leaky(reference.Leaky):
    """`leaky` with compiled loops, for tanh, logistic and relu units."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().forward(p, U, state, tape)
        K, B, H = U.shape
        steps = K if tape.records else 0
        hs, k = tape.new("h", K + 1, B, H), tape.new("k", steps, B, H)
        e = tape.new("e", steps if self.leak.learned else 0, B, H)
        hs[0], leak = state["h"], units_share(self.leak, p, tape, H)
        leaky_forward(ACTIVATIONS[self.activation], p["W_h"], leak, U, hs, k, e)  # F1-F3, L1, L2
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, H), leak = RU.shape, units_share(self.leak, p, tape, RU.shape[2])
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Ra", K, B, H))
        Rhs, work, Rq = tape.new("Rh", K, B, H), tape.scratch("work", B, H), v["q"] if self.leak.learned else leak
        leaky_rforward(p["W_h"], leak, Rq, Rstate["h"], Ra, RU, tape["k"], tape["e"], Rhs, work)  # R1, R2
        return Rhs, {"h": Rhs[K - 1]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().backward(p, tape, dhs, dstate, grad)
        (K, B, H), leak, learned = dhs.shape, units_share(self.leak, p, tape, dhs.shape[2]), self.leak.learned
        dU, des = tape.scratch("dU", K, B, H), tape.scratch("de", K if learned else 0, B, H)
        dh, work = tape.new("dh", B, H), tape.scratch("work", B, H)
        dh[...] = dstate["h"]
        leaky_backward(transpose(p, "W_h"), leak, dhs, tape["k"], tape["e"], dh, dU, des, work)  # B1-B3
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        if learned:
            add_bias_gradient(des, grad["q"])  # B3
        return dU, {"h": dh}
