"""Compiled rnn: the equations of kernels/rnn.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import rnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, tanh
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


@compile_loop
def rnn_forward(W: Array, U: Array, l: int, z: Array, Z: Array, hs: Array, slope: Array, work: Array) -> None:
    (K, B, H), recorded = z.shape[:2] + hs.shape[2:], slope.shape[0] > 0
    for t in range(K):
        affine(t, U, 0, H, hs[t], W, 0, hs[t], W, l, z, Z, H, work)  # F1
        for b in range(B):
            for j in range(H):
                h = tanh(work[b, j])  # F2
                hs[t + 1, b, j] = h
                if recorded:
                    slope[t, b, j] = ONE - h * h  # L1


@compile_loop
def rnn_rforward(
    W: Array, V: Array, hs: Array, Rh: Array, RU: Array, l: int, z: Array, Z: Array, slope: Array, Rhs: Array,
    work: Array, W_y: Array, V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    (K, B, H), count = slope.shape, Rhs.shape[0]
    for t in range(K):
        for i in range(count):
            Rh_i = Rh[i] if t == 0 else Rhs[i, t - 1]
            affine(t, RU[i], 0, H, hs[t], V[i], H, Rh_i, W, l, z, Z[i], H, work)  # R1
            for b in range(B):
                for j in range(H):
                    Rhs[i, t, b, j] = slope[t, b, j] * work[b, j]  # R2
            map_outputs(t, Rhs[i, t], hs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_loop
def rnn_backward(
    W_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, slope: Array, hs: Array, dh: Array,
    dU: Array, work: Array, block: int, x: Array, dW: Array, dW_x: Array, dW_y: Array,
) -> None:  # fmt: skip
    (K, B, H), count, held = slope.shape, dh.shape[0], dU.shape[1]
    for t in range(K - 1, -1, -1):
        s = t % held
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rhs[i], dU[i], W_T, work)  # B2
            if t == K - 1:
                for b in range(B):
                    for j in range(H):
                        work[b, j] += dh[i, b, j]
            for b in range(B):
                for j in range(H):
                    dU[i, s, b, j] = work[b, j] * slope[t, b, j]  # B1
            if t % block == 0:
                add_block(t, block, hs[:K], dU[i], dW[i])  # B3
                add_block(t, block, x, dU[i], dW_x[i])
                add_block(t, block, z[i], hs[1:], dW_y[i])
    for i in range(count):
        packed_product(dU[i, 0], W_T, H, work)  # B2
        for b in range(B):
            for j in range(H):
                dh[i, b, j] = work[b, j]


class RNN(PackedMatrices, reference.RNN):
    """`rnn` with compiled loops, for tanh units."""

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape, self.activation)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().forward(p, U, state, tape)
        K, B, H = U.shape
        hs, slope = tape.new("h", K + 1, B, H), tape.new("slope", K if tape.records else 0, B, H)
        hs[0] = state["h"]
        work = wide(tape, "wide", B, H)
        rnn_forward(packed(p, "W_h", tape), *terms(tape, "U.packed", U), hs, slope, work)  # F1, F2, L1
        return hs[1:], {"h": hs[K]}

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        k, K, B, H = RU.shape
        W, V = packed(p, "W_h", tape), packed(v, "W_h", tape)
        Rhs, work = tape.new("Rh", k, K, B, H), wide(tape, "wide", B, H)
        rnn_rforward(
            W, V, tape["h"], Rstate["h"], *terms(tape, "U.packed", RU), tape["slope"], Rhs, work,
            *output_terms(tape, k, B),
        )  # fmt: skip  # R1, R2
        return Rhs, {"h": Rhs[:, K - 1]}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        k, K, B, H = dhs.shape
        gradients, hs = Gradients(tape, dhs, grad, "W_h"), tape["h"]
        dU = tape.scratch("dU", k, gradients.steps_held(K, B), B, H)
        dh, work = tape.new("dh", k, B, H), wide(tape, "wide", B, H)
        dh[...] = dstate["h"]
        rnn_backward(
            packed_transpose(p, "W_h", tape), *adjoint_terms(tape, dhs), tape["slope"], hs, dh, dU, work,
            steps_of_block(B), *gradients.terms,
        )  # fmt: skip  # B1-B3
        gradients.of["W_h"].finish(hs[:K], dU)  # B3
        gradients.finish(hs, dU, dhs)
        return dU, {"h": dh}
