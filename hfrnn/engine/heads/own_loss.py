"""The head of a loss that is given by its value, gradient and curvature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hfrnn.arrays.backend import Array, Backend, HostArray
from hfrnn.engine.heads.losses import RealTargets, summed
from hfrnn.engine.heads.output_map import OutputMap, ScoredSteps
from hfrnn.errors import InputError
from hfrnn.losses import Loss


class LossHead(RealTargets):
    """An output map with a `Loss`. What other heads call the prediction are the outputs z themselves."""

    def __init__(self, n_out: int, widths: Mapping[int, int], bias: bool, loss: Loss, name: str) -> None:
        super().__init__(n_out, widths, bias)
        self.loss, self.name = loss, name
        self.map = OutputMap("y", loss.outputs * n_out, widths, bias)
        self.temporary_arrays = 6 * loss.outputs
        self.exact_curvature = loss.exact

    @property
    def n_outputs(self) -> int:
        return self.map.n_out

    @property
    def n_logits(self) -> int:
        return self.map.n_out

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        super().check_targets(targets, T, B)
        if why := self.loss.why_not(targets):
            raise InputError(f"targets of the {self.name} loss {why}")

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: HostArray, spans: Sequence[slice],
        shares: Array | None = None,
    ) -> Sequence[ScoredSteps]:  # fmt: skip
        parts = super().arrange(backend, targets, scale, wanted, spans, shares)
        if self.loss.outputs > 1 and scale.shape[2] > 1:  # each output of a target has the factor of that target
            for part in parts:
                part.scale = backend.xp.concatenate([part.scale] * self.loss.outputs, axis=-1)
        return parts

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        return summed(xp, self.loss.value(xp, z, targets), shares)

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        p[...] = self.loss.gradient(xp, p, targets)

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array, targets: Array) -> None:
        Rz[...] = self.loss.curvature(xp, p, targets, Rz)
