"""Gradients of parts of a batch, each with a sweep of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.engine.plan import segment_boundaries
from hfrnn.engine.sweep import Sweep

if TYPE_CHECKING:
    from hfrnn.engine.objective import Objective


class PartGradients:
    """Compute the gradient of the summed w*loss of some sequences of a batch, without l2.

    Parameters
    ----------
    objective : Objective
        Its batch, its noise, its threads and its plan's segments are used.
    theta : (n_parameters,) array
    """

    def __init__(self, objective: Objective, theta: Array) -> None:
        self._objective, self._theta, plan = objective, theta, objective.plan
        net = objective.net
        self._buffers = [[Buffers(net.backend, net.dtype) for _ in range(2)] for _ in range(objective.threads.threads)]
        self._keep = plan.keep_of_gradients
        self._steps = segment_boundaries(objective.batch.T, plan.segment)

    def add(self, task: int, columns: tuple[int, int], out: Array) -> None:
        """Add the gradient of the sequences from columns[0] up to columns[1] to `out`.

        Parameters
        ----------
        task : int
            Calls whose numbers agree modulo the number of threads share buffers.
        columns : (int, int)
        out : (n_parameters,) array
        """
        objective, (scratch, kept) = self._objective, self._buffers[task % len(self._buffers)]
        noise = None if objective.noise is None else objective.noise.part(*columns)
        sweep = Sweep(
            objective.net, objective.batch.columns(*columns), 1.0, boundaries=self._steps, keep=self._keep,
            scratch=scratch, kept=kept, noise=noise,
        )  # fmt: skip
        sweep.gradient(self._theta, out)
