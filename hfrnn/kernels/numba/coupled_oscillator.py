"""Compiled coupled-oscillator: the equations of kernels/coupled_oscillator.py, under its numbers.

`dt`, `pull` = dt*gamma and `kept` = 1 - dt*epsilon are numbers of the arrays' type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.kernels import coupled_oscillator as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba.pointwise import ONE, compile_exact_loop, tanh
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


@compile_exact_loop
def oscillator_forward(
    dt: Any, pull: Any, kept: Any, W_h: Array, W_z: Array, U: Array, ys: Array, zs: Array, k: Array, of_y: Array,
    of_z: Array,
) -> None:  # fmt: skip
    K, B, H = U.shape
    recorded = k.shape[0] == K
    for t in range(K):
        np.dot(ys[t], W_h, of_y)
        np.dot(zs[t], W_z, of_z)
        for b in range(B):
            for j in range(H):
                g = tanh(of_y[b, j] + of_z[b, j] + U[t, b, j])  # F1, F2
                z = zs[t, b, j] * kept + g * dt - ys[t, b, j] * pull  # F2
                zs[t + 1, b, j] = z
                ys[t + 1, b, j] = z * dt + ys[t, b, j]  # F3
                if recorded:
                    k[t, b, j] = (ONE - g * g) * dt  # L1


@compile_exact_loop
def oscillator_rforward(
    dt: Any, pull: Any, kept: Any, W_h: Array, W_z: Array, RU: Array, Ra: Array, k: Array, Ry: Array, Rz: Array,
    Rys: Array, of_y: Array, of_z: Array,
) -> None:  # fmt: skip
    K, B, H = RU.shape
    for t in range(K):
        previous = Ry if t == 0 else Rys[t - 1]
        np.dot(previous, W_h, of_y)
        np.dot(Rz, W_z, of_z)
        for b in range(B):
            for j in range(H):
                R = Ra[t, b, j] + RU[t, b, j] + of_y[b, j] + of_z[b, j]  # R1
                z = Rz[b, j] * kept + R * k[t, b, j] - previous[b, j] * pull  # R2
                Rz[b, j] = z
                Rys[t, b, j] = previous[b, j] + z * dt  # R3


@compile_exact_loop
def oscillator_backward(
    dt: Any, pull: Any, kept: Any, W_hT: Array, W_zT: Array, dhs: Array, k: Array, dy: Array, dz: Array, dU: Array,
    of_y: Array, of_z: Array,
) -> None:  # fmt: skip
    K, B, H = dhs.shape
    for t in range(K - 1, -1, -1):
        for b in range(B):
            for j in range(H):
                y = dy[b, j] + dhs[t, b, j]
                z = dz[b, j] + y * dt  # B1
                dU[t, b, j] = z * k[t, b, j]  # B2
                dy[b, j] = y - z * pull  # B3
                dz[b, j] = z * kept  # B4
        np.dot(dU[t], W_hT, of_y)
        np.dot(dU[t], W_zT, of_z)
        for b in range(B):
            for j in range(H):
                dy[b, j] += of_y[b, j]  # B3
                dz[b, j] += of_z[b, j]  # B4


class CoupledOscillator(reference.CoupledOscillator):
    """`coupled-oscillator` with compiled loops."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        K, B, H = U.shape
        ys, zs, k = (
            tape.new("y", K + 1, B, H),
            tape.new("z", K + 1, B, H),
            tape.new("k", K if tape.records else 0, B, H),
        )
        ys[0], zs[0] = state["y"], state["z"]
        of_y, of_z = tape.scratch("of_y", B, H), tape.scratch("of_z", B, H)
        oscillator_forward(*self._numbers(tape), p["W_h"], p["W_z"], U, ys, zs, k, of_y, of_z)  # F1-F3, L1
        return ys[1:], {"y": ys[K], "z": zs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        K, B, H = RU.shape
        Ra, more = tape.scratch("Ra", K, B, H), tape.scratch("Ra_of_z", K, B, H)
        product(tape, tape["y"][:K], v["W_h"], out=Ra)
        Ra += product(tape, tape["z"][:K], v["W_z"], out=more)
        Rys, Rz, of_y, of_z = tape.new("Ry", K, B, H), tape.new("Rz", B, H), tape.scratch("of_y", B, H), tape["of_z"]
        Rz[...] = Rstate["z"]
        given = p["W_h"], p["W_z"], RU, Ra, tape["k"], Rstate["y"], Rz, Rys, of_y, of_z
        oscillator_rforward(*self._numbers(tape), *given)  # R1-R3
        return Rys, {"y": Rys[K - 1], "z": Rz}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        K, B, H = dhs.shape
        dU, dy, dz = tape.scratch("dU", K, B, H), tape.new("dy", B, H), tape.new("dz", B, H)
        dy[...], dz[...] = dstate["y"], dstate["z"]
        given = transpose(p, "W_h"), transpose(p, "W_z"), dhs, tape["k"], dy, dz, dU, tape["of_y"], tape["of_z"]
        oscillator_backward(*self._numbers(tape), *given)  # B1-B4
        add_weight_gradient(tape, tape["y"][:K], dU, grad["W_h"])  # B5
        add_weight_gradient(tape, tape["z"][:K], dU, grad["W_z"])  # B5
        return dU, {"y": dy, "z": dz}

    def _numbers(self, tape: Tape) -> tuple[Any, Any, Any]:
        """Return dt, dt*gamma and 1 - dt*epsilon."""
        kind = tape.kept.dtype.type
        return kind(self.dt), kind(self.dt * self.gamma), kind(1.0 - self.dt * self.epsilon)
