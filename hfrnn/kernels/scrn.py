"""The structurally constrained recurrent network ([M] 4-6, 8): slow context units s beside fast hidden units h.

F1  s_t = (1-alpha) * U_s + alpha * s_{t-1}             [M] 4; alpha fixed, or sigma(q), one per unit ([M] 8)
F2  a_t = U_h + s_t @ W_s + h_{t-1} @ W_h               [M] 5
F3  h_t = sigma(a_t)                                    [M] 5; the output and the layer above see (h_t, s_t), [M] 6

L1  k_t = h*(1-h)                                       derivative of F3, once for all products
L2  e_t = ds_t/dq = (s_{t-1} - U_s) * alpha*(1-alpha)   derivative of F1, where alpha is learned

R1  Rs_t = (1-alpha) * RU_s + alpha * Rs_{t-1}          F1 by the rules of [P]
           + e_t * Rq
R2  Ra_t = RU_h + Rs_t @ W_s + s_t @ R(W_s)             F2 by the rules of [P]
           + h_{t-1} @ R(W_h) + Rh_{t-1} @ W_h
R3  Rh_t = k_t * Ra_t                                   F3 by the rules of [P]

B1  da_t = dh_t * k_t, dU_h = da_t                      adjoint of F3; dh_t: output, layer above and step t+1
B2  dh_{t-1} = da_t @ W_h.T                             adjoint of F2
B3  ds_t = dy_s + da_t @ W_s.T + alpha * ds_{t+1}       adjoint of F2 and F1; dy_s: output and layer above
B4  dU_s = (1-alpha) * ds_t                             adjoint of F1
B5  dW_h = sum_t h_{t-1}.T @ da_t                       adjoint of F2
    dW_s = sum_t s_t.T @ da_t                           adjoint of F2
    dq = sum_t e_t * ds_t                               adjoint of F1

s does not depend on h: it is computed first for the whole segment, and its product with W_s is one. H or C may be 0.
"""

from __future__ import annotations

from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.arrays.initializers import Initializer
from hfrnn.errors import InputError
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product, sigmoid_, transpose
from hfrnn.kernels.rnn import slope_of
from hfrnn.kernels.share import Share
from hfrnn.option import Option


