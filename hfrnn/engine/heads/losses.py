"""The losses on the outputs z: value, gradient and curvature (SPEC 3).

    loss      value                     prediction p   gradient in z   Hessian times Rz
    softmax   logsumexp(z) - z[target]  softmax(z)     p - target      p*Rz - p*(p.Rz)
    logistic  sum log(1 + e^z) - y*z    sigma(z)       p - y           p*(1-p)*Rz
    squared   sum (z - y)^2 / 2         z              p - y           Rz

The softmax's prediction, gradient and Hessian are [K] 2.2, 2.4 and 3.23. The derivatives of every step are multiplied
by w / sum w. For the logistic and squared losses, each output may have its own weight w_k. The value is then
sum_k s_k*loss_k, where the share s_k is w_k divided by w, the mean of the step's weights, and the derivatives of output
k are multiplied by w_k / sum w. The class softmax is in class_softmax.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hfrnn.arrays.backend import Array, Backend, HostArray
from hfrnn.engine.heads.output_map import FullHead, ScoredSteps, check_symbols, curve_, normalise_
from hfrnn.errors import InputError
from hfrnn.kernels.pointwise import rows


class Softmax(FullHead):
    """Softmax with cross entropy: one target symbol out of n_out per step."""

    integer_targets = True
    probabilistic = True

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        check_symbols("softmax", self.n_out, targets, T, B)

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        p = rows(z)
        return normalise_(xp, p, (xp.arange(p.shape[0]), targets.reshape(-1))).reshape(targets.shape)

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
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


def _summed(xp: Any, losses: Array, shares: Array | None) -> Array:
    """Return the sum of the losses (K, B, n_out) of every step, (K, B), each times its share if there are shares."""
    if shares is not None:
        losses = xp.where(shares > 0, losses, 0.0)  # the loss of an output without weight may be infinite
        losses *= shares
    return losses.sum(axis=-1)
