"""Compiled gated-feedback: the equations of kernels/gated_feedback.py, under its numbers.

States and their adjoints are (B, L, M) here: one row for each layer inside the kernel. x, Rx and dx have two such axes:
x[i, b, j] is what layer i sends to the units of layer j. W_h is (L, M, H), with the rows of one layer in each part.
"""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import gated_feedback as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, compile_sums, inlined, parts, sigma, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@inlined
def send(h: Array, W_h: Array, W_hg: Array, own: Array, x: Array, q: Array) -> None:
    L, (B, _, M) = W_h.shape[0], h.shape
    for i in range(L):
        for b in range(B):
            for k in range(M):
                own[b, k] = h[b, i, k]
        np.dot(own, W_h[i], x[i].reshape(B, L * M))  # F1, R1
    np.dot(h.reshape(B, L * M), W_hg, q.reshape(B, L * L))  # F1, R1


@inlined
def send_up(h: Array, j: int, W_up: Array, own: Array, up: Array) -> None:
    for b in range(h.shape[0]):
        for k in range(h.shape[2]):
            own[b, k] = h[b, j - 1, k]
    np.dot(own, W_up[j - 1], up)  # F2, R2


@compile_loop
def feedback_forward(
    W_h: Array, W_hg: Array, W_up: Array, U: Array, hs: Array, xs: Array, gs: Array, slope: Array, c: Array, own: Array,
    q: Array, up: Array,
) -> None:  # fmt: skip
    K, L, (_, B, _, M) = U.shape[0], W_h.shape[0], hs.shape
    rows, recorded = xs.shape[0], slope.shape[0] == K
    for t in range(K):
        at, h = t % rows, hs[t + 1]
        send(hs[t], W_h, W_hg, own, xs[at], q)
        for j in range(L):
            if j > 0:
                send_up(h, j, W_up, own, up)
            for b in range(B):
                y = U[t, b, :M] if j == 0 else U[t, b, L + j * M : L + (j + 1) * M]
                for k in range(M):
                    h[b, j, k] = y[k] + up[b, k] if j > 0 else y[k]  # F2
                for i in range(L):
                    z = up[b, M + i] if j > 0 else U[t, b, M + i]
                    g = sigma(z + q[b, j, i])  # F3
                    gs[at, j, b, i] = g
                    if recorded:
                        c[t, j, b, i] = g * (ONE - g)  # L2
                    for k in range(M):
                        h[b, j, k] += g * xs[at, i, b, j, k]  # F4
                for k in range(M):
                    h[b, j, k] = tanh(h[b, j, k])  # F5
                    if recorded:
                        slope[t, b, j, k] = ONE - h[b, j, k] * h[b, j, k]  # L1


@compile_loop
def feedback_rforward(
    W_h: Array, W_hg: Array, W_up: Array, Ra: Array, Rz: Array, xs: Array, gs: Array, slope: Array, c: Array,
    Rhs: Array, Rx: Array, own: Array, q: Array, up: Array,
) -> None:  # fmt: skip
    L, (K, B, _, M) = W_h.shape[0], Ra.shape
    for t in range(K):
        Rh = Rhs[t + 1]
        send(Rhs[t], W_h, W_hg, own, Rx, q)
        for j in range(L):
            if j > 0:
                send_up(Rh, j, W_up, own, up)
            for b in range(B):
                if j > 0:
                    for k in range(M):
                        Ra[t, b, j, k] += up[b, k]  # R2
                for i in range(L):
                    R = Rz[t, b, j, i] + q[b, j, i]
                    Rg = c[t, j, b, i] * (R + up[b, M + i] if j > 0 else R)  # R2, R3
                    g = gs[t, j, b, i]
                    for k in range(M):
                        Ra[t, b, j, k] += g * Rx[i, b, j, k] + Rg * xs[t, i, b, j, k]  # R4
                for k in range(M):
                    Rh[b, j, k] = slope[t, b, j, k] * Ra[t, b, j, k]  # R5


