"""Fused coupled-oscillator: the equations of kernels/coupled_oscillator.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import coupled_oscillator as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.launch import Kernels
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


class CoupledOscillator(reference.CoupledOscillator):
    """`coupled-oscillator` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, H), run, recorded = tape.xp, U.shape, Kernels("coupled_oscillator", tape), int(tape.records)
        ys, zs = tape.new("y", K + 1, B, H), tape.new("z", K + 1, B, H)
        k = tape.new("k", K, B, H) if recorded else ys
        of_y, of_z = tape.scratch("of_y", B, H), tape.scratch("of_z", B, H)
        ys[0], zs[0] = state["y"], state["z"]
        for t in range(K):
            xp.matmul(ys[t], p["W_h"], out=of_y)  # F1
            xp.matmul(zs[t], p["W_z"], out=of_z)  # F1
            step = U, of_y, of_z, ys, zs, k
            run.each("oscillator_forward", B * H, t, B, H, recorded, *self._numbers(), *step)  # F1-F3, L1
        return ys[1:], {"y": ys[K], "z": zs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, H), run = tape.xp, RU.shape, Kernels("coupled_oscillator", tape)
        Ra, more = tape.scratch("Ra", K, B, H), tape.scratch("Ra_of_z", K, B, H)
        product(tape, tape["y"][:K], v["W_h"], out=Ra)
        Ra += product(tape, tape["z"][:K], v["W_z"], out=more)
        Rys, Rz = tape.new("Ry", K + 1, B, H), tape.new("Rz", B, H)  # Rys[t] = Ry_{t-1}
        of_y, of_z = tape.scratch("of_y", B, H), tape.scratch("of_z", B, H)
        Rys[0], Rz[...] = Rstate["y"], Rstate["z"]
        for t in range(K):
            xp.matmul(Rys[t], p["W_h"], out=of_y)  # R1
            xp.matmul(Rz, p["W_z"], out=of_z)  # R1
            step = RU, Ra, of_y, of_z, tape["k"], Rys, Rz
            run.each("oscillator_rforward", B * H, t, B, H, *self._numbers(), *step)  # R1-R3
        return Rys[1:], {"y": Rys[K], "z": Rz}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, H), run = tape.xp, dhs.shape, Kernels("coupled_oscillator", tape)
        W_hT, W_zT = transpose(p, "W_h"), transpose(p, "W_z")
        dU, dy, dz = tape.scratch("dU", K, B, H), tape.new("dy", B, H), tape.new("dz", B, H)
        of_y, of_z = tape.scratch("of_y", B, H), tape.scratch("of_z", B, H)
        dy[...], dz[...], of_y[...], of_z[...] = dstate["y"], dstate["z"], 0, 0
        for t in reversed(range(K)):
            step = dhs, of_y, of_z, tape["k"], dy, dz, dU
            run.each("oscillator_backward", B * H, t, B, H, *self._numbers(), *step)  # B1-B4
            xp.matmul(dU[t], W_hT, out=of_y)  # B3
            xp.matmul(dU[t], W_zT, out=of_z)  # B4
        dy += of_y  # B3
        dz += of_z  # B4
        add_weight_gradient(tape, tape["y"][:K], dU, grad["W_h"])  # B5
        add_weight_gradient(tape, tape["z"][:K], dU, grad["W_z"])  # B5
        return dU, {"y": dy, "z": dz}

    def _numbers(self) -> tuple[float, float, float]:
        """Return dt, dt*gamma and 1 - dt*epsilon."""
        return self.dt, self.dt * self.gamma, 1.0 - self.dt * self.epsilon