class SCRN(Kernel):
    """`scrn`: H hidden units and C = `context` context units with the forgetting factor alpha, fixed or learned."""

    options = (
        Option("context", int, 40, "Context units of each layer.", least=0, unit="units"),
        Option("alpha", float, 0.95, "Share of its value that a context unit keeps in a step.", least=0, most=1),
        Option("learn_alpha", bool, False, "Learn alpha, one value for each context unit."),
    )
    least_hidden = 0
    transposed = ("W_h",)

    def __init__(self, hidden: int, context: int = 40, alpha: float = 0.95, learn_alpha: bool = False) -> None:
        if hidden + context == 0:
            raise InputError("hidden and context are both 0: give scrn at least one unit")
        self.hidden, self.context, self.width = hidden, context, hidden + context
        self.alpha = Share("alpha", alpha, learn_alpha)
        self.slots = (Slot("h", hidden, below=True), Slot("s", context, below=True))
        self.added_to = {"W_h": ("h",), "W_s": ("h",)}

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        H, C = self.hidden, self.context
        return {"W_h": (H, H), "W_s": (C, H), **self.alpha.shapes(C)}

    def initializers(self) -> dict[str, Initializer]:
        return {**super().initializers(), **self.alpha.initializers()}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden), "s": (B, self.context)}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, C = tape.xp, U.shape, self.hidden, self.context
        alpha, U_s = self.alpha.value(p, tape), U[:, :, H:]
        ss = tape.new("s", K + 1, B, C)  # ss[t] = s_{t-1}
        ss[0] = state["s"]
        _leak(tape, alpha, U_s, ss)  # F1
        hs, a_s = tape.new("h", K + 1, B, H), tape.scratch("a_s", K, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        product(tape, ss[1:], p["W_s"], out=a_s)
        a_s += U[:, :, :H]
        for t in range(K):
            a = hs[t + 1]
            xp.matmul(hs[t], p["W_h"], out=a)
            a += a_s[t]  # F2
            sigmoid_(xp, a)  # F3
        if tape.records:
            slope_of(xp, "logistic", hs[1:], tape.new("slope", K, B, H))  # L1
            if self.alpha.learned:
                e = tape.new("e", K, B, C)
                xp.subtract(ss[:K], U_s, out=e)
                e *= alpha * (1.0 - alpha)  # L2
        return self.side_by_side(tape, "y", hs[1:], ss[1:]), {"h": hs[K], "s": ss[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, C = tape.xp, RU.shape, self.hidden, self.context
        hs, ss, slope, alpha = tape["h"], tape["s"], tape["slope"], self.alpha.value(p, tape)
        Rss = tape.new("Rs", K + 1, B, C)
        Rss[0] = Rstate["s"]
        eRq = None
        if self.alpha.learned:
            eRq = tape.scratch("eRq", K, B, C)
            xp.multiply(tape["e"], v["q"], out=eRq)
        _leak(tape, alpha, RU[:, :, H:], Rss, eRq)  # R1
        Ra, work = tape.scratch("Ra", K, B, H), tape.scratch("works", K, B, H)
        Ra[...] = RU[:, :, :H]
        for x, W in ((Rss[1:], p["W_s"]), (ss[1:], v["W_s"]), (hs[:K], v["W_h"])):
            product(tape, x, W, out=work)
            Ra += work  # R2
        Rhs, step = tape.new("Rh", K + 1, B, H), tape.scratch("work", B, H)
        Rhs[0] = Rstate["h"]
        for t in range(K):
            Ra_t = Ra[t]
            xp.matmul(Rhs[t], p["W_h"], out=step)
            Ra_t += step  # R2
            xp.multiply(slope[t], Ra_t, out=Rhs[t + 1])  # R3
        return self.side_by_side(tape, "Ry", Rhs[1:], Rss[1:]), {"h": Rhs[K], "s": Rss[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, C = tape.xp, dhs.shape, self.hidden, self.context
        hs, ss, slope, alpha = tape["h"], tape["s"], tape["slope"], self.alpha.value(p, tape)
        das, dss, dU = tape.scratch("da", K, B, H), tape.scratch("ds", K, B, C), tape.scratch("dU", K, B, H + C)
        W_T = transpose(p, "W_h")
        dh, ds = tape.new("dh", B, H), tape.new("ds_before", B, C)
        dh[...], ds[...] = dstate["h"], dstate["s"]
        for t in reversed(range(K)):
            dh += dhs[t, :, :H]
            xp.multiply(dh, slope[t], out=das[t])  # B1
            xp.matmul(das[t], W_T, out=dh)  # B2
        product(tape, das, p["W_s"].T, out=dss)
        dss += dhs[:, :, H:]
        for t in reversed(range(K)):
            ds_t = dss[t]
            ds_t += ds  # B3
            xp.multiply(ds_t, alpha, out=ds)
        dU[:, :, :H] = das
        xp.multiply(dss, 1.0 - alpha, out=dU[:, :, H:])  # B4
        add_weight_gradient(tape, hs[:K], das, grad["W_h"])  # B5
        add_weight_gradient(tape, ss[1:], das, grad["W_s"])  # B5
        if self.alpha.learned:
            dss *= tape["e"]
            add_bias_gradient(dss, grad["q"])  # B5
        return dU, {"h": dh, "s": ds}

    def side_by_side(self, tape: Tape, name: str, hs: Array, ss: Array) -> Array:
        """Return h and s of all steps side by side, (K, B, H + C)."""
        y = tape.new(name, *hs.shape[:2], self.width)
        y[:, :, : self.hidden] = hs
        y[:, :, self.hidden :] = ss
        return y


def _leak(tape: Tape, alpha: Any, inputs: Array, s: Array, extra: Array | None = None) -> None:
    """s[t+1] <- (1-alpha) * inputs[t] + extra[t] + alpha * s[t] for all t: inputs (K, B, C), s (K+1, B, C)."""
    tape.xp.multiply(inputs, 1.0 - alpha, out=s[1:])
    if extra is not None:
        added = s[1:]
        added += extra
    work = tape.scratch("leak", *s.shape[1:])
    for t in range(inputs.shape[0]):
        tape.xp.multiply(s[t], alpha, out=work)
        after = s[t + 1]
        after += work
