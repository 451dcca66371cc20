"""Long short-term memory: the standard one ([S thesis] 3.2.2) and Krause's ([K] 2.11-2.18).

F1  a_t = U_t + h_{t-1} @ W_h                           [K] 2.11-2.13; gates i, f, o and input g side by side
F2  c_t, h_t = cell(a_t, c_{t-1})                       cells.py F1-F4, linearised by its L1-L6

R1  Ra_t = RU_t + h_{t-1} @ R(W_h) + Rh_{t-1} @ W_h     [K] 7.1-7.4
R2  Rc_t, Rh_t = R cell(Ra_t, Rc_{t-1})                 cells.py R1, R2

B1  da_t, dc_{t-1} = cell backward(dh_t, dc_t)          cells.py B1-B4; dU_t = da_t
B2  dh_{t-1} = da_t @ W_h.T                             [K] 7.10
B3  dW_h = sum_t h_{t-1}.T @ da_t                       [K] 2.8, for all four gates
"""

from __future__ import annotations

from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.cells import Cell, KrauseCell, StandardCell
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose


class LSTM(Kernel):
    """`lstm`: H cells with input, forget and output gates."""

    output_bias = True
    transposed = ("W_h",)
    gate_bias: ClassVar[bool] = True
    cell: ClassVar[Cell] = StandardCell()

    def __init__(self, hidden: int) -> None:
        self.hidden = self.width = hidden
        self.slots = tuple(Slot(name, hidden, bias=self.gate_bias, below=True) for name in "ifog")
        self.metrics = self.cell.metrics

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, 4 * self.hidden)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden), "c": (B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), W = tape.xp, U.shape, p["W_h"]
        a, _, hs = self.cell.begin(tape, K, B, self.hidden, state)
        for t in range(K):
            xp.matmul(hs[t], W, out=a[t % a.shape[0]])
            self.cell.forward(tape, t, U[t])  # F1, F2
        return hs[1:], self.cell.finish(tape, K)

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, S), H, W = tape.xp, RU.shape, self.hidden, p["W_h"]
        Ra = product(tape, tape["h"][:K], v["W_h"], out=tape.scratch("Rgates", K, B, S))
        Ra += RU
        Rhs, Rc, recurrent = tape.new("Rh", K, B, H), tape.new("Rc", B, H), tape.scratch("recurrent", B, S)
        Rzeta = tape.preactivation_tangent(K, B, H) if tape.keeps_preactivation else None
        Rh = Rstate["h"]
        Rc[...] = Rstate["c"]
        for t in range(K):
            xp.matmul(Rh, W, out=recurrent)
            Rh = Rhs[t]
            self.cell.rforward(tape, t, Ra[t], recurrent, Rc, Rh, None if Rzeta is None else Rzeta[t])  # R1, R2
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
        xp, (K, B, H), W_T = tape.xp, dhs.shape, transpose(p, "W_h")
        dU = tape.scratch("dU", K, B, 4 * H)
        dh, dc = tape.new("dh", B, H), tape.new("dc", B, H)
        dh[...] = dstate["h"]
        dc[...] = dstate["c"]
        for t in reversed(range(K)):
            dzeta = None if preactivation_adjoint is None else preactivation_adjoint[t]
            self.cell.backward(tape, t, dh, dhs[t], dc, dU[t], dzeta)  # B1
            xp.matmul(dU[t], W_T, out=dh)  # B2
        add_weight_gradient(tape, tape["h"][:K], dU, grad["W_h"])  # B3
        return dU, {"h": dh, "c": dc}


class KrauseLSTM(LSTM):
    """`lstm-krause`: linear cell input, h = tanh(c*o), no biases."""

    output_bias = False
    gate_bias = False
    cell = KrauseCell()

    def slope(self, xp: Any, h: Array) -> Array:
        return 1.0 - h * h
