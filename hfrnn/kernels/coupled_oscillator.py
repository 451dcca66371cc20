"""The coupled oscillatory network: H damped, driven oscillators, coupled by a tanh (coRNN; Rusch and Mishra 2021).

F1  a_t = U_t + y_{t-1} @ W_h + z_{t-1} @ W_z           y: positions, z: velocities
F2  z_t = z_{t-1} + dt * (tanh(a_t) - gamma * y_{t-1} - epsilon * z_{t-1})
F3  y_t = y_{t-1} + dt * z_t                            y_t is the output h

L1  k_t = dt * (1 - tanh(a_t)^2)                        derivative of F2, once for all products

R1  Ra_t = RU_t + y_{t-1} @ R(W_h) + z_{t-1} @ R(W_z)   F1 by the rules of [P]
           + Ry_{t-1} @ W_h + Rz_{t-1} @ W_z
R2  Rz_t = (1 - dt*epsilon) * Rz_{t-1} - dt*gamma * Ry_{t-1} + k_t * Ra_t
R3  Ry_t = Ry_{t-1} + dt * Rz_t                         F3 by the rules of [P]

B1  dz_t += dt * dy_t                                   adjoint of F3; dy_t: output, layer above and step t+1
B2  da_t = k_t * dz_t, dU_t = da_t                      adjoint of F2
B3  dy_{t-1} = dy_t - dt*gamma * dz_t + da_t @ W_h.T    adjoint of F3, F2 and F1
B4  dz_{t-1} = (1 - dt*epsilon) * dz_t + da_t @ W_z.T   adjoint of F2 and F1
B5  dW_h = sum_t y_{t-1}.T @ da_t                       adjoint of F1
    dW_z = sum_t z_{t-1}.T @ da_t                       adjoint of F1

F2 and F3 discretize y'' = tanh(y @ W_h + y' @ W_z + U) - gamma*y - epsilon*y' by the IMEX scheme of the source, eq. 3,
with the damping epsilon*z of the previous step, as in the code of its authors: gamma is the squared frequency of an
uncoupled oscillator and epsilon its damping. Source: T. K. Rusch and S. Mishra, *Coupled oscillatory recurrent neural
network (coRNN): an accurate and (gradient) stable architecture for learning long time dependencies*, 2021.
"""

from __future__ import annotations

from typing import ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, slope_of_tanh, transpose
from hfrnn.option import Option


class CoupledOscillator(Kernel):
    """`coupled-oscillator`: H oscillators; the state is y and z, the output y."""

    options: ClassVar[tuple[Option | str, ...]] = (
        Option("dt", float, 0.042, "Time step of the oscillators.", above=0, most=1),
        Option("gamma", float, 2.7, "Squared frequency of an uncoupled oscillator.", least=0),
        Option("epsilon", float, 4.7, "Damping of the oscillators.", least=0),
    )
    transposed: ClassVar[tuple[str, ...]] = ("W_h", "W_z")

    def __init__(self, hidden: int, dt: float = 0.042, gamma: float = 2.7, epsilon: float = 4.7) -> None:
        self.hidden = self.width = hidden
        self.dt, self.gamma, self.epsilon = dt, gamma, epsilon
        self.slots = (Slot("z", hidden, bias=True, below=True),)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, self.hidden), "W_z": (self.hidden, self.hidden)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"y": (B, self.hidden), "z": (B, self.hidden)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H), steps = tape.xp, U.shape, U.shape[0] if tape.records else 1
        dt, pull, kept = self.dt, self.dt * self.gamma, 1.0 - self.dt * self.epsilon
        ys, zs, work = tape.new("y", K + 1, B, H), tape.new("z", K + 1, B, H), tape.scratch("work", B, H)
        gs = tape.new("k", steps, B, H)  # ys[t], zs[t] = y_{t-1}, z_{t-1}
        ys[0], zs[0] = state["y"], state["z"]
        for t in range(K):
            g, y, z = gs[t % steps], ys[t + 1], zs[t + 1]
            xp.matmul(ys[t], p["W_h"], out=g)
            xp.matmul(zs[t], p["W_z"], out=work)
            g += work
            g += U[t]  # F1
            xp.tanh(g, out=g)
            xp.multiply(zs[t], kept, out=z)
            xp.multiply(g, dt, out=work)
            z += work
            xp.multiply(ys[t], pull, out=work)
            z -= work  # F2
            xp.multiply(z, dt, out=y)
            y += ys[t]  # F3
        if tape.records:
            slope_of_tanh(xp, gs, out=gs)
            gs *= dt  # L1
        return ys[1:], {"y": ys[K], "z": zs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), ys, zs, k = tape.xp, RU.shape, tape["y"], tape["z"], tape["k"]
        dt, pull, kept = self.dt, self.dt * self.gamma, 1.0 - self.dt * self.epsilon
        Ras, of_z = tape.scratch("Ra", K, B, H), tape.scratch("Ra_of_z", K, B, H)
        product(tape, ys[:K], v["W_h"], out=Ras)
        Ras += product(tape, zs[:K], v["W_z"], out=of_z)
        Ras += RU
        Rys, Rz, Ry = tape.new("Ry", K, B, H), tape.new("Rz", B, H), Rstate["y"]
        work = tape.scratch("work", B, H)
        Rz[...] = Rstate["z"]
        for t in range(K):
            Ra, Ry_t = Ras[t], Rys[t]
            xp.matmul(Ry, p["W_h"], out=work)
            Ra += work
            xp.matmul(Rz, p["W_z"], out=work)
            Ra += work  # R1
            Ra *= k[t]
            Rz *= kept
            Rz += Ra
            xp.multiply(Ry, pull, out=work)
            Rz -= work  # R2
            xp.multiply(Rz, dt, out=work)
            Ry_t[...] = Ry
            Ry_t += work  # R3
            Ry = Ry_t
        return Rys, {"y": Ry, "z": Rz}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), k, W_hT, W_zT = tape.xp, dhs.shape, tape["k"], transpose(p, "W_h"), transpose(p, "W_z")
        dt, pull, kept = self.dt, self.dt * self.gamma, 1.0 - self.dt * self.epsilon
        dU, dy, dz = tape.scratch("dU", K, B, H), tape.new("dy", B, H), tape.new("dz", B, H)
        work = tape.scratch("work", B, H)
        dy[...], dz[...] = dstate["y"], dstate["z"]
        for t in reversed(range(K)):
            da = dU[t]
            dy += dhs[t]
            xp.multiply(dy, dt, out=work)
            dz += work  # B1
            xp.multiply(dz, k[t], out=da)  # B2
            xp.multiply(dz, pull, out=work)
            dy -= work
            xp.matmul(da, W_hT, out=work)
            dy += work  # B3
            xp.matmul(da, W_zT, out=work)
            dz *= kept
            dz += work  # B4
        add_weight_gradient(tape, tape["y"][:K], dU, grad["W_h"])  # B5
        add_weight_gradient(tape, tape["z"][:K], dU, grad["W_z"])  # B5
        return dU, {"y": dy, "z": dz}
