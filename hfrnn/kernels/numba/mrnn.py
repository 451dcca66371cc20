"""Compiled mrnn: the equations of kernels/mrnn.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import mrnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.multiplied import multiplied_backward, multiplied_forward, multiplied_rforward
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def mrnn_forward(W_hm: Array, W_mh: Array, U: Array, U_m: Array, xi: Array, m: Array, hs: Array, slope: Array) -> None:
    K, B, H = xi.shape
    recorded = slope.shape[0] == K
    for t in range(K):
        np.dot(hs[t], W_hm, xi[t])  # F1
        multiplied_forward(t, 1, U, U_m, xi, m)  # F2
        np.dot(m[t], W_mh, hs[t + 1])
        for b in range(B):
            for j in range(H):
                h = tanh(hs[t + 1, b, j] + U[t, b, 0, j])  # F3, F4
                hs[t + 1, b, j] = h
                if recorded:
                    slope[t, b, j] = ONE - h * h  # L1


@compile_loop
def mrnn_rforward(
    W_hm: Array, W_mh: Array, Rh: Array, RU: Array, Rxi: Array, Ra: Array, U_m: Array, xi: Array, slope: Array,
    Rhs: Array, Rm: Array, work: Array,
) -> None:  # fmt: skip
    K, B, H = xi.shape
    for t in range(K):
        np.dot(Rh if t == 0 else Rhs[t - 1], W_hm, work)  # R1
        multiplied_rforward(t, 1, RU, Rxi, work, U_m, xi, Rm)  # R2
        np.dot(Rm, W_mh, work)
        for b in range(B):
            for j in range(H):
                Rhs[t, b, j] = slope[t, b, j] * (Ra[t, b, j] + RU[t, b, 0, j] + work[b, j])  # R3, R4


@compile_loop
def mrnn_backward(
    W_hm_T: Array, W_mh_T: Array, dhs: Array, U_m: Array, xi: Array, slope: Array, dh: Array, dm: Array,
    da: Array, dxi: Array, dU: Array,
) -> None:  # fmt: skip
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                d = (dh[b, j] + dhs[t, b, j]) * slope[t, b, j]  # B1
                da[t, b, j] = d
                dU[t, b, 0, j] = d
        np.dot(da[t], W_mh_T, dm)  # B2
        multiplied_backward(t, 1, dm, U_m, xi, dxi, dU)  # B3
        np.dot(dxi[t], W_hm_T, dh)  # B4


class MRNN(reference.MRNN):
    """`mrnn` with compiled loops."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H = U.shape, self.hidden
        U_m, xi, m = tape.new("U_m", K, B, H), tape.new("xi", K, B, H), tape.new("m", K, B, H)
        hs, slope = tape.new("h", K + 1, B, H), tape.new("slope", K if tape.records else 0, B, H)
        hs[0] = state["h"]
        mrnn_forward(p["W_hm"], p["W_mh"], parts(U, H), U_m, xi, m, hs, slope)  # F1-F4, L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H, U_m, xi, m = RU.shape, self.hidden, tape["U_m"], tape["xi"], tape["m"]
        Rxi = product(tape, tape["h"][:K], v["W_hm"], out=tape.scratch("Rxi", K, B, H))
        Ra = product(tape, m, v["W_mh"], out=tape.scratch("Ra", K, B, H))
        Rhs, Rm, work = tape.new("Rh", K, B, H), tape.scratch("Rm", B, H), tape.scratch("work", B, H)
        mrnn_rforward(
            p["W_hm"], p["W_mh"], Rstate["h"], parts(RU, H), Rxi, Ra, U_m, xi, tape["slope"], Rhs, Rm, work
        )  # R1-R4
        return Rhs, {"h": Rhs[K - 1]}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), U_m, xi, m = dhs.shape, tape["U_m"], tape["xi"], tape["m"]
        dU, dxi, dm = tape.scratch("dU", K, B, 2 * H), tape.scratch("dxi", K, B, H), tape.scratch("dm", B, H)
        da, dh, W_hm_T, W_mh_T = (
            tape.scratch("da", K, B, H),
            tape.new("dh", B, H),
            *(transpose(p, n) for n in self.transposed),
        )
        dh[...] = dstate["h"]
        mrnn_backward(W_hm_T, W_mh_T, dhs, U_m, xi, tape["slope"], dh, dm, da, dxi, parts(dU, H))  # B1-B4
        add_weight_gradient(tape, m, da, grad["W_mh"])  # B5
        add_weight_gradient(tape, tape["h"][:K], dxi, grad["W_hm"])  # B5
        return dU, {"h": dh}
