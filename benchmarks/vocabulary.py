"""What do large vocabularies cost: the memory of a full softmax in segments, and the time of a class softmax?

The memory of a gradient with the plan's own segments is set against all logits at once, and a class softmax against a
full one in seconds per thousand tokens of the gradient and of the Gauss-Newton product. See README.md beside this file.
"""

from __future__ import annotations

import dataclasses
import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from common import RESULTS, Command, alternate, difference, machine, print_machine, write_result
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.data.vocabulary import frequency_classes
from hfrnn.engine.plan import Plan, Use
from hfrnn.engine.planner import make_plan

TOLERANCE = 1e-4
FEW = 100
"""Symbols of the vocabulary that stands for a small one: what grows with V is told by the difference."""


def zipf(rng: np.random.Generator, V: int, shape: tuple[int, ...]) -> np.ndarray:
    """Symbols 0, ..., V-1 whose frequencies fall as one over their rank."""
    p = 1 / np.arange(1, V + 1)
    return rng.choice(V, size=shape, p=p / p.sum()).astype(np.int32)


def batch_of(V: int, T: int, B: int) -> hfrnn.Batch:
    symbols = zipf(np.random.default_rng(0), V, (T + 1, B))
    return hfrnn.Batch(symbols[:-1].copy(), symbols[1:].copy())


# ---------------------------------------------------------------------- memory


def plans(net: hfrnn.Network, T: int, B: int) -> dict[str, Plan]:
    """The plan's own segments, and the same with all steps in one."""
    plan = make_plan(net, T, B, use=Use.GRADIENT)
    return {"segments": plan, "all at once": dataclasses.replace(plan, segment=None)}


def peak(arch: str, V: int, H: int, T: int, B: int, way: str, threads: int) -> int:
    """The most that Python's allocations rise by for an objective and one gradient."""
    net = hfrnn.Network(arch, V, H, V)
    batch, theta, plan = batch_of(V, T, B), net.init(seed=0), plans(net, T, B)[way]
    gc.collect()
    tracemalloc.start()
    try:
        hfrnn.Objective(net, batch, threads, plan=plan).loss_and_gradient(theta)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measure_memory(
    arch: str, V: int, H: int, T: int, B: int, threads: int, rounds: int, seconds: float
) -> dict[str, Any]:
    """Bytes and seconds of a gradient both ways; what depends on V x T is told by few symbols and by one step."""
    net = hfrnn.Network(arch, V, H, V)
    theta, batch, record = net.init(seed=0), batch_of(V, T, B), {"arch": arch, "V": V, "H": H, "T": T, "B": B}
    runs: dict[str, Callable[[], np.ndarray]] = {}
    ways: dict[str, Any] = {}
    for way, plan in plans(net, T, B).items():
        corners = {(v, t): peak(arch, v, H, t, B, way, threads) for v in (V, FEW) for t in (T, 1)}
        mixed = corners[V, T] - corners[V, 1] - corners[FEW, T] + corners[FEW, 1]
        per_step = B * (V - FEW) * net.dtype.itemsize  # the logits of one step, which both corners of V hold
        ways[way] = {"segment": plan.segment, "peak": corners[V, T], "depends_on_V_and_T": mixed + per_step}
        objective = hfrnn.Objective(net, batch, threads, plan=plan)
        runs[way] = lambda objective=objective: objective.loss_and_gradient(theta)[1]  # type: ignore[misc]
    error = difference(runs["segments"](), runs["all at once"]())
    if error > TOLERANCE:
        raise click.ClickException(f"the gradient in segments differs by {error:.1e}")
    for way, timing in alternate(runs, rounds, seconds).items():
        ways[way] |= dataclasses.asdict(timing)
    once, parts = ways["all at once"], ways["segments"]
    return record | {
        "difference": error,
        "ways": ways,
        "times_less": once["depends_on_V_and_T"] / parts["depends_on_V_and_T"],
        "time_ratio": parts["median"] / once["median"],
    }


# ---------------------------------------------------------------------- class softmax


