"""Compiled low-rank: the equations of kernels/low_rank.py, under its numbers."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import low_rank as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused, units_share
from hfrnn.kernels.numba.pointwise import ACTIVATIONS, ONE, activate, compile_exact_loop, slope_of
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose


@compile_exact_loop
def low_rank_forward(
    kind: int, N: Array, M: Array, leak: Array, U: Array, x: Array, rs: Array, ss: Array, k: Array, e: Array,
    work: Array,
) -> None:  # fmt: skip
    (K, B, H), R = U.shape, N.shape[1]
    recorded, learned = k.shape[0] > K, e.shape[0] == K
    for b in range(B):
        for j in range(H):
            r = activate(kind, x[b, j])  # F4
            rs[0, b, j] = r
            if recorded:
                k[0, b, j] = slope_of(kind, r)  # L1
    for t in range(K):
        s = ss[t if recorded else 0]
        np.dot(rs[t], N, s)
        for b in range(B):
            for i in range(R):
                s[b, i] /= H  # F1
        np.dot(s, M, work)
        for b in range(B):
            for j in range(H):
                c, before, share = work[b, j] + U[t, b, j], x[b, j], leak[j]  # F2
                after = before * (ONE - share) + c * share  # F3
                r = activate(kind, after)  # F4
                x[b, j] = after
                rs[t + 1, b, j] = r
                if recorded:
                    k[t + 1, b, j] = slope_of(kind, r)  # L1
                if learned:
                    e[t, b, j] = (c - before) * (share * (ONE - share))  # L2


@compile_exact_loop
def low_rank_rforward(
    N: Array, M: Array, leak: Array, Rq: Array, Rs: Array, Rc: Array, RU: Array, k: Array, e: Array, Rx: Array,
    Rr: Array, Rrs: Array, work: Array, overlap: Array,
) -> None:  # fmt: skip
    (K, B, H), R = RU.shape, N.shape[1]
    learned = e.shape[0] == K
    for b in range(B):
        for j in range(H):
            Rr[b, j] = k[0, b, j] * Rx[b, j]  # R4
    for t in range(K):
        np.dot(Rr if t == 0 else Rrs[t - 1], N, overlap)
        for b in range(B):
            for i in range(R):
                overlap[b, i] = Rs[t, b, i] + overlap[b, i] / H  # R1
        np.dot(overlap, M, work)
        for b in range(B):
            for j in range(H):
                c = Rc[t, b, j] + RU[t, b, j] + work[b, j]  # R2
                Rx_t = (ONE - leak[j]) * Rx[b, j] + leak[j] * c  # R3
                if learned:
                    Rx_t += e[t, b, j] * Rq[j]  # R3
                Rx[b, j] = Rx_t
                Rrs[t, b, j] = k[t + 1, b, j] * Rx_t  # R4


@compile_exact_loop
def low_rank_backward(
    N_T: Array, M_T: Array, leak: Array, dhs: Array, k: Array, e: Array, dx: Array, dr: Array, dU: Array, ds: Array,
    de: Array,
) -> None:  # fmt: skip
    (K, B, H), R = dhs.shape, N_T.shape[0]
    learned = e.shape[0] == K
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                d = dx[b, j] + (dr[b, j] + dhs[t, b, j]) * k[t + 1, b, j]  # B1
                if learned:
                    de[t, b, j] = d * e[t, b, j]  # B6
                dU[t, b, j] = leak[j] * d  # B2
                dx[b, j] = (ONE - leak[j]) * d  # B5
        np.dot(dU[t], M_T, ds[t])
        for b in range(B):
            for i in range(R):
                ds[t, b, i] /= H  # B3
        np.dot(ds[t], N_T, dr)  # B4
    for b in range(B):
        for j in range(H):
            dx[b, j] += dr[b, j] * k[0, b, j]  # B1


class LowRank(reference.LowRank):
    """`low-rank` with compiled loops, for tanh, logistic and relu units."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().forward(p, U, state, tape)
        (K, B, H), leak, recorded = U.shape, units_share(self.leak, p, tape, U.shape[2]), tape.records
        x, rs, ss = tape.new("x", B, H), tape.new("r", K + 1, B, H), tape.new("s", K if recorded else 1, B, self.rank)
        k, e = tape.new("k", K + 1 if recorded else 0, B, H), tape.new("e", K * (recorded and self.leak.learned), B, H)
        x[...] = state["x"]
        kind, work = ACTIVATIONS[self.activation], tape.scratch("work", B, H)
        low_rank_forward(kind, p["N"], p["M"], leak, U, x, rs, ss, k, e, work)  # F1-F4, L1, L2
        return rs[1:], {"x": x}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, H), R, leak = RU.shape, self.rank, units_share(self.leak, p, tape, RU.shape[2])
        Rs = product(tape, tape["r"][:K], v["N"], out=tape.scratch("Rs", K, B, R))
        Rs *= 1.0 / H
        Rc = product(tape, tape["s"], v["M"], out=tape.scratch("Rc", K, B, H))
        Rx, Rr, Rrs = tape.new("Rx", B, H), tape.scratch("Rr_before", B, H), tape.new("Rr", K, B, H)
        work, overlap, Rq = tape.scratch("work", B, H), tape.scratch("overlap", B, R), v.get("q", leak)
        Rx[...] = Rstate["x"]
        given = Rs, Rc, RU, tape["k"], tape["e"], Rx, Rr, Rrs, work, overlap
        low_rank_rforward(p["N"], p["M"], leak, Rq, *given)  # R1-R4
        return Rrs, {"x": Rx}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, ACTIVATIONS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        (K, B, H), leak, learned = dhs.shape, units_share(self.leak, p, tape, dhs.shape[2]), self.leak.learned
        dU, dss, de = (
            tape.scratch("dU", K, B, H),
            tape.scratch("ds", K, B, self.rank),
            tape.scratch("de", K * learned, B, H),
        )
        dx, dr = tape.new("dx", B, H), tape.scratch("dr", B, H)
        dx[...], dr[...] = dstate["x"], 0
        N_T, M_T = transpose(p, "N"), transpose(p, "M")
        low_rank_backward(N_T, M_T, leak, dhs, tape["k"], tape["e"], dx, dr, dU, dss, de)  # B1-B5
        add_weight_gradient(tape, tape["s"], dU, grad["M"])  # B6
        add_weight_gradient(tape, tape["r"][:K], dss, grad["N"])  # B6
        if learned:
            add_bias_gradient(de, grad["q"])  # B6
        return dU, {"x": dx}
