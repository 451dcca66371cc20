"""Compiled lstm and lstm-krause: the equations of kernels/lstm.py, under its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

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
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def standard_forward(W: Array, U: Array, cs: Array, hs: Array, a: Array, k: Array, f: Array, k_c: Array) -> None:
    K, recorded = U.shape[0], a.shape[0] == U.shape[0]
    for t in range(K):
        if recorded:
            np.dot(hs[t], W, a[t])  # F1
            standard_linearized(t, U, cs, hs, k, f, k_c)  # F2
        else:
            np.dot(hs[t], W, a[0])  # F1
            standard_step(t, U, cs, hs, k)  # F2


@compile_loop
def krause_forward(W: Array, U: Array, cs: Array, hs: Array, a: Array, k: Array, f: Array, k_c: Array) -> None:
    K, recorded = U.shape[0], a.shape[0] == U.shape[0]
    for t in range(K):
        if recorded:
            np.dot(hs[t], W, a[t])  # F1
            krause_linearized(t, U, cs, hs, k, f, k_c)  # F2
        else:
            np.dot(hs[t], W, a[0])  # F1
            krause_step(t, U, cs, hs, k)  # F2


@compile_loop
def lstm_rforward(
    W: Array, Rh: Array, Ra: Array, RU: Array, k: Array, f: Array, k_c: Array, Rc: Array, Rhs: Array,
    work: Array, recurrent: Array,
) -> None:  # fmt: skip
    for t in range(Ra.shape[0]):
        np.dot(Rh if t == 0 else Rhs[t - 1], W, work)  # R1
        cell_rforward(t, Ra, recurrent, RU, k, f, k_c, Rc, Rhs)  # R2


@compile_loop
def lstm_backward(
    W_T: Array, dhs: Array, k: Array, f: Array, k_c: Array, dh: Array, dc: Array, dU: Array, da: Array
) -> None:
    for t in range(dhs.shape[0] - 1, -1, -1):
        cell_backward(t, dh, dhs, dc, k, f, k_c, da)  # B1
        np.dot(dU[t], W_T, dh)  # B2


class LSTM(reference.LSTM):
    """`lstm` with compiled loops."""

    forward_loop: ClassVar[Callable[..., Any]] = staticmethod(standard_forward)

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        cs, hs, k, f, k_c = begin_cell(tape, K, B, H, state)
        self.forward_loop(p["W_h"], parts(U, H), cs, hs, k, parts(k, H), f, k_c)  # F1, F2
        return hs[1:], last_state(tape, K)

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, S), H, k = RU.shape, self.hidden, parts(tape["k"], self.hidden)
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rgates", K, B, S))
        Rhs, Rc, work = tape.new("Rh", K, B, H), tape.new("Rc", B, H), tape.scratch("recurrent", B, S)
        Rc[...] = Rstate["c"]
        lstm_rforward(
            p["W_h"], Rstate["h"], parts(Ra, H), parts(RU, H), k, tape["f"], tape["k_c"], Rc, Rhs, work, parts(work, H)
        )  # R1, R2
        return Rhs, {"h": Rhs[K - 1], "c": Rc}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), k = dhs.shape, parts(tape["k"], self.hidden)
        dU, dh, dc = tape.scratch("dU", K, B, 4 * H), tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...] = dstate["h"]
        dc[...] = dstate["c"]
        lstm_backward(transpose(p, "W_h"), dhs, k, tape["f"], tape["k_c"], dh, dc, dU, parts(dU, H))  # B1, B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        return dU, {"h": dh, "c": dc}


class KrauseLSTM(LSTM, reference.KrauseLSTM):
    """`lstm-krause` with compiled loops."""

    forward_loop = staticmethod(krause_forward)
