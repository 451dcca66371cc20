"""Validation during training: the loss, and the share of wrong answers where a task defines it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hfrnn.arrays.backend import Array
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Use
from hfrnn.engine.planner import make_plan
from hfrnn.engine.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.runs.config import TrainConfig
    from hfrnn.training.sources import Source

DEVICE_PART = 4
"""On a GPU, validation may use the memory budget divided by this, from what the budget leaves free."""


def validation_objective(net: Network, source: Source, config: TrainConfig, ranks: Ranks = ALONE) -> Objective | None:
    """Return the objective on the validation data, without the penalty on the weights; None without such data."""
    batch = source.validation
    if batch is None:
        return None
    net, symbols = net.without_penalty(), batch.inputs.ndim == 2
    weighs = batch.weights is not None and batch.weights.ndim == 3
    memory = config.memory_bytes if net.backend.on_host else config.memory_bytes // DEVICE_PART
    plan = make_plan(net, batch.T, batch.B, "auto", memory, symbols, Use.LOSS, weighs, config.shards)
    return Objective(net, batch, config.threads, plan=plan, comm=ranks)


def validate(validation: Objective | None, source: Source, weights: Array) -> tuple[float | None, float | None]:
    """Return the validation loss, and the share of wrong answers; None where answers are not right or wrong."""
    if validation is None:
        return None, None
    if not source.counts_errors:
        return validation.loss(weights), None
    loss, logits = validation.loss_and_logits(weights)
    return loss, source.errors(validation.net.backend.to_host(logits))
