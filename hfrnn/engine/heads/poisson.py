"""The Poisson loss of counts y, with a logarithmic link: the outputs z are the logarithms of the rates.

F1  r = e^z                                              rate of each output
F2  loss = r - y*z                                       -log p(y) without log y!, which does not depend on z

B1  dz = r - y                                           derivative of F2
R1  H_L R(z) = r*Rz                                      derivative of B1

P. McCullagh and J. A. Nelder, *Generalized Linear Models*, 1989, chapter 6.
"""

from __future__ import annotations

from typing import Any

from hfrnn.losses import Loss


class Poisson(Loss):
    """Counts, 0 or more, that are Poisson distributed."""

    @classmethod
    def why_not(cls, targets: Any) -> str:
        return "" if (targets >= 0).all().item() else "hold a number below 0: give counts"

    def value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.exp(z) - y * z  # F1, F2

    def gradient(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.exp(z) - y  # B1

    def curvature(self, xp: Any, z: Any, y: Any, Rz: Any) -> Any:
        return xp.exp(z) * Rz  # R1

    def prediction(self, xp: Any, z: Any) -> Any:
        return xp.exp(z)  # F1
