"""The low-rank rate network: rates act on each other through `rank` numbers only (Mastrogiuseppe and Ostojic 2018).

F1  s_t = r_{t-1} @ N / H                               the overlap of the rates with each column of N
F2  c_t = U_t + s_t @ M                                 the input current of the units
F3  x_t = (1-leak) * x_{t-1} + leak * c_t               leak = dt/tau: fixed, or sigma(q), one per unit; as rate.py F2
F4  r_t = phi(x_t)                                      phi = tanh, logistic, relu or softplus; r_t is the output

L1  k_t = phi'(x_t)                                     derivative of F4, once for all products
L2  e_t = dx_t/dq = (c_t - x_{t-1}) * leak*(1-leak)     derivative of F3, where the leak is learned

R1  Rs_t = (r_{t-1} @ R(N) + Rr_{t-1} @ N) / H          F1 by the rules of [P]
R2  Rc_t = RU_t + s_t @ R(M) + Rs_t @ M                 F2 by the rules of [P]
R3  Rx_t = (1-leak) * Rx_{t-1} + leak * Rc_t            F3 by the rules of [P]
           + e_t * Rq
R4  Rr_t = k_t * Rx_t                                   F4 by the rules of [P]

B1  dx_t += dr_t * k_t (+ p_t)                          adjoint of F4; dr_t: output, layer above and step t+1;
                                                        p_t: what a structural metric adds ([K] 3.28)
B2  dc_t = leak * dx_t, dU_t = dc_t                     adjoint of F3
B3  ds_t = dc_t @ M.T / H                               adjoint of F2, with the factor of F1
B4  dr_{t-1} = ds_t @ N.T                               adjoint of F1
B5  dx_{t-1} = (1-leak) * dx_t                          adjoint of F3
B6  dM = sum_t s_t.T @ dc_t                             adjoint of F2
    dN = sum_t r_{t-1}.T @ ds_t                         adjoint of F1
    dq = sum_t e_t * dx_t                               adjoint of F3

It is the network of rate.py with W_h = N @ M / H. In the notation of the source, the connectivity is J = m n^T / H: the
rows of M are the vectors m, into which the units are driven, and the columns of N are the vectors n, which read the
rates. A step costs 2*H*rank multiplications for a sequence instead of H*H. The state is x alone, and x is the hidden
pre-activation that the structural metrics may penalise. Source: F. Mastrogiuseppe and S. Ostojic, *Linking
connectivity, dynamics, and computations in low-rank recurrent neural networks*, 2018; here without its random part of
full rank.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer, normal
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.leaky import ACTIVATION, LEAK, LEARN_LEAK
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, transpose
from hfrnn.kernels.rnn import activate_, slope_of
from hfrnn.kernels.share import Share
from hfrnn.option import Option


class LowRank(Kernel):
    """`low-rank`: H units with the activation phi and the leak, fixed or learned, and connections of low rank."""

    options: ClassVar[tuple[Option | str, ...]] = (
        Option("rank", int, 2, "Rank of the recurrent matrix.", least=1),
        ACTIVATION,
        LEAK,
        LEARN_LEAK,
    )
    transposed: ClassVar[tuple[str, ...]] = ("N", "M")

    def __init__(
        self, hidden: int, rank: int = 2, activation: str = "tanh", leak: float = 0.2, learn_leak: bool = False
    ) -> None:
        self.hidden = self.width = hidden
        self.rank, self.activation, self.leak = rank, activation, Share("leak", leak, learn_leak)
        self.slots = (Slot("x", hidden, bias=True, below=True),)
        self.added_to = {"M": ("x",)}
        # relu has no matching distance of [K] 3.28
        self.metrics = ("hidden", "preactivation") if activation == "relu" else ("hidden", "matching", "preactivation")

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        H, R = self.hidden, self.rank
        return {"N": (H, R), "M": (R, H), **self.leak.shapes(H)}

    def initializers(self) -> dict[str, Initializer]:
        return {"N": normal(1.0), "M": normal(1.0), **self.leak.initializers()}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"x": (B, self.hidden)}

    def slope(self, xp: Any, h: Array) -> Array:
        return slope_of(xp, self.activation, h, xp.empty_like(h))

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H) = tape.xp, U.shape
        leak, learned = self.leak.value(p, tape), self.leak.learned
        kept, rows, steps = 1.0 - leak, K if tape.records else 1, K if tape.records and learned else 1
        x, cs, work = tape.new("x", B, H), tape.new("e", steps, B, H), tape.scratch("work", B, H)
        ss, rs = tape.new("s", rows, B, self.rank), tape.new("r", K + 1, B, H)  # rs[t] = r_{t-1}
        x[...] = state["x"]
        rs[0] = x
        activate_(xp, self.activation, rs[0])  # F4
        for t in range(K):
            s, c, r = ss[t % rows], cs[t % steps], rs[t + 1]
            xp.matmul(rs[t], p["N"], out=s)
            s *= 1.0 / H  # F1
            xp.matmul(s, p["M"], out=c)
            c += U[t]  # F2
            xp.multiply(c, leak, out=work)
            if learned:
                c -= x  # L2
            x *= kept
            x += work  # F3
            r[...] = x
            activate_(xp, self.activation, r)  # F4
        if tape.records:
            slope_of(xp, self.activation, rs, tape.new("k", K + 1, B, H))  # L1; k[t] is that of step t-1
            if learned:
                cs *= leak * kept  # L2
        return rs[1:], {"x": x}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), R, rs, k = tape.xp, RU.shape, self.rank, tape["r"], tape["k"]
        leak, learned = self.leak.value(p, tape), self.leak.learned
        kept = 1.0 - leak
        Rss = product(tape, rs[:K], v["N"], out=tape.scratch("Rs", K, B, R))
        Rc = product(tape, tape["s"], v["M"], out=tape.scratch("Rc", K, B, H))
        Rc += RU
        Rxs = tape.preactivation_tangent(K, B, H) if tape.keeps_preactivation else None
        Rx, Rr, work = tape.new("Rx", B, H), tape.scratch("Rr_before", B, H), tape.scratch("work", B, H)
        overlap = tape.scratch("overlap", B, R)
        Rx[...] = Rstate["x"]
        xp.multiply(k[0], Rx, out=Rr)  # R4
        Rrs = tape.new("Rr", K, B, H)
        for t in range(K):
            Rs, Rc_t = Rss[t], Rc[t]
            xp.matmul(Rr, p["N"], out=overlap)
            Rs += overlap
            Rs *= 1.0 / H  # R1
            xp.matmul(Rs, p["M"], out=work)
            Rc_t += work  # R2
            Rc_t *= leak
            Rx *= kept
            Rx += Rc_t  # R3
            if learned:
                xp.multiply(tape["e"][t], v["q"], out=work)
                Rx += work  # R3
            if Rxs is not None:
                Rxs[t] = Rx
            Rr = Rrs[t]
            xp.multiply(k[t + 1], Rx, out=Rr)  # R4
        return Rrs, {"x": Rx}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H), k, N_T, M_T = tape.xp, dhs.shape, tape["k"], transpose(p, "N"), transpose(p, "M")
        leak, learned = self.leak.value(p, tape), self.leak.learned
        kept = 1.0 - leak
        dU, des = tape.scratch("dU", K, B, H), tape.scratch("de", K if learned else 1, B, H)
        dx, dr, dss = tape.new("dx", B, H), tape.scratch("dr", B, H), tape.scratch("ds", K, B, self.rank)
        dx[...], dr[...] = dstate["x"], 0
        for t in reversed(range(K)):
            ds = dss[t]
            dr += dhs[t]
            dr *= k[t + 1]
            dx += dr  # B1
            if preactivation_adjoint is not None:
                dx += preactivation_adjoint[t]  # B1
            if learned:
                xp.multiply(dx, tape["e"][t], out=des[t])  # B6
            xp.multiply(dx, leak, out=dU[t])  # B2
            xp.matmul(dU[t], M_T, out=ds)
            ds *= 1.0 / H  # B3
            xp.matmul(ds, N_T, out=dr)  # B4
            dx *= kept  # B5
        dr *= k[0]
        dx += dr  # B1
        add_weight_gradient(tape, tape["s"], dU, grad["M"])  # B6
        add_weight_gradient(tape, tape["r"][:K], dss, grad["N"])  # B6
        if learned:
            add_bias_gradient(des, grad["q"])  # B6
        return dU, {"x": dx}
