"""Compiled gru-torch: the equations of kernels/gru_torch.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import gru_torch as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, sigma, tanh
from hfrnn.kernels.numba.products import (
    Gradients,
    PackedMatrices,
    add_block,
    adjoint_of_state,
    adjoint_terms,
    affine,
    map_outputs,
    output_terms,
    packed,
    packed_product,
    packed_transpose,
    steps_of_block,
    terms,
    wide,
)
from hfrnn.kernels.pointwise import add_bias_gradient


@compile_loop
def gru_forward(
    W: Array, b_hn: Array, U: Array, l: int, z: Array, Z: Array, hs: Array, k: Array, rz: Array, s: Array, u: Array
) -> None:
    (K, B), H = z.shape[:2], hs.shape[2]
    recorded = rz.shape[0] > 0
    for t in range(K):
        packed_product(hs[t], W, 3 * H, s)  # F1
        affine(t, U, 0, 0, hs[t], W, 0, hs[t], W, l, z, Z, 3 * H, u)
        for b in range(B):
            for j in range(H):
                r, z_t = sigma(s[b, j] + u[b, j]), sigma(s[b, H + j] + u[b, H + j])  # F2
                m, before = s[b, 2 * H + j] + b_hn[j], hs[t, b, j]  # F3
                n = tanh(u[b, 2 * H + j] + r * m)  # F4
                hs[t + 1, b, j] = (before - n) * z_t + n  # F5
                if recorded:
                    k[t, b, 0, j] = m * r * (ONE - r)  # L1
                    k[t, b, 1, j] = (before - n) * z_t * (ONE - z_t)  # L2
                    k[t, b, 2, j] = (ONE - z_t) * (ONE - n * n)  # L3
                    rz[t, b, 0, j] = r
                    rz[t, b, 1, j] = z_t


@compile_loop
def gru_rforward(
    W: Array, V: Array, Rb_hn: Array, hs: Array, Rh: Array, RU: Array, l: int, z: Array, Z: Array, k: Array, rz: Array,
    Rhs: Array, Rs: Array, Ru: Array, W_y: Array, V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    (K, B), H, count = z.shape[:2], hs.shape[2], Rhs.shape[0]
    none = RU[0, :0]
    for t in range(K):
        for i in range(count):
            previous = Rh[i] if t == 0 else Rhs[i, t - 1]
            affine(t, none, 0, H, hs[t], V[i], H, previous, W, 0, z, Z[i], 3 * H, Rs)  # R1
            affine(t, RU[i], 0, 0, previous, W, 0, previous, W, l, z, Z[i], 3 * H, Ru)
            for b in range(B):
                for j in range(H):
                    Ra_r, Ra_z = Ru[b, j] + Rs[b, j], Ru[b, H + j] + Rs[b, H + j]  # R2
                    Rm = Rs[b, 2 * H + j] + Rb_hn[i, j]  # R3
                    Ra_n = Ru[b, 2 * H + j] + k[t, b, 0, j] * Ra_r + rz[t, b, 0, j] * Rm  # R4
                    kept = rz[t, b, 1, j] * previous[b, j]
                    Rhs[i, t, b, j] = k[t, b, 1, j] * Ra_z + k[t, b, 2, j] * Ra_n + kept  # R5
            map_outputs(t, Rhs[i, t], hs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_loop
def gru_backward(
    W_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, k: Array, rz: Array, hs: Array,
    dh: Array, dUs: Array, dU: Array, ds: Array, das: Array, work: Array, block: int, x: Array, dW: Array, dW_x: Array,
    dW_y: Array,
) -> None:  # fmt: skip
    (K, B, _, H), count, held = k.shape, dh.shape[0], dU.shape[1]
    for t in range(K - 1, -1, -1):
        s = t % held
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rhs[i], ds[i], W_T, work)  # B4
            for b in range(B):
                for j in range(H):
                    d = dh[i, b, j] + work[b, j]  # B4
                    da_z, da_n = d * k[t, b, 1, j], d * k[t, b, 2, j]  # B1
                    da_r = da_n * k[t, b, 0, j]  # B2
                    dU[i, s, b, 0, j] = da_r  # B2
                    dU[i, s, b, 1, j] = da_z  # B2
                    dU[i, s, b, 2, j] = da_n  # B2
                    das[i, s, b, 0, j] = da_r  # B3
                    das[i, s, b, 1, j] = da_z  # B3
                    das[i, s, b, 2, j] = da_n * rz[t, b, 0, j]  # B2, B3
                    dh[i, b, j] = d * rz[t, b, 1, j]  # B4
            if t % block == 0:
                add_block(t, block, hs[:K], ds[i], dW[i])  # B5
                add_block(t, block, x, dUs[i], dW_x[i])
                add_block(t, block, z[i], hs[1:], dW_y[i])
    for i in range(count):
        packed_product(ds[i, 0], W_T, H, work)
        for b in range(B):
            for j in range(H):
                dh[i, b, j] += work[b, j]  # B4


class TorchGRU(PackedMatrices, reference.TorchGRU):
    """`gru-torch` with compiled loops."""

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        a, rz = tape.new("k", K if tape.records else 1, B, 3 * H), tape.new("rz", K if tape.records else 0, B, 2 * H)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        W, s, u = packed(p, "W_h", tape), wide(tape, "wide", B, 3 * H), wide(tape, "wide_U", B, 3 * H)
        loop_terms = terms(tape, "U.packed", U)
        gru_forward(W, self.b_hn(p, tape), *loop_terms, hs, parts(a, H), parts(rz, H), s, u)  # F1-F5, L1-L3
        return hs[1:], {"h": hs[K]}

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        (count, K, B, _), H, k, rz = RU.shape, self.hidden, tape["k"], tape["rz"]
        Rhs, Rs, Ru = tape.new("Rh", count, K, B, H), wide(tape, "wide", B, 3 * H), wide(tape, "wide_U", B, 3 * H)
        Rb_hn = np.ascontiguousarray(v["b_hn"]) if self.candidate_bias else np.zeros((count, H), Rhs.dtype)
        gru_rforward(
            packed(p, "W_h", tape), packed(v, "W_h", tape), Rb_hn, tape["h"], Rstate["h"],
            *terms(tape, "U.packed", RU), parts(k, H), parts(rz, H), Rhs, Rs, Ru,
            *output_terms(tape, count, B),
        )  # fmt: skip  # R1-R5
        return Rhs, {"h": Rhs[:, K - 1]}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        (count, K, B, H), k, rz = dhs.shape, parts(tape["k"], self.hidden), parts(tape["rz"], self.hidden)
        gradients, hs = Gradients(tape, dhs, grad, "W_h"), tape["h"]
        held = K if self.candidate_bias else gradients.steps_held(K, B)
        dU, ds = tape.scratch("dU", count, held, B, 3 * H), tape.scratch("ds", count, held, B, 3 * H)
        dh, work = tape.new("dh", count, B, H), wide(tape, "wide", B, 3 * H)
        dh[...] = dstate["h"]
        W_T = packed_transpose(p, "W_h", tape)
        gru_backward(
            W_T, *adjoint_terms(tape, dhs), k, rz, hs, dh, dU, parts(dU, H), ds, parts(ds, H), work, steps_of_block(B),
            *gradients.terms,
        )  # fmt: skip  # B1-B5
        gradients.of["W_h"].finish(hs[:K], ds)  # B5
        gradients.finish(hs, dU, dhs)
        if self.candidate_bias:
            for each, own in zip(ds, grad["b_hn"], strict=True):
                add_bias_gradient(each[:, :, 2 * H :], own)  # B5
        return dU, {"h": dh}
