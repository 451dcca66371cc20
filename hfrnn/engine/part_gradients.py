"""Gradients of parts of a batch, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.engine.plan import Keep, segment_boundaries
from hfrnn.engine.sweep import Sweep

if TYPE_CHECKING:
    from hfrnn.engine.objective import Objective


def each_part_gradient(objective: Objective, theta: Array, edges: list[int], use: Callable[[int, Array], None]) -> None:
    """Call `use(j, g_j)` in the order of the parts; g_j is the gradient of the summed w*loss of part j, without l2.

    Parameters
    ----------
    objective : Objective
        Its threads and its plan's segments are used.
    theta : (n_parameters,) array
    edges : list of int
        Part j holds the sequences from edges[j] up to, but not including, edges[j + 1].
    use : callable
        Takes j and the vector, which it may overwrite and must not keep.
    """
    net, batch, plan = objective.net, objective.batch, objective.plan
    count = min(objective.threads.threads, len(edges) - 1)
    vectors = [net.backend.empty((net.n_parameters,), net.dtype) for _ in range(count)]
    buffers = [[Buffers(net.backend, net.dtype) for _ in range(2)] for _ in range(count)]
    keep, steps = Keep.NOTHING if plan.keep is Keep.NOTHING else Keep.STATES, segment_boundaries(batch.T, plan.segment)

    def gradient(j: int) -> Array:
        vector, (scratch, kept) = vectors[j % count], buffers[j % count]
        vector[...] = 0
        columns = edges[j], edges[j + 1]
        noise = None if objective.noise is None else objective.noise.part(*columns)
        sweep = Sweep(
            net, batch.columns(*columns), 1.0, boundaries=steps, keep=keep, scratch=scratch, kept=kept, noise=noise
        )
        sweep.gradient(theta, vector)
        return vector

    for j, vector in enumerate(objective.threads.ordered(gradient, len(edges) - 1)):
        use(j, vector)