def measure_classes(
    arch: str, V: int, H: int, C: int, T: int, B: int, threads: int, rounds: int, seconds: float
) -> dict[str, Any]:
    """Seconds of gradient and product for each thousand tokens, of a full and of a class softmax."""
    batch = batch_of(V, T, B)
    shares = np.rint(10**9 / np.arange(1, V + 1)).astype(np.int64)
    nets = {
        "full": hfrnn.Network(arch, V, H, V),
        "classes": hfrnn.Network(arch, V, H, V, "class-softmax", classes=frequency_classes(shares, C)),
    }
    record: dict[str, Any] = {"arch": arch, "V": V, "H": H, "C": C, "T": T, "B": B, "operations": {}}
    objectives = {name: hfrnn.Objective(net, batch, threads) for name, net in nets.items()}
    record["segment"] = {name: objective.plan.segment for name, objective in objectives.items()}
    for operation in ("gradient", "product"):
        runs = {name: task(objective, operation) for name, objective in objectives.items()}
        timings = {name: t.per(T * B) for name, t in alternate(runs, rounds, seconds).items()}
        found: dict[str, Any] = {name: dataclasses.asdict(timing) for name, timing in timings.items()}
        for timing in found.values():  # a thousand tokens
            timing.update({key: 1000 * timing[key] for key in ("median", "minimum", "maximum")})
        record["operations"][operation] = found | {"times_faster": found["full"]["median"] / found["classes"]["median"]}
    return record


def task(objective: hfrnn.Objective, operation: str) -> Callable[[], object]:
    """The operation, as a call."""
    theta = objective.net.init(seed=0)
    if operation == "gradient":
        return lambda: objective.loss_and_gradient(theta)
    G, out = objective.gauss_newton(theta), np.empty_like(theta)
    return lambda: G.apply(theta, out)


# ---------------------------------------------------------------------- the command


def print_tables(memory: dict[str, Any], classes: dict[str, Any]) -> None:
    sizes = ", ".join(f"{key} {memory[key]}" for key in ("V", "H", "T", "B"))
    table = Table(
        "logits", "steps", "peak, MiB", "of V x T, MiB", "ms", title=f"one gradient, {memory['arch']}, {sizes}"
    )
    for way, found in memory["ways"].items():
        mib = (f"{found[key] / 2**20:.1f}" for key in ("peak", "depends_on_V_and_T"))
        table.add_row(way, str(found["segment"] or memory["T"]), *mib, f"{found['median'] * 1e3:.0f}")
    Console().print(table)
    click.echo(
        f"{memory['times_less']:.2f} times less of what depends on V x T, {memory['time_ratio']:.2f} of the time"
    )
    sizes = ", ".join(f"{key} {classes[key]}" for key in ("V", "H", "C", "T", "B"))
    title = f"ms per 1,000 tokens, {classes['arch']}, {sizes}"
    table = Table("operation", "full softmax", "class softmax", "times faster", title=title)
    for operation, found in classes["operations"].items():
        ms = (f"{found[name]['median'] * 1e3:.1f}" for name in ("full", "classes"))
        table.add_row(operation, *ms, f"{found['times_faster']:.1f}")
    Console().print(table)


@click.command(cls=Command)
@click.option("--arch", default="rnn", help="Architecture.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads.")
@click.option("--rounds", default=5, type=click.IntRange(1), help="Turns of each way.")
@click.option("--seconds", default=0.3, help="The least length of a turn.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, help="The folder of the JSON.")
def main(arch: str, threads: int, rounds: int, seconds: float, out: Path) -> None:
    """Measure a full softmax in segments at V = 44,000, and a class softmax against a full one at V = 10,000."""
    facts = machine(threads)
    print_machine(facts)
    turns = {"threads": threads, "rounds": rounds, "seconds": seconds}
    memory = measure_memory(arch, V=44_000, H=500, T=30, B=20, **turns)
    classes = measure_classes(arch, V=10_000, H=256, C=100, T=50, B=64, **turns)
    print_tables(memory, classes)
    write_result(out / "vocabulary-cpu.json", {"machine": facts, "memory": memory, "class_softmax": classes})


if __name__ == "__main__":
    main()