@compile_sums
def feedback_backward(
    W_h: Array, W_hg_T: Array, W_up_T: Array, dhs: Array, xs: Array, gs: Array, slope: Array, c: Array, dh: Array,
    da: Array, dz: Array, dy: Array, dx: Array, down: Array,
) -> None:  # fmt: skip
    L, (K, B, _, M) = W_h.shape[0], dhs.shape
    for t in range(K - 1, -1, -1):
        for j in range(L - 1, -1, -1):
            for b in range(B):
                for k in range(M):
                    da[t, b, j, k] = (dh[b, j, k] + dhs[t, b, j, k]) * slope[t, b, j, k]  # B1
                for i in range(L):
                    total = dz.dtype.type(0)
                    for k in range(M):
                        total += xs[t, i, b, j, k] * da[t, b, j, k]
                    dz[t, b, j, i] = total * c[t, j, b, i]  # B2
                    if j > 0:
                        dy[j - 1, t, b, M + i] = dz[t, b, j, i]
                if j > 0:
                    for k in range(M):
                        dy[j - 1, t, b, k] = da[t, b, j, k]
            if j > 0:
                np.dot(dy[j - 1, t], W_up_T[j - 1], down)
                for b in range(B):
                    for k in range(M):
                        dh[b, j - 1, k] += down[b, k]  # B3
        np.dot(dz[t].reshape(B, L * L), W_hg_T, dh.reshape(B, L * M))  # B4
        for i in range(L):
            for b in range(B):
                for j in range(L):
                    for k in range(M):
                        dx[b, j, k] = gs[t, j, b, i] * da[t, b, j, k]  # B4
            np.dot(dx.reshape(B, L * M), W_h[i].T, down)
            for b in range(B):
                for k in range(M):
                    dh[b, i, k] += down[b, k]  # B4


@compile_loop
def add_gated(i: int, gs: Array, Rx: Array, Ra: Array) -> None:
    K, B, L, M = Ra.shape
    for t in range(K):
        for b in range(B):
            for j in range(L):
                for k in range(M):
                    Ra[t, b, j, k] += gs[t, j, b, i] * Rx[t, b, j, k]  # R4


@compile_loop
def add_from_below(j: int, up: Array, Ra: Array, Rz: Array) -> None:
    K, B, L, M = Ra.shape
    for t in range(K):
        for b in range(B):
            for k in range(M):
                Ra[t, b, j, k] += up[t, b, k]  # R2
            gates = up[t, b, M:]
            for i in range(L):
                Rz[t, b, j, i] += gates[i]  # R2


@compile_loop
def gated(i: int, gs: Array, da: Array, dx: Array) -> None:
    K, B, L, M = da.shape
    for t in range(K):
        for b in range(B):
            for j in range(L):
                for k in range(M):
                    dx[t, b, j, k] = gs[t, j, b, i] * da[t, b, j, k]  # B5


