"""Compiled clockwork and hierarchical: the equations of kernels/clockwork.py, under its numbers.

A line of `groups` holds the period of a group, its first column, its width, and where its matrix (H, width) begins in
`W`, a vector. The matrices have zeros in the rows that their group does not depend on.
"""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.kernels import clockwork as reference
from hfrnn.kernels import hierarchical
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_loop, tanh


@compile_loop
def clockwork_forward(W: Array, groups: Array, start: int, U: Array, hs: Array, slope: Array, work: Array) -> None:
    K, B, H = U.shape
    recorded = slope.shape[0] == K
    for t in range(K):
        hs[t + 1] = hs[t]  # F3
        for g in range(groups.shape[0]):
            period, first, width, place = groups[g]
            if (start + t) % period == 0:
                a = work[: B * width].reshape(B, width)
                np.dot(hs[t], W[place : place + H * width].reshape(H, width), a)
                h, u = hs[t + 1, :, first : first + width], U[t, :, first : first + width]
                for b in range(B):
                    for j in range(width):
                        h[b, j] = tanh(a[b, j] + u[b, j])  # F1, F2
        if recorded:
            for b in range(B):
                for j in range(H):
                    slope[t, b, j] = ONE - hs[t + 1, b, j] * hs[t + 1, b, j]  # L1


@compile_loop
def clockwork_rforward(W: Array, groups: Array, start: int, Ra: Array, slope: Array, Rhs: Array, work: Array) -> None:
    K, B, H = Ra.shape
    for t in range(K):
        Rhs[t + 1] = Rhs[t]  # R3
        for g in range(groups.shape[0]):
            period, first, width, place = groups[g]
            if (start + t) % period == 0:
                Rx, last = work[: B * width].reshape(B, width), first + width
                np.dot(Rhs[t], W[place : place + H * width].reshape(H, width), Rx)
                Rh, R, k = Rhs[t + 1, :, first:last], Ra[t, :, first:last], slope[t, :, first:last]
                for b in range(B):
                    for j in range(width):
                        Rh[b, j] = k[b, j] * (R[b, j] + Rx[b, j])  # R1, R2


@compile_loop
def clockwork_backward(
    W_T: Array, groups: Array, start: int, dhs: Array, slope: Array, dh: Array, dU: Array, work: Array, back: Array
) -> None:
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                dh[b, j] += dhs[t, b, j]
                dU[t, b, j] = 0
        for g in range(groups.shape[0]):
            period, first, width, _ = groups[g]
            if (start + t) % period == 0:
                d, da, k = (
                    dh[:, first : first + width],
                    dU[t, :, first : first + width],
                    slope[t, :, first : first + width],
                )
                for b in range(B):
                    for j in range(width):
                        da[b, j] = d[b, j] * k[b, j]  # B1
                        d[b, j] = 0
        for g in range(groups.shape[0]):
            period, first, width, place = groups[g]
            if (start + t) % period == 0:
                da, packed = dU[t, :, first : first + width], work[: B * width].reshape(B, width)
                for b in range(B):
                    for j in range(width):
                        packed[b, j] = da[b, j]
                np.dot(packed, W_T[place : place + H * width].reshape(width, H), back)
                for b in range(B):
                    for j in range(H):
                        dh[b, j] += back[b, j]  # B2


class Clockwork(reference.Clockwork):
    """`clockwork` with compiled loops."""

    def _table(self) -> HostArray:
        """Return `groups`."""
        widths = np.array([group.width for group in self.groups])
        first = np.cumsum(widths) - widths
        return np.stack([[group.period for group in self.groups], first, widths, first * self.hidden], axis=1)

    def _matrices(self, tape: Tape, p: Arrays) -> list[Array]:
        """Return the matrix of each group, (H, width), as views of one vector, the scratch array `W`."""
        H, W = self.hidden, p["W_h"]
        flat = tape.scratch("W", H * H)
        flat[...] = 0
        matrices = []
        for group in self.groups:
            own = flat[group.columns.start * H : group.columns.stop * H].reshape(H, group.width)
            for i in group.inputs:
                own[i] = W[i, group.columns]
            matrices.append(own)
        return matrices

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        K, B, H = U.shape
        tape.start = start = int(state["t"])
        hs, slope = tape.new("h", K + 1, B, H), tape.new("slope", K if tape.records else 0, B, H)
        hs[0] = state["h"]
        self._matrices(tape, p)
        clockwork_forward(tape["W"], self._table(), start, U, hs, slope, tape.scratch("work", B * H))  # F1-F3, L1
        return hs[1:], {"h": hs[K], "t": start + K}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        K, B, H = RU.shape
        Ra, Rhs = self.known_tangents(v, tape, RU), tape.new("Rh", K + 1, B, H)
        Rhs[0] = Rstate["h"]
        self._matrices(tape, p)
        work = tape.scratch("work", B * H)
        clockwork_rforward(tape["W"], self._table(), tape.start, Ra, tape["slope"], Rhs, work)  # R1-R3
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        K, B, H = dhs.shape
        dU, dh, W_T = tape.scratch("dU", K, B, H), tape.new("dh", B, H), tape.scratch("W_T", H * H)
        dh[...] = dstate["h"]
        for group, own in zip(self.groups, self._matrices(tape, p), strict=True):
            W_T[group.columns.start * H : group.columns.stop * H].reshape(group.width, H)[...] = own.T
        work, back = tape.scratch("work", B * H), tape.scratch("back", B, H)
        clockwork_backward(W_T, self._table(), tape.start, dhs, tape["slope"], dh, dU, work, back)  # B1, B2
        self.add_gradients(tape, dU, grad)  # B3
        return dU, {"h": dh}


class Hierarchical(Clockwork, hierarchical.Hierarchical):
    """`hierarchical` with compiled loops."""
