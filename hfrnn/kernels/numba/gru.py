"""Compiled gru: the equations of kernels/gru.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import gru as reference
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
    terms_of_two,
    wide,
)


@compile_loop
def gru_forward(
    W: Array, W_g: Array, U: Array, l: int, z: Array, Z: Array, Z_g: Array, hs: Array, rz: Array, q: Array, k_g: Array,
    k_rz: Array, a: Array,
) -> None:  # fmt: skip
    (K, B), H = z.shape[:2], hs.shape[2]
    recorded = k_rz.shape[0] > 0
    for t in range(K):
        s = t if recorded else 0
        affine(t, U, 0, H, hs[t], W, 0, hs[t], W, l, z, Z, 2 * H, a)
        for b in range(B):
            for j in range(H):
                r = sigma(a[b, j])  # F1
                rz[s, b, 0, j] = r
                rz[s, b, 1, j] = sigma(a[b, H + j])  # F1
                q[s, b, j] = r * hs[t, b, j]  # F2
        affine(t, U, 2 * H, H, q[s], W_g, 0, q[s], W_g, l, z, Z_g, H, a)
        for b in range(B):
            for j in range(H):
                g = tanh(a[b, j])  # F3
                z_t, before = rz[s, b, 1, j], hs[t, b, j]
                hs[t + 1, b, j] = (before - g) * z_t + g  # F4
                if recorded:
                    r = rz[s, b, 0, j]
                    k_rz[t, b, 0, j] = (ONE - r) * r * before  # L1
                    k_rz[t, b, 1, j] = (ONE - z_t) * z_t * (before - g)  # L2
                    k_g[t, b, j] = (ONE - g * g) * (ONE - z_t)  # L3


@compile_loop
def gru_rforward(
    W: Array, V: Array, W_g: Array, V_g: Array, hs: Array, q: Array, Rh: Array, RU: Array, l: int, z: Array, Z: Array,
    Z_g: Array, rz: Array, k_rz: Array, k_g: Array, Rhs: Array, Rq: Array, Ra: Array, Ra_g: Array, W_y: Array,
    V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    (K, B, H), count = k_g.shape, Rhs.shape[0]
    for t in range(K):
        for i in range(count):
            previous = Rh[i] if t == 0 else Rhs[i, t - 1]
            affine(t, RU[i], 0, H, hs[t], V[i], H, previous, W, l, z, Z[i], 2 * H, Ra)  # R1
            for b in range(B):
                for j in range(H):
                    Rq[b, j] = rz[t, b, 0, j] * previous[b, j] + k_rz[t, b, 0, j] * Ra[b, j]  # R2
            affine(t, RU[i], 2 * H, H, q[t], V_g[i], H, Rq, W_g, l, z, Z_g[i], H, Ra_g)  # R3
            for b in range(B):
                for j in range(H):
                    R = k_rz[t, b, 1, j] * Ra[b, H + j] + k_g[t, b, j] * Ra_g[b, j]
                    Rhs[i, t, b, j] = rz[t, b, 1, j] * previous[b, j] + R  # R4
            map_outputs(t, Rhs[i, t], hs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_loop
def gru_backward(
    W_T: Array, W_g_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, rz: Array,
    k_rz: Array, k_g: Array, hs: Array, q: Array, dh: Array, da_rz: Array, gates: Array, da_g: Array, dUs: Array,
    dU: Array, work: Array, block: int, x: Array, dW: Array, dW_g: Array, dW_x: Array, dW_y: Array,
) -> None:  # fmt: skip
    (K, B, H), count, held = k_g.shape, dh.shape[0], dU.shape[1]
    for t in range(K - 1, -1, -1):
        s = t % held
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rhs[i], da_rz[i], W_T, work)
            for b in range(B):
                for j in range(H):
                    d = dh[i, b, j] + work[b, j]  # B4
                    dh[i, b, j] = d
                    gates[i, s, b, 1, j] = d * k_rz[t, b, 1, j]  # B1
                    da_g[i, s, b, j] = d * k_g[t, b, j]  # B1
            packed_product(da_g[i, s], W_g_T, H, work)  # B2
            for b in range(B):
                for j in range(H):
                    dq = work[b, j]
                    gates[i, s, b, 0, j] = dq * k_rz[t, b, 0, j]  # B3
                    dh[i, b, j] = dh[i, b, j] * rz[t, b, 1, j] + dq * rz[t, b, 0, j]  # B4
                    dU[i, s, b, 0, j] = gates[i, s, b, 0, j]
                    dU[i, s, b, 1, j] = gates[i, s, b, 1, j]
                    dU[i, s, b, 2, j] = da_g[i, s, b, j]
            if t % block == 0:
                add_block(t, block, hs[:K], da_rz[i], dW[i])  # B5
                add_block(t, block, q, da_g[i], dW_g[i])  # B5
                add_block(t, block, x, dUs[i], dW_x[i])
                add_block(t, block, z[i], hs[1:], dW_y[i])
    for i in range(count):
        packed_product(da_rz[i, 0], W_T, H, work)
        for b in range(B):
            for j in range(H):
                dh[i, b, j] += work[b, j]  # B4


class GRU(PackedMatrices, reference.GRU):
    """`gru` with compiled loops."""

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        steps = K if tape.records else 1
        a, q, a_g = tape.new("rz", steps, B, 2 * H), tape.new("q", steps, B, H), tape.new("k_g", steps, B, H)
        k_rz = tape.new("k_rz", K if tape.records else 0, B, 2 * H)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        W, W_g, work = packed(p, "W_h", tape), packed(p, "W_hg", tape), wide(tape, "wide", B, 2 * H)
        gru_forward(
            W, W_g, *terms_of_two(tape, U, 2 * H), hs, parts(a, H), q, a_g, parts(k_rz, H), work
        )  # F1-F4, L1-L3
        return hs[1:], {"h": hs[K]}

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        (k, K, B, _), H = RU.shape, self.hidden
        Rhs, Rq, Ra = tape.new("Rh", k, K, B, H), tape.scratch("Rq", B, H), wide(tape, "wide", B, 2 * H)
        Ra_g, rz, k_rz = wide(tape, "candidate", B, H), parts(tape["rz"], H), parts(tape["k_rz"], H)
        gru_rforward(
            *(packed(each, name, tape) for name in ("W_h", "W_hg") for each in (p, v)), tape["h"], tape["q"],
            Rstate["h"], *terms_of_two(tape, RU, 2 * H), rz, k_rz, tape["k_g"], Rhs, Rq, Ra, Ra_g,
            *output_terms(tape, k, B),
        )  # fmt: skip  # R1-R4
        return Rhs, {"h": Rhs[:, K - 1]}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        k, K, B, H = dhs.shape
        rz, k_rz, k_g = parts(tape["rz"], H), parts(tape["k_rz"], H), tape["k_g"]
        gradients, hs = Gradients(tape, dhs, grad, "W_h", "W_hg"), tape["h"]
        held = gradients.steps_held(K, B)
        dU, da_rz, da_g = (
            tape.scratch("dU", k, held, B, 3 * H),
            tape.scratch("da", k, held, B, 2 * H),
            tape.scratch("da_g", k, held, B, H),
        )
        dh, work = tape.new("dh", k, B, H), wide(tape, "wide", B, 2 * H)
        dh[...] = dstate["h"]
        gru_backward(
            packed_transpose(p, "W_h", tape), packed_transpose(p, "W_hg", tape), *adjoint_terms(tape, dhs), rz, k_rz,
            k_g, hs, tape["q"], dh, da_rz, parts(da_rz, H), da_g, dU, parts(dU, H), work, steps_of_block(B),
            *gradients.terms,
        )  # fmt: skip  # B1-B5
        gradients.of["W_h"].finish(hs[:K], da_rz)  # B5
        gradients.of["W_hg"].finish(tape["q"], da_g)  # B5
        gradients.finish(hs, dU, dhs)
        return dU, {"h": dh}
