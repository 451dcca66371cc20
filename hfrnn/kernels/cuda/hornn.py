"""Fused hornn, hornn-fofe, hornn-max and hornn-gated: the equations of the reference kernels, under their numbers.

The N products of a step are one batched product: row m of an array (N, B, H) belongs to h_{t-N+m}, n = N - m.
"""

from __future__ import annotations

from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.kernels import hornn as reference
from hfrnn.kernels import hornn_fofe, hornn_gated, hornn_max
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.launch import KINDS, Kernels
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.hornn import adjoints_of_states, latest_first, steps_before
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


def in_time(tape: Tape, name: str, W: Array) -> Array:
    """Return the matrices (N, H, H) in the order of time, in scratch."""
    ordered = tape.scratch(name, *W.shape)
    ordered[...] = W[::-1]
    return ordered


def history_of(tape: Tape, name: str, history: Array, K: int) -> Array:
    """Return a buffer (N + K, B, H) whose first N rows are the given states, latest first, in the order of time."""
    N = history.shape[0]
    states = tape.new(name, N + K, *history.shape[1:])
    states[:N] = history[::-1]
    return states


def zeros_of(tape: Tape, name: str, *shape: int) -> Array:
    """Return a scratch array of zeros."""
    zeros = tape.scratch(name, *shape)
    zeros[...] = 0
    return zeros


class HORNN(reference.HORNN):
    """`hornn` with fused steps."""

    base = 1.0
    """The weight alpha of hornn-fofe."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), N, run, kind = tape.xp, U.shape, self.order, Kernels("hornn", tape), KINDS[self.activation]
        hs, x, W = history_of(tape, "h", state["history"], K), tape.scratch("x", N, B, H), in_time(tape, "W", p["W_h"])
        recorded = int(tape.records)
        slope = tape.new("slope", K, B, H) if recorded else hs
        for t in range(K):
            xp.matmul(hs[t : t + N], W, out=x)  # F1
            run.each("fofe_forward", B * H, t, B * H, N, kind, recorded, self.base, U, x, hs, slope)  # F2, F3, L1
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), N, run, hs = tape.xp, RU.shape, self.order, Kernels("hornn", tape), tape["h"]
        Rx, Rxs, Ra = tape.scratch("Rx", N, B, H), tape.scratch("Rxs", K, B, H), tape.scratch("Ra", K, B, H)
        Ra[...] = RU
        for n in range(N):
            product(tape, steps_before(hs, n, N, K), v["W_h"][n], out=Rxs)  # R1
            Rxs *= self.base ** (n + 1)
            Ra += Rxs  # R2
        Rhs, W = history_of(tape, "Rh", Rstate["history"], K), in_time(tape, "W", p["W_h"])
        for t in range(K):
            xp.matmul(Rhs[t : t + N], W, out=Rx)  # R1
            run.each("fofe_rforward", B * H, t, B * H, N, self.base, Ra, Rx, tape["slope"], Rhs)  # R2, R3
        return Rhs[N:], {"history": latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, KINDS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), N, run, hs = tape.xp, dhs.shape, self.order, Kernels("hornn", tape), tape["h"]
        da, work, W_T = (
            tape.scratch("da", K, B, H),
            zeros_of(tape, "works", N, B, H),
            in_time(tape, "W_T", transpose(p, "W_h")),
        )
        dh = adjoints_of_states(tape, dstate, K, N)
        for t in reversed(range(K)):
            run.each("fofe_backward", B * H, t, B * H, N, self.base, dhs, work, tape["slope"], dh, da)  # B1
            xp.matmul(da[t : t + 1], W_T, out=work)  # B2; added by the next step
        run.each("hornn_finish", B * H, B * H, N, self.base, 0, work, work, dh)
        for n in range(N):
            dW = zeros_of(tape, "dW", *grad["W_h"][n].shape)
            add_weight_gradient(tape, steps_before(hs, n, N, K), da, dW)
            dW *= self.base ** (n + 1)
            grad["W_h"][n] += dW  # B3 of hornn.py, B4 of hornn_fofe.py
        return da, {"history": latest_first(tape, "dhistory", dh[:N])}


class FOFE(HORNN, hornn_fofe.FOFE):
    """`hornn-fofe` with fused steps."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.base = self.alpha


