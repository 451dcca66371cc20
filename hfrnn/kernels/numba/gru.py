"""Compiled gru: the equations of kernels/gru.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import gru as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, sigma, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def gru_forward(
    W: Array, W_g: Array, U: Array, hs: Array, a: Array, rz: Array, q: Array, a_g: Array, k_rz: Array
) -> None:
    K, B, _, H = U.shape
    recorded = k_rz.shape[0] == K
    for t in range(K):
        s = t if recorded else 0
        np.dot(hs[t], W, a[s])
        for b in range(B):
            for j in range(H):
                r = sigma(rz[s, b, 0, j] + U[t, b, 0, j])  # F1
                rz[s, b, 0, j] = r
                rz[s, b, 1, j] = sigma(rz[s, b, 1, j] + U[t, b, 1, j])  # F1
                q[s, b, j] = r * hs[t, b, j]  # F2
        np.dot(q[s], W_g, a_g[s])
        for b in range(B):
            for j in range(H):
                g = tanh(a_g[s, b, j] + U[t, b, 2, j])  # F3
                z, before = rz[s, b, 1, j], hs[t, b, j]
                hs[t + 1, b, j] = (before - g) * z + g  # F4
                if recorded:
                    r = rz[s, b, 0, j]
                    k_rz[t, b, 0, j] = (ONE - r) * r * before  # L1
                    k_rz[t, b, 1, j] = (ONE - z) * z * (before - g)  # L2
                    a_g[t, b, j] = (ONE - g * g) * (ONE - z)  # L3


@compile_loop
def gru_rforward(
    W: Array, W_g: Array, Rh: Array, Ra: Array, Ra_g: Array, RU: Array, rz: Array, k_rz: Array, k_g: Array,
    Rhs: Array, wide: Array, gates: Array, Rq: Array, work: Array,
) -> None:  # fmt: skip
    K, B, _, H = RU.shape
    for t in range(K):
        previous = Rh if t == 0 else Rhs[t - 1]
        np.dot(previous, W, wide)
        for b in range(B):
            for j in range(H):
                Ra_r = Ra[t, b, 0, j] + RU[t, b, 0, j] + gates[b, 0, j]  # R1
                Rq[b, j] = rz[t, b, 0, j] * previous[b, j] + k_rz[t, b, 0, j] * Ra_r  # R2
        np.dot(Rq, W_g, work)
        for b in range(B):
            for j in range(H):
                Ra_z = Ra[t, b, 1, j] + RU[t, b, 1, j] + gates[b, 1, j]  # R1
                R = work[b, j] + Ra_g[t, b, j] + RU[t, b, 2, j]  # R3
                Rhs[t, b, j] = rz[t, b, 1, j] * previous[b, j] + k_rz[t, b, 1, j] * Ra_z + k_g[t, b, j] * R  # R4


@compile_loop
def gru_backward(
    W_T: Array, W_g_T: Array, dhs: Array, rz: Array, k_rz: Array, k_g: Array, dh: Array, dq: Array, work: Array,
    da_rz: Array, gates: Array, da_g: Array, dU: Array,
) -> None:  # fmt: skip
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                d = dh[b, j] + dhs[t, b, j]
                dh[b, j] = d
                gates[t, b, 1, j] = d * k_rz[t, b, 1, j]  # B1
                da_g[t, b, j] = d * k_g[t, b, j]  # B1
        np.dot(da_g[t], W_g_T, dq)  # B2
        for b in range(B):
            for j in range(H):
                gates[t, b, 0, j] = dq[b, j] * k_rz[t, b, 0, j]  # B3
        np.dot(da_rz[t], W_T, work)
        for b in range(B):
            for j in range(H):
                dU[t, b, 0, j] = gates[t, b, 0, j]
                dU[t, b, 1, j] = gates[t, b, 1, j]
                dU[t, b, 2, j] = da_g[t, b, j]
                dh[b, j] = dh[b, j] * rz[t, b, 1, j] + dq[b, j] * rz[t, b, 0, j] + work[b, j]  # B4


class GRU(reference.GRU):
    """`gru` with compiled loops."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        steps = K if tape.records else 1
        a, q, a_g = tape.new("rz", steps, B, 2 * H), tape.new("q", steps, B, H), tape.new("k_g", steps, B, H)
        k_rz = tape.new("k_rz", K if tape.records else 0, B, 2 * H)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        gru_forward(p["W_h"], p["W_hg"], parts(U, H), hs, a, parts(a, H), q, a_g, parts(k_rz, H))  # F1-F4, L1-L3
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H = RU.shape, self.hidden
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Ra_rz", K, B, 2 * H))
        Ra_g = product(tape, tape["q"], v["W_hg"], out=tape.scratch("Ra_g", K, B, H))
        Rhs, Rq, work = tape.new("Rh", K, B, H), tape.scratch("Rq", B, H), tape.scratch("work", B, H)
        wide, rz, k_rz = tape.scratch("wide", B, 2 * H), parts(tape["rz"], H), parts(tape["k_rz"], H)
        gru_rforward(
            p["W_h"], p["W_hg"], Rstate["h"], parts(Ra, H), Ra_g, parts(RU, H), rz, k_rz, tape["k_g"], Rhs,
            wide, parts(wide, H), Rq, work,
        )  # fmt: skip  # R1-R4
        return Rhs, {"h": Rhs[K - 1]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        K, B, H = dhs.shape
        rz, k_rz, k_g = parts(tape["rz"], H), parts(tape["k_rz"], H), tape["k_g"]
        dU, da_rz, da_g = (
            tape.scratch("dU", K, B, 3 * H),
            tape.scratch("da", K, B, 2 * H),
            tape.scratch("da_g", K, B, H),
        )
        dh, dq, work = tape.new("dh", B, H), tape.scratch("dq", B, H), tape.scratch("work", B, H)
        dh[...] = dstate["h"]
        gru_backward(
            transpose(p, "W_h"), transpose(p, "W_hg"), dhs, rz, k_rz, k_g, dh, dq, work,
            da_rz, parts(da_rz, H), da_g, parts(dU, H),
        )  # fmt: skip  # B1-B4
        add_weight_gradient(tape, tape["h"][:K], da_rz, grad["W_h"])  # B5
        add_weight_gradient(tape, tape["q"], da_g, grad["W_hg"])  # B5
        return dU, {"h": dh}
