"""Compiled scrn: the equations of kernels/scrn.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import scrn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, sigma
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose


@compile_loop
def context_forward(alpha: Array, U: Array, first: int, s: Array) -> None:
    K, B, C = U.shape[0], s.shape[1], s.shape[2]
    for t in range(K):
        for b in range(B):
            inputs = U[t, b, first:]
            for j in range(C):
                s[t + 1, b, j] = inputs[j] * (ONE - alpha[j]) + s[t, b, j] * alpha[j]  # F1


@compile_loop
def context_rforward(alpha: Array, RU: Array, first: int, extra: Array, Rs: Array) -> None:
    K, B, C = RU.shape[0], Rs.shape[1], Rs.shape[2]
    for t in range(K):
        for b in range(B):
            inputs = RU[t, b, first:]
            for j in range(C):
                Rs[t + 1, b, j] = inputs[j] * (ONE - alpha[j]) + extra[t, b, j] + Rs[t, b, j] * alpha[j]  # R1


@compile_loop
def hidden_forward(W: Array, a_s: Array, U: Array, hs: Array, slope: Array) -> None:
    K, B, H = a_s.shape
    recorded = slope.shape[0] == K
    for t in range(K):
        np.dot(hs[t], W, hs[t + 1])
        for b in range(B):
            for j in range(H):
                h = sigma(hs[t + 1, b, j] + a_s[t, b, j] + U[t, b, j])  # F2, F3
                hs[t + 1, b, j] = h
                if recorded:
                    slope[t, b, j] = h * (ONE - h)  # L1


@compile_loop
def hidden_rforward(W: Array, Ra: Array, slope: Array, Rhs: Array, work: Array) -> None:
    K, B, H = Ra.shape
    for t in range(K):
        np.dot(Rhs[t], W, work)
        for b in range(B):
            for j in range(H):
                Rhs[t + 1, b, j] = slope[t, b, j] * (Ra[t, b, j] + work[b, j])  # R2, R3


@compile_loop
def hidden_backward(W_T: Array, dhs: Array, slope: Array, dh: Array, da: Array) -> None:
    K, B, H = da.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                da[t, b, j] = (dh[b, j] + dhs[t, b, j]) * slope[t, b, j]  # B1
        np.dot(da[t], W_T, dh)  # B2


@compile_loop
def context_backward(alpha: Array, dhs: Array, first: int, ds_next: Array, ds: Array, dU: Array) -> None:
    K, B, C = ds.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            dy, dU_s = dhs[t, b, first:], dU[t, b, first:]
            for j in range(C):
                d = ds[t, b, j] + dy[j] + ds_next[b, j]  # B3
                ds[t, b, j] = d
                dU_s[j] = d * (ONE - alpha[j])  # B4
                ds_next[b, j] = d * alpha[j]


class SCRN(reference.SCRN):
    """`scrn` with compiled loops."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        (K, B, _), H, C, alpha = U.shape, self.hidden, self.context, units_share(self.alpha, p, tape, self.context)
        ss, hs = tape.new("s", K + 1, B, C), tape.new("h", K + 1, B, H)  # ss[t] = s_{t-1}, hs[t] = h_{t-1}
        ss[0], hs[0] = state["s"], state["h"]
        context_forward(alpha, U, H, ss)  # F1
        a_s = product(tape, ss[1:], p["W_s"], out=tape.scratch("a_s", K, B, H))
        slope = tape.new("slope", K if tape.records else 0, B, H)
        hidden_forward(p["W_h"], a_s, U, hs, slope)  # F2, F3, L1
        if tape.records and self.alpha.learned:
            e = tape.new("e", K, B, C)
            np.subtract(ss[:K], U[:, :, H:], out=e)
            e *= alpha * (1.0 - alpha)  # L2
        return self.side_by_side(tape, "y", hs[1:], ss[1:]), {"h": hs[K], "s": ss[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H, C, alpha = RU.shape, self.hidden, self.context, units_share(self.alpha, p, tape, self.context)
        hs, ss = tape["h"], tape["s"]
        Rss, Rhs = tape.new("Rs", K + 1, B, C), tape.new("Rh", K + 1, B, H)
        Rss[0], Rhs[0] = Rstate["s"], Rstate["h"]
        if self.alpha.learned:
            eRq = tape.scratch("eRq", K, B, C)
            np.multiply(tape["e"], v["q"], out=eRq)
            context_rforward(alpha, RU, H, eRq, Rss)  # R1
        else:
            context_forward(alpha, RU, H, Rss)  # R1
        Ra, work = tape.scratch("Ra", K, B, H), tape.scratch("works", K, B, H)
        Ra[...] = RU[:, :, :H]
        for x, W in ((Rss[1:], p["W_s"]), (ss[1:], v["W_s"]), (hs[:K], v["W_h"])):
            product(tape, x, W, out=work)
            Ra += work  # R2
        hidden_rforward(p["W_h"], Ra, tape["slope"], Rhs, tape.scratch("work", B, H))  # R2, R3
        return self.side_by_side(tape, "Ry", Rhs[1:], Rss[1:]), {"h": Rhs[K], "s": Rss[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        (K, B, _), H, C, alpha = dhs.shape, self.hidden, self.context, units_share(self.alpha, p, tape, self.context)
        das, dss, dU = tape.scratch("da", K, B, H), tape.scratch("ds", K, B, C), tape.scratch("dU", K, B, H + C)
        dh, ds = tape.new("dh", B, H), tape.new("ds_before", B, C)
        dh[...], ds[...] = dstate["h"], dstate["s"]
        hidden_backward(transpose(p, "W_h"), dhs, tape["slope"], dh, das)  # B1, B2
        product(tape, das, p["W_s"].T, out=dss)
        context_backward(alpha, dhs, H, ds, dss, dU)  # B3, B4
        dU[:, :, :H] = das
        add_weight_gradient(tape, tape["h"][:K], das, grad["W_h"])  # B5
        add_weight_gradient(tape, tape["s"][1:], das, grad["W_s"])  # B5
        if self.alpha.learned:
            dss *= tape["e"]
            add_bias_gradient(dss, grad["q"])  # B5
        return dU, {"h": dh, "s": ds}
