"""The state-space network: a linear system with few states, and a layer of nonlinear units beside it (Bemporad 2025).

F1  a_t = U_g_t + h_{t-1} @ W_1                         the units hear the state and, through U, the input
F2  g_t = f(a_t)                                        f = tanh, logistic, relu or softplus
F3  h_t = U_h_t + h_{t-1} @ A + g_t @ W_3               the state: linear in the input, in itself and in the units

L1  k_t = f'(a_t)                                       derivative of F2, once for all products

R1  Ra_t = RU_g_t + h_{t-1} @ R(W_1) + Rh_{t-1} @ W_1   F1 by the rules of [P]
R2  Rg_t = k_t * Ra_t                                   F2 by the rules of [P]
R3  Rh_t = RU_h_t + h_{t-1} @ R(A) + g_t @ R(W_3)       F3 by the rules of [P]
           + Rh_{t-1} @ A + Rg_t @ W_3

B1  dU_h_t = dh_t                                       adjoint of F3; dh_t: output, layer above and step t+1
B2  da_t = (dh_t @ W_3.T) * k_t, dU_g_t = da_t          adjoint of F3 and F2
B3  dh_{t-1} = dh_t @ A.T + da_t @ W_1.T                adjoint of F3 and F1
B4  dA = sum_t h_{t-1}.T @ dh_t                         adjoint of F3
    dW_3 = sum_t g_t.T @ dh_t                           adjoint of F3
    dW_1 = sum_t h_{t-1}.T @ da_t                       adjoint of F1

In the notation of system identification, x_{t+1} = A x_t + B u_t + W_3 f(W_1 x_t + W_2 u_t + b): U has slots for the
state (B u_t) and for the units (W_2 u_t + b). Sources: J. A. K. Suykens, J. Vandewalle and B. De Moor, *Artificial
neural networks for modelling and control of non-linear systems*, 1996 (neural state-space models); A. Bemporad, *An
L-BFGS-B approach for linear and nonlinear system identification under l1 and group-lasso regularization*, 2025; the
same step in the subspace encoder networks of G. I. Beintema, R. Toth and M. Schoukens, *Nonlinear state-space
identification using deep encoder networks*, 2021, and, with relu, a diagonal A and no input of the units, the shallow
PLRNN of F. Hess, Z. Monfared, M. Brenner and D. Durstewitz, *Generalized teacher forcing for learning chaotic
dynamics*, 2023.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer, normal
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.leaky import ACTIVATION
from hfrnn.kernels.pointwise import add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import activate_, slope_of
from hfrnn.option import Option


def _time_constants(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Return a diagonal matrix exp(-1/tau), with time constants tau from 1 to 10 steps in geometric progression."""
    return np.diag(np.exp(-1 / np.geomspace(1, 10, shape[0])))


class StateSpace(Kernel):
    """`state-space`: n states, and `units` nonlinear units with the activation f in their transition."""

    options: ClassVar[tuple[Option | str, ...]] = (
        Option("units", int, 16, "Nonlinear units in the transition of the states.", least=1, unit="units"),
        ACTIVATION,
    )
    transposed: ClassVar[tuple[str, ...]] = ("A", "W_1", "W_3")
    output_bias = True
    scale: ClassVar[float] = 0.3

    def __init__(self, hidden: int, units: int = 16, activation: str = "tanh") -> None:
        self.hidden = self.width = hidden
        self.units, self.activation = units, activation
        self.slots = (Slot("h", hidden, bias=True, below=True), Slot("g", units, bias=True, below=True))
        self.added_to = {"A": ("h",), "W_1": ("g",), "W_3": ("h",)}

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        n, m = self.hidden, self.units
        return {"A": (n, n), "W_1": (n, m), "W_3": (m, n)}

    def initializers(self) -> dict[str, Initializer]:
        return {**super().initializers(), "A": _time_constants, "W_3": normal(0.01)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), n, m = tape.xp, U.shape, self.hidden, self.units
        steps = K if tape.records else 1
        hs, gs = tape.new("h", K + 1, B, n), tape.new("g", steps, B, m)  # hs[t] = h_{t-1}
        work = tape.scratch("work", B, n)
        hs[0] = state["h"]
        for t in range(K):
            g, h = gs[t % steps], hs[t + 1]
            xp.matmul(hs[t], p["W_1"], out=g)
            g += U[t, :, n:]  # F1
            activate_(xp, self.activation, g)  # F2
            xp.matmul(hs[t], p["A"], out=h)
            xp.matmul(g, p["W_3"], out=work)
            h += work
            h += U[t, :, :n]  # F3
        if tape.records:
            slope_of(xp, self.activation, gs, tape.new("k", K, B, m))  # L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), n, m = tape.xp, RU.shape, self.hidden, self.units
        hs, gs, k = tape["h"], tape["g"], tape["k"]
        Rh, of_units, work = tape.scratch("Rh_before", B, n), tape.scratch("units", B, m), tape.scratch("work", B, n)
        Rh[...] = Rstate["h"]  # it may lie in the buffer Rh
        Ra = product(tape, hs[:K], v["W_1"], out=tape.scratch("Ra", K, B, m))
        Ra += RU[:, :, n:]
        Rhs, more = tape.new("Rh", K, B, n), tape.scratch("Rh_more", K, B, n)
        product(tape, hs[:K], v["A"], out=Rhs)
        Rhs += product(tape, gs, v["W_3"], out=more)
        Rhs += RU[:, :, :n]
        for t in range(K):
            Rg, Rh_t = Ra[t], Rhs[t]
            xp.matmul(Rh, p["W_1"], out=of_units)
            Rg += of_units  # R1
            Rg *= k[t]  # R2
            xp.matmul(Rh, p["A"], out=work)
            Rh_t += work
            xp.matmul(Rg, p["W_3"], out=work)
            Rh_t += work  # R3
            Rh = Rh_t
        return Rhs, {"h": Rh}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, n), m, k = tape.xp, dhs.shape, self.units, tape["k"]
        A_T, W_1T, W_3T = (transpose(p, name) for name in self.transposed)
        dU, ds, das = tape.scratch("dU", K, B, n + m), tape.scratch("ds", K, B, n), tape.scratch("da", K, B, m)
        dh, work = tape.new("dh", B, n), tape.scratch("work", B, n)
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            da = das[t]
            dh += dhs[t]
            ds[t] = dh  # B1
            xp.matmul(ds[t], W_3T, out=da)
            da *= k[t]  # B2
            xp.matmul(ds[t], A_T, out=dh)
            xp.matmul(da, W_1T, out=work)
            dh += work  # B3
        dU[:, :, :n], dU[:, :, n:] = ds, das  # B1, B2
        add_weight_gradient(tape, tape["h"][:K], ds, grad["A"])  # B4
        add_weight_gradient(tape, tape["g"], ds, grad["W_3"])  # B4
        add_weight_gradient(tape, tape["h"][:K], das, grad["W_1"])  # B4
        return dU, {"h": dh}