class GatedFeedback(reference.GatedFeedback):
    """`gated-feedback` with compiled loops."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H, L, M = U.shape, self.hidden, self.sublayers, self.M
        rows, kept = (K, K) if tape.records else (1, 0)
        hs, x, g = tape.new("h", K + 1, B, H), tape.new("x", rows, L, B, H), tape.new("g", rows, L, B, L)
        slope, c = tape.new("slope", kept, B, H), tape.new("c", kept, L, B, L)
        hs[0] = state["h"]
        feedback_forward(
            p["W_h"].reshape(L, M, H), p["W_hg"], p["W_up"], U, parts(hs, M), parts(x, M), g, parts(slope, M), c,
            *self._work(tape, B),
        )  # F1-F5, L1, L2  # fmt: skip
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H, L, M = RU.shape, self.hidden, self.sublayers, self.M
        Ra, Rz, Rhs = tape.scratch("Ra", K, B, H), tape.scratch("Rz", K, B, L * L), tape.new("Rh", K + 1, B, H)
        self._without_Rh(v, tape, RU, Ra, Rz)
        Rhs[0] = Rstate["h"]
        feedback_rforward(
            p["W_h"].reshape(L, M, H), p["W_hg"], p["W_up"], parts(Ra, M), parts(Rz, L), parts(tape["x"], M), tape["g"],
            parts(tape["slope"], M), tape["c"], parts(Rhs, M), tape.scratch("Rx", L, B, L, M), *self._work(tape, B),
        )  # R1-R5  # fmt: skip
        return Rhs[1:], {"h": Rhs[K]}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), L, M = dhs.shape, self.sublayers, self.M
        da, dz = tape.scratch("da", K, B, H), tape.scratch("dz", K, B, L * L)
        dy, dU = tape.scratch("dy", L - 1, K, B, M + L), tape.scratch("dU", K, B, H + L)
        dh, dx, own = tape.new("dh", B, H), tape.scratch("dx", B, L, M), tape.scratch("own", B, M)
        dh[...] = dstate["h"]
        W_hg_T, W_up_T = (np.ascontiguousarray(transpose(p, name)) for name in ("W_hg", "W_up"))
        feedback_backward(
            p["W_h"].reshape(L, M, H), W_hg_T, W_up_T, parts(dhs, M), parts(tape["x"], M), tape["g"],
            parts(tape["slope"], M), tape["c"], parts(dh, M), parts(da, M), parts(dz, L), dy, dx, own,
        )  # B1-B4  # fmt: skip
        self._add_gradients(tape, da, dz, dy, grad)  # B5
        dU[:, :, :M], dU[:, :, M : M + L], dU[:, :, M + L :] = da[:, :, :M], dz[:, :, :L], da[:, :, M:]  # B3
        return dU, {"h": dh}

    def _without_Rh(self, v: Arrays, tape: Tape, RU: Array, Ra: Array, Rz: Array) -> None:
        if not is_fused(tape):
            return super()._without_Rh(v, tape, RU, Ra, Rz)
        (K, B, H), L, M, hs = Ra.shape, self.sublayers, self.M, tape["h"]
        Ra[:, :, :M], Ra[:, :, M:] = RU[:, :, :M], RU[:, :, M + L :]  # R2
        product(tape, hs[:K], v["W_hg"], out=Rz)  # R1
        Rz[:, :, :L] += RU[:, :, M : M + L]  # R2
        Rxs, ups = tape.scratch("Rxs", K, B, H), tape.scratch("Rups", K, B, M + L)
        for i, columns in enumerate(self.columns):
            product(tape, hs[:K, :, columns], v["W_h"][columns], out=Rxs)  # R1
            add_gated(i, tape["g"], parts(Rxs, M), parts(Ra, M))  # R4
        for j in range(1, L):
            product(tape, hs[1:, :, self.columns[j - 1]], v["W_up"][j - 1], out=ups)
            add_from_below(j, ups, parts(Ra, M), parts(Rz, L))  # R2
        return None

    def _add_gradients(self, tape: Tape, das: Array, dzs: Array, dys: Array, grad: Arrays) -> None:
        if not is_fused(tape):
            return super()._add_gradients(tape, das, dzs, dys, grad)
        K, M, hs, dxs = das.shape[0], self.M, tape["h"], tape.scratch("dxs", *das.shape)
        add_weight_gradient(tape, hs[:K], dzs, grad["W_hg"])  # B5
        for i, columns in enumerate(self.columns):
            gated(i, tape["g"], parts(das, M), parts(dxs, M))  # B5
            add_weight_gradient(tape, hs[:K, :, columns], dxs, grad["W_h"][columns])  # B5
        for j in range(1, self.sublayers):
            add_weight_gradient(tape, hs[1:, :, self.columns[j - 1]], dys[j - 1], grad["W_up"][j - 1])  # B5
        return None

    def _work(self, tape: Tape, B: int) -> tuple[Array, Array, Array]:
        """Return scratch arrays: a layer's state, the gates' part from the past, what the layer below sends up."""
        L, M = self.sublayers, self.M
        return tape.scratch("own", B, M), tape.scratch("q", B, L, L), tape.scratch("up", B, M + L)
