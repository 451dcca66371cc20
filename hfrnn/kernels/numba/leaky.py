"""Compiled leaky: the equations of kernels/leaky.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import leaky as reference
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
def leaky_forward(
    kind: int, W: Array, leak: Array, U: Array, l: int, z: Array, Z: Array, hs: Array, k: Array, e: Array, work: Array
) -> None:
    (K, B), H = z.shape[:2], hs.shape[2]
    recorded, learned = k.shape[0] > 0, e.shape[0] > 0
    for t in range(K):
        affine(t, U, 0, H, hs[t], W, 0, hs[t], W, l, z, Z, H, work)  # F1
        for b in range(B):
            for j in range(H):
                share, before = leak[j], hs[t, b, j]
                g = activate(kind, work[b, j])  # F2
                hs[t + 1, b, j] = before * (ONE - share) + g * share  # F3
                if recorded:
                    k[t, b, j] = slope_of(kind, g) * share  # L1
                if learned:
                    e[t, b, j] = (g - before) * (share * (ONE - share))  # L2


@compile_exact_loop
def leaky_rforward(
    W: Array, V: Array, leak: Array, Rq: Array, hs: Array, Rh: Array, RU: Array, l: int, z: Array, Z: Array, k: Array,
    e: Array, Rhs: Array, work: Array, W_y: Array, V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    (K, B, H), count = k.shape, Rhs.shape[0]
    learned = e.shape[0] > 0
    for t in range(K):
        for i in range(count):
            previous = Rh[i] if t == 0 else Rhs[i, t - 1]
            affine(t, RU[i], 0, H, hs[t], V[i], H, previous, W, l, z, Z[i], H, work)  # R1
            for b in range(B):
                for j in range(H):
                    R = k[t, b, j] * work[b, j]  # R2
                    R += (ONE - leak[j]) * previous[b, j]  # R2
                    if learned:
                        R += e[t, b, j] * Rq[i, j]  # R2
                    Rhs[i, t, b, j] = R
            map_outputs(t, Rhs[i, t], hs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_exact_loop
def leaky_backward(
    W_T: Array, leak: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, k: Array, e: Array,
    hs: Array, dh: Array, dU: Array, de: Array, work: Array, block: int, x: Array, dW: Array, dW_x: Array, dW_y: Array,
) -> None:  # fmt: skip
    (K, B, H), count, held = k.shape, dh.shape[0], dU.shape[1]
    learned = e.shape[0] > 0
    for t in range(K - 1, -1, -1):
        s = t % held
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rhs[i], dU[i], W_T, work)  # B2
            for b in range(B):
                for j in range(H):
                    d = dh[i, b, j] + work[b, j]
                    dh[i, b, j] = (ONE - leak[j]) * d  # B2
                    dU[i, s, b, j] = d * k[t, b, j]  # B1
                    if learned:
                        de[i, t, b, j] = d * e[t, b, j]  # B3
            if t % block == 0:
                add_block(t, block, hs[:K], dU[i], dW[i])  # B3
                add_block(t, block, x, dU[i], dW_x[i])
                add_block(t, block, z[i], hs[1:], dW_y[i])
    for i in range(count):
        packed_product(dU[i, 0], W_T, H, work)  # B2
        for b in range(B):
            for j in range(H):
                dh[i, b, j] += work[b, j]  # B2


class Leaky(PackedMatrices, reference.Leaky):
    """`leaky` with compiled loops, for tanh, logistic and relu units."""

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape, self.activation, ACTIVATIONS)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().forward(p, U, state, tape)
        K, B, H = U.shape
        steps = K if tape.records else 0
        hs, k = tape.new("h", K + 1, B, H), tape.new("k", steps, B, H)
        e = tape.new("e", steps if self.leak.learned else 0, B, H)
        hs[0], leak = state["h"], units_share(self.leak, p, tape, H)
        kind, W, work = ACTIVATIONS[self.activation], packed(p, "W_h", tape), wide(tape, "wide", B, H)
        leaky_forward(kind, W, leak, *terms(tape, "U.packed", U), hs, k, e, work)  # F1-F3, L1, L2
        return hs[1:], {"h": hs[K]}

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        (k, K, B, H), leak = RU.shape, units_share(self.leak, p, tape, RU.shape[3])
        Rhs, work = tape.new("Rh", k, K, B, H), wide(tape, "wide", B, H)
        Rq = np.ascontiguousarray(v["q"]) if self.leak.learned else leak[None]
        leaky_rforward(
            packed(p, "W_h", tape), packed(v, "W_h", tape), leak, Rq, tape["h"], Rstate["h"],
            *terms(tape, "U.packed", RU), tape["k"], tape["e"], Rhs, work, *output_terms(tape, k, B),
        )  # fmt: skip  # R1, R2
        return Rhs, {"h": Rhs[:, K - 1]}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        (k, K, B, H), leak, learned = dhs.shape, units_share(self.leak, p, tape, dhs.shape[3]), self.leak.learned
        gradients, hs = Gradients(tape, dhs, grad, "W_h"), tape["h"]
        dU, des = (
            tape.scratch("dU", k, gradients.steps_held(K, B), B, H),
            tape.scratch("de", k, K if learned else 0, B, H),
        )
        dh, work = tape.new("dh", k, B, H), wide(tape, "wide", B, H)
        dh[...], W_T = dstate["h"], packed_transpose(p, "W_h", tape)
        leaky_backward(
            W_T, leak, *adjoint_terms(tape, dhs), tape["k"], tape["e"], hs, dh, dU, des, work, steps_of_block(B),
            *gradients.terms,
        )  # fmt: skip  # B1-B3
        gradients.of["W_h"].finish(hs[:K], dU)  # B3
        gradients.finish(hs, dU, dhs)
        if learned:
            for each, own in zip(des, grad["q"], strict=True):
                add_bias_gradient(each, own)  # B3
        return dU, {"h": dh}
