"""Compiled lstm and lstm-krause: the equations of kernels/lstm.py, under its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels import lstm as reference
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
    terms,
    wide,
)


@compile_loop
def standard_forward(
    W: Array, U: Array, l: int, z: Array, Z: Array, cs: Array, hs: Array, k: Array, f: Array, k_c: Array, a: Array
) -> None:
    K, H = z.shape[0], hs.shape[2]
    for t in range(K):
        affine(t, U, 0, H, hs[t], W, 0, hs[t], W, l, z, Z, 4 * H, a)  # F1
        if k.shape[0] == K:
            standard_linearized(t, a, cs, hs, k, f, k_c)  # F2
        else:
            standard_step(t, a, cs, hs)  # F2


@compile_loop
def krause_forward(
    W: Array, U: Array, l: int, z: Array, Z: Array, cs: Array, hs: Array, k: Array, f: Array, k_c: Array, a: Array
) -> None:
    K, H = z.shape[0], hs.shape[2]
    for t in range(K):
        affine(t, U, 0, H, hs[t], W, 0, hs[t], W, l, z, Z, 4 * H, a)  # F1
        if k.shape[0] == K:
            krause_linearized(t, a, cs, hs, k, f, k_c)  # F2
        else:
            krause_step(t, a, cs, hs)  # F2


@compile_loop
def lstm_rforward(
    W: Array, V: Array, hs: Array, Rh: Array, RU: Array, l: int, z: Array, Z: Array, k: Array, f: Array, k_c: Array,
    Rc: Array, Rhs: Array, Ra: Array, W_y: Array, V_y: Array, work_y: Array, Rz: Array,
) -> None:  # fmt: skip
    K, H, count = z.shape[0], hs.shape[2], Rhs.shape[0]
    for t in range(K):
        for i in range(count):
            Rh_i = Rh[i] if t == 0 else Rhs[i, t - 1]
            affine(t, RU[i], 0, H, hs[t], V[i], H, Rh_i, W, l, z, Z[i], 4 * H, Ra)  # R1
            cell_rforward(t, Ra, k, f, k_c, Rc[i], Rhs[i])  # R2
            map_outputs(t, Rhs[i, t], hs[t + 1], W_y, V_y[i], work_y, Rz[i])


@compile_loop
def lstm_backward(
    W_T: Array, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, k: Array, f: Array, k_c: Array,
    hs: Array, dh: Array, dc: Array, dU: Array, da: Array, work: Array, block: int, x: Array, dW: Array, dW_x: Array,
    dW_y: Array,
) -> None:  # fmt: skip
    (K, B, H), count, held = f.shape, dh.shape[0], dU.shape[1]
    for t in range(K - 1, -1, -1):
        for i in range(count):
            adjoint_of_state(t, dhs[i], l, z[i], Z, weights, Rhs[i], dU[i], W_T, work)  # B2
            if t == K - 1:
                for b in range(B):
                    for j in range(H):
                        work[b, j] += dh[i, b, j]
            cell_backward(t, t % held, work, dc[i], k, f, k_c, da[i])  # B1
            if t % block == 0:
                add_block(t, block, hs[:K], dU[i], dW[i])  # B3
                add_block(t, block, x, dU[i], dW_x[i])
                add_block(t, block, z[i], hs[1:], dW_y[i])
    for i in range(count):
        packed_product(dU[i, 0], W_T, H, work)  # B2
        for b in range(B):
            for j in range(H):
                dh[i, b, j] = work[b, j]


class LSTM(PackedMatrices, reference.LSTM):
    """`lstm` with compiled loops."""

    forward_loop: ClassVar[Callable[..., Any]] = staticmethod(standard_forward)

    def takes_factors(self, tape: Tape) -> bool:
        return is_fused(tape)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        cs, hs, k, f, k_c = begin_cell(tape, K, B, H, state)
        W, a = packed(p, "W_h", tape), wide(tape, "wide", B, 4 * H)
        self.forward_loop(W, *terms(tape, "U.packed", U), cs, hs, parts(k, H), f, k_c, a)  # F1, F2
        return hs[1:], last_state(tape, K)

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        (count, K, B, S), H, k = RU.shape, self.hidden, parts(tape["k"], self.hidden)
        Rhs, Rc, Ra = tape.new("Rh", count, K, B, H), tape.new("Rc", count, B, H), wide(tape, "wide", B, S)
        Rc[...] = Rstate["c"]
        lstm_rforward(
            packed(p, "W_h", tape), packed(v, "W_h", tape), tape["h"], Rstate["h"], *terms(tape, "U.packed", RU),
            k, tape["f"], tape["k_c"], Rc, Rhs, Ra, *output_terms(tape, count, B),
        )  # fmt: skip  # R1, R2
        return Rhs, {"h": Rhs[:, K - 1], "c": Rc}

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        (count, K, B, H), k = dhs.shape, parts(tape["k"], self.hidden)
        gradients, hs = Gradients(tape, dhs, grad, "W_h"), tape["h"]
        dU = tape.scratch("dU", count, gradients.steps_held(K, B), B, 4 * H)
        dh, dc = tape.new("dh", count, B, H), tape.new("dc", count, B, H)
        dh[...] = dstate["h"]
        dc[...] = dstate["c"]
        W_T, work = packed_transpose(p, "W_h", tape), wide(tape, "wide", B, 4 * H)
        lstm_backward(
            W_T, *adjoint_terms(tape, dhs), k, tape["f"], tape["k_c"], hs, dh, dc, dU, parts(dU, H), work,
            steps_of_block(B), *gradients.terms,
        )  # fmt: skip  # B1-B3
        gradients.of["W_h"].finish(hs[:K], dU)  # B3
        gradients.finish(hs, dU, dhs)
        return dU, {"h": dh, "c": dc}


class KrauseLSTM(LSTM, reference.KrauseLSTM):
    """`lstm-krause` with compiled loops."""

    forward_loop = staticmethod(krause_forward)