class MaxHORNN(hornn_max.MaxHORNN):
    """`hornn-max` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), N, run, kind = tape.xp, U.shape, self.order, Kernels("hornn", tape), KINDS[self.activation]
        hs, x, W = history_of(tape, "h", state["history"], K), tape.scratch("x", N, B, H), in_time(tape, "W", p["W_h"])
        recorded, steps = int(tape.records), K if tape.records else 1
        c = tape.new("c", N, steps, B, H)
        slope = tape.new("slope", K, B, H) if recorded else hs
        for t in range(K):
            xp.matmul(hs[t : t + N], W, out=x)  # F1
            run.each(
                "max_forward", B * H, t, B * H, N, steps, kind, recorded, hornn_max.TIE, U, x, hs, c, slope
            )  # F2, F3, L1, L2
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), N, run, hs, c = tape.xp, RU.shape, self.order, Kernels("hornn", tape), tape["h"], tape["c"]
        Rx, Rxs, Ra = tape.scratch("Rx", N, B, H), tape.scratch("Rxs", K, B, H), tape.scratch("Ra", K, B, H)
        Ra[...] = RU
        for n in range(N):
            product(tape, steps_before(hs, n, N, K), v["W_h"][n], out=Rxs)  # R1
            Rxs *= c[n]
            Ra += Rxs  # R2
        Rhs, W = history_of(tape, "Rh", Rstate["history"], K), in_time(tape, "W", p["W_h"])
        for t in range(K):
            xp.matmul(Rhs[t : t + N], W, out=Rx)  # R1
            run.each("max_rforward", B * H, t, B * H, N, K, Ra, Rx, c, tape["slope"], Rhs)  # R2, R3
        return Rhs[N:], {"history": latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, KINDS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), N, run, hs, c = tape.xp, dhs.shape, self.order, Kernels("hornn", tape), tape["h"], tape["c"]
        da, dxs, dx = tape.scratch("da", K, B, H), tape.scratch("dxs", K, B, H), tape.scratch("dx", N, B, H)
        work, W_T = zeros_of(tape, "works", N, B, H), in_time(tape, "W_T", transpose(p, "W_h"))
        dh = adjoints_of_states(tape, dstate, K, N)
        for t in reversed(range(K)):
            run.each("max_backward", B * H, t, B * H, N, K, dhs, work, c, tape["slope"], dh, da, dx)  # B1, B2
            xp.matmul(dx, W_T, out=work)  # B3; added by the next step
        run.each("hornn_finish", B * H, B * H, N, 1.0, 0, work, work, dh)  # B3
        for n in range(N):
            xp.multiply(c[n], da, out=dxs)  # B2
            add_weight_gradient(tape, steps_before(hs, n, N, K), dxs, grad["W_h"][n])  # B4
        return da, {"history": latest_first(tape, "dhistory", dh[:N])}


class GatedHORNN(hornn_gated.GatedHORNN):
    """`hornn-gated` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().forward(p, U, state, tape)
        xp, (K, B, _), H, N, run = tape.xp, U.shape, self.hidden, self.order, Kernels("hornn", tape)
        hs, x, y = history_of(tape, "h", state["history"], K), tape.scratch("x", N, B, H), tape.scratch("y", N, B, H)
        W_h, W_r, kind = in_time(tape, "W", p["W_h"]), in_time(tape, "W_r", p["W_r"]), KINDS[self.activation]
        recorded, steps = int(tape.records), K if tape.records else 1
        r, l = tape.new("r", N, steps, B, H), tape.new("l", N, steps, B, H)
        slope = tape.new("slope", K, B, H) if recorded else hs
        for t in range(K):
            before = hs[t : t + N]
            xp.matmul(before, W_h, out=x)  # F1
            xp.matmul(before, W_r, out=y)  # F2
            run.each(
                "gated_forward", B * H, t, B, H, N, steps, kind, recorded, U, x, y, hs, r, l, slope
            )  # F2-F4, L1, L2
        return hs[N:], {"history": latest_first(tape, "history", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, KINDS):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, _), H, N, run, hs = tape.xp, RU.shape, self.hidden, self.order, Kernels("hornn", tape), tape["h"]
        r, l, Rx, Ry = tape["r"], tape["l"], tape.scratch("Rx", N, B, H), tape.scratch("Ry", N, B, H)
        Rxs, Ra = tape.scratch("Rxs", K, B, H), tape.scratch("Ra", K, B, H)
        Ra[...] = RU[:, :, :H]
        for n in range(N):
            xp.multiply(l[n], RU[:, :, self.gate_columns(n)], out=Rxs)
            Ra += Rxs  # R2
            for name, factor in (("W_h", r), ("W_r", l)):
                product(tape, steps_before(hs, n, N, K), v[name][n], out=Rxs)  # R1
                Rxs *= factor[n]
                Ra += Rxs  # R2
        Rhs = history_of(tape, "Rh", Rstate["history"], K)
        W_h, W_r = in_time(tape, "W", p["W_h"]), in_time(tape, "W_r", p["W_r"])
        for t in range(K):
            before = Rhs[t : t + N]
            xp.matmul(before, W_h, out=Rx)  # R1
            xp.matmul(before, W_r, out=Ry)  # R1
            run.each("gated_rforward", B * H, t, B * H, N, K, Ra, Rx, Ry, r, l, tape["slope"], Rhs)  # R2, R3
        return Rhs[N:], {"history": latest_first(tape, "Rhistory", Rhs[K:])}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, KINDS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        xp, (K, B, H), N, run, hs = tape.xp, dhs.shape, self.order, Kernels("hornn", tape), tape["h"]
        r, l, da, dxs = tape["r"], tape["l"], tape.scratch("da", K, B, H), tape.scratch("dxs", K, B, H)
        dx, dy = tape.scratch("dx", N, B, H), tape.scratch("dy", N, B, H)
        work, more = zeros_of(tape, "works", N, B, H), zeros_of(tape, "more", N, B, H)
        W_h_T, W_r_T = in_time(tape, "W_T", transpose(p, "W_h")), in_time(tape, "W_r_T", transpose(p, "W_r"))
        dh, slope = adjoints_of_states(tape, dstate, K, N), tape["slope"]
        for t in reversed(range(K)):
            run.each("gated_backward", B * H, t, B * H, N, K, dhs, work, more, r, l, slope, dh, da, dx, dy)  # B1, B2
            xp.matmul(dx, W_h_T, out=work)  # B3; added by the next step
            xp.matmul(dy, W_r_T, out=more)
        run.each("hornn_finish", B * H, B * H, N, 1.0, 1, work, more, dh)  # B3
        dU = tape.scratch("dU", K, B, (1 + N) * H)
        dU[:, :, :H] = da  # B1
        for n in range(N):
            for name, factor in (("W_h", r), ("W_r", l)):
                xp.multiply(factor[n], da, out=dxs)  # B2
                add_weight_gradient(tape, steps_before(hs, n, N, K), dxs, grad[name][n])  # B4
            dU[:, :, self.gate_columns(n)] = dxs  # B2
        return dU, {"history": latest_first(tape, "dhistory", dh[:N])}
