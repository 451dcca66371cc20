"""The losses on the outputs z: value, gradient and curvature (SPEC 3).

    loss      value                     prediction p   gradient in z   Hessian times Rz
    softmax   logsumexp(z) - y.z        softmax(z)     p - y           p*Rz - p*(p.Rz)
    logistic  sum log(1 + e^z) - y*z    sigma(z)       p - y           p*(1-p)*Rz
    squared   sum (z - y)^2 / 2         z              p - y           Rz

The targets y of the softmax are one-hot symbols, or probabilities. Its prediction, gradient and Hessian are [K] 2.2,
2.4 and 3.23. The derivatives of every step are multiplied by w / sum w. For the logistic and squared losses, each
output may have its own weight w_k. The value is then sum_k s_k*loss_k, where the share s_k is w_k divided by w, the
mean of the step's weights, and the derivatives of output k are multiplied by w_k / sum w. The class softmax is in
class_softmax.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hfrnn.arrays.backend import Array, Backend, HostArray
from hfrnn.engine.heads.output_map import FullHead, ScoredSteps, check_symbols, curve_, normalise_
from hfrnn.errors import InputError
from hfrnn.kernels.pointwise import rows

SUM_TOLERANCE = 1e-4
"""Largest difference of 1 and the sum of probabilities that are targets."""


class Softmax(FullHead):
    """Softmax with cross entropy: one target symbol out of n_out per step, or their probabilities (T, B, n_out)."""

    integer_targets = True
    probabilistic = True

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        if targets.ndim < 3:
            check_symbols("softmax", self.n_out, targets, T, B)
            return
        sums = targets.sum(axis=2)  # 0 where nothing is predicted
        wrong = (abs(sums - 1) > SUM_TOLERANCE) & (sums != 0)
        fit = targets.shape == (T, B, self.n_out) and targets.dtype.kind == "f"
        if not fit or bool(wrong.any().item()) or bool((targets < 0).any().item()):
            raise InputError(
                f"targets have shape {tuple(targets.shape)} and type {targets.dtype}: the softmax loss needs integer "
                f"symbols ({T}, {B}), or probabilities ({T}, {B}, {self.n_out}), 0 or more, whose sums are 1"
            )

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: HostArray, spans: Sequence[slice],
        shares: Array | None = None,
    ) -> Sequence[ScoredSteps]:  # fmt: skip
        if targets.ndim == 3:
            targets = targets.astype(scale.dtype, copy=False)
        return super().arrange(backend, targets, scale, wanted, spans, shares)

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        p = rows(z)
        if targets.ndim == 3:
            return _normalise_to_probabilities(xp, p, rows(targets)).reshape(targets.shape[:2])
        return normalise_(xp, p, (xp.arange(p.shape[0]), targets.reshape(-1))).reshape(targets.shape)

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        if targets.ndim == 3:
            p -= targets
            return
        flat = rows(p)
        flat[xp.arange(flat.shape[0]), targets.reshape(-1)] -= 1

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        curve_(xp, p, Rz, work)


class _RealTargets(FullHead):
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


class Logistic(_RealTargets):
    """Binary cross entropy of n_out independent outputs. Targets are from 0 to 1."""

    probabilistic = True
    temporary_arrays = 5

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        super().check_targets(targets, T, B)
        if not ((targets >= 0) & (targets <= 1)).all().item():
            raise InputError("targets of the logistic loss lie outside 0 to 1: give probabilities or bits")

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|) never overflows; the sign of a complex z is that of its real part
        sign = xp.where(z.real < 0, -1.0, 1.0)
        tail = xp.exp(-sign * z)
        losses = _summed(xp, xp.where(z.real < 0, 0.0, z) + xp.log1p(tail) - targets * z, shares)
        z[...] = xp.where(z.real < 0, tail, 1.0) / (1.0 + tail)
        return losses

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        Rz *= p
        xp.subtract(1.0, p, out=work)
        Rz *= work


class Squared(_RealTargets):
    """Half the squared error, summed over the outputs of a step."""

    temporary_arrays = 1

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        losses = z - targets
        losses *= losses
        return 0.5 * _summed(xp, losses, shares)

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        """Leave Rz as it is: the Hessian is the identity."""


def _normalise_to_probabilities(xp: Any, z: Array, targets: Array) -> Array:
    """Replace z (N, n) by p = softmax(z) in place, and return -sum_k targets_k log p_k, (N,)."""
    z -= z.real.max(axis=1, keepdims=True)
    chosen = (targets * z).sum(axis=1)
    xp.exp(z, out=z)
    total = z.sum(axis=1, keepdims=True)
    z /= total
    return xp.log(total[:, 0]) - chosen


def _summed(xp: Any, losses: Array, shares: Array | None) -> Array:
    """Return the sum of the losses (K, B, n_out) of every step, (K, B), each times its share if there are shares."""
    if shares is not None:
        losses = xp.where(shares > 0, losses, 0.0)  # the loss of an output without weight may be infinite
        losses *= shares
    return losses.sum(axis=-1)
