"""Compiled mrnn: the equations of kernels/mrnn.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import mrnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.multiplied import multiplied_backward, multiplied_forward, multiplied_rforward
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, tanh
from hfrnn.kernels.numba.products import (
    PackedMatrices,
    add_weight_gradient,
    adjoint_of_state,
    adjoint_terms,
    affine,
    packed,
    packed_product,
    packed_transpose,
    terms_of_two,
    wide,
)


@compile_loop
def mrnn_forward(
    W_hm: Array, W_mh: Array, U: Array, l: int, z: Array, Z: Array, Z_m: Array, U_m: Array, xi: Array, m: Array,
    hs: Array, slope: Array, left: Array, right: Array,
) -> None:  # fmt: skip
    K, B, H = xi.shape
    recorded = slope.shape[0] > 0
    for t in range(K):
        packed_product(hs[t], W_hm, H, right)  # F1
        affine(t, U, H, 0, hs[t], W_hm, 0, hs[t], W_hm, l, z, Z_m, H, left)
        multiplied_forward(t, left, right, U_m, xi, m)  # F2
        affine(t, U, 0, H, m[t], W_mh, 0, m[t], W_mh, l, z, Z, H, right)  # F3
        for b in range(B):
            for j in range(H):
                h = tanh(right[b, j])  # F4
                hs[t + 1, b, j] = h
                if recorded:
                    slope[t, b, j] = ONE - h * h  # L1


@compile_loop
def mrnn_rforward(
    W_hm: Array, V_hm: Array, W_mh: Array, V_mh: Array, hs: Array, Rh: Array, RU: Array, l: int, z: Array, Z: Array,
    Z_m: Array, U_m: Array, xi: Array, m: Array, slope: Array, Rhs: Array, Rm: Array, left: Array, right: Array,
) -> None:  # fmt: skip
    K, B, H = xi.shape
    none = RU[:0]
    for t in range(K):
        affine(t, none, 0, H, hs[t], V_hm, H, Rh if t == 0 else Rhs[t - 1], W_hm, 0, z, Z_m, H, right)  # R1
        affine(t, RU, H, 0, hs[t], W_hm, 0, hs[t], W_hm, l, z, Z_m, H, left)
        multiplied_rforward(t, left, right, U_m, xi, Rm)  # R2
        affine(t, RU, 0, H, m[t], V_mh, H, Rm, W_mh, l, z, Z, H, right)  # R3
        for b in range(B):
            for j in range(H):
                Rhs[t, b, j] = slope[t, b, j] * right[b, j]  # R4


@compile_loop
def mrnn_backward(
    W_hm_T: Array, W_mh_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, U_m: Array,
    xi: Array, slope: Array, dh: Array, da: Array, dxi: Array, dU: Array, work: Array,
) -> None:  # fmt: skip
    K, B, H = slope.shape
    for t in range(K - 1, -1, -1):
        adjoint_of_state(t, dhs, l, z, Z, weights, Rhs, dxi, W_hm_T, work)  # B4
        if t == K - 1:
            for b in range(B):
                for j in range(H):
                    work[b, j] += dh[b, j]
        for b in range(B):
            for j in range(H):
                d = work[b, j] * slope[t, b, j]  # B1
                da[t, b, j] = d
                dU[t, b, 0, j] = d
        packed_product(da[t], W_mh_T, H, work)  # B2
        multiplied_backward(t, 1, work, U_m, xi, dxi, dU)  # B3
    packed_product(dxi[0], W_hm_T, H, work)  # B4
    for b in range(B):
        for j in range(H):
            dh[b, j] = work[b, j]


class MRNN(PackedMatrices, reference.MRNN):
    """`mrnn` with compiled loops."""

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        U_m, xi, m = tape.new("U_m", K, B, H), tape.new("xi", K, B, H), tape.new("m", K, B, H)
        hs, slope = tape.new("h", K + 1, B, H), tape.new("slope", K if tape.records else 0, B, H)
        hs[0] = state["h"]
        W_hm, W_mh, left, right = (*(packed(p, n, tape) for n in self.transposed), *self._work(tape, B))
        mrnn_forward(W_hm, W_mh, *terms_of_two(tape, U, H), U_m, xi, m, hs, slope, left, right)  # F1-F4, L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H, U_m, xi, m = RU.shape, self.hidden, tape["U_m"], tape["xi"], tape["m"]
        Rhs, Rm = tape.new("Rh", K, B, H), tape.scratch("Rm", B, H)
        mrnn_rforward(
            *(packed(each, name, tape) for name in self.transposed for each in (p, v)), tape["h"], Rstate["h"],
            *terms_of_two(tape, RU, H), U_m, xi, m, tape["slope"], Rhs, Rm, *self._work(tape, B),
        )  # fmt: skip  # R1-R4
        return Rhs, {"h": Rhs[K - 1]}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), U_m, xi, m = dhs.shape, tape["U_m"], tape["xi"], tape["m"]
        dU, dxi, dh = tape.scratch("dU", K, B, 2 * H), tape.scratch("dxi", K, B, H), tape.new("dh", B, H)
        da, work = tape.scratch("da", K, B, H), wide(tape, "left", B, H)
        dh[...] = dstate["h"]
        mrnn_backward(
            *(packed_transpose(p, name, tape) for name in self.transposed), *adjoint_terms(tape, dhs), U_m, xi,
            tape["slope"], dh, da, dxi, parts(dU, H), work,
        )  # fmt: skip  # B1-B4
        add_weight_gradient(tape, m, da, grad["W_mh"])  # B5
        add_weight_gradient(tape, tape["h"][:K], dxi, grad["W_hm"])  # B5
        return dU, {"h": dh}

    def _work(self, tape: Tape, B: int) -> tuple[Array, Array]:
        return wide(tape, "left", B, self.hidden), wide(tape, "right", B, self.hidden)
