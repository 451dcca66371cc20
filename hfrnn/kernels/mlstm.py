"""The multiplicative LSTM ([K] 4.7-4.10), with Krause's cell or the standard one.

F1  xi_t = h_{t-1} @ W_hm                               [K] 4.4, second factor
F2  m_t = U_m * xi_t                                    [K] 4.4
F3  a_t = U_ifog + m_t @ W_m                            [K] 4.7-4.10; h_{t-1} enters through m_t only
F4  c_t, h_t = cell(a_t, c_{t-1})                       cells.py F1-F4, linearised by its L1-L6

R1  Rxi_t = h_{t-1} @ R(W_hm) + Rh_{t-1} @ W_hm         F1 by the rule [K] 3.20
R2  Rm_t = RU_m * xi_t + U_m * Rxi_t                    F2 by the rule [K] 3.21
R3  Ra_t = RU_ifog + m_t @ R(W_m) + Rm_t @ W_m          F3 by the rule [K] 3.20
R4  Rc_t, Rh_t = R cell(Ra_t, Rc_{t-1})                 cells.py R1, R2

B1  da_t, dc_{t-1} = cell backward(dh_t, dc_t)          cells.py B1-B4; dU_ifog = da_t
B2  dm_t = da_t @ W_m.T                                 adjoint of F3
B3  dxi_t = dm_t * U_m, dU_m = dm_t * xi_t              adjoint of F2
B4  dh_{t-1} = dxi_t @ W_hm.T                           adjoint of F1
B5  dW_m = sum_t m_t.T @ da_t                           adjoint of F3
    dW_hm = sum_t h_{t-1}.T @ dxi_t                     adjoint of F1
"""

from __future__ import annotations

from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.cells import Cell, KrauseCell, StandardCell
from hfrnn.kernels.pointwise import add_weight_gradient, multiplied_backward, multiplied_rforward, product, transpose


class MLSTM(Kernel):
    """`mlstm`: Krause's cell driven through H multiplicative units."""

    transposed = ("W_hm", "W_m")
    gate_bias: ClassVar[bool] = False
    cell: ClassVar[Cell] = KrauseCell()

    def __init__(self, hidden: int) -> None:
        self.hidden = self.width = hidden
        gates = tuple(Slot(name, hidden, bias=self.gate_bias, below=True) for name in "ifog")
        self.slots = (*gates, Slot("m", hidden))
        self.added_to = {"W_m": tuple("ifog")}
        self.metrics = self.cell.metrics

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_hm": (self.hidden, self.hidden), "W_m": (self.hidden, 4 * self.hidden)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden), "c": (B, self.hidden)}

    def slope(self, xp: Any, h: Array) -> Array:
        return 1.0 - h * h

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, W_hm, W_m = tape.xp, U.shape, self.hidden, p["W_hm"], p["W_m"]
        a, _, hs = self.cell.begin(tape, K, B, H, state)
        U_m, xi, m = tape.new("U_m", K, B, H), tape.new("xi", K, B, H), tape.new("m", K, B, H)
        U_m[...] = U[:, :, 4 * H :]
        for t in range(K):
            xp.matmul(hs[t], W_hm, out=xi[t])  # F1
            xp.multiply(U_m[t], xi[t], out=m[t])  # F2
            xp.matmul(m[t], W_m, out=a[t % a.shape[0]])
            self.cell.forward(tape, t, U[t])  # F3, F4
        return hs[1:], self.cell.finish(tape, K)

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, W_hm, W_m = tape.xp, RU.shape, self.hidden, p["W_hm"], p["W_m"]
        U_m, xi, m = tape["U_m"], tape["xi"], tape["m"]
        Rxi = product(tape, tape["h"][:K], v["W_hm"], out=tape.scratch("Rxi", K, B, H))
        Ra = product(tape, m, v["W_m"], out=tape.scratch("Rgates", K, B, 4 * H))
        Ra += RU[:, :, : 4 * H]
        Rhs, Rc = tape.new("Rh", K, B, H), tape.new("Rc", B, H)
        Rm, work, recurrent = tape.scratch("Rm", B, H), tape.scratch("work", B, H), tape.scratch("recurrent", B, 4 * H)
        Rzeta = tape.preactivation_tangent(K, B, H) if tape.keeps_preactivation else None
        Rh = Rstate["h"]
        Rc[...] = Rstate["c"]
        for t in range(K):
            xp.matmul(Rh, W_hm, out=work)
            multiplied_rforward(xp, Rxi[t], work, U_m[t], RU[t], xi[t], Rm)  # R1, R2
            xp.matmul(Rm, W_m, out=recurrent)
            Rh = Rhs[t]
            self.cell.rforward(tape, t, Ra[t], recurrent, Rc, Rh, None if Rzeta is None else Rzeta[t])  # R3, R4
        return Rhs, {"h": Rh, "c": Rc}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H), U_m, xi, m = tape.xp, dhs.shape, tape["U_m"], tape["xi"], tape["m"]
        dU, dxi, dm = tape.scratch("dU", K, B, 5 * H), tape.scratch("dxi", K, B, H), tape.scratch("dm", B, H)
        das, W_m_T, W_hm_T = dU[:, :, : 4 * H], transpose(p, "W_m"), transpose(p, "W_hm")
        dh, dc = tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...] = dstate["h"]
        dc[...] = dstate["c"]
        for t in reversed(range(K)):
            dzeta = None if preactivation_adjoint is None else preactivation_adjoint[t]
            self.cell.backward(tape, t, dh, dhs[t], dc, das[t], dzeta)  # B1
            xp.matmul(das[t], W_m_T, out=dm)  # B2
            multiplied_backward(xp, dm, U_m[t], xi[t], dxi[t], dU[t])  # B3
            xp.matmul(dxi[t], W_hm_T, out=dh)  # B4
        add_weight_gradient(tape, m, das, grad["W_m"])  # B5
        add_weight_gradient(tape, tape["h"][:K], dxi, grad["W_hm"])  # B5
        return dU, {"h": dh, "c": dc}


class StandardMLSTM(MLSTM):
    """`mlstm-standard`: the standard cell driven through H multiplicative units, with biases."""

    output_bias = True
    gate_bias = True
    cell = StandardCell()
