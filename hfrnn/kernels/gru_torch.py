"""Gated recurrent units as cuDNN and PyTorch compute them: the reset gate acts after the recurrent product.

F1  s_t = h_{t-1} @ W_h                                 three blocks of columns, s_r, s_z and s_n
F2  r_t, z_t = sigma(U_rz + s_rz)                       reset and update gates
F3  m_t = s_n + b_hn                                    the recurrent part of the candidate, with its own bias
F4  n_t = tanh(U_n + r_t*m_t)                           candidate; gru.py has (r*h_{t-1}) @ W_hg in place of r*m
F5  h_t = (1 - z_t)*n_t + z_t*h_{t-1}                   state

L1  k_r = da_n/da_r = m * r*(1-r)                       derivative of F4's argument and F2, once for all products
L2  k_z = dh/da_z = (h_{t-1} - n) * z*(1-z)             derivative of F5 and F2
L3  k_n = dh/da_n = (1 - z) * (1 - n*n)                 derivative of F5 and F4

R1  Rs_t = h_{t-1} @ R(W_h) + Rh_{t-1} @ W_h            F1 by the rules of [P]
R2  Ra_r, Ra_z = RU_rz + Rs_rz                          F2 by the rules of [P]
R3  Rm_t = Rs_n + R(b_hn)                               F3 by the rules of [P]
R4  Ra_n = RU_n + k_r*Ra_r + r*Rm_t                     F4 by the rules of [P]
R5  Rh_t = k_z*Ra_z + k_n*Ra_n + z*Rh_{t-1}             F5 by the rules of [P]

B1  da_z = dh_t*k_z, da_n = dh_t*k_n                    adjoint of F5
B2  da_r = da_n*k_r, dm_t = da_n*r                      adjoint of F4; dU_t = (da_r, da_z, da_n)
B3  ds_t = (da_r, da_z, dm_t)                           adjoint of F3 and F2
B4  dh_{t-1} = z*dh_t + ds_t @ W_h.T                    adjoint of F5 and F1
B5  dW_h = sum_t h_{t-1}.T @ ds_t                       adjoint of F1
    db_hn = sum_t dm_t                                  adjoint of F3

Source: the documentation of `torch.nn.GRU`. The two biases of PyTorch's r and z are one here, that of U. Without
`candidate_bias`, as with `bias=False` in PyTorch, b_hn is 0 and no parameter.
"""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer, constant
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import (
    add_bias_gradient,
    add_weight_gradient,
    product,
    sigmoid_,
    slope_of_tanh,
    transpose,
)
from hfrnn.option import Option


