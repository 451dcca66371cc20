"""Compiled gru-torch: the equations of kernels/gru_torch.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import gru_torch as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, sigma, tanh
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose


@compile_loop
def gru_forward(W: Array, b_hn: Array, U: Array, hs: Array, a: Array, k: Array, rz: Array) -> None:
    K, B, _, H = U.shape
    recorded = rz.shape[0] == K
    for t in range(K):
        s = t if recorded else 0
        np.dot(hs[t], W, a[s])  # F1
        for b in range(B):
            for j in range(H):
                r, z = sigma(k[s, b, 0, j] + U[t, b, 0, j]), sigma(k[s, b, 1, j] + U[t, b, 1, j])  # F2
                m, before = k[s, b, 2, j] + b_hn[j], hs[t, b, j]  # F3
                n = tanh(U[t, b, 2, j] + r * m)  # F4
                hs[t + 1, b, j] = (before - n) * z + n  # F5
                if recorded:
                    k[t, b, 0, j] = m * r * (ONE - r)  # L1
                    k[t, b, 1, j] = (before - n) * z * (ONE - z)  # L2
                    k[t, b, 2, j] = (ONE - z) * (ONE - n * n)  # L3
                    rz[t, b, 0, j] = r
                    rz[t, b, 1, j] = z


@compile_loop
def gru_rforward(
    W: Array, Rb_hn: Array, Rh: Array, Rs: Array, RU: Array, k: Array, rz: Array, Rhs: Array, work: Array,
    recurrent: Array,
) -> None:  # fmt: skip
    K, B, _, H = RU.shape
    for t in range(K):
        previous = Rh if t == 0 else Rhs[t - 1]
        np.dot(previous, W, work)  # R1
        for b in range(B):
            for j in range(H):
                Ra_r = RU[t, b, 0, j] + Rs[t, b, 0, j] + recurrent[b, 0, j]  # R2
                Ra_z = RU[t, b, 1, j] + Rs[t, b, 1, j] + recurrent[b, 1, j]  # R2
                Rm = Rs[t, b, 2, j] + recurrent[b, 2, j] + Rb_hn[j]  # R3
                Ra_n = RU[t, b, 2, j] + k[t, b, 0, j] * Ra_r + rz[t, b, 0, j] * Rm  # R4
                kept = rz[t, b, 1, j] * previous[b, j]
                Rhs[t, b, j] = k[t, b, 1, j] * Ra_z + k[t, b, 2, j] * Ra_n + kept  # R5


@compile_loop
def gru_backward(
    W_T: Array, dhs: Array, k: Array, rz: Array, dh: Array, dU: Array, ds: Array, das: Array, work: Array
) -> None:
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                d = dh[b, j] + dhs[t, b, j]
                da_z, da_n = d * k[t, b, 1, j], d * k[t, b, 2, j]  # B1
                da_r = da_n * k[t, b, 0, j]  # B2
                dU[t, b, 0, j] = da_r  # B2
                dU[t, b, 1, j] = da_z  # B2
                dU[t, b, 2, j] = da_n  # B2
                das[t, b, 0, j] = da_r  # B3
                das[t, b, 1, j] = da_z  # B3
                das[t, b, 2, j] = da_n * rz[t, b, 0, j]  # B2, B3
                dh[b, j] = d * rz[t, b, 1, j]
        np.dot(ds[t], W_T, work)
        for b in range(B):
            for j in range(H):
                dh[b, j] += work[b, j]  # B4


class TorchGRU(reference.TorchGRU):
    """`gru-torch` with compiled loops."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        a, rz = tape.new("k", K if tape.records else 1, B, 3 * H), tape.new("rz", K if tape.records else 0, B, 2 * H)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        gru_forward(p["W_h"], self.b_hn(p, tape), parts(U, H), hs, a, parts(a, H), parts(rz, H))  # F1-F5, L1-L3
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H, k, rz = RU.shape, self.hidden, tape["k"], tape["rz"]
        Rs = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rs", K, B, 3 * H))
        Rhs, work = tape.new("Rh", K, B, H), tape.scratch("wide", B, 3 * H)
        gru_rforward(
            p["W_h"], self.b_hn(v, tape), Rstate["h"], parts(Rs, H), parts(RU, H), parts(k, H), parts(rz, H), Rhs,
            work, parts(work, H),
        )  # fmt: skip  # R1-R5
        return Rhs, {"h": Rhs[K - 1]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        (K, B, H), k, rz = dhs.shape, parts(tape["k"], self.hidden), parts(tape["rz"], self.hidden)
        dU, ds = tape.scratch("dU", K, B, 3 * H), tape.scratch("ds", K, B, 3 * H)
        dh, work = tape.new("dh", B, H), tape.scratch("work", B, H)
        dh[...] = dstate["h"]
        gru_backward(transpose(p, "W_h"), dhs, k, rz, dh, parts(dU, H), ds, parts(ds, H), work)  # B1-B4
        add_weight_gradient(tape, tape["h"][:K], ds, grad["W_h"])  # B5
        if self.candidate_bias:
            add_bias_gradient(ds[:, :, 2 * H :], grad["b_hn"])  # B5
        return dU, {"h": dh}
