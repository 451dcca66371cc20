"""Compiled hornn-gated: the equations of kernels/hornn_gated.py, under its numbers.

A slot of U, RU and dU, each (K, B, 1 + N, H), is that of a_t or, from 1 on, of r_n.
"""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import hornn_gated as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.hornn import adjoints_of_states, latest_first, steps_before
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, parts, sigma, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_loop
def gated_forward(
    W_h: Array, W_r: Array, U: Array, hs: Array, x: Array, y: Array, r: Array, l: Array, slope: Array
) -> None:
    K, B, _, H = U.shape
    N, rows, recorded = W_h.shape[0], r.shape[1], slope.shape[0] == K
    for t in range(K):
        at, h = t % rows, hs[N + t]
        for b in range(B):
            for j in range(H):
                h[b, j] = U[t, b, 0, j]
        for n in range(N):
            np.dot(hs[N + t - 1 - n], W_h[n], x)  # F1
            np.dot(hs[N + t - 1 - n], W_r[n], y)
            for b in range(B):
                for j in range(H):
                    gate = sigma(U[t, b, 1 + n, j] + y[b, j])  # F2
                    h[b, j] += gate * x[b, j]  # F3
                    r[n, at, b, j] = gate
                    l[n, at, b, j] = x[b, j] * gate * (ONE - gate)  # L2
        for b in range(B):
            for j in range(H):
                h[b, j] = tanh(h[b, j])  # F4
                if recorded:
                    slope[t, b, j] = ONE - h[b, j] * h[b, j]  # L1


@compile_loop
def add_known_tangents(n: int, r: Array, l: Array, RU: Array, Rx: Array, Ry: Array, Ra: Array) -> None:
    """Add to Ra what the tangents of U and of the matrices of step n contribute, for all time steps."""
    K, B, H = Ra.shape
    for t in range(K):
        for b in range(B):
            for j in range(H):
                Ra[t, b, j] += r[n, t, b, j] * Rx[t, b, j] + l[n, t, b, j] * (RU[t, b, 1 + n, j] + Ry[t, b, j])  # R2


@compile_loop
def gated_rforward(
    W_h: Array, W_r: Array, r: Array, l: Array, Ra: Array, slope: Array, Rhs: Array, Rx: Array, Ry: Array
) -> None:
    K, B, H = Ra.shape
    N = W_h.shape[0]
    for t in range(K):
        for n in range(N):
            np.dot(Rhs[N + t - 1 - n], W_h[n], Rx)  # R1
            np.dot(Rhs[N + t - 1 - n], W_r[n], Ry)  # R1
            for b in range(B):
                for j in range(H):
                    Ra[t, b, j] += r[n, t, b, j] * Rx[b, j] + l[n, t, b, j] * Ry[b, j]  # R2
        for b in range(B):
            for j in range(H):
                Rhs[N + t, b, j] = slope[t, b, j] * Ra[t, b, j]  # R3


@compile_loop
def gated_backward(
    W_h_T: Array, W_r_T: Array, r: Array, l: Array, dhs: Array, slope: Array, dh: Array, dU: Array, dx: Array,
    dy: Array, work: Array, more: Array,
) -> None:  # fmt: skip
    K, B, H = dhs.shape
    N = W_h_T.shape[0]
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                dU[t, b, 0, j] = (dh[N + t, b, j] + dhs[t, b, j]) * slope[t, b, j]  # B1
        for n in range(N):
            for b in range(B):
                for j in range(H):
                    dx[n, t, b, j] = r[n, t, b, j] * dU[t, b, 0, j]  # B2
                    dy[n, t, b, j] = l[n, t, b, j] * dU[t, b, 0, j]  # B2
                    dU[t, b, 1 + n, j] = dy[n, t, b, j]  # B2
            np.dot(dx[n, t], W_h_T[n], work)
            np.dot(dy[n, t], W_r_T[n], more)
            for b in range(B):
                for j in range(H):
                    dh[N + t - 1 - n, b, j] += work[b, j] + more[b, j]  # B3


class GatedHORNN(reference.GatedHORNN):
    """`hornn-gated` with compiled loops, for tanh units."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().forward(p, U, state, tape)
        (K, B, _), H, N = U.shape, self.hidden, self.order
        rows = K if tape.records else 1
        hs, slope = tape.new("h", N + K, B, H), tape.new("slope", K if tape.records else 0, B, H)
        r, l = tape.new("r", N, rows, B, H), tape.new("l", N, rows, B, H)
        x, y = tape.scratch("x", B, H), tape.scratch("y", B, H)
        hs[:N] = state["history"][::-1]
        gated_forward(p["W_h"], p["W_r"], parts(U, H), hs, x, y, r, l, slope)  # F1-F4, L1, L2
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H, N, r, l = RU.shape, self.hidden, self.order, tape["r"], tape["l"]
        Ra, Rxs, Rys = (tape.scratch(name, K, B, H) for name in ("Ra", "Rxs", "Rys"))
        Ra[...] = RU[:, :, :H]
        for n in range(N):
            before = steps_before(tape["h"], n, N, K)
            product(tape, before, v["W_h"][n], out=Rxs)  # R1
            product(tape, before, v["W_r"][n], out=Rys)  # R1
            add_known_tangents(n, r, l, parts(RU, H), Rxs, Rys, Ra)  # R2
        Rhs = tape.new("Rh", N + K, B, H)
        Rhs[:N] = Rstate["history"][::-1]
        Rx, Ry = tape.scratch("x", B, H), tape.scratch("y", B, H)
        gated_rforward(p["W_h"], p["W_r"], r, l, Ra, tape["slope"], Rhs, Rx, Ry)  # R1-R3
        return Rhs[N:], {"history": latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), N = dhs.shape, self.order
        dxs, dys, dU = (tape.scratch(name, *shape) for name, shape in (
            ("dxs", (N, K, B, H)), ("dys", (N, K, B, H)), ("dU", (K, B, (1 + N) * H))))  # fmt: skip
        work, more, dh = tape.scratch("x", B, H), tape.scratch("y", B, H), adjoints_of_states(tape, dstate, K, N)
        W_h_T, W_r_T = (np.ascontiguousarray(transpose(p, name)) for name in ("W_h", "W_r"))
        gated_backward(
            W_h_T, W_r_T, tape["r"], tape["l"], dhs, tape["slope"], dh, parts(dU, H), dxs, dys, work, more
        )  # B1-B3
        for name, adjoints in (("W_h", dxs), ("W_r", dys)):
            for n in range(N):
                add_weight_gradient(tape, steps_before(tape["h"], n, N, K), adjoints[n], grad[name][n])  # B4
        return dU, {"history": latest_first(tape, "dhistory", dh[:N])}
