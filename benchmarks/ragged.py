"""How long does an epoch take on sequences of unequal lengths, stored without padding, beside the same padded to one?

1,000 trials have log-uniform lengths from 10 to 1,000. Both candidates are this version of hfrnn: one data kind returns
the sequences without padding, the other a `hfrnn.Pool` that is padded to the longest of all, as every batch was before.
An epoch of Adam is one pass in mini-batches; Hessian-free optimization computes a gradient on all trials and a product
on a quarter of them. The gradients on all trials must agree in float64. See README.md beside this file.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np

import hfrnn
from hfrnn.data.array_data import from_memory
from hfrnn.data.ragged import RaggedPool
from hfrnn.runs.config import TrainConfig
from hfrnn.training.trainer import Trainer

TOLERANCE = 1e-12
SHORTEST, LONGEST = 10, 1000


def trials(count: int, seed: int) -> dict[str, list[Any]]:
    """Inputs (steps, 2) and targets (steps, 1), a decaying sum of the inputs, for each trial."""
    rng = np.random.default_rng(seed)
    lengths = np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST), count)).astype(int)
    x = [rng.normal(size=(T, 2)).astype(np.float32) for T in lengths]
    return {"x": x, "y": [each.cumsum(axis=0)[:, :1] / np.sqrt(len(each)) for each in x]}


class Ragged(hfrnn.DataKind):
    """The trials without padding."""

    about, name, source = "trials", "ragged-trials", "trials"
    network = {"n_in": 2, "n_out": 1, "loss": "squared"}  # noqa: RUF012
    held: RaggedPool

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (cls.name,)

    @classmethod
    def open(cls, options: Any, given: Any = None) -> Ragged:
        return cls()

    def pool(self, epoch: int) -> Any:
        return self.held


class Padded(Ragged):
    """The same trials, padded."""

    name = "padded-trials"

    def pool(self, epoch: int) -> Any:
        return hfrnn.Pool(*self.held)


def method(kind: type[Ragged], **options: Any) -> Any:
    """Return a training method on the trials, and its first weights."""
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(data=kind.name, out=str(Path(folder) / "run"), backend="numpy", **options)
        trainer = Trainer(config.resolved())
    return trainer.method, trainer.theta


def epoch_of_adam(kind: type[Ragged], **options: Any) -> Callable[[], None]:
    """Return a call that makes one epoch of Adam."""
    adam, theta = method(kind, optimizer="adam", log_interval=10**6, **options)

    def run() -> None:
        adam.advance(theta, lambda *_: None, lambda: False)

    return run


def part_of_an_update(kind: type[Ragged], **options: Any) -> Callable[[], np.ndarray]:
    """Return a call that computes a gradient on all trials, and a product on a quarter of them."""
    hf, theta = method(kind, optimizer="hf", gradient_symbols=0, curvature_fraction=0.25, **options)

    def run() -> np.ndarray:
        sampler, pool = hf.sequences.sampler, hf.sequences.pool
        drawn = sampler.draw()
        gradient = hf.objective(pool, drawn, "gradient")
        curvature = hf.objective(pool, sampler.draw_part(drawn, fraction=0.25), "curvature")
        for objective in (gradient, curvature):
            objective.precision = hf.config.precision
        _, found = gradient.loss_and_gradient(theta)
        curvature.gauss_newton(theta) @ found
        return found

    return run


def in_turn(candidates: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Call the candidates in turn; return the seconds of every call, those of the processors too, and the ratios."""
    found: dict[str, Any] = {name: {"seconds": [], "processor_seconds": []} for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            wall, used = time.perf_counter(), time.process_time()
            run()
            found[name]["seconds"].append(round(time.perf_counter() - wall, 4))
            found[name]["processor_seconds"].append(round(time.process_time() - used, 4))
    for what in ("seconds", "processor_seconds"):
        ragged, padded = (statistics.median(found[name][what]) for name in ("ragged", "padded"))
        found[f"ratio_of_{what}"] = ragged / padded
    return found


@click.command(cls=common.Command)
@click.option("--trials", "count", default=1000, type=click.IntRange(10), help="Trials.")
@click.option("--arch", default="lstm", help="Architecture.")
@click.option("--hidden", default=32, type=click.IntRange(1), help="Hidden units.")
@click.option("--streams", default=32, type=click.IntRange(1), help="Trials of a mini-batch of Adam.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Turns of each candidate.")
@click.option("--seed", default=0, type=int, help="Seed of the lengths and the trials.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(count: int, arch: str, hidden: int, streams: int, threads: int, rounds: int, seed: int, out: Path) -> None:
    """Time an epoch on sequences without padding, beside the same padded to the longest of all."""
    result: dict[str, Any] = {"machine": common.machine(threads), "trials": count, "seed": seed}
    result |= {"arch": arch, "hidden": hidden}
    common.print_machine(result["machine"])
    given = trials(count, seed)
    tracemalloc.start()
    Ragged.held = from_memory(given, fractions=(1.0, 0.0, 0.0)).train
    result["held_bytes"], result["peak_bytes"] = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    result["unpadded_bytes"] = sum(each.nbytes for arrays in given.values() for each in arrays)
    result |= {"streams": streams, "steps": Ragged.held.steps, "padded_steps": count * Ragged.held.longest}
    for kind in (Ragged, Padded):
        hfrnn.register_data(kind.name, kind)
    options = {"arch": arch, "hidden": hidden, "threads": threads}
    one, other = (part_of_an_update(kind, **options, dtype="float64")() for kind in (Ragged, Padded))
    result["difference_of_gradients"] = common.difference(one, other)
    if not result["difference_of_gradients"] <= TOLERANCE:
        raise click.ClickException(f"the gradients differ by {result['difference_of_gradients']:.1e}")
    for name, make, more in (("adam", epoch_of_adam, {"streams": streams}), ("hf", part_of_an_update, {})):
        candidates = {kind.name.split("-")[0]: make(kind, **options, **more) for kind in (Ragged, Padded)}
        result[name] = in_turn(candidates, rounds)
        click.echo(f"{name}: {result[name]['ratio_of_seconds']:.2f} of the time of padded trials")
    click.echo(f"memory: {result['held_bytes'] / result['unpadded_bytes']:.2f} of the trials'")
    common.write_result(out / "ragged-cpu.json", result)


if __name__ == "__main__":
    main()
