"""Compiled fofe-fnn: the equations of kernels/fofe_fnn.py, under its numbers.

U, RU and dU are (K, B, n + 1, H): the last slot is that of the bias. s, Rs and ds change from the state's to those of
the segment's other end.
"""

from __future__ import annotations

from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.kernels import fofe_fnn as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ACTIVATIONS, activate, compile_loop, inlined, parts, slope_of


@inlined
def forget(t: int, b: int, alpha: Any, U: Array, partial: Array, s: Array, sums: Array) -> None:
    K, _, slots, H = U.shape
    n = slots - 1
    for j in range(H):
        sums[t, b, j] = partial[t, b, j] if t < n - 1 else 0
    for k in range(max(0, t - K + 1), min(n, t + 1)):
        for j in range(H):
            sums[t, b, j] += U[t - k, b, k, j]  # F1, R1
    if t < K:
        for j in range(H):
            sums[t, b, j] += alpha * s[b, j]  # F1, R1
            s[b, j] = sums[t, b, j]


@compile_loop
def fofe_forward(kind: int, alpha: Any, U: Array, partial: Array, s: Array, hs: Array, slope: Array) -> None:
    K, B, slots, H = U.shape
    recorded = slope.shape[0] == K
    for t in range(hs.shape[0]):
        for b in range(B):
            forget(t, b, alpha, U, partial, s, hs)  # F1
            if t < K:
                for j in range(H):
                    h = activate(kind, hs[t, b, j] + U[t, b, slots - 1, j])  # F2, F3
                    hs[t, b, j] = h
                    if recorded:
                        slope[t, b, j] = slope_of(kind, h)  # L1


@compile_loop
def fofe_rforward(alpha: Any, RU: Array, partial: Array, Rs: Array, slope: Array, sums: Array, Rhs: Array) -> None:
    K, B, slots, H = RU.shape
    for t in range(sums.shape[0]):
        for b in range(B):
            forget(t, b, alpha, RU, partial, Rs, sums)  # R1
            if t < K:
                for j in range(H):
                    Rhs[t, b, j] = slope[t, b, j] * (sums[t, b, j] + RU[t, b, slots - 1, j])  # R2, R3


@compile_loop
def fofe_backward(alpha: Any, dhs: Array, slope: Array, sums: Array, ds: Array, dU: Array) -> None:
    K, B, slots, H = dU.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                da = dhs[t, b, j] * slope[t, b, j]  # B1
                dU[t, b, slots - 1, j] = da  # B1
                sums[t, b, j] = da + ds[b, j]  # B2
                ds[b, j] = alpha * sums[t, b, j]  # B2
            for k in range(slots - 1):
                for j in range(H):
                    dU[t, b, k, j] = sums[t + k, b, j]  # B3


class FOFEFNN(reference.FOFEFNN):
    """`fofe-fnn` with compiled loops, for all activations that they have."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().forward(p, U, state, tape)
        (K, B, _), H, kind = U.shape, self.hidden, ACTIVATIONS[self.activation]
        hs, slope = tape.new("h", K + self.order - 1, B, H), tape.new("slope", K if tape.records else 0, B, H)
        alpha, partial, s = self._before(tape, "s", state)
        fofe_forward(kind, alpha, parts(U, H), partial, s, hs, slope)  # F1-F3, L1
        return hs[:K], {"s": s, **self.partial(tape, "partial", hs[K:])}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape, self.activation, ACTIVATIONS):
            return super().rforward(p, v, tape, RU, Rstate)
        (K, B, _), H = RU.shape, self.hidden
        sums, Rhs = tape.scratch("Ras", K + self.order - 1, B, H), tape.new("Rh", K, B, H)
        alpha, partial, Rs = self._before(tape, "Rs", Rstate)
        fofe_rforward(alpha, parts(RU, H), partial, Rs, tape["slope"], sums, Rhs)  # R1-R3
        return Rhs, {"s": Rs, **self.partial(tape, "Rpartial", sums[K:])}

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not is_fused(tape, self.activation, ACTIVATIONS) or preactivation_adjoint is not None:
            return super().backward(p, tape, dhs, dstate, grad, preactivation_adjoint)
        K, B, H = dhs.shape
        sums, dU = self.adjoints(tape, dstate, K, B), tape.scratch("dU", K, B, (self.order + 1) * H)
        alpha, _, ds = self._before(tape, "ds", dstate)
        fofe_backward(alpha, dhs, tape["slope"], sums, ds, parts(dU, H))  # B1-B3
        return dU, {"s": ds, **self.partial(tape, "dpartial", sums[: self.order - 1])}

    def _before(self, tape: Tape, name: str, state: Arrays) -> tuple[Any, Array, Array]:
        """Return alpha, and the state before the segment: `partial`, and a copy of `s` in a buffer that may change."""
        s = tape.new(name, *state["s"].shape)
        s[...] = state["s"]
        partial = state["partial"] if self.order > 1 else tape.scratch("no_partial", 0, *s.shape)
        return tape.kept.dtype.type(self.alpha), partial, s
