"""Compiled mlstm and mlstm-standard: the equations of kernels/mlstm.py, under its numbers.

`U`, `RU` and `dU` hold the slot m in their last H columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

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
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def standard_forward(
    W_hm: Array, W_m: Array, U: Array, U_m: Array, xi: Array, m: Array,
    cs: Array, hs: Array, a: Array, k: Array, f: Array, k_c: Array,
) -> None:  # fmt: skip
    K, recorded = U.shape[0], a.shape[0] == U.shape[0]
    for t in range(K):
        np.dot(hs[t], W_hm, xi[t])  # F1
        multiplied_forward(t, 4, U, U_m, xi, m)  # F2
        if recorded:
            np.dot(m[t], W_m, a[t])  # F3
            standard_linearized(t, U, cs, hs, k, f, k_c)  # F4
        else:
            np.dot(m[t], W_m, a[0])  # F3
            standard_step(t, U, cs, hs, k)  # F4


@compile_loop
def krause_forward(
    W_hm: Array, W_m: Array, U: Array, U_m: Array, xi: Array, m: Array,
    cs: Array, hs: Array, a: Array, k: Array, f: Array, k_c: Array,
) -> None:  # fmt: skip
    K, recorded = U.shape[0], a.shape[0] == U.shape[0]
    for t in range(K):
        np.dot(hs[t], W_hm, xi[t])  # F1
        multiplied_forward(t, 4, U, U_m, xi, m)  # F2
        if recorded:
            np.dot(m[t], W_m, a[t])  # F3
            krause_linearized(t, U, cs, hs, k, f, k_c)  # F4
        else:
            np.dot(m[t], W_m, a[0])  # F3
            krause_step(t, U, cs, hs, k)  # F4


@compile_loop
def mlstm_rforward(
    W_hm: Array, W_m: Array, Rh: Array, RU: Array, Rxi: Array, U_m: Array, xi: Array, Ra: Array,
    k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array, work: Array, Rm: Array, gates: Array, recurrent: Array,
) -> None:  # fmt: skip
    for t in range(Ra.shape[0]):
        np.dot(Rh if t == 0 else Rhs[t - 1], W_hm, work)  # R1
        multiplied_rforward(t, 4, RU, Rxi, work, U_m, xi, Rm)  # R2
        np.dot(Rm, W_m, gates)  # R3
        cell_rforward(t, Ra, recurrent, RU, k, f, k_c, Rc, Rhs)  # R4


@compile_loop
def mlstm_backward(
    W_hm_T: Array, W_m_T: Array, dhs: Array, U_m: Array, xi: Array, k: Array, f: Array, k_c: Array,
    dh: Array, dc: Array, das: Array, da: Array, dm: Array, dxi: Array, dU: Array,
) -> None:  # fmt: skip
    for t in range(dhs.shape[0] - 1, -1, -1):
        cell_backward(t, dh, dhs, dc, k, f, k_c, da)  # B1
        copy_gates(t, da, dU)
        np.dot(das[t], W_m_T, dm)  # B2
        multiplied_backward(t, 4, dm, U_m, xi, dxi, dU)  # B3
        np.dot(dxi[t], W_hm_T, dh)  # B4


class MLSTM(reference.MLSTM):
    """`mlstm` with compiled loops."""

    forward_loop: ClassVar[Callable[..., Any]] = staticmethod(krause_forward)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        cs, hs, k, f, k_c = begin_cell(tape, K, B, H, state)
        U_m, xi, m = tape.new("U_m", K, B, H), tape.new("xi", K, B, H), tape.new("m", K, B, H)
        self.forward_loop(p["W_hm"], p["W_m"], parts(U, H), U_m, xi, m, cs, hs, k, parts(k, H), f, k_c)  # F1-F4
        return hs[1:], last_state(tape, K)

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H, f, k_c = RU.shape, self.hidden, tape["f"], tape["k_c"]
        U_m, xi, m = tape["U_m"], tape["xi"], tape["m"]
        Rxi = product(tape, tape["h"][:K], v["W_hm"], out=tape.scratch("Rxi", K, B, H))
        Ra = product(tape, m, v["W_m"], out=tape.scratch("Rgates", K, B, 4 * H))
        Rhs, Rc = tape.new("Rh", K, B, H), tape.new("Rc", B, H)
        Rm, work, recurrent = tape.scratch("Rm", B, H), tape.scratch("work", B, H), tape.scratch("recurrent", B, 4 * H)
        Rc[...] = Rstate["c"]
        mlstm_rforward(
            p["W_hm"], p["W_m"], Rstate["h"], parts(RU, H), Rxi, U_m, xi, parts(Ra, H), parts(tape["k"], H), f, k_c,
            Rc, Rhs, work, Rm, recurrent, parts(recurrent, H),
        )  # fmt: skip  # R1-R4
        return Rhs, {"h": Rhs[K - 1], "c": Rc}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), k, f, k_c = dhs.shape, parts(tape["k"], self.hidden), tape["f"], tape["k_c"]
        U_m, xi, m, das = tape["U_m"], tape["xi"], tape["m"], tape.scratch("da", K, B, 4 * H)
        dU, dxi, dm = tape.scratch("dU", K, B, 5 * H), tape.scratch("dxi", K, B, H), tape.scratch("dm", B, H)
        W_hm_T, W_m_T, dh, dc = transpose(p, "W_hm"), transpose(p, "W_m"), tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...] = dstate["h"]
        dc[...] = dstate["c"]
        mlstm_backward(
            W_hm_T, W_m_T, dhs, U_m, xi, k, f, k_c, dh, dc, das, parts(das, H), dm, dxi, parts(dU, H)
        )  # B1-B4
        add_weight_gradient(tape, m, das, grad["W_m"])  # B5
        add_weight_gradient(tape, tape["h"][:K], dxi, grad["W_hm"])  # B5
        return dU, {"h": dh, "c": dc}


class StandardMLSTM(MLSTM, reference.StandardMLSTM):
    """`mlstm-standard` with compiled loops."""

    forward_loop = staticmethod(standard_forward)
