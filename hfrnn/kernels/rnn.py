"""The plain recurrent network ([K] 2.1, [S] 1).

F1  a_t = U_t + h_{t-1} @ W_h                           [K] 2.1, [S] 1
F2  h_t = f(a_t)                                        [K] 2.1, [S] 1; f = tanh, logistic or relu

L1  k_t = f'(a_t) = 1 - h*h, h*(1-h) or [h > 0]         derivative of F2, once for all products

R1  Ra_t = RU_t + h_{t-1} @ R(W_h) + Rh_{t-1} @ W_h     [K] 3.20
R2  Rh_t = k_t * Ra_t                                   [K] 3.22

B1  da_t = dh_t * k_t (+ e_t), dU_t = da_t              [K] 2.7; e_t: what a structural metric adds ([K] 3.28)
B2  dh_{t-1} = da_t @ W_h.T                             [K] 2.6; dh_t comes from output, layer above and step t+1
B3  dW_h = sum_t h_{t-1}.T @ da_t                       [K] 2.8
"""

from __future__ import annotations

from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer, sparse_normal
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, sigmoid_, softplus_, transpose
from hfrnn.option import Option

ACTIVATION = Option(
    "activation", str, "tanh", "Activation function of the hidden units.", choices=("tanh", "logistic", "relu")
)


def activate_(xp: Any, name: str, a: Array) -> None:
    """a <- f(a), in place; relu and softplus look at the sign of the real part. Softplus is for leaky and rate."""
    if name == "tanh":
        xp.tanh(a, out=a)
    elif name == "logistic":
        sigmoid_(xp, a)
    elif name == "softplus":
        softplus_(xp, a)
    else:
        xp.multiply(a, a.real > 0, out=a)


def slope_of(xp: Any, name: str, h: Array, out: Array) -> Array:
    """out <- f'(a), computed from h = f(a)."""
    if name == "relu":
        out[...] = h.real > 0
        return out
    if name == "softplus":  # 1 - exp(-h), the logistic function of a
        xp.multiply(h, -1.0, out=out)
        xp.expm1(out, out=out)
        out *= -1.0
        return out
    xp.multiply(h, h, out=out)
    return xp.subtract(1.0 if name == "tanh" else h, out, out=out)


class RNN(Kernel):
    """`rnn`: H units, f tanh (default), logistic or relu."""

    options: ClassVar[tuple[Option | str, ...]] = (ACTIVATION,)
    transposed: ClassVar[tuple[str, ...]] = ("W_h",)

    def __init__(self, hidden: int, activation: str = "tanh") -> None:
        self.hidden = self.width = hidden
        self.activation = activation
        self.slots = (Slot("h", hidden, bias=True, below=True),)
        # relu has no matching distance of [K] 3.28
        self.metrics = ("hidden", "preactivation") if activation == "relu" else ("hidden", "matching", "preactivation")

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, self.hidden)}

    def initializers(self) -> dict[str, Initializer]:
        return {"W_h": sparse_normal(self.scale)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def slope(self, xp: Any, h: Array) -> Array:
        return slope_of(xp, self.activation, h, xp.empty_like(h))

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H) = tape.xp, U.shape
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        for t in range(K):
            a = hs[t + 1]
            xp.matmul(hs[t], p["W_h"], out=a)
            a += U[t]  # F1
            activate_(xp, self.activation, a)  # F2
        if tape.records:
            slope_of(xp, self.activation, hs[1:], tape.new("slope", K, B, H))  # L1
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), hs, slope = tape.xp, RU.shape, tape["h"], tape["slope"]
        Ra = tape.preactivation_tangent(K, B, H)
        product(tape, hs[:K], v["W_h"], out=Ra)
        Ra += RU
        Rhs = tape.new("Rh", K, B, H)
        Rh, work = Rstate["h"], tape.scratch("work", B, H)
        for t in range(K):
            xp.matmul(Rh, p["W_h"], out=work)
            Ra[t] += work  # R1
            Rh = Rhs[t]
            xp.multiply(slope[t], Ra[t], out=Rh)  # R2
        return Rhs, {"h": Rh}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H), hs, slope = tape.xp, dhs.shape, tape["h"], tape["slope"]
        dU, W_T = tape.scratch("dU", K, B, H), transpose(p, "W_h")
        dh = tape.new("dh", B, H)
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            da = dU[t]
            xp.multiply(dh, slope[t], out=da)  # B1
            if preactivation_adjoint is not None:
                da += preactivation_adjoint[t]  # B1
            xp.matmul(da, W_T, out=dh)  # B2
        add_weight_gradient(tape, hs[:K], dU, grad["W_h"])  # B3
        return dU, {"h": dh}
