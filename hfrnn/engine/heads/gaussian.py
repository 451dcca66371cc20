"""The Gaussian loss: the outputs are the mean m and the logarithm s of the variance of each target y.

F1  loss = (s + (y - m)^2 e^-s + log 2 pi) / 2           -log p(y)

B1  dm = -(y - m) e^-s                                   derivatives of F1
    ds = (1 - (y - m)^2 e^-s) / 2
R1  R(dm) = e^-s Rm, R(ds) = Rs/2                        the Fisher information, [M] 9: its expectation is that of the
                                                         Hessian over y from the predicted distribution

The Hessian of F1 is not positive semi-definite: its determinant is -((y - m) e^-s)^2 / 2. Gauss-Newton products
therefore have R1, which is, and which the Hessian equals in the mean where the predicted distribution is right.

[M] J. Martens, *New insights and perspectives on the natural gradient method*, 2020, section 9.
D. A. Nix and A. S. Weigend, *Estimating the mean and variance of the target probability distribution*, 1994.
"""

from __future__ import annotations

import math
from typing import Any

from hfrnn.losses import Loss


class Gaussian(Loss):
    """Real targets with a predicted mean and variance: outputs m of all targets, then s of all targets."""

    outputs = 2
    exact = False
    scales_targets = True

    def value(self, xp: Any, z: Any, y: Any) -> Any:
        m, s = halves(z)
        off = y - m
        return 0.5 * (s + off * off * xp.exp(-s) + math.log(2 * math.pi))  # F1

    def gradient(self, xp: Any, z: Any, y: Any) -> Any:
        m, s = halves(z)
        off, precision = y - m, xp.exp(-s)
        return xp.concatenate([-off * precision, 0.5 - 0.5 * off * off * precision], axis=-1)  # B1

    def curvature(self, xp: Any, z: Any, y: Any, Rz: Any) -> Any:
        Rm, Rs = halves(Rz)
        return xp.concatenate([xp.exp(-halves(z)[1]) * Rm, 0.5 * Rs], axis=-1)  # R1

    def prediction(self, xp: Any, z: Any) -> Any:
        return halves(z)[0]

    def deviation(self, xp: Any, z: Any) -> Any:
        return xp.exp(0.5 * halves(z)[1])


def halves(z: Any) -> tuple[Any, Any]:
    """Return the first and the second half of the last axis."""
    n = z.shape[-1] // 2
    return z[..., :n], z[..., n:]
