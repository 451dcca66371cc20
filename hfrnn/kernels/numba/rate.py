"""Compiled rate: the equations of kernels/rate.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import rate as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.numba.pointwise import ACTIVATIONS, ONE, activate, compile_exact_loop, slope_of
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


@compile_exact_loop
def rate_forward(
    kind: int, W: Array, leak: Array, U: Array, l: int, z: Array, Z: Array, x: Array, rs: Array, k: Array, e: Array,
    work: Array,
) -> None:  # fmt: skip
    (K, B), H = z.shape[:2], rs.shape[2]
    recorded, learned = k.shape[0] > 0, e.shape[0] > 0
    for b in range(B):
        for j in range(H):
            r = activate(kind, x[b, j])  # F3
            rs[0, b, j] = r
            if recorded:
                k[0, b, j] = slope_of(kind, r)  # L1
    for t in range(K):
        affine(t, U, 0, H, rs[t], W, 0, rs[t], W, l, z, Z, H, work)  # F1
        for b in range(B):
            for j in range(H):
                n, before, share = work[b, j], x[b, j], leak[j]
                after = before * (ONE - share) + n * share  # F2
                r = activate(kind, after)  # F3
                x[b, j] = after
                rs[t + 1, b, j] = r
                if recorded:
                    k[t + 1, b, j] = slope_of(kind, r)  # L1
                if learned:
                    e[t, b, j] = (n - before) * (share * (ONE - share))  # L2


@compile_exact_loop
def rate_rforward(
    W: Array, V: Array, leak: Array, Rq: Array, rs: Array, RU: Array, l: int, z: Array, Z: Array, k: Array, e: Array,
    Rx: Array, Rr: Array, Rrs: Array, work: Array, W_y: Array, V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    (K, B), H, count = z.shape[:2], rs.shape[2], Rrs.shape[0]
    learned = e.shape[0] > 0
    for t in range(K):
        for i in range(count):
            if t == 0:
                for b in range(B):
                    for j in range(H):
                        Rr[b, j] = k[0, b, j] * Rx[i, b, j]  # R3
            affine(t, RU[i], 0, H, rs[t], V[i], H, Rr if t == 0 else Rrs[i, t - 1], W, l, z, Z[i], H, work)  # R1
            for b in range(B):
                for j in range(H):
                    Rx_t = (ONE - leak[j]) * Rx[i, b, j] + leak[j] * work[b, j]  # R2
                    if learned:
                        Rx_t += e[t, b, j] * Rq[i, j]  # R2
                    Rx[i, b, j] = Rx_t
                    Rrs[i, t, b, j] = k[t + 1, b, j] * Rx_t  # R3
            map_outputs(t, Rrs[i, t], rs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_exact_loop
def rate_backward(
    W_T: Array, leak: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rrs: Array, k: Array, e: Array,
    rs: Array, dx: Array, dU: Array, de: Array, work: Array, block: int, x: Array, dW: Array, dW_x: Array, dW_y: Array,
) -> None:  # fmt: skip
    (steps, B, H), count, held = k.shape, dx.shape[0], dU.shape[1]
    K = steps - 1
    learned = e.shape[0] > 0
    for t in range(K - 1, -1, -1):
        s = t % held
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rrs[i], dU[i], W_T, work)  # B3
            for b in range(B):
                for j in range(H):
                    d = dx[i, b, j] + work[b, j] * k[t + 1, b, j]  # B1
                    if learned:
                        de[i, t, b, j] = d * e[t, b, j]  # B5
                    dU[i, s, b, j] = leak[j] * d  # B2
                    dx[i, b, j] = (ONE - leak[j]) * d  # B4
            if t % block == 0:
                add_block(t, block, rs[:K], dU[i], dW[i])  # B5
                add_block(t, block, x, dU[i], dW_x[i])
                add_block(t, block, z[i], rs[1:], dW_y[i])
    for i in range(count):
        packed_product(dU[i, 0], W_T, H, work)  # B3
        for b in range(B):
            for j in range(H):
                dx[i, b, j] += work[b, j] * k[0, b, j]  # B1


class Rate(PackedMatrices, reference.Rate):
    """`rate` with compiled loops, for tanh, logistic and relu units."""

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape, self.activation, ACTIVATIONS)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().forward(p, U, state, tape)
        (K, B, H), leak = U.shape, units_share(self.leak, p, tape, U.shape[2])
        x, rs, k = tape.new("x", B, H), tape.new("r", K + 1, B, H), tape.new("k", K + 1 if tape.records else 0, B, H)
        e = tape.new("e", K if tape.records and self.leak.learned else 0, B, H)
        x[...] = state["x"]
        kind, W, work = ACTIVATIONS[self.activation], packed(p, "W_h", tape), wide(tape, "wide", B, H)
        rate_forward(kind, W, leak, *terms(tape, "U.packed", U), x, rs, k, e, work)  # F1-F3, L1, L2
        return rs[1:], {"x": x}

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        (k, K, B, H), leak = RU.shape, units_share(self.leak, p, tape, RU.shape[3])
        Rx, Rr, work = tape.new("Rx", k, B, H), tape.scratch("Rr_before", B, H), wide(tape, "wide", B, H)
        Rx[...] = Rstate["x"]
        Rrs, Rq = tape.new("Rr", k, K, B, H), np.ascontiguousarray(v["q"]) if self.leak.learned else leak[None]
        rate_rforward(
            packed(p, "W_h", tape), packed(v, "W_h", tape), leak, Rq, tape["r"], *terms(tape, "U.packed", RU),
            tape["k"], tape["e"], Rx, Rr, Rrs, work, *output_terms(tape, k, B),
        )  # fmt: skip  # R1-R3
        return Rrs, {"x": Rx}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        (k, K, B, H), leak, learned = dhs.shape, units_share(self.leak, p, tape, dhs.shape[3]), self.leak.learned
        gradients, rs = Gradients(tape, dhs, grad, "W_h"), tape["r"]
        dU, des = (
            tape.scratch("dU", k, gradients.steps_held(K, B), B, H),
            tape.scratch("de", k, K if learned else 0, B, H),
        )
        dx, work = tape.new("dx", k, B, H), wide(tape, "wide", B, H)
        dx[...], W_T = dstate["x"], packed_transpose(p, "W_h", tape)
        rate_backward(
            W_T, leak, *adjoint_terms(tape, dhs), tape["k"], tape["e"], rs, dx, dU, des, work, steps_of_block(B),
            *gradients.terms,
        )  # fmt: skip  # B1-B5
        gradients.of["W_h"].finish(rs[:K], dU)  # B5
        gradients.finish(rs, dU, dhs)
        if learned:
            for each, own in zip(des, grad["q"], strict=True):
                add_bias_gradient(each, own)  # B5
        return dU, {"x": dx}
