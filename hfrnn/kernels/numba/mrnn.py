"""Compiled mrnn: the equations of kernels/mrnn.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import mrnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.multiplied import multiplied_backward, multiplied_forward, multiplied_rforward
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, tanh
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
    W_y: Array, V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    (K, B, H), count = xi.shape, Rhs.shape[0]
    none = RU[0, :0]
    for t in range(K):
        for i in range(count):
            Rh_i = Rh[i] if t == 0 else Rhs[i, t - 1]
            affine(t, none, 0, H, hs[t], V_hm[i], H, Rh_i, W_hm, 0, z, Z_m[i], H, right)  # R1
            affine(t, RU[i], H, 0, hs[t], W_hm, 0, hs[t], W_hm, l, z, Z_m[i], H, left)
            multiplied_rforward(t, left, right, U_m, xi, Rm)  # R2
            affine(t, RU[i], 0, H, m[t], V_mh[i], H, Rm, W_mh, l, z, Z[i], H, right)  # R3
            for b in range(B):
                for j in range(H):
                    Rhs[i, t, b, j] = slope[t, b, j] * right[b, j]  # R4
            map_outputs(t, Rhs[i, t], hs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_loop
def mrnn_backward(
    W_hm_T: Array, W_mh_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, U_m: Array,
    xi: Array, slope: Array, m: Array, hs: Array, dh: Array, da: Array, dxi: Array, dUs: Array, dU: Array, work: Array,
    block: int, x: Array, dW_hm: Array, dW_mh: Array, dW_x: Array, dW_y: Array,
) -> None:  # fmt: skip
    (K, B, H), count, held = slope.shape, dh.shape[0], dU.shape[1]
    for t in range(K - 1, -1, -1):
        s = t % held
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rhs[i], dxi[i], W_hm_T, work)  # B4
            if t == K - 1:
                for b in range(B):
                    for j in range(H):
                        work[b, j] += dh[i, b, j]
            for b in range(B):
                for j in range(H):
                    d = work[b, j] * slope[t, b, j]  # B1
                    da[i, s, b, j] = d
                    dU[i, s, b, 0, j] = d
            packed_product(da[i, s], W_mh_T, H, work)  # B2
            multiplied_backward(t, s, 1, work, U_m, xi, dxi[i], dU[i])  # B3
            if t % block == 0:
                add_block(t, block, hs[:K], dxi[i], dW_hm[i])  # B5
                add_block(t, block, m, da[i], dW_mh[i])  # B5
                add_block(t, block, x, dUs[i], dW_x[i])
                add_block(t, block, z[i], hs[1:], dW_y[i])
    for i in range(count):
        packed_product(dxi[i, 0], W_hm_T, H, work)  # B4
        for b in range(B):
            for j in range(H):
                dh[i, b, j] = work[b, j]


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

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        (k, K, B, _), H, U_m, xi, m = RU.shape, self.hidden, tape["U_m"], tape["xi"], tape["m"]
        Rhs, Rm = tape.new("Rh", k, K, B, H), tape.scratch("Rm", B, H)
        mrnn_rforward(
            *(packed(each, name, tape) for name in self.transposed for each in (p, v)), tape["h"], Rstate["h"],
            *terms_of_two(tape, RU, H), U_m, xi, m, tape["slope"], Rhs, Rm, *self._work(tape, B),
            *output_terms(tape, k, B),
        )  # fmt: skip  # R1-R4
        return Rhs, {"h": Rhs[:, K - 1]}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        (k, K, B, H), U_m, xi, m = dhs.shape, tape["U_m"], tape["xi"], tape["m"]
        gradients, hs = Gradients(tape, dhs, grad, "W_hm", "W_mh"), tape["h"]
        held = gradients.steps_held(K, B)
        dU, dxi, dh = tape.scratch("dU", k, held, B, 2 * H), tape.scratch("dxi", k, held, B, H), tape.new("dh", k, B, H)
        da, work = tape.scratch("da", k, held, B, H), wide(tape, "left", B, H)
        dh[...] = dstate["h"]
        mrnn_backward(
            *(packed_transpose(p, name, tape) for name in self.transposed), *adjoint_terms(tape, dhs), U_m, xi,
            tape["slope"], m, hs, dh, da, dxi, dU, parts(dU, H), work, steps_of_block(B), *gradients.terms,
        )  # fmt: skip  # B1-B5
        gradients.of["W_mh"].finish(m, da)  # B5
        gradients.of["W_hm"].finish(hs[:K], dxi)  # B5
        gradients.finish(hs, dU, dhs)
        return dU, {"h": dh}

    def _work(self, tape: Tape, B: int) -> tuple[Array, Array]:
        return wide(tape, "left", B, self.hidden), wide(tape, "right", B, self.hidden)