class TorchGRU(Kernel):
    """`gru-torch`: H units, each with a reset gate r, an update gate z and a candidate n."""

    output_bias = True
    transposed = ("W_h",)
    options: ClassVar[tuple[Option | str, ...]] = (
        Option("candidate_bias", bool, True, "Give the recurrent part of the candidate a bias of its own."),
    )

    def __init__(self, hidden: int, candidate_bias: bool = True) -> None:
        self.hidden = self.width = hidden
        self.candidate_bias = candidate_bias
        self.slots = tuple(Slot(name, hidden, bias=True, below=True) for name in "rzn")

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, 3 * self.hidden), **({"b_hn": (self.hidden,)} if self.candidate_bias else {})}

    def initializers(self) -> dict[str, Initializer]:
        return {**super().initializers(), **({"b_hn": constant(0.0)} if self.candidate_bias else {})}

    def b_hn(self, p: Arrays, tape: Tape) -> Array:
        """Return b_hn, or its tangent if `p` is a direction: zeros without a candidate bias."""
        if self.candidate_bias:
            return p["b_hn"]
        zeros = tape.scratch("no_bias", self.hidden)
        zeros[...] = 0
        return zeros

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H = tape.xp, U.shape, self.hidden
        steps = K if tape.records else 1  # rows of the buffers that only derivatives need
        k, m, n = tape.new("k", steps, B, 3 * H), tape.scratch("m", steps, B, H), tape.scratch("n", steps, B, H)
        b_hn = self.b_hn(p, tape)  # (H,)
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        for t in range(K):
            s, m_t, n_t, h = k[t % steps], m[t % steps], n[t % steps], hs[t + 1]
            xp.matmul(hs[t], p["W_h"], out=s)  # F1
            m_t[...] = s[:, 2 * H :]
            m_t += b_hn  # F3
            gates = s[:, : 2 * H]
            gates += U[t, :, : 2 * H]
            sigmoid_(xp, gates)  # F2
            xp.multiply(gates[:, :H], m_t, out=n_t)
            n_t += U[t, :, 2 * H :]
            xp.tanh(n_t, out=n_t)  # F4
            xp.subtract(hs[t], n_t, out=h)
            h *= gates[:, H:]
            h += n_t  # F5
        if tape.records:
            self._linearize(tape, hs[:K])
        return hs[1:], {"h": hs[K]}

    def _linearize(self, tape: Tape, before: Array) -> None:
        """Compute the coefficients of all steps from r and z, which are in `k`, m and n; keep r and z beside them."""
        xp, k, m, n, (K, B, H) = tape.xp, tape["k"], tape["m"], tape["n"], before.shape
        gates, rz = k[:, :, : 2 * H], tape.new("rz", K, B, 2 * H)
        k_r, k_z, k_n = k[:, :, :H], k[:, :, H : 2 * H], k[:, :, 2 * H :]
        rz[...] = gates
        xp.subtract(1.0, rz, out=gates)
        slope_of_tanh(xp, n, k_n)
        k_n *= k_z  # L3
        gates *= rz
        k_r *= m  # L1
        xp.subtract(before, n, out=n)
        k_z *= n  # L2

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, rz, k = tape.xp, RU.shape, self.hidden, tape["rz"], tape["k"]
        Rs = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rs", K, B, 3 * H))
        Rgates, Rm = Rs[:, :, : 2 * H], Rs[:, :, 2 * H :]
        Rgates += RU[:, :, : 2 * H]  # R2
        Rm += self.b_hn(v, tape)  # R3
        Rhs, Rh = tape.new("Rh", K, B, H), Rstate["h"]
        wide = tape.scratch("wide", B, 3 * H)
        for t in range(K):
            Rs_t, k_t, Rh_t = Rs[t], k[t], Rhs[t]
            xp.matmul(Rh, p["W_h"], out=wide)
            Rs_t += wide  # R1
            Ra_rz, Ra_n = Rs_t[:, : 2 * H], Rs_t[:, 2 * H :]
            Ra_rz *= k_t[:, : 2 * H]
            Ra_n *= rz[t, :, :H]
            Ra_n += Ra_rz[:, :H]
            Ra_n += RU[t, :, 2 * H :]  # R4
            Ra_n *= k_t[:, 2 * H :]
            xp.multiply(rz[t, :, H:], Rh, out=Rh_t)
            Rh_t += Ra_rz[:, H:]
            Rh_t += Ra_n  # R5
            Rh = Rh_t
        return Rhs, {"h": Rh}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), rz, k, W_T = tape.xp, dhs.shape, tape["rz"], tape["k"], transpose(p, "W_h")
        dU, dss = tape.scratch("dU", K, B, 3 * H), tape.scratch("ds", K, B, 3 * H)
        dh, work = tape.new("dh", B, H), tape.scratch("work", B, H)
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            da, ds, k_t = dU[t], dss[t], k[t]
            xp.multiply(dh, k_t[:, H : 2 * H], out=da[:, H : 2 * H])
            xp.multiply(dh, k_t[:, 2 * H :], out=da[:, 2 * H :])  # B1
            xp.multiply(da[:, 2 * H :], k_t[:, :H], out=da[:, :H])
            xp.multiply(da[:, 2 * H :], rz[t, :, :H], out=ds[:, 2 * H :])  # B2
            ds[:, : 2 * H] = da[:, : 2 * H]  # B3
            dh *= rz[t, :, H:]
            xp.matmul(ds, W_T, out=work)
            dh += work  # B4
        add_weight_gradient(tape, tape["h"][:K], dss, grad["W_h"])  # B5
        if self.candidate_bias:
            add_bias_gradient(dss[:, :, 2 * H :], grad["b_hn"])  # B5
        return dU, {"h": dh}
