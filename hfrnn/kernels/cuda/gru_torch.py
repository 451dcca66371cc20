"""Fused gru-torch: the equations of kernels/gru_torch.py, under its numbers."""

from __future__ import annotations

from hfrnn.arrays.backend import Array
from hfrnn.kernels import gru_torch as reference
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.cuda.grid import GridKernels, Passes, Product
from hfrnn.kernels.cuda.launch import Kernels, contiguous_transpose
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product


class TorchGRU(reference.TorchGRU):
    """`gru-torch` with fused steps."""

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().forward(p, U, state, tape)
        xp, (K, B, _), H, run = tape.xp, U.shape, self.hidden, Kernels("gru_torch", tape)
        recorded, hs = int(tape.records), tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        k = tape.new("k", K if recorded else 1, B, 3 * H)
        rz = tape.new("rz", K, B, 2 * H) if recorded else k
        hs[0], b_hn = state["h"], self.b_hn(p, tape)
        if (segment := self._segment(tape, B)).fit:
            segment.run("forward", K, B, H, recorded, U, p["W_h"], b_hn, hs, k, rz)  # F1-F5, L1-L3
            return hs[1:], {"h": hs[K]}
        for t in range(K):
            xp.matmul(hs[t], p["W_h"], out=k[t % k.shape[0]])  # F1
            run.each("gru_torch_forward", B * H, t, B, H, recorded, U, b_hn, hs, k, rz)  # F2-F5, L1-L3
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().rforward(p, v, tape, RU, Rstate)
        xp, (K, B, _), H, run, rz, k = tape.xp, RU.shape, self.hidden, Kernels("gru_torch", tape), tape["rz"], tape["k"]
        Rs = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rs", K, B, 3 * H))
        Rhs, recurrent = tape.new("Rh", K + 1, B, H), tape.scratch("recurrent", B, 3 * H)  # Rhs[t] = Rh_{t-1}
        Rhs[0], Rb_hn = Rstate["h"], self.b_hn(v, tape)
        if (segment := self._segment(tape, B)).fit:
            segment.run("rforward", K, B, H, RU, p["W_h"], Rs, Rb_hn, rz, k, Rhs)  # R1-R5
            return Rhs[1:], {"h": Rhs[K]}
        for t in range(K):
            xp.matmul(Rhs[t], p["W_h"], out=recurrent)  # R1
            run.each("gru_torch_rforward", B * H, t, B, H, RU, Rs, recurrent, Rb_hn, rz, k, Rhs)  # R1-R5
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        if not is_fused(tape):
            return super().backward(p, tape, dhs, dstate, grad)
        xp, (K, B, H), run, rz, k = tape.xp, dhs.shape, Kernels("gru_torch", tape), tape["rz"], tape["k"]
        dU, ds = tape.scratch("dU", K, B, 3 * H), tape.scratch("ds", K, B, 3 * H)
        W_T = contiguous_transpose(tape, p, "W_h")
        dh, recurrent = tape.new("dh", B, H), tape.scratch("recurrent", B, H)
        dh[...], recurrent[...] = dstate["h"], 0
        if (segment := self._segment(tape, B)).fit:
            segment.run("backward", K, B, H, dhs, W_T, rz, k, dh, dU, ds)  # B1-B4
        else:
            for t in reversed(range(K)):
                run.each("gru_torch_backward", B * H, t, B, H, dhs, recurrent, rz, k, dh, dU, ds)  # B1-B4
                xp.matmul(ds[t], W_T, out=recurrent)  # B4
            dh += recurrent  # B4
        add_weight_gradient(tape, tape["h"][:K], ds, grad["W_h"])  # B5
        if self.candidate_bias:
            add_bias_gradient(ds[:, :, 2 * H :], grad["b_hn"])  # B5
        return dU, {"h": dh}

    def _segment(self, tape: Tape, B: int) -> GridKernels:
        """Return the kernels that run a whole segment, for B sequences."""
        return GridKernels("gru_torch", tape, B, self.products())

    def products(self) -> Passes:
        """Return the recurrent products of a step."""
        H = self.hidden
        return Passes((Product(H, (H, H, H)),), (Product(3 * H, (H,)),))
