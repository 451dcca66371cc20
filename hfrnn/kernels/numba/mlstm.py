"""Compiled mlstm and mlstm-standard: the equations of kernels/mlstm.py, under its numbers.

`U`, `RU` and `dU` hold the slot m in their last H columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels import mlstm as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import begin_cell, is_fused, last_state
from hfrnn.kernels.numba.cells import (
    cell_backward,
    cell_rforward,
    krause_linearized,
    krause_step,
    standard_linearized,
    standard_step,
)
from hfrnn.kernels.numba.multiplied import copy_gates, multiplied_backward, multiplied_forward, multiplied_rforward
from hfrnn.kernels.numba.pointwise import compile_loop, parts
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
def standard_forward(
    W_hm: Array, W_m: Array, U: Array, l: int, z: Array, Z: Array, Z_m: Array, U_m: Array, xi: Array, m: Array,
    cs: Array, hs: Array, k: Array, f: Array, k_c: Array, a: Array, left: Array, right: Array,
) -> None:  # fmt: skip
    K, H = z.shape[0], hs.shape[2]
    for t in range(K):
        packed_product(hs[t], W_hm, H, right)  # F1
        affine(t, U, 4 * H, 0, hs[t], W_hm, 0, hs[t], W_hm, l, z, Z_m, H, left)
        multiplied_forward(t, left, right, U_m, xi, m)  # F2
        affine(t, U, 0, H, m[t], W_m, 0, m[t], W_m, l, z, Z, 4 * H, a)  # F3
        if k.shape[0] == K:
            standard_linearized(t, a, cs, hs, k, f, k_c)  # F4
        else:
            standard_step(t, a, cs, hs)  # F4


@compile_loop
def krause_forward(
    W_hm: Array, W_m: Array, U: Array, l: int, z: Array, Z: Array, Z_m: Array, U_m: Array, xi: Array, m: Array,
    cs: Array, hs: Array, k: Array, f: Array, k_c: Array, a: Array, left: Array, right: Array,
) -> None:  # fmt: skip
    K, H = z.shape[0], hs.shape[2]
    for t in range(K):
        packed_product(hs[t], W_hm, H, right)  # F1
        affine(t, U, 4 * H, 0, hs[t], W_hm, 0, hs[t], W_hm, l, z, Z_m, H, left)
        multiplied_forward(t, left, right, U_m, xi, m)  # F2
        affine(t, U, 0, H, m[t], W_m, 0, m[t], W_m, l, z, Z, 4 * H, a)  # F3
        if k.shape[0] == K:
            krause_linearized(t, a, cs, hs, k, f, k_c)  # F4
        else:
            krause_step(t, a, cs, hs)  # F4


@compile_loop
def mlstm_rforward(
    W_hm: Array, V_hm: Array, W_m: Array, V_m: Array, hs: Array, Rh: Array, RU: Array, l: int, z: Array, Z: Array,
    Z_m: Array, U_m: Array, xi: Array, m: Array, k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array, Rm: Array,
    Ra: Array, left: Array, right: Array, W_y: Array, V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    K, H, count = z.shape[0], hs.shape[2], Rhs.shape[0]
    none = RU[0, :0]
    for t in range(K):
        for i in range(count):
            Rh_i = Rh[i] if t == 0 else Rhs[i, t - 1]
            affine(t, none, 0, H, hs[t], V_hm[i], H, Rh_i, W_hm, 0, z, Z_m[i], H, right)  # R1
            affine(t, RU[i], 4 * H, 0, hs[t], W_hm, 0, hs[t], W_hm, l, z, Z_m[i], H, left)
            multiplied_rforward(t, left, right, U_m, xi, Rm)  # R2
            affine(t, RU[i], 0, H, m[t], V_m[i], H, Rm, W_m, l, z, Z[i], 4 * H, Ra)  # R3
            cell_rforward(t, Ra, k, f, k_c, Rc[i], Rhs[i])  # R4
            map_outputs(t, Rhs[i, t], hs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_loop
def mlstm_backward(
    W_hm_T: Array, W_m_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, U_m: Array,
    xi: Array, k: Array, f: Array, k_c: Array, m: Array, hs: Array, dh: Array, dc: Array, das: Array, da: Array,
    dxi: Array, dUs: Array, dU: Array, work: Array, block: int, x: Array, dW_hm: Array, dW_m: Array, dW_x: Array,
    dW_y: Array,
) -> None:  # fmt: skip
    (K, B, H), count, held = f.shape, dh.shape[0], dU.shape[1]
    for t in range(K - 1, -1, -1):
        s = t % held
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rhs[i], dxi[i], W_hm_T, work)  # B4
            if t == K - 1:
                for b in range(B):
                    for j in range(H):
                        work[b, j] += dh[i, b, j]
            cell_backward(t, s, work, dc[i], k, f, k_c, da[i])  # B1
            copy_gates(s, da[i], dU[i])
            packed_product(das[i, s], W_m_T, H, work)  # B2
            multiplied_backward(t, s, 4, work, U_m, xi, dxi[i], dU[i])  # B3
            if t % block == 0:
                add_block(t, block, hs[:K], dxi[i], dW_hm[i])  # B5
                add_block(t, block, m, das[i], dW_m[i])  # B5
                add_block(t, block, x, dUs[i], dW_x[i])
                add_block(t, block, z[i], hs[1:], dW_y[i])
    for i in range(count):
        packed_product(dxi[i, 0], W_hm_T, H, work)  # B4
        for b in range(B):
            for j in range(H):
                dh[i, b, j] = work[b, j]


class MLSTM(PackedMatrices, reference.MLSTM):
    """`mlstm` with compiled loops."""

    forward_loop: ClassVar[Callable[..., Any]] = staticmethod(krause_forward)

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        cs, hs, k, f, k_c = begin_cell(tape, K, B, H, state)
        U_m, xi, m = tape.new("U_m", K, B, H), tape.new("xi", K, B, H), tape.new("m", K, B, H)
        a, left, right = wide(tape, "wide", B, 4 * H), wide(tape, "left", B, H), wide(tape, "right", B, H)
        self.forward_loop(
            packed(p, "W_hm", tape), packed(p, "W_m", tape), *terms_of_two(tape, U, 4 * H), U_m, xi, m, cs, hs,
            parts(k, H), f, k_c, a, left, right,
        )  # fmt: skip  # F1-F4
        return hs[1:], last_state(tape, K)

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        (count, K, B, _), H, f, k_c = RU.shape, self.hidden, tape["f"], tape["k_c"]
        U_m, xi, m = tape["U_m"], tape["xi"], tape["m"]
        Rhs, Rc, Rm = tape.new("Rh", count, K, B, H), tape.new("Rc", count, B, H), tape.scratch("Rm", B, H)
        Ra, left, right = wide(tape, "wide", B, 4 * H), wide(tape, "left", B, H), wide(tape, "right", B, H)
        Rc[...] = Rstate["c"]
        mlstm_rforward(
            *(packed(each, name, tape) for name in ("W_hm", "W_m") for each in (p, v)), tape["h"], Rstate["h"],
            *terms_of_two(tape, RU, 4 * H), U_m, xi, m, parts(tape["k"], H), f, k_c, Rc, Rhs, Rm, Ra, left, right,
            *output_terms(tape, count, B),
        )  # fmt: skip  # R1-R4
        return Rhs, {"h": Rhs[:, K - 1], "c": Rc}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        (count, K, B, H), k, f, k_c = dhs.shape, parts(tape["k"], self.hidden), tape["f"], tape["k_c"]
        gradients, hs = Gradients(tape, dhs, grad, "W_hm", "W_m"), tape["h"]
        held = gradients.steps_held(K, B)
        U_m, xi, m, das = tape["U_m"], tape["xi"], tape["m"], tape.scratch("da", count, held, B, 4 * H)
        dU, dxi = tape.scratch("dU", count, held, B, 5 * H), tape.scratch("dxi", count, held, B, H)
        work = wide(tape, "wide", B, 4 * H)
        W_hm_T, W_m_T = packed_transpose(p, "W_hm", tape), packed_transpose(p, "W_m", tape)
        dh, dc = tape.new("dh", count, B, H), tape.new("dc", count, B, H)
        dh[...] = dstate["h"]
        dc[...] = dstate["c"]
        mlstm_backward(
            W_hm_T, W_m_T, *adjoint_terms(tape, dhs), U_m, xi, k, f, k_c, m, hs, dh, dc, das, parts(das, H), dxi, dU,
            parts(dU, H), work, steps_of_block(B), *gradients.terms,
        )  # fmt: skip  # B1-B5
        gradients.of["W_m"].finish(m, das)  # B5
        gradients.of["W_hm"].finish(hs[:K], dxi)  # B5
        gradients.finish(hs, dU, dhs)
        return dU, {"h": dh, "c": dc}


class StandardMLSTM(MLSTM, reference.StandardMLSTM):
    """`mlstm-standard` with compiled loops."""

    forward_loop = staticmethod(standard_forward)
