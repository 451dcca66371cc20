"""What a training run would do and cost, without doing it: the plan, the bytes, and measured seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hfrnn.arrays.threads import default_threads
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Plan
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.run_folder import RunFolder
from hfrnn.training.methods.hessian_free import HessianFreeMethod
from hfrnn.training.sources import open_source
from hfrnn.training.trainer import Trainer

TRIAL_LOSSES = 10
"""Losses that an update tries beside its gradient, about: at the kept iterates of CG and in the line search."""


@dataclass(frozen=True)
class Rehearsal:
    """What a run would do: its network, plans and expected bytes, and the seconds of each part of an update."""

    network: str
    plans: dict[str, Plan]
    expected_bytes: int
    gradient: float
    """Of a method that is not HF, the whole update."""
    loss: float | None
    """None, as product, where the method takes no such thing."""
    product: float | None

    def update_seconds(self, cg_iterations: int) -> float:
        """What an update should take, of HF with so many CG iterations."""
        if self.loss is None or self.product is None:
            return self.gradient
        return self.gradient + TRIAL_LOSSES * self.loss + cg_iterations * self.product


def rehearse(config: TrainConfig, resume: str | Path | None = None) -> Rehearsal:
    """Check everything that a run needs, plan it, and time its parts on a few shards; writes nothing.

    Parameters
    ----------
    config : TrainConfig
    resume : path, optional
        The folder of a run that is to go on, with that configuration.

    Returns
    -------
    Rehearsal
        The seconds are those of some shards side by side, times the number of shards.

    Raises
    ------
    InputError
        As `train`.
    """
    config, folder = config.resolved(), None if resume is None else RunFolder(resume)
    source, vocabulary = open_source(config, folder)
    trainer = Trainer(config, source, vocabulary, ())
    if folder is not None:
        trainer.look_into(folder)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hfrnn\.")  # an overflow takes no longer
        return _measured(trainer)


def _measured(trainer: Trainer) -> Rehearsal:
    """What that run would do."""
    method, theta = trainer.method, trainer.theta
    described = trainer.net.describe()
    if not isinstance(method, HessianFreeMethod):
        seconds = min(_update_seconds(trainer) for _ in range(3))
        return Rehearsal(described, method.plans, method.expected_bytes, seconds, None, None)
    gradient, share = _few_shards(trainer, "gradient")
    gradient_seconds = share * _seconds(lambda: gradient.loss_and_gradient(theta))
    loss_seconds = share * _seconds(lambda: gradient.loss(theta))
    curvature, share = _few_shards(trainer, "curvature")
    damping, out = method.optimizer.damping, theta.copy()
    operator = curvature.gauss_newton(theta, damping.mu, damping.lambda_, damping.metric)
    product_seconds = share * _seconds(lambda: operator.apply(theta, out))
    return Rehearsal(described, method.plans, method.expected_bytes, gradient_seconds, loss_seconds, product_seconds)


def _update_seconds(trainer: Trainer) -> float:
    """An update's, over so many that windows on a text get their full length."""
    windows = trainer.config.sequence_length // (trainer.config.update_every or trainer.config.sequence_length)
    begin = time.perf_counter()
    _, record = trainer.method.advance(trainer.theta, lambda *_: None, lambda: False, most=windows)
    return (time.perf_counter() - begin) / int(record["updates"])


def _few_shards(trainer: Trainer, role: str) -> tuple[Objective, float]:
    """An objective on as many shards as run side by side, and the factor from its time to that of all."""
    plan = trainer.method.plans[role]
    side_by_side = min(trainer.config.threads or default_threads(), plan.slots, len(plan.shards) - 1)
    part = replace(plan, shards=plan.shards[: side_by_side + 1])
    batch = trainer.source.pool(0).batch(slice(0, part.shards[-1]))
    objective = Objective(trainer.net, batch, trainer.config.threads, plan=part)
    return objective, plan.shards[-1] / part.shards[-1]


def _seconds(task: Callable[[], object]) -> float:
    """The shorter of two runs, after one that fills the buffers."""
    task()
    runs = []
    for _ in range(2):
        begin = time.perf_counter()
        task()
        runs.append(time.perf_counter() - begin)
    return min(runs)
