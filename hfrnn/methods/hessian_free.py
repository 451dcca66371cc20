"""Training by Hessian-free updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.backend import Array
from hfrnn.config import TrainConfig
from hfrnn.data.streams import part_size
from hfrnn.errors import InputError
from hfrnn.methods.base import Method, Progress, Record, Sequences, Stop
from hfrnn.model import Network
from hfrnn.objective import Objective
from hfrnn.optim.damping import Damping
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions
from hfrnn.plan import Plan, Use, footprint_of, make_plan
from hfrnn.sources import Pool, Source


class HessianFreeMethod(Method):
    """An update is a line."""

    remedy = "stronger damping (--mu, --lambda), "

    def __init__(self, config: TrainConfig, source: Source, net: Network) -> None:
        self.config, self.net = config, net
        self.sequences = Sequences(source, config.gradient_symbols or None, None, config.seed)
        self.plans, self.expected_bytes = self._plans()
        names = ("cg_iterations", "cg_epsilon", "warm_start", "rho_model", "rho_objective", "line_search")
        options = {name: getattr(config, name) for name in names}
        self.optimizer = HessianFree(
            Damping(config.damping, config.mu, config.lambda_, config.metric),
            HessianFreeOptions(mu_growth=config.mu_growth or None, **options),
        )
        if config.damping.startswith("structural") and config.metric not in net.metrics:
            raise InputError(
                f"architecture {config.arch!r} has no metric {config.metric!r}: use {' or '.join(net.metrics)}"
            )

    @property
    def epoch(self) -> int:
        return self.sequences.epoch

    def resolved(self) -> dict[str, Any]:
        return {"mu": self.optimizer.damping.mu, "lambda_": self.optimizer.damping.lambda_}

    def advance(
        self, theta: Array, progress: Progress, should_stop: Stop, most: int | None = None
    ) -> tuple[Array, Record]:
        sampler = self.sequences.sampler
        columns = sampler.draw()
        part = sampler.draw_part(columns, fraction=self.config.curvature_fraction)
        pool = self.sequences.pool
        gradient, curvature = self.objective(pool, columns, "gradient"), self.objective(pool, part, "curvature")
        step = self.optimizer.update(theta, gradient, curvature, on_cg=progress, should_stop=should_stop)
        record = {
            "updates": 1,
            "symbols": round(gradient.total_weight),
            "validate": True,
            "train_loss": step.loss_after,
            "cg_iterations": step.cg_iterations,
            "cg_stop": step.cg_stop.value,
            "mu": step.mu,
            "lambda": step.lambda_,
            "rho": step.rho,
            "step_size": step.step_size,
            "loss_before": step.loss_before,
            "chosen_iteration": step.chosen_iteration,
            "q": step.q,
            "gradient_norm": step.gradient_norm,
            "step_norm": step.step_norm,
            "smallest_curvature": step.smallest_curvature,
            "products": step.products,
            "evaluations": step.evaluations,
            **{f"seconds_{name}": round(value, 4) for name, value in step.seconds.items()},
        }
        return step.theta, record

    def objective(self, pool: Pool, columns: np.ndarray[Any, Any] | slice, role: str) -> Objective:
        """The objective on some training sequences, by the plan for its role, `gradient` or `curvature`."""
        return Objective(self.net, pool.batch(columns), self.config.threads, plan=self.plans[role])

    def lines(self) -> list[str]:
        damping = self.optimizer.damping
        strengths = "".join(
            f", {name} {value:.3g}" for name, value in (("mu", damping.mu), ("lambda", damping.lambda_)) if value
        )
        return [f"training  hf with {self.config.damping} damping{strengths}"]

    def state_dict(self) -> dict[str, Any]:
        return {**self.optimizer.state_dict(), "sampler": self.sequences.sampler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sequences.sampler.load_state_dict(state["sampler"])
        self.optimizer.load_state_dict({key: value for key, value in state.items() if key != "sampler"})

    def _plans(self) -> tuple[dict[str, Plan], int]:
        """How gradient and curvature batches are run, and the bytes that both take.

        The gradient may take half of the budget; the curvature takes what is left.
        """
        pool, rows = self.sequences.pool, self.sequences.sampler.subset
        T, symbols = pool.inputs.shape[0], pool.inputs.ndim == 2
        part = part_size(rows, self.config.curvature_fraction)
        checkpoint, budget = self.config.checkpoint_argument, self.config.memory_bytes
        footprint = footprint_of(self.net, symbols)
        plans = {"gradient": make_plan(self.net, T, rows, checkpoint, budget // 2, symbols, Use.GRADIENT)}
        taken = footprint.bytes(plans["gradient"], T, rows, Use.GRADIENT)
        plans["curvature"] = make_plan(self.net, T, part, checkpoint, max(budget - taken, 1), symbols, Use.OPERATOR)
        return plans, taken + footprint.bytes(plans["curvature"], T, part, Use.OPERATOR)
