"""Compiled rnn: the equations of kernels/rnn.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import rnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, tanh
from hfrnn.kernels.numba.products import (
    PackedMatrices,
    add_weight_gradient,
    adjoint_of_state,
    adjoint_terms,
    affine,
    packed,
    packed_product,
    packed_transpose,
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
    work: Array,
) -> None:  # fmt: skip
    K, B, H = slope.shape
    for t in range(K):
        affine(t, RU, 0, H, hs[t], V, H, Rh if t == 0 else Rhs[t - 1], W, l, z, Z, H, work)  # R1
        for b in range(B):
            for j in range(H):
                Rhs[t, b, j] = slope[t, b, j] * work[b, j]  # R2


@compile_loop
def rnn_backward(
    W_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, slope: Array, dh: Array, dU: Array,
    work: Array,
) -> None:  # fmt: skip
    K, B, H = slope.shape
    for t in range(K - 1, -1, -1):
        adjoint_of_state(t, dhs, l, z, Z, weights, Rhs, dU, W_T, work)  # B2
        if t == K - 1:
            for b in range(B):
                for j in range(H):
                    work[b, j] += dh[b, j]
        for b in range(B):
            for j in range(H):
                dU[t, b, j] = work[b, j] * slope[t, b, j]  # B1
    packed_product(dU[0], W_T, H, work)  # B2
    for b in range(B):
        for j in range(H):
            dh[b, j] = work[b, j]


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

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().rforward(p, v, tape, RU, Rstate)
        K, B, H = RU.shape
        W, V = packed(p, "W_h", tape), packed(v, "W_h", tape)
        Rhs, work = tape.new("Rh", K, B, H), wide(tape, "wide", B, H)
        rnn_rforward(W, V, tape["h"], Rstate["h"], *terms(tape, "U.packed", RU), tape["slope"], Rhs, work)  # R1, R2
        return Rhs, {"h": Rhs[K - 1]}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        K, B, H = dhs.shape
        dU, dh, work = tape.scratch("dU", K, B, H), tape.new("dh", B, H), wide(tape, "wide", B, H)
        dh[...] = dstate["h"]
        W_T = packed_transpose(p, "W_h", tape)
        rnn_backward(W_T, *adjoint_terms(tape, dhs), tape["slope"], dh, dU, work)  # B1, B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        return dU, {"h": dh}
