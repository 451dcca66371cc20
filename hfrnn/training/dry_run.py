"""A dry run: the plans, the memory and the measured seconds of a training run, without training."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.arrays.threads import default_threads
from hfrnn.data.ragged import RaggedPool
from hfrnn.engine.constraints import Constraints
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Plan, steps_of
from hfrnn.errors import Message
from hfrnn.optim.full_step import usual_losses
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.resume import needs_plans
from hfrnn.training.feedback_schedule import FeedbackSchedule
from hfrnn.training.methods.hessian_free import HessianFreeMethod
from hfrnn.training.methods.method import state_noise
from hfrnn.training.trainer import Trainer


@dataclass(frozen=True)
class DryRun:
    """What a run would do and cost. All times are in seconds."""

    network: str
    """Description of the network."""
    plans: dict[str, Plan]
    """How batches would be computed, by role."""
    expected_bytes: int
    """Memory that the batches would need."""
    gradient: float
    """Time of a gradient; of a whole update if the optimizer is not Hessian-free."""
    loss: float | None
    """Time of a loss; None if the optimizer is not Hessian-free."""
    product: float | None
    """Time of a curvature product; None if the optimizer is not Hessian-free."""

    losses: Callable[[int], float] | None
    """Usual number of trial losses of an update, by its CG iterations; None if the optimizer is not Hessian-free."""

    constraints: Constraints | None = None
    """Absent weights and signs."""

    hints: tuple[str | Message, ...] = ()
    """What is unusual about the data."""

    def update_seconds(self, cg_iterations: int) -> float:
        """Return the expected time of an update; only Hessian-free updates depend on the CG iterations."""
        if self.loss is None or self.product is None or self.losses is None:
            return self.gradient
        return self.gradient + self.losses(cg_iterations) * self.loss + cg_iterations * self.product


def dry_run(config: TrainConfig, resume: str | Path | None = None) -> DryRun:
    """Check everything that a run needs, plan it, and time its parts on a few shards. Nothing is written.

    `resume` is the folder of a run that would be resumed with that configuration. The times are measured on a few
    shards at once and multiplied by the number of shards.
    """
    config, folder = config.resolved(), None if resume is None else RunFolder(resume)
    trainer = Trainer(config, folder)
    if folder is not None:
        trainer.state.load(folder, needs_plans(folder.config(), config))
        if folder.begun:
            folder.metrics_file.until(trainer.update)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hfrnn\.")  # an overflow takes the same time
        return replace(_measured(trainer), hints=tuple(trainer.source.hints()))


def _measured(trainer: Trainer) -> DryRun:
    """Time the parts of an update."""
    method, theta = trainer.method, trainer.theta
    described = trainer.net.describe()
    if not isinstance(method, HessianFreeMethod):
        seconds = min(_update_seconds(trainer) for _ in range(3))
        return DryRun(described, method.plans, method.expected_bytes, seconds, None, None, None, method.constraints)
    gradient, share = _few_shards(trainer, "gradient")
    wait = trainer.net.backend.synchronize
    gradient_seconds = share * _seconds(lambda: gradient.loss_and_gradient(theta), wait)
    loss_seconds = share * _seconds(lambda: gradient.loss(theta), wait)
    curvature, share = _few_shards(trainer, "curvature")
    damping, out = method.optimizer.damping, theta.copy()
    operator = curvature.gauss_newton(theta, damping.mu, damping.lambda_, damping.metric)
    operator.precision = trainer.config.precision
    product_seconds = share * _seconds(lambda: operator.apply(theta, out), wait)
    losses = functools.partial(usual_losses, damping, method.optimizer.options)
    plans, expected = method.plans, method.expected_bytes
    return DryRun(
        described, plans, expected, gradient_seconds, loss_seconds, product_seconds, losses, method.constraints
    )


def _update_seconds(trainer: Trainer) -> float:
    """Return the mean time of an update, over enough updates for the windows of a text to reach full length."""
    windows = trainer.config.sequence_length // (trainer.config.update_every or trainer.config.sequence_length)
    begin = time.perf_counter()
    _, record = trainer.method.advance(trainer.theta, lambda *_: None, lambda: False, most=windows)
    trainer.net.backend.synchronize()
    return (time.perf_counter() - begin) / int(record["updates"])


def _few_shards(trainer: Trainer, role: str) -> tuple[Objective, float]:
    """Return an objective on as many shards as run at once, and the factor from its time to that of all shards.

    Of sequences of unequal lengths, the longest ones are taken, and the factor is that of the steps of the shards.
    """
    method, source = trainer.method, trainer.source
    plan, noise = method.plans[role], state_noise(trainer.config, 0)
    side_by_side = min(trainer.config.threads or default_threads(), plan.workers, len(plan.shards) - 1)
    part, pool = replace(plan, shards=plan.shards[: side_by_side + 1]), source.pool(0)
    count, share = part.shards[-1], plan.shards[-1] / part.shards[-1]
    columns: HostArray | slice = slice(0, count)
    if isinstance(pool, RaggedPool) and pool.ragged:
        lengths = pool.profile(plan.shards[-1])
        columns = np.argsort(-pool.lengths, kind="stable")[:count]
        share = _padded_steps(plan, lengths) / _padded_steps(part, pool.lengths[columns])
    batch = source.batch(pool, columns)
    loop = FeedbackSchedule(trainer.config, source).whole()
    return Objective(trainer.net, batch, side_by_side, plan=part, noise=noise, closed_loop=loop), share


def _padded_steps(plan: Plan, lengths: HostArray) -> int:
    """Return the steps that the shards of a plan compute, for sequences of some lengths."""
    shards = zip(steps_of(plan, 0, lengths), plan.parts, strict=True)
    return sum(T * (stop - start) for T, (start, stop) in shards)


def _seconds(task: Callable[[], object], wait: Callable[[], object]) -> float:
    """Return the time of a task: the shorter of two calls, after a first call that allocates buffers.

    `wait` returns when the device has finished.
    """
    task()
    wait()
    runs = []
    for _ in range(2):
        begin = time.perf_counter()
        task()
        wait()
        runs.append(time.perf_counter() - begin)
    return min(runs)
