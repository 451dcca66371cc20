"""Compiled lstm-1997: the equations of kernels/lstm_1997.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import lstm_1997 as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, sigma, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def lstm_forward(W: Array, U: Array, c: Array, hs: Array, a: Array, k: Array, k_c: Array) -> None:
    K, B, _, H = U.shape
    recorded = k_c.shape[0] == K
    for t in range(K):
        s = t if recorded else 0
        np.dot(hs[t], W, a[s])  # F1
        for b in range(B):
            for j in range(H):
                i, o = sigma(k[s, b, 0, j] + U[t, b, 0, j]), sigma(k[s, b, 1, j] + U[t, b, 1, j])  # F1, F2
                g = tanh(k[s, b, 2, j] + U[t, b, 2, j])  # F3
                c_t = c[b, j] + i * g  # F4
                z = tanh(c_t)
                c[b, j] = c_t
                hs[t + 1, b, j] = o * z  # F5
                if recorded:
                    k[t, b, 0, j] = g * i * (ONE - i)  # L1
                    k[t, b, 1, j] = z * o * (ONE - o)  # L2
                    k[t, b, 2, j] = i * (ONE - g * g)  # L3
                    k_c[t, b, j] = o * (ONE - z * z)  # L4


@compile_loop
def lstm_rforward(
    W: Array, Rh: Array, Ra: Array, RU: Array, k: Array, k_c: Array, Rc: Array, Rhs: Array, work: Array,
    recurrent: Array,
) -> None:  # fmt: skip
    K, B, _, H = RU.shape
    for t in range(K):
        np.dot(Rh if t == 0 else Rhs[t - 1], W, work)
        for b in range(B):
            for j in range(H):
                Ra_i = Ra[t, b, 0, j] + RU[t, b, 0, j] + recurrent[b, 0, j]  # R1
                Ra_o = Ra[t, b, 1, j] + RU[t, b, 1, j] + recurrent[b, 1, j]  # R1
                Ra_g = Ra[t, b, 2, j] + RU[t, b, 2, j] + recurrent[b, 2, j]  # R1
                Rc_t = Rc[b, j] + k[t, b, 0, j] * Ra_i + k[t, b, 2, j] * Ra_g  # R2
                Rc[b, j] = Rc_t
                Rhs[t, b, j] = k[t, b, 1, j] * Ra_o + k_c[t, b, j] * Rc_t  # R3


@compile_loop
def lstm_backward(W_T: Array, dhs: Array, k: Array, k_c: Array, dh: Array, dc: Array, dU: Array, da: Array) -> None:
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                dh_t = dh[b, j] + dhs[t, b, j]
                dc_t = dc[b, j] + k_c[t, b, j] * dh_t  # B1
                dc[b, j] = dc_t
                da[t, b, 0, j] = k[t, b, 0, j] * dc_t  # B2
                da[t, b, 1, j] = k[t, b, 1, j] * dh_t  # B2
                da[t, b, 2, j] = k[t, b, 2, j] * dc_t  # B2
        np.dot(dU[t], W_T, dh)  # B3


class LSTM1997(reference.LSTM1997):
    """`lstm-1997` with compiled loops."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        a, k_c = tape.new("k", K if tape.records else 1, B, 3 * H), tape.new("k_c", K if tape.records else 0, B, H)
        hs, c = tape.new("h", K + 1, B, H), tape.new("c", B, H)  # hs[t] = h_{t-1}
        hs[0], c[...] = state["h"], state["c"]
        lstm_forward(p["W_h"], parts(U, H), c, hs, a, parts(a, H), k_c)  # F1-F5, L1-L4
        return hs[1:], {"h": hs[K], "c": c}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, S), H = RU.shape, self.hidden
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rgates", K, B, S))
        Rhs, Rc, work = tape.new("Rh", K, B, H), tape.new("Rc", B, H), tape.scratch("recurrent", B, S)
        Rc[...] = Rstate["c"]
        lstm_rforward(
            p["W_h"], Rstate["h"], parts(Ra, H), parts(RU, H), parts(tape["k"], H), tape["k_c"], Rc, Rhs, work,
            parts(work, H),
        )  # fmt: skip  # R1-R3
        return Rhs, {"h": Rhs[K - 1], "c": Rc}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        (K, B, H), k = dhs.shape, parts(tape["k"], self.hidden)
        dU, dh, dc = tape.scratch("dU", K, B, 3 * H), tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...], dc[...] = dstate["h"], dstate["c"]
        lstm_backward(transpose(p, "W_h"), dhs, k, tape["k_c"], dh, dc, dU, parts(dU, H))  # B1-B3
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B4
        return dU, {"h": dh, "c": dc}
