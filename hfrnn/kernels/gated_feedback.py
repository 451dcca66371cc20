"""Gated-feedback recurrent network with tanh units (Chung, Gulcehre, Cho and Bengio 2015).

L layers of M = H/L units lie in one kernel, because every layer hears all layers of the step before, also those above
it. One gate for each pair (i, j), a single number, scales what layer i sends to layer j:

                                                        i, j = 1..L; [j] are the units of layer j
F1  x_i = h_{t-1}[i] @ W_h[i, :],  q = h_{t-1} @ W_hg   what layer i sends to all layers; the gates' part from the past
F2  (y_1, z_1) = U_t[h, g]                              layer 1 and the gates into it read the input
    (y_j, z_j) = h_t[j-1] @ W_up[j] + (U_t[u, j], 0)    the others read the layer below; slot u holds their biases
F3  g_ij = sigma(z_j[i] + q[j, i])                      the global reset gate from layer i to layer j
F4  a_t[j] = y_j + sum_i g_ij * x_i[j]
F5  h_t[j] = tanh(a_t[j])

L1  k_t = 1 - h_t*h_t                                   derivative of F5, once for all products
L2  c_ij = g_ij * (1 - g_ij)                            derivative of F3

R1  Rx_i = h_{t-1}[i] @ R(W_h[i, :])                    F1 by the rules of [P]
           + Rh_{t-1}[i] @ W_h[i, :]
    Rq = h_{t-1} @ R(W_hg) + Rh_{t-1} @ W_hg            F1 by the rules of [P]
R2  (Ry_1, Rz_1) = RU_t[h, g]                           F2 by the rules of [P]
    (Ry_j, Rz_j) = h_t[j-1] @ R(W_up[j])                F2 by the rules of [P]
                   + Rh_t[j-1] @ W_up[j] + (RU_t[u, j], 0)
R3  Rg_ij = c_ij * (Rz_j[i] + Rq[j, i])                 F3 by the rules of [P]
R4  Ra_t[j] = Ry_j + sum_i (g_ij * Rx_i[j]              F4 by the rules of [P]
                            + Rg_ij * x_i[j])
R5  Rh_t[j] = k_t[j] * Ra_t[j]                          F5 by the rules of [P]

B1  da_t[j] = dh_t[j] * k_t[j] (+ e_t[j]), dy_j = da_t[j]  adjoint of F5, F4; e_t: what a structural metric adds
B2  dz_j[i] = dq[j, i] = c_ij * sum x_i[j] * da_t[j]    adjoint of F4 and F3, the sum over the units of layer j
B3  dh_t[j-1] += (dy_j, dz_j) @ W_up[j].T               adjoint of F2, from the highest layer to the lowest
    dU_t[h, g] = (dy_1, dz_1), dU_t[u, j] = dy_j        adjoint of F2
B4  dh_{t-1}[i] = sum_j g_ij * da_t[j] @ W_h[i, j].T    adjoint of F1, with dx_i[j] = g_ij * da_t[j] (F4)
                  + dq @ W_hg[i].T
B5  dW_h[i, :] = sum_t h_{t-1}[i].T @ dx_i              adjoint of F1
    dW_hg = sum_t h_{t-1}.T @ dq                        adjoint of F1
    dW_up[j] = sum_t h_t[j-1].T @ (dy_j, dz_j)          adjoint of F2

W_up (L-1, M, M+L) holds the units' columns and then the gates'. The output and the layer above see the units of all L
layers. Where all gates are 1/2 and W_h has only its blocks [j, j], the kernel is a stack of `rnn` with half of W_h.
"""

from __future__ import annotations

from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.errors import InputError, Message
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, sigmoid_, slope_of_tanh, transpose
from hfrnn.kernels.rnn import slope_of
from hfrnn.option import Option

MOST_SUBLAYERS = 3
"""The largest default number of layers inside the kernel."""


