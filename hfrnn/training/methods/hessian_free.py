"""Training with Hessian-free updates."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.arrays.vectors import Scalar
from hfrnn.data.ragged import RaggedPool
from hfrnn.data.sampler import coming_sizes
from hfrnn.engine.batch import Batch
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Plan, Use
from hfrnn.engine.planner import footprint_of, make_plan
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import InputError, Message
from hfrnn.optim.damping import Damping, LevenbergMarquardt
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions, UpdateInterrupted
from hfrnn.optim.kronecker import bytes_needed
from hfrnn.optim.outcome import Failure
from hfrnn.training.feedback_schedule import FeedbackSchedule
from hfrnn.training.methods.batch_growth import BatchNoise
from hfrnn.training.methods.method import Method, Progress, SequenceSubsets, Stop, Work, make_average, state_noise

if TYPE_CHECKING:
    from hfrnn.data.kinds.data_kind import Pool
    from hfrnn.engine.network import Network
    from hfrnn.optim.outcome import Update
    from hfrnn.runs.config import TrainConfig
    from hfrnn.runs.metrics import Record
    from hfrnn.sources.open import Source

GRADIENT, PRODUCT = 3, 4
"""Work of a gradient and of a Gauss-Newton product, in forward passes."""
VALIDATION_RATIO = 20
"""Work of training between two validations, in validations."""
EARLIER = "earlier."
"""Prefix of the entries of the average before the last update in the state."""
FIRST_VALIDATIONS, QUICK = 20, 150_000
"""Updates that are all validated at first, if the validation part has at most so many symbols."""
FIGURES = (
    "rho", "step_size", "loss_before", "chosen_iteration", "q", "gradient_norm", "step_norm", "smallest_curvature",
    "residual_norm", "residual_drift", "products", "evaluations",
)  # fmt: skip
"""Attributes of an Update that its record has under the same names."""


class _Stoppable(Objective):
    """An objective whose losses can be interrupted too. Without it, an update stops only during CG.

    Its curvature products have a precision.
    """

    should_stop: Stop
    precision: str

    def lazy_loss(self, theta: Array) -> Scalar:
        if self.should_stop():
            raise UpdateInterrupted("The update was interrupted during its line search: nothing was changed.")
        return super().lazy_loss(theta)

    def gauss_newton(self, *arguments: Any, **options: Any) -> Any:
        operator = super().gauss_newton(*arguments, **options)
        operator.precision = self.precision
        return operator


class HessianFreeMethod(Method):
    """Hessian-free training, with a record for each update."""

    def __init__(self, config: TrainConfig, source: Source, net: Network) -> None:
        self.config, self.net, self.feedback = config, net, FeedbackSchedule(config, source)
        net.backend.check_precision(config.precision, net.dtype)
        first, growth = config.first_gradient_symbols or None, config.batch_growth
        self.sequences = SequenceSubsets(source, config.gradient_symbols or None, None, config.seed, first, growth)
        self.batch_noise = BatchNoise(config.grow_below)
        sampler = self.sequences.sampler
        if config.rho_objective == "separate" and sampler.subset == sampler.sequences:
            raise InputError(Message(
                "{rho_objective} is separate, and the gradient batch holds the whole training part: give a smaller "
                "{gradient_symbols!s}"
            ))  # fmt: skip
        self.parts = self._affordable_parts()
        self.average = make_average(config, net)
        self._average_before: dict[str, Any] = {}  # the state of the average before the last update
        self.optimizer = HessianFree(
            Damping(config.damping, config.mu, config.lambda_, config.metric, config.adapt, config.least_damping),
            HessianFreeOptions.from_run(config.values, preconditioner_parts=self.parts),
            LevenbergMarquardt(config.rho_low, config.rho_high),
        )
        if config.damping.startswith("structural") and config.metric not in net.metrics:
            raise InputError(Message(
                "{metric} is {0}, and the architecture {1} has no such metric: use {2}",
                config.metric, config.arch, " or ".join(net.metrics),
            ))  # fmt: skip
        self.plans, self.expected_bytes = self._plans(sampler.subset)
        validation = source.validation
        self._validation_work = 0.0 if validation is None else float(_steps(validation))
        self._since_validation, self._idle_updates = 0.0, 0
        self._present = sampler.subset
        self._smaller: tuple[int, dict[str, Plan]] = (0, {})

    @property
    def epoch(self) -> int:
        return self.sequences.epoch

    @property
    def ended(self) -> str | None:
        return super().ended if self.optimizer.ended is None else self.optimizer.ended.value

    def resolved(self) -> dict[str, Any]:
        return {"mu": self.optimizer.damping.mu, "lambda_": self.optimizer.damping.lambda_}

    def advance(
        self, theta: Array, progress: Progress, should_stop: Stop, most: int | None = None
    ) -> tuple[Array, Record]:
        sampler = self.sequences.sampler
        batches = {"gradient": sampler.draw()}
        batches["curvature"] = sampler.draw_part(batches["gradient"], **self._curvature)
        if self.config.rho_objective == "separate":
            batches["separate"] = sampler.draw_beside(batches["gradient"], batches["curvature"].size)
        pool = self.sequences.pool
        objectives = {role: self.objective(pool, columns, role) for role, columns in batches.items()}
        for objective in objectives.values():
            objective.should_stop, objective.precision = should_stop, self.config.precision
        bounds, plain = self.constraints, objectives.values()
        seen = plain if bounds is None else [ConstrainedObjective(each, bounds) for each in plain]
        step = self.optimizer.update(theta, *seen, on_cg=progress, should_stop=should_stop)
        self.batch_noise.add(step)
        if not self.batch_noise.grows:
            sampler.stay()
        if step.failed is Failure.DIVERGED and self._average_before:
            self.average.load_state_dict(self._average_before)  # without the step that is undone
        self._average_before = self.average.state_dict() if self.average.decay else {}
        self.average.add(super().weights(step.theta))
        self._idle_updates += 1
        rows, part = batches["gradient"].size, batches["curvature"].size
        self._since_validation += _work(step, rows, part) * pool.mean_length
        self.work = {"gradient": float(rows), "curvature": float(part), "updates": 1.0}
        symbols = {role: round(objective.total_weight) for role, objective in objectives.items()}
        measured = super().weights(step.theta if step.loss_is_after else theta)
        data_loss = step.loss - objectives["gradient"].penalty(measured)
        return step.theta, _record(step, data_loss, symbols["gradient"], symbols["curvature"], self._validates)

    def work_left(self, updates: int | None) -> Work | None:
        """Return the sequences of the gradient and curvature batches until a limit, and the number of updates."""
        if updates is None and self.config.epochs is None:
            return None
        sizes = coming_sizes(self.sequences.sampler, updates, self.config.epochs, grows=not self.batch_noise.limit)
        return {
            "gradient": float(sum(size * count for size, count in sizes.items())),
            "curvature": float(sum(self._part(size) * count for size, count in sizes.items())),
            "updates": float(sum(sizes.values())),
        }

    def validated(self, loss: float | None, theta: Array) -> Array:
        self._since_validation, self._idle_updates = 0.0, 0
        return theta

    def seconds(self, record: Record, whole: float) -> Work:
        """Return the seconds of the gradient with the trial losses, of CG, and of validation and saving."""
        batches = record["seconds_update"] - record["seconds_validation"]
        curvature = record["seconds_cg"]
        return {"gradient": batches - curvature, "curvature": curvature, "updates": whole - batches}

    def weights(self, theta: Array) -> Array:
        """Return the average of the parameters over the updates, or the last ones if there is no average."""
        return super().weights(theta) if self.average.value is None else self.average.value

    def objective(self, pool: Pool | RaggedPool, columns: np.ndarray[Any, Any] | slice, role: str) -> _Stoppable:
        """Return the objective on some training sequences, computed by the plan of a role.

        The role is gradient, curvature or separate, which has no plan of its own.
        """
        batch, numbers = self.sequences.source.batch(pool, columns), np.arange(pool.sequences)[columns]
        if role == "gradient":
            self._present = batch.B
        if self._present == self.sequences.sampler.subset:
            plans = self.plans
        else:  # the batches are still growing
            if self._smaller[0] != self._present:
                self._smaller = self._present, self._plans(self._present)[0]
            plans = self._smaller[1]
        return _Stoppable(
            self.net, batch, self.config.threads, memory=self.config.memory_bytes, plan=plans.get(role),
            noise=state_noise(self.config, self.optimizer.updates, numbers), comm=self.ranks,
            shards=self.config.shards, closed_loop=self.feedback.loop(self.optimizer.updates, numbers),
        )  # fmt: skip

    @property
    def remedy(self) -> Message:  # type: ignore[override]
        """What to change when the loss is no longer finite; before the first update, it is not the damping."""
        return Message("stronger damping ({mu!s}, {lambda_!s}), " if self.optimizer.updates else "")

    def lines(self) -> list[str | Message]:
        damping = self.optimizer.damping
        strengths = "".join(
            f", {name} {value:.3g}" for name, value in (("mu", damping.mu), ("lambda", damping.lambda_)) if value
        )
        return [f"training  hf with {self.config.damping} damping{strengths}"]

    def state_dict(self) -> dict[str, Any]:
        own = {"since_validation": self._since_validation, "idle_updates": self._idle_updates}
        sampler = {"sampler": self.sequences.sampler.state_dict()}
        before = {EARLIER + name: value for name, value in self._average_before.items()}
        own |= self.batch_noise.state_dict()
        return {**self.optimizer.state_dict(), **self.average.state_dict(), **before, **sampler, **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sequences.sampler.load_state_dict(state["sampler"])
        self.average.load_state_dict(state)
        before = {key.removeprefix(EARLIER): value for key, value in state.items() if key.startswith(EARLIER)}
        self._average_before = before  # empty before the first update
        self.optimizer.load_state_dict(state)
        self.batch_noise.load_state_dict(state)
        self._since_validation = float(state["since_validation"])
        self._idle_updates = int(state["idle_updates"])

    @property
    def _validates(self) -> bool:
        """Whether to validate now: after so many updates, or when a validation is a small part of the work since."""
        every = self.config.validate_every
        if every is not None:
            return bool(self._idle_updates >= every)
        if self.optimizer.updates <= FIRST_VALIDATIONS and self._validation_work <= QUICK:
            return True
        return self._since_validation >= VALIDATION_RATIO * self._validation_work

    @property
    def _curvature(self) -> dict[str, Any]:
        """The size of a curvature batch, as arguments of the sampler."""
        symbols = self.config.curvature_symbols
        return {"fraction": self.config.curvature_fraction} if symbols is None else {"symbols": symbols}

    def _part(self, rows: int) -> int:
        """Return the number of sequences in the curvature batch of a gradient batch of `rows` sequences."""
        return self.sequences.sampler.part_size(rows, **self._curvature)

    def _plans(self, rows: int) -> tuple[dict[str, Plan], int]:
        """Return the plans for a gradient batch of `rows` sequences and its curvature batch, and the bytes of both.

        The gradient may use half of the memory budget, and the curvature the rest.
        """
        pool, part = self.sequences.pool, self._part(rows)
        T, symbols, weighs = pool.longest, pool.symbols, pool.weighs_outputs
        lengths, lengths_of_part = pool.planned_lengths(rows), pool.planned_lengths(part)
        checkpoint, budget = self.config.checkpoint_argument, self.config.memory_bytes
        basis, use = 0, Use.OPERATOR
        if self.config.preconditioner == "kronecker":
            use = Use.BOTH  # for the gradients of parts
            basis = bytes_needed(self.net.matrix_blocks, self.parts, self.net.dtype.itemsize)
            budget = max(budget - basis, 1)
        loops = self.config.closed_loop > 0
        footprint = footprint_of(self.net, symbols, loops=loops)
        half = max(budget // 2, 1)
        least = self.config.shards
        plan = functools.partial(
            make_plan, self.net, T, checkpoint=checkpoint, symbols=symbols, weighs_outputs=weighs, loops=loops
        )
        plans = {"gradient": plan(rows, memory=half, use=Use.GRADIENT, least_shards=least, lengths=lengths)}
        taken = footprint.bytes(plans["gradient"], T, rows, Use.GRADIENT, weighs, lengths)
        left = max(budget - taken, 1)
        plans["curvature"] = plan(part, memory=left, use=use, least_shards=least, lengths=lengths_of_part)
        return plans, taken + footprint.bytes(plans["curvature"], T, part, use, weighs, lengths_of_part) + basis

    def _affordable_parts(self) -> int:
        """Return how many gradients the preconditioner may keep: as configured, within a quarter of the memory."""
        none, one = (bytes_needed(self.net.matrix_blocks, parts, self.net.dtype.itemsize) for parts in (0, 1))
        affordable = self.config.memory_bytes // 4 // (one - none)
        return max(1, min(int(self.config.preconditioner_parts), affordable))


def _steps(batch: Batch) -> int:
    """Return the steps of all sequences of the validation part, with the padding that is computed."""
    return batch.pool.steps if isinstance(batch, RaggedBatch) else batch.T * batch.B


def _work(step: Update, gradient: int, curvature: int) -> float:
    """Return the work of an update on so many sequences, in forward passes over a sequence."""
    on_gradient = GRADIENT + (step.evaluations if step.search_objective == "gradient" else 0)
    on_curvature = PRODUCT * step.products + (step.evaluations if step.search_objective != "gradient" else 0)
    return float(on_gradient * gradient + on_curvature * curvature)


def _record(step: Update, data_loss: float, symbols: int, curvature_symbols: int, validate: bool) -> Record:
    """Return the record of an update on batches with so many symbols; `data_loss` is its loss without penalty."""
    return {
        "updates": 1,
        "symbols": symbols,
        "curvature_symbols": curvature_symbols,
        "validate": validate,
        "train_loss": data_loss,
        "cg_iterations": step.cg_iterations,
        "cg_stop": step.cg_stop.value,
        "mu": step.mu,
        "lambda": step.lambda_,
        **{name: getattr(step, name) for name in FIGURES},
        "failed": None if step.failed is None else step.failed.value,
        "failures": step.failures,
        "rho_model": step.rho_model,
        "rho_objective": step.rho_objective,
        **{f"seconds_{name}": round(value, 4) for name, value in step.seconds.items()},
    }
