"""Ways to keep the signs of weights: optimize v in w = s*v^2 (hfrnn's), s*softplus(v), or project every step.

A leaky network with rectified units, 80% of them excitatory, learns a three-bit flip-flop from one fixed batch, with
Hessian-free optimization and with Adam (two learning rates). A run is one thread for some processor seconds. The
loss on the batch after them is what counts. `docs/constraints.md` has the figures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np

import hfrnn
from hfrnn.engine.connectivity import drawn_constraints
from hfrnn.optim.first_order import Adam

UNITS, STEPS, SEQUENCES, EXCITATORY = 64, 60, 64, 0.8
PULSE = 0.1
"""Probability of a pulse per input and step."""
RATES = (1e-2, 3e-2)
WAYS = ("square", "softplus", "projection", "free")
"""`free` has no constraints."""
FAST = {"cg_iterations": 10, "warm_start": 0.0, "mu_growth": None, "preconditioner_shift": 1e-3}
OPTIONS: dict[str, dict[str, Any]] = {"hf": {}, "hf-kronecker": {"preconditioner": "kronecker", **FAST}}


class Softplus:
    """The objective of v, where a weight with the sign s is s*softplus(v), and every other weight is v."""

    def __init__(self, objective: hfrnn.Objective, signs: Any) -> None:
        self.objective, self.signs = objective, signs.astype(objective.net.dtype)
        self.matrix_blocks, self.threads = objective.matrix_blocks, objective.threads

    def start(self, w: Any) -> Any:
        """Return the v of weights w; softplus cannot be 0, so that these weights start at 1e-3."""
        return np.where(self.signs == 0, w, np.log(np.expm1(np.maximum(abs(w), 1e-3)))).astype(w.dtype)

    def weights(self, v: Any) -> tuple[Any, Any]:
        """Return w and dw/dv."""
        free, slope = self.signs == 0, self.signs / (1 + np.exp(-v))
        return np.where(free, v, self.signs * np.logaddexp(0, v)), np.where(free, 1, slope).astype(v.dtype)

    def loss(self, v: Any) -> float:
        return self.objective.loss(self.weights(v)[0])

    def loss_and_gradient(self, v: Any) -> tuple[float, Any]:
        w, slope = self.weights(v)
        loss, gradient = self.objective.loss_and_gradient(w)
        return loss, gradient * slope

    def gauss_newton(self, v: Any, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden") -> Any:
        """Return the Gauss-Newton matrix of v; Tikhonov damping bounds the step of v."""
        (w, slope), outer = self.weights(v), self
        product = self.objective.gauss_newton(w, structural, 0.0, metric)

        class Operator:
            def apply(self, x: Any, out: Any) -> None:
                product.apply(slope * x, out)
                out *= slope
                out += tikhonov * x

        assert outer.objective.net.l2 == 0
        return Operator()

    def part_gradients(self, v: Any, parts: int = 50) -> Any:
        w, slope = self.weights(v)
        return self.objective.part_gradients(w, parts) * slope


class Projected:
    """The objective at the nearest weights with the right signs.

    A step does not move a weight at 0 with a gradient that points away from its sign (Bertsekas 1982).
    """

    def __init__(self, objective: hfrnn.Objective, signs: Any) -> None:
        self.objective, self.signs, self.exists = objective, signs, np.ones(signs.shape, "float32")
        self.matrix_blocks, self.threads = objective.matrix_blocks, objective.threads

    def project(self, w: Any) -> Any:
        return np.where(w * self.signs < 0, 0, w)

    def loss(self, w: Any) -> float:
        return self.objective.loss(self.project(w))

    def loss_and_gradient(self, w: Any) -> tuple[float, Any]:
        w = self.project(w)
        loss, gradient = self.objective.loss_and_gradient(w)
        held = (w == 0) & (self.signs != 0) & (gradient * self.signs >= 0)
        self.exists = (~held).astype("float32")
        return loss, gradient * self.exists

    def gauss_newton(self, w: Any, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden") -> Any:
        product, exists = self.objective.gauss_newton(self.project(w), structural, tikhonov, metric), self.exists

        class Operator:
            def apply(self, x: Any, out: Any) -> None:
                product.apply(x, out)
                out *= exists

        return Operator()

    def part_gradients(self, w: Any, parts: int = 50) -> Any:
        return self.objective.part_gradients(self.project(w), parts) * self.exists


def flip_flop(seed: int) -> hfrnn.Batch:
    """Pulses of -1 and 1 on three inputs; each target is the last pulse of its input."""
    rng = np.random.default_rng(seed)
    shape = (STEPS, SEQUENCES, 3)
    inputs = np.where(rng.random(shape) < PULSE, rng.choice([-1.0, 1.0], shape), 0.0)
    inputs[0] = rng.choice([-1.0, 1.0], shape[1:])
    targets = inputs.copy()
    for t in range(1, STEPS):
        targets[t] = np.where(inputs[t] != 0, inputs[t], targets[t - 1])
    return hfrnn.Batch(inputs.astype("float32"), targets.astype("float32"))


def run(way: str, optimizer: str, seed: int, seconds: float) -> dict[str, float]:
    """Return the number of updates in so many processor seconds, and the loss after them."""
    net = hfrnn.Network("leaky", 3, UNITS, 3, loss="squared", activation="relu", backend="auto")
    batch, (_, signs) = flip_flop(seed), drawn_constraints(net, 1.0, EXCITATORY)
    constraints = hfrnn.Constraints(net, signs=signs)
    start = constraints.initial(net.init(seed))
    objective: Any = hfrnn.Objective(net, batch, threads=1)
    if way == "square":
        objective, theta = hfrnn.ConstrainedObjective(objective, constraints), constraints.variables(start)
    elif way == "projection":
        objective, theta = Projected(objective, constraints.signs), start
    elif way == "free":
        theta = start
    else:
        objective = Softplus(objective, constraints.signs)
        theta = objective.start(start)
    objective.loss_and_gradient(theta)  # compiles
    step = hf_step(optimizer, objective) if optimizer in OPTIONS else adam_step(float(optimizer), objective)
    begin, updates = time.process_time(), 0
    while time.process_time() - begin < seconds:
        theta = step(theta)
        if way == "projection":
            theta = objective.project(theta)
        updates += 1
    return {"updates": updates, "loss": float(f"{objective.loss(theta):.3g}")}


def hf_step(name: str, objective: Any) -> Callable[[Any], Any]:
    options = hfrnn.HessianFreeOptions(max_failures=None, **OPTIONS[name])
    optimizer = hfrnn.HessianFree(hfrnn.Damping("structural+tikhonov", 0.1, 0.01), options)
    return lambda theta: optimizer.update(theta, objective).theta


def adam_step(rate: float, objective: Any) -> Callable[[Any], Any]:
    optimizer = Adam()
    return lambda theta: optimizer.step(theta, objective.loss_and_gradient(theta)[1], rate)


@click.command(cls=common.Command)
@click.option("--seconds", default=10.0, help="Processor seconds of a run.")
@click.option("--seeds", default=3, help="Number of seeds.")
@click.option("--ways", default=",".join(WAYS), help="Ways to keep signs.")
@click.option(
    "--optimizers", default=",".join([*OPTIONS, *map(str, RATES)]), help="Optimizers; numbers are Adam's rates."
)
@click.option("--out", default=None, help="JSON file to write.")
def main(seconds: float, seeds: int, ways: str, optimizers: str, out: str | None) -> None:
    """Compare ways to keep the signs of weights."""
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for optimizer in optimizers.split(","):
        for way in ways.split(","):
            found = [run(way, optimizer, seed, seconds) for seed in range(seeds)]
            runs.setdefault(optimizer, {})[way] = found
            losses = [each["loss"] for each in found]
            click.echo(f"{optimizer:13} {way:11} {statistics.median(losses):8.2e}  of {losses}")
    if out is not None:
        common.write_result(Path(out), {"machine": common.machine(1), "seconds": seconds, "runs": runs})


if __name__ == "__main__":
    main()