class GatedFeedback(Kernel):
    """`gated-feedback`: H tanh units in `sublayers` layers of equal width, with gated connections between all of them.

    Parameters
    ----------
    hidden : int
    sublayers : int, optional
        Must divide H. By default the largest of 3, 2 and 1 that does.

    Raises
    ------
    InputError
        The number of layers does not divide H.
    """

    options = (
        Option(
            "sublayers", int, None, "Number of layers of equal width that feed back into each other.", least=1,
            unit="layers", otherwise="the largest of 3, 2 and 1 that divides the number of units",
        ),
    )  # fmt: skip
    transposed = ("W_h", "W_hg", "W_up")
    not_units = ("W_hg",)
    metrics = ("hidden", "matching", "preactivation")

    def __init__(self, hidden: int, sublayers: int | None = None) -> None:
        if sublayers is None:
            sublayers = max(n for n in range(1, MOST_SUBLAYERS + 1) if hidden % n == 0)
        if hidden % sublayers:
            raise InputError(Message(
                "{sublayers!s} is {0}, and {1} units do not divide into {0} layers of equal width: give a hidden size "
                "that is a multiple of {0}, or another number of layers", sublayers, hidden,
            ))  # fmt: skip
        self.hidden = self.width = hidden
        self.sublayers, self.M = sublayers, hidden // sublayers
        self.columns = tuple(slice(j * self.M, (j + 1) * self.M) for j in range(sublayers))
        self.gates = tuple(slice(j * sublayers, (j + 1) * sublayers) for j in range(sublayers))
        self.slots = (
            Slot("h", self.M, bias=True, below=True),
            Slot("g", sublayers, below=True),
            Slot("u", hidden - self.M, bias=True, input=False),
        )
        self.added_to = {}

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        H, L, M = self.hidden, self.sublayers, self.M
        return {"W_h": (H, H), "W_hg": (H, L * L), "W_up": (L - 1, M, M + L)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def slope(self, xp: Any, h: Array) -> Array:
        return slope_of(xp, "tanh", h, xp.empty_like(h))

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, L, M = tape.xp, U.shape, self.hidden, self.sublayers, self.M
        steps = K if tape.records else 1
        hs, xs, gs = tape.new("h", K + 1, B, H), tape.new("x", steps, L, B, H), tape.new("g", steps, L, B, L)
        q, up, work = tape.scratch("q", B, L * L), tape.scratch("up", B, M + L), tape.scratch("gated", L, B, M)
        hs[0] = state["h"]  # hs[t] = h_{t-1}
        for t in range(K):
            h, x, g = hs[t + 1], xs[t % steps], gs[t % steps]
            self._send(xp, hs[t], p, x, q)  # F1
            for j, columns in enumerate(self.columns):
                a, z = h[:, columns], g[j]
                if j == 0:
                    a[...], z[...] = U[t, :, :M], U[t, :, M : M + L]  # F2
                else:
                    xp.matmul(h[:, self.columns[j - 1]], p["W_up"][j - 1], out=up)
                    a[...], z[...] = up[:, :M], up[:, M:]  # F2
                    a += U[t, :, L + j * M : L + (j + 1) * M]  # F2
                z += q[:, self.gates[j]]  # F3
                sigmoid_(xp, z)  # F3
                _add_gated(xp, x[:, :, columns], z, work, a)  # F4
                xp.tanh(a, out=a)  # F5
        if tape.records:
            slope_of_tanh(xp, hs[1:], tape.new("slope", K, B, H))  # L1
            slope_of(xp, "logistic", gs, tape.new("c", K, L, B, L))  # L2
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, _), H, L, M = tape.xp, RU.shape, self.hidden, self.sublayers, self.M
        xs, gs, slope, c = tape["x"], tape["g"], tape["slope"], tape["c"]
        Ra, Rz = tape.preactivation_tangent(K, B, H), tape.scratch("Rz", K, B, L * L)
        self._without_Rh(v, tape, RU, Ra, Rz)
        Rx, Rq = tape.scratch("Rx", L, B, H), tape.scratch("q", B, L * L)
        up, work = tape.scratch("up", B, M + L), tape.scratch("gated", L, B, M)
        Rhs = tape.new("Rh", K + 1, B, H)  # Rhs[t] = Rh_{t-1}
        Rhs[0] = Rstate["h"]
        for t in range(K):
            Rh, Rz_t = Rhs[t + 1], Rz[t]
            self._send(xp, Rhs[t], p, Rx, Rq)  # R1
            Rz_t += Rq  # R3
            for j, columns in enumerate(self.columns):
                Ra_j, Rg = Ra[t, :, columns], Rz_t[:, self.gates[j]]
                if j > 0:
                    xp.matmul(Rh[:, self.columns[j - 1]], p["W_up"][j - 1], out=up)
                    Ra_j += up[:, :M]  # R2
                    Rg += up[:, M:]  # R2
                Rg *= c[t, j]  # R3
                _add_gated(xp, Rx[:, :, columns], gs[t, j], work, Ra_j)  # R4
                _add_gated(xp, xs[t, :, :, columns], Rg, work, Ra_j)  # R4
                xp.multiply(slope[t, :, columns], Ra_j, out=Rh[:, columns])  # R5
        return Rhs[1:], {"h": Rhs[K]}

    def backward(
        self,
        p: Arrays,
        tape: Tape,
        dhs: Array,
        dstate: Arrays,
        grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:
        xp, (K, B, H), L, M = tape.xp, dhs.shape, self.sublayers, self.M
        xs, gs, slope, c = tape["x"], tape["g"], tape["slope"], tape["c"]
        das, dzs = tape.scratch("da", K, B, H), tape.scratch("dz", K, B, L * L)
        dys = tape.scratch("dy", L - 1, K, B, M + L)
        dx, work = tape.scratch("dx", B, H), tape.scratch("gated", L, B, M)
        down, W_T, W_hg_T = tape.scratch("down", B, M), transpose(p, "W_h"), transpose(p, "W_hg")
        dh = tape.new("dh", B, H)
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            for j in reversed(range(L)):
                da, dz = das[t, :, self.columns[j]], dzs[t, :, self.gates[j]]
                xp.multiply(dh[:, self.columns[j]], slope[t, :, self.columns[j]], out=da)  # B1
                if preactivation_adjoint is not None:
                    da += preactivation_adjoint[t, :, self.columns[j]]  # B1
                xp.multiply(xs[t, :, :, self.columns[j]], da, out=work)
                xp.multiply(work.sum(axis=2).T, c[t, j], out=dz)  # B2
                if j > 0:
                    dy, dh_below = dys[j - 1, t], dh[:, self.columns[j - 1]]
                    dy[:, :M], dy[:, M:] = da, dz
                    xp.matmul(dy, transpose(p, "W_up")[j - 1], out=down)
                    dh_below += down  # B3
            xp.matmul(dzs[t], W_hg_T, out=dh)  # B4
            for i, columns in enumerate(self.columns):
                self._spread(xp, das[t], gs[t], i, dx)
                xp.matmul(dx, W_T[:, columns], out=down)
                dh_i = dh[:, columns]
                dh_i += down  # B4
        self._add_gradients(tape, das, dzs, dys, grad)
        dU = tape.scratch("dU", K, B, H + L)
        dU[:, :, :M], dU[:, :, M : M + L], dU[:, :, M + L :] = das[:, :, :M], dzs[:, :, :L], das[:, :, M:]  # B3
        return dU, {"h": dh}

    def _send(self, xp: Any, h: Array, p: Arrays, x: Array, q: Array) -> None:
        """x[i] <- h[i] @ W_h[i, :] and q <- h @ W_hg, for h (B, H), x (L, B, H), q (B, L*L)."""
        for i, columns in enumerate(self.columns):
            xp.matmul(h[:, columns], p["W_h"][columns], out=x[i])  # F1, R1
        xp.matmul(h, p["W_hg"], out=q)  # F1, R1

    def _spread(self, xp: Any, da: Array, g: Array, i: int, dx: Array) -> None:
        """dx[j] <- g_ij * da[j] for all j: da and dx (..., B, H), g (..., L, B, L)."""
        for j, columns in enumerate(self.columns):
            xp.multiply(da[..., columns], g[..., j, :, i : i + 1], out=dx[..., columns])  # R4, B4, B5

    def _without_Rh(self, v: Arrays, tape: Tape, RU: Array, Ra: Array, Rz: Array) -> None:
        """Write the parts of Ra (K, B, H) and Rz (K, B, L*L) without a tangent of h, for all steps."""
        (K, B, H), L, M, hs, gs = Ra.shape, self.sublayers, self.M, tape["h"], tape["g"]
        Ra[:, :, :M], Ra[:, :, M:] = RU[:, :, :M], RU[:, :, M + L :]  # R2
        product(tape, hs[:K], v["W_hg"], out=Rz)  # R1
        Rz[:, :, :L] += RU[:, :, M : M + L]  # R2
        Rxs, ups = tape.scratch("Rxs", K, B, H), tape.scratch("Rups", K, B, M + L)
        for i, columns in enumerate(self.columns):
            product(tape, hs[:K, :, columns], v["W_h"][columns], out=Rxs)  # R1
            self._spread(tape.xp, Rxs, gs, i, Rxs)  # R4
            Ra += Rxs  # R4
        for j in range(1, L):
            product(tape, hs[1:, :, self.columns[j - 1]], v["W_up"][j - 1], out=ups)
            Ra[:, :, self.columns[j]] += ups[:, :, :M]  # R2
            Rz[:, :, self.gates[j]] += ups[:, :, M:]  # R2

    def _add_gradients(self, tape: Tape, das: Array, dzs: Array, dys: Array, grad: Arrays) -> None:
        """Add the weight gradients of all steps: das (K, B, H), dzs (K, B, L*L), dys (L-1, K, B, M+L)."""
        K, hs, gs, dxs = das.shape[0], tape["h"], tape["g"], tape.scratch("dxs", *das.shape)
        add_weight_gradient(tape, hs[:K], dzs, grad["W_hg"])  # B5
        for i, columns in enumerate(self.columns):
            self._spread(tape.xp, das, gs, i, dxs)  # B5
            add_weight_gradient(tape, hs[:K, :, columns], dxs, grad["W_h"][columns])  # B5
        for j in range(1, self.sublayers):
            add_weight_gradient(tape, hs[1:, :, self.columns[j - 1]], dys[j - 1], grad["W_up"][j - 1])  # B5


def _add_gated(xp: Any, x: Array, g: Array, work: Array, a: Array) -> None:
    """a += sum_i g_i * x_i: x and work (L, B, M), g (B, L), a (B, M)."""
    xp.multiply(x, g.T[:, :, None], out=work)  # F4, R4
    for part in range(x.shape[0]):
        a += work[part]  # F4, R4
