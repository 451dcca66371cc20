"""The losses on the outputs z: value, gradient and curvature (SPEC 3).

    loss      value                     prediction p   gradient in z   Hessian times Rz
    softmax   logsumexp(z) - z[target]  softmax(z)     p - target      p*Rz - p*(p.Rz)
    logistic  sum log(1 + e^z) - y*z    sigma(z)       p - y           p*(1-p)*Rz
    squared   sum (z - y)^2 / 2         z              p - y           Rz

The softmax's prediction, gradient and Hessian are [K] 2.2, 2.4 and 3.23. The derivatives of every step are multiplied
by w / sum w. For the logistic and squared losses, each output may have its own weight w_k. The value is then
sum_k s_k*loss_k, where the share s_k is w_k divided by w, the mean of the step's weights, and the derivatives of output
k are multiplied by w_k / sum w. A softmax target may also be a row y of probabilities: the value is then
logsumexp(z) - y.z and the gradient p - y. Label smoothing replaces y by (1 - e)*y + e/n_out. Other losses have files of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hfrnn.arrays.backend import Array, Backend, HostArray
from hfrnn.engine.heads.output_map import FullHead, ScoredSteps, check_symbols, curve_, normalise_
from hfrnn.errors import InputError
from hfrnn.kernels.pointwise import rows
from hfrnn.losses import LABEL_SMOOTHING, SUMS_TO_1


class Softmax(FullHead):
    """Softmax with cross entropy: one target symbol out of n_out per step, or the probabilities of all of them.

    With label smoothing e, a target is (1 - e)*y + e/n_out in place of y, which is one-hot for a symbol.
    """

    options = (LABEL_SMOOTHING,)
    integer_targets = True
    probabilistic = True

    def __init__(self, n_out: int, widths: Mapping[int, int], bias: bool, label_smoothing: float = 0.0) -> None:
        super().__init__(n_out, widths, bias)
        self.smoothing = label_smoothing

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        if targets.dtype.kind != "f" or targets.ndim != 3:
            check_symbols("softmax", self.n_out, targets, T, B)
            return
        if targets.shape != (T, B, self.n_out):
            raise InputError(
                f"targets have shape {tuple(targets.shape)}: the softmax loss needs symbols ({T}, {B}) or "
                f"probabilities ({T}, {B}, {self.n_out})"
            )
        total = targets.sum(axis=2)  # 0 where nothing is scored
        if not ((targets >= 0).all() & ((abs(total - 1) < SUMS_TO_1) | (total == 0)).all()).item():
            raise InputError(
                "targets of the softmax loss are no probabilities: give rows of numbers from 0 that sum to 1"
            )

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: HostArray, spans: Sequence[slice],
        shares: Array | None = None,
    ) -> Sequence[ScoredSteps]:  # fmt: skip
        if targets.ndim == 3:
            targets = backend.xp.where(backend.asarray(wanted)[:, :, None] != 0, targets, 0).astype(scale.dtype)
        return super().arrange(backend, targets, scale, wanted, spans, shares)

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        p, soft = rows(z), targets.ndim == z.ndim
        if not soft and not self.smoothing:
            return normalise_(xp, p, (xp.arange(p.shape[0]), targets.reshape(-1))).reshape(targets.shape)
        p -= p.real.max(axis=1, keepdims=True)
        chosen = (rows(targets) * p).sum(axis=1) if soft else p[xp.arange(p.shape[0]), targets.reshape(-1)]
        if self.smoothing:
            chosen = (1 - self.smoothing) * chosen + self.smoothing * p.sum(axis=1) / self.n_out
        xp.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        return (xp.log(total[:, 0]) - chosen).reshape(z.shape[:-1])

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        flat = rows(p)
        if targets.ndim == p.ndim:
            flat -= (1 - self.smoothing) * rows(targets)
        else:
            flat[xp.arange(flat.shape[0]), targets.reshape(-1)] -= 1 - self.smoothing
        if self.smoothing:
            flat -= self.smoothing / self.n_out

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array, targets: Array) -> None:
        curve_(xp, p, Rz, work)


class RealTargets(FullHead):
    """A loss on n_out real targets per step, which sums over the outputs."""

    weighs_outputs = True

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        if targets.shape != (T, B, self.n_out):
            raise InputError(
                f"targets have shape {tuple(targets.shape)}: this loss needs real values ({T}, {B}, {self.n_out})"
            )

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: HostArray, spans: Sequence[slice],
        shares: Array | None = None,
    ) -> Sequence[ScoredSteps]:  # fmt: skip
        # targets may hold any value where nothing is predicted
        weighs = backend.asarray(wanted)[:, :, None] if shares is None else shares
        asked = backend.xp.where(weighs != 0, targets, 0)
        return super().arrange(backend, asked.astype(scale.dtype, copy=False), scale, wanted, spans, shares)

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        p -= targets


class Logistic(RealTargets):
    """Binary cross entropy of n_out independent outputs. Targets are from 0 to 1.

    The tape holds p for z < 0, and p - 1 with the sign bit set for z >= 0: where p is nearly 1, 1 - p has few digits.
    """

    probabilistic = True
    temporary_arrays = 5

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        super().check_targets(targets, T, B)
        if not ((targets >= 0) & (targets <= 1)).all().item():
            raise InputError("targets of the logistic loss lie outside 0 to 1: give probabilities or bits")

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|) never overflows; the sign of a complex z is that of its real part
        sign = xp.copysign(1.0, z.real)
        tail = xp.exp(-sign * z)
        # z - y*z is exact for bits, and log(1 + e^-|z|) may be all that is left
        losses = summed(xp, (xp.where(z.real < 0, 0.0, z) - targets * z) + xp.log1p(tail), shares)
        tail /= 1.0 + tail
        xp.multiply(tail, -sign, out=z)
        return losses

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        p += xp.where(xp.signbit(p.real), 1.0 - targets, -targets)

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array, targets: Array) -> None:
        xp.multiply(p, xp.copysign(1.0, p.real), out=work)  # the smaller one of p and 1 - p
        Rz *= work
        xp.subtract(1.0, work, out=work)
        Rz *= work


class Squared(RealTargets):
    """Half the squared error, summed over the outputs of a step."""

    temporary_arrays = 1
    scales_targets = True
    real_values = True

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        losses = z - targets
        losses *= losses
        return 0.5 * summed(xp, losses, shares)

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array, targets: Array) -> None:
        """Leave Rz as it is: the Hessian is the identity."""


def summed(xp: Any, losses: Array, shares: Array | None) -> Array:
    """Return the sum of the losses (K, B, n_out) of every step, (K, B), each times its share if there are shares."""
    if shares is not None:
        losses = xp.where(shares > 0, losses, 0.0)  # the loss of an output without weight may be infinite
        losses *= shares
    return losses.sum(axis=-1)
